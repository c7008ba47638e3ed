"""Models and tokenizers behind small ports."""
