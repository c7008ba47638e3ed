"""Playing recorded sessions through the engine, with their times and usage, and a log of what would have been sent."""
