"""What a provider's refusal means: is it an overflow, of which limit, and what helps where it is none."""

from .explain import Explained, explain
from .judge import bulky, judge, outcome, unbound
from .kinds import OVERFLOWS, Kind

__all__ = ["OVERFLOWS", "Explained", "Kind", "bulky", "explain", "judge", "outcome", "unbound"]
