"""For each rule, ways to break a valid request so that exactly this rule rejects it.

A mutant takes a valid request, copies it, and breaks it at the first place that can carry the break; where there is no
such place it raises ``NotApplicable``. ``MUTANTS`` lists (rule, function, family). The family says what is broken:
``anthropic``, ``openai`` and ``responses`` requests, ``pi`` message lists, or (``anthropic-against``,
``responses-against``) a request judged beside a valid one.
"""

from . import mutants_anthropic, mutants_openai, mutants_responses
from .mutation import Mutants, Mutate, NotApplicable

__all__ = ["MUTANTS", "Mutate", "NotApplicable"]

MUTANTS: Mutants = [*mutants_anthropic.MUTANTS, *mutants_openai.MUTANTS, *mutants_responses.MUTANTS]
