"""The policy: what a user may set, as data (``design.md`` 5). It is recorded in the log whenever it changes.

Values a decision uses are integers after ``resolve``: hundredths of a per cent, tokens, milliseconds.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
import pydantic

from .errors import OptionError
from .names import kind
from .settings import fault

DEFAULT_THRESHOLD = 65.0
DEFAULT_TTL_MS = 300_000
PREFIX_BOUND = ("fable-5-1", "opus-5-5", "sonnet-5-5")
NEVER_MS = 1 << 62
KEEP_REASONING = 10_000
SPARED = (("ctx_reduce", 3), ("todowrite", 1))
"""Tools whose newest results stay, and how many (``transform.md`` 3.3, ``operations.md`` protected_tools)."""
_TTL = re.compile(r"(\d{1,12})(s|m|h)?\Z")
_UNIT_MS = {None: 1, "s": 1000, "m": 60_000, "h": 3_600_000}

Percent = Annotated[float, pydantic.Field(ge=20, le=90, allow_inf_nan=False)]
Tokens = Annotated[int, pydantic.Field(ge=5_000, le=2_000_000)]
Reserve = Annotated[int, pydantic.Field(ge=0, le=2_000_000)]


class AutoSearch(pydantic.BaseModel):
    """Whether a person's words are looked up and the agent is told what may belong to them (``knowledge.md`` 5.6).

    ``score_threshold``: what the best match must reach; ``min_prompt_chars``: shorter words are not looked up.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    score_threshold: Annotated[float, pydantic.Field(ge=0.3, le=0.95, allow_inf_nan=False)] = 0.6
    min_prompt_chars: Annotated[int, pydantic.Field(ge=5, le=500)] = 20


class Memory(pydantic.BaseModel):
    """What is done with what foldlog remembers beside a session."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    auto_search: AutoSearch = AutoSearch()


class Policy(pydantic.BaseModel):
    """How a session is managed. Every field has the reference's default.

    ``execute_threshold_percentage``: 20 to 90, one number or per model with ``default``. ``execute_threshold_tokens``:
    per model, wins where it matches and the window is known. ``cache_ttl``: how long the provider keeps an idle prefix
    (``5m``, ``1h``, ``never``, bare digits = ms; anything else counts as ``5m``). ``protected_tokens``: the newest tool
    output that no drop touches. ``output_reserve``: tokens kept free for the answer. ``compaction``: False leaves the
    window to the host. ``prefix_bound_models``: names beside those known whose signed reasoning is bound to every byte
    before it. ``keep_reasoning_tokens``: what the newest steps may hold of reasoning. ``temporal_awareness``: long
    silences are told. ``smart_drops``: what a later call made pointless leaves by itself. ``caveman_text_compression``:
    old texts of at least ``caveman_min_chars`` bytes are sent in fewer words. ``protected_tools``: how many of a tool's
    newest results no lane takes out by itself, beside one ``todowrite`` and three ``ctx_reduce`` (0: none). ``memory``:
    what is looked up by itself. Sources: ``transform.md`` 1.2, 1.6, 3, 4.4, 4.7, 6.7, 8.1, ``knowledge.md`` 5.6.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    execute_threshold_percentage: Percent | dict[str, Percent] = DEFAULT_THRESHOLD
    execute_threshold_tokens: Tokens | dict[str, Tokens] | None = None
    cache_ttl: str | dict[str, str] = "5m"
    protected_tokens: Reserve | dict[str, Reserve] | None = None
    output_reserve: Reserve | dict[str, Reserve] | None = None
    compaction: bool = True
    prefix_bound_models: tuple[str, ...] = ()
    keep_reasoning_tokens: Reserve | dict[str, Reserve] = KEEP_REASONING
    temporal_awareness: bool = True
    smart_drops: bool = False
    caveman_text_compression: bool = False
    caveman_min_chars: Annotated[int, pydantic.Field(ge=100, le=10_000)] = 500
    protected_tools: dict[str, Annotated[int, pydantic.Field(ge=0, le=1_000)]] = {}
    memory: Memory = Memory()

    def canonical(self) -> bytes:
        """Return the policy as canonical JSON, the form the log keeps."""
        return msgspec.json.encode(self.model_dump(exclude_defaults=True), order="sorted")


class Settings(msgspec.Struct, frozen=True):
    """The policy as it applies to one model. ``threshold`` in 1/100 of a per cent, times in ms, sizes in tokens.

    ``terse``: bytes from which an old text is sent in fewer words, 0: never. ``hint_chars``: characters from which a
    person's words are looked up, 0: never; ``hint_score``: what the best match must reach, in 1/10,000.

    ``bound``: the model's signed reasoning is bound to every byte before it (``transform.md`` 4.6, as ruled).
    """

    threshold: int
    threshold_tokens: int | None
    ttl: int
    protected: int | None
    reserve: int | None
    compaction: bool
    bound: bool
    spared: tuple[tuple[str, int], ...] = SPARED
    smart: bool = False
    terse: int = 0
    reasoning: int = KEEP_REASONING
    temporal: bool = True
    hint_chars: int = 0
    hint_score: int = 6_000


class _Managed(msgspec.Struct):
    compaction: bool = True


def make_policy(given: Policy | dict[str, Any] | bytes | None) -> Policy:
    """Return a validated policy from settings, canonical JSON or nothing. Raises ``OptionError`` naming the setting."""
    if isinstance(given, Policy):
        return given
    try:
        made = Policy.model_validate(
            {} if given is None else msgspec.json.decode(given) if isinstance(given, bytes) else given
        )
        made.canonical()
        return made
    except pydantic.ValidationError as error:
        raw = msgspec.json.decode(given) if isinstance(given, bytes) else given
        found = fault(error, Policy, raw)
        raise OptionError(found.said, value=found.value, where=found.name or "policy") from None
    except UnicodeEncodeError as error:
        raise OptionError(
            f"a setting holds text that is not Unicode: {error.reason}", value=error.object, where="policy"
        ) from None
    except msgspec.DecodeError as error:
        raise OptionError(f"the policy is not JSON: {error}", value=given) from None


def managed(given: bytes) -> bool:
    """Whether a policy as the log keeps it leaves foldlog the window."""
    try:
        return msgspec.json.decode(given, type=_Managed).compaction
    except msgspec.MsgspecError:
        return True  # nobody wrote such a policy with this program; who resolves it says what is wrong


def resolve(policy: Policy, model: str) -> Settings:
    """Return the settings for ``model`` (``provider/name`` or ``name``)."""
    percent = _pick(policy.execute_threshold_percentage, model)
    return Settings(
        threshold=round((DEFAULT_THRESHOLD if percent is None else min(percent, 90.0)) * 100),
        threshold_tokens=_pick(policy.execute_threshold_tokens, model),
        ttl=parse_ttl(_pick(policy.cache_ttl, model)),
        protected=_pick(policy.protected_tokens, model),
        reserve=_pick(policy.output_reserve, model),
        compaction=policy.compaction,
        bound=any(_plain(name) in _plain(model) for name in (*PREFIX_BOUND, *policy.prefix_bound_models)),
        spared=tuple(sorted({**dict(SPARED), **{kind(name): n for name, n in policy.protected_tools.items()}}.items())),
        smart=policy.smart_drops,
        reasoning=KEEP_REASONING if (kept := _pick(policy.keep_reasoning_tokens, model)) is None else kept,
        temporal=policy.temporal_awareness,
        hint_chars=policy.memory.auto_search.min_prompt_chars if policy.memory.auto_search.enabled else 0,
        hint_score=round(policy.memory.auto_search.score_threshold * 10_000),
        terse=policy.caveman_min_chars if policy.caveman_text_compression else 0,
    )


def _plain(name: str) -> str:
    return re.sub(r"[._]", "-", name.lower())


def parse_ttl(text: str | None) -> int:
    """Return a cache lifetime in ms: digits and ``s``, ``m``, ``h``, bare ms, ``never``; anything else is 5 minutes."""
    if text is None:
        return DEFAULT_TTL_MS
    if text.strip().lower() == "never":
        return NEVER_MS
    match = _TTL.match(text.strip().lower())
    return int(match[1]) * _UNIT_MS[match[2]] if match else DEFAULT_TTL_MS


TIMES = "a time such as 90s, 5m or 1h, digits alone (ms), or never"


def check_ttl(given: Any, where: str = "cache_ttl") -> None:
    """Raise ``OptionError`` where a cache lifetime, or one by model, is none: no ``5x`` is silently five minutes."""
    for text in given.values() if isinstance(given, dict) else (given,):
        named = text.strip().lower() if isinstance(text, str) else ""
        if named != "never" and _TTL.match(named) is None:
            said = f"the setting 'cache_ttl' cannot be used: it takes {TIMES}"
            raise OptionError(said, value=text, where=where)


def lookup_keys(model: str) -> list[str]:
    """Return the keys a per-model map is tried with, in order (``transform.md`` 1.6).

    ``provider/model``, ``model``, the same two after removing the last ``-segment`` again and again, ``provider/*``,
    ``default``.
    """
    provider, slash, name = model.rpartition("/")
    keys: list[str] = []
    while name:
        keys += [f"{provider}/{name}", name] if slash else [name]
        name = name.rpartition("-")[0]
    while provider:
        keys.append(f"{provider}/*")
        provider = provider.rpartition("/")[0]
    return [*keys, "default"]


def _pick(value: Any, model: str) -> Any:
    if not isinstance(value, dict):
        return value
    return next((value[key] for key in lookup_keys(model) if key in value), None)
