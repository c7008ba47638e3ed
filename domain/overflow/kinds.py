"""The kinds of a provider's refusal, told by words, by codes, and last by HTTP's status (``transform.md`` 1.8).

A kind is a rule over the words such a refusal cannot do without, never one provider's sentence. What only sounds like
an overflow (a rate, a cap on the answer, bytes, images) is looked for first, since its words are narrower; what
could quote an overflow's words (a wrong setting, a role out of order) last.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from .parts import Said

Kind: TypeAlias = Literal[
    "overflow", "output_driven", "suspected", "rate", "rate_tier", "quota", "output_cap", "bytes", "string_length",
    "images", "pairing", "cache_marks", "thinking", "empty_block", "shape", "config", "auth", "model", "filtered",
    "server", "unknown",
]  # fmt: skip

OVERFLOWS = frozenset({"overflow", "output_driven", "suspected"})

_OUT = r"max_?(?:new_|output_|completion_)?_?tokens"
_WIN = (
    r"(?:context[ _-]?(?:window|length|size|limit|budget|capacity|tokens?)"
    r"|max(?:imum)?[ _-](?:context|prompt|input|model|sequence|length|number of tokens|tokens allowed)"
    r"|max_model_len|n_ctx|prompt length|(?:input|prompt|model)[ _-]?(?:token )?(?:length )?limit"
    r"|token limit|token maximum)"
)
_OVER = (
    r"(?:exceed(?:s|ed|ing)?|(?:long|larg|great|bigg)er than|too (?:long|large"
    r"|big|many tokens)|beyond|surpass(?:es|ed)?"
    r"|overflow(?:s|ed)?|over(?:ran|run| the)|more than|does(?: not|n't) fit|cannot fit|out of (?:room|space)|went over"
    r"|above the|past the|outgrown?)"
)
_IN = r"(?:prompt|inputs?|messages?|conversation|history|context|chat|dialog(?:ue)?|sequence|query|transcript)"
_SIZE = r"\b\d[\d.,]{0,14} ?(?:bytes|[kmg]i?b)\b"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


_NARROW: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        "quota",
        _any(
            r"extra usage is required|long context beta",
            r"\b(?:credit (?:balance|limit)|insufficient[ _](?:quota|balance|funds|credits?))",
            r"exceeded your current quota|\bquota exceeded\b|\bbilling\b|payment required|usage limit",
            r"spend(?:ing)? limit|\u4f59\u989d\u4e0d\u8db3",
        ),
    ),
    (
        "rate",
        _any(
            r"\bper[ _-]?(?:min(?:ute)?|hour|day|second)s?\b|/ ?min(?:ute)?\b"
            r"|\b[TR]P[MDS]\b|for this (?:minute|hour|day)",
            r"rate[ _-]?limit|throttl(?:ed|ing)|too many requests|slow down|in this interval|number of requests?\b",
            r"please wait|wait before|try again (?:in|after|later)|retry(?: again)? (?:in|after|later)|retry-after",
            r"concurren(?:t|cy) (?:requests|limit|connections)|too many concurrent|per[ -]model limit",
            r"\u901f\u7387\u9650\u5236|\u8bf7\u6c42\u8fc7\u4e8e\u9891\u7e41|\u8bf7\u7a0d\u540e",
        ),
    ),
    (
        "images",
        _any(
            r"(?<!tokens of )\bimages?\b(?:(?!tokens).){0,60}?\b(?:dimensions?|pixels?"
            r"|too (?:many|large|big)|exceed(?:s|ing)?|maximum of \d)",
            r"\b(?:too many|maximum of \d{1,6}|exceed\w{0,3}.{0,30})\s?(?:images?"
            r"|pdf pages|media|documents|attachments)\b",
            r"\b(?:images?|pdf|document|file) (?:is|are) too (?:large|big)|could not process image",
        ),
    ),
    (
        "string_length",
        _any(
            r"(?:string|array) too long|string_above_max_length|expected an? (?:string|array) with max\w{0,4} length",
            r"maximum length \d+, but got|\bfile content\b.{0,40}\bexceed|use offset and limit",
            r"\w(?:_key|_id|name|description|metadata|url)s?\b.{0,12}\btoo long\b",
        ),
    ),
    (
        "bytes",
        _any(
            r"\b(?:body|payload|entity|content[ -]length)\b.{0,40}?\b(?:too large|exceed(?:s|ed)?|over the|limit)\b",
            r"\b(?:exceed(?:s|ed)?|over) (?:the )?(?:maximum|max|allowed) (?:request "
            r"|payload |body )?size\b(?! of the (?:con|pro))",
            r"payload limit|\brequest_too_large\b",
            r"\brequest (?:is )?too large(?! for (?:the )?(?:model|context))(?!.{0,200}tokens?\b)",
            rf"{_SIZE}.{{0,60}}\b(?:limit|maximum|max|exceed)|\b(?:limit|maximum|max|exceed\w{{0,3}})\b.{{0,60}}{_SIZE}",
        ),
    ),
    (
        "empty_block",
        _any(
            r"non-?whitespace text|for empty text|content is empty|empty (?:text|content) (?:block|part)",
            r"\b(?:text|content|message)s?(?: block| field| part)?s? (?:is|are"
            r"|cannot be|must not be|can't be) (?:empty|blank)",
            r"must (?:be|have|contain) non-?empty|non-?empty content",
        ),
    ),
    ("cache_marks", _any(r"cache_control|cachepoint|cache[ _]?(?:point|breakpoint|mark)s?\b")),
    (
        "pairing",
        _any(
            r"tool_use|tool_result|tooluse|toolresult|tool_calls?\b|tool_call_id|tool call (?:id|found)|call_id",
            r"function call(?:ing)?(?: output| turn| parts?)|function response parts?|tool messages? (?:must|respond)",
            r"no tool (?:output|call) found|duplicate items?\b",
        ),
    ),
    ("config", _any(r"must be greater than.{0,30}budget_tokens|budget_tokens.{0,30}(?:must|should) be")),
    (
        "thinking",
        _any(
            r"\bredacted_thinking\b|thinking(?: or \S{1,30})? blocks?|thought[ _]signature|invalid signature",
            r"reasoning_content|reasoning(?: item| block)|of type '?reasoning|encrypted[ _]content|block_binding",
            r"in (?:the )?thinking mode",
        ),
    ),
    (
        "output_cap",
        _any(
            rf"(?<!\band )(?<!\+ )(?<!\bor )\b{_OUT}\b[^.+]{{0,40}}?(?:must be (?:<|less"
            rf"|at most|no more|between|lower|smaller)"
            r"|exceed|too (?:large|high|big)|larger than|greater than|cannot be|should be|> ?\d)",
            rf"(?:maximum|max) (?:value for|allowed (?:number of|for)) (?:{_OUT}|output tokens|completion tokens)",
            r"maximum tokens you requested|max(?:imum)? (?:output|completion) (?:token|length|limit)",
            r"supports at most [\d,. ]{1,14}(?:completion|output) tokens|model output limit",
            r"(?:output|completion) tokens? (?:maximum|max|limit|cap)\b",
        ),
    ),
)  # fmt: skip

_CAP_TOO = re.compile(
    rf"(?:inputs?|prompt|messages)\b.{{0,40}}(?:\+|and|or) {_OUT}|context (?:length|limit) (?:is|exceeded)"
    r"|(?:\d|tokens) ?\+ ?\d",
    re.IGNORECASE,
)
"""An output allowance named beside the input: the two together are too much, which is an overflow."""

_TOO_LONG = _any(
    rf"\b{_IN}\b(?: ?\([^()]{{0,40}}\)| tokens?| length| size| history){{0,3}},?"
    r"(?: is| are| was| were| has become| became| got)? too (?:long|large|big)\b",
    rf"{_OVER}\b.{{0,60}}?\b{_WIN}",
    rf"\b{_WIN}.{{0,40}}?\b{_OVER}",
    rf"\b(?:tokens?|{_IN})\b.{{0,60}}?\bexceed(?:s|ed|ing)?\b.{{0,50}}?"
    r"\b(?:limit|maximum|max|tokens allowed|window|context)\b",
    rf"\b{_IN}\b.{{0,60}}?\b(?:long|larg|great|bigg)er than (?:the |our )?(?:maximum|max|limit|allowed)\b",
    r"\bcontents?\b.{0,20}\btoo (?:long|large|big)\b.{0,40}\btokens?\b",
    r"\bmax(?:imum)? (?:context|prompt|input|model|sequence) (?:length|window"
    r"|size|len)(?: is|:| of| =)(?: only)? ?[\d~]",
    r"\bcontext (?:length|window|size) is only\b",
    rf"\b(?:inputs?|prompt|messages?|input length) ?(?:tokens?)? ?(?:\+"
    rf"|and) ?{_OUT} (?:must be|should be|exceed|is|are)",
    r"\brange of input length should be\b",
    r"\b(?:current|actual|prompt|input|total|requested) (?:length|size|count|tokens?) (?:is|of|:) ?\d"
    r".{0,40}\blimit (?:is|of|:) ?\d",
    rf"\b{_IN}\b.{{0,40}}?\d.{{0,40}}?\b(?:but|while|whereas|yet|only|against|and)\b.{{0,60}}?\b{_WIN}",
    rf"\b{_IN}\b.{{0,40}}?\d.{{0,40}}?\b(?:but|while)\b.{{0,30}}?\bcontext (?:is|of|has) (?:only )?\d",
    rf"\b{_WIN} (?:is|of) (?:only )?\d.{{0,40}}?\b(?:you|your|however|but|while|request)\b.{{0,40}}?\d",
    r"\bonly supports? up to [\d,. ]{1,14}",
    r"\b(?:prompt|input|messages|conversation|request)\b.{0,60}?\d ?(?:tokens? )?(?:>|\u2265) ?\d",
    r"\breduce (?:the )?(?:length|size|number|amount) of (?:the |your )?"
    r"(?:messages?|prompt|inputs?|conversation|history|context|chat)\b",
    r"\bran out of (?:room|space) in (?:the |its )?(?:model's )?context",
    r"\bcontext[ _](?:length|window|size|limit)[ _]?(?:was |has been |is |been )?(?:exceeded|overflow|reached|full)",
    r"\bexceed_context_size|model_context_window_exceeded|context_length_exceeded|max_prompt_tokens_exceeded",
    r"(?:\u4e0a\u4e0b\u6587|\u8f93\u5165|\u63d0\u793a\u8bcd|prompt|tokens?).{0,20}"
    r"(?:\u8d85\u8fc7|\u8d85\u51fa|\u8fc7\u957f|\u8d85\u957f|\u8d85\u9650|\u592a\u957f|\u6700\u5927\u957f\u5ea6)",
    r"(?:\u30b3\u30f3\u30c6\u30ad\u30b9\u30c8|\u5165\u529b|\u30d7\u30ed\u30f3\u30d7\u30c8).{0,20}"
    r"(?:\u8d85\u3048|\u8d85\u904e|\u9577\u3059\u304e)",
)

_LATE: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        "shape",
        _any(
            r"roles? must alternate|alternat\w{0,5} between|first message must|in the same turn|last message|prefill",
            r"final (?:position|turn)|unexpected role|invalid role|must (?:start|end) with an? (?:user|assistant)",
            r"at least one message",
        ),
    ),
    ("auth", _any(r"api[ _-]?key|unauthori[sz]ed|authenticat|permission|forbidden|denied|invalid (?:token|cred)")),
    (
        "model",
        _any(
            r"model(?: \S{1,80})? (?:not found|does not exist|is not (?:available|supported)|has been deprecated)",
            r"unknown model|no such model",
        ),
    ),
    ("filtered", _any(r"content[ _](?:filter|policy|management)|safety|flagged|usage policies|data_inspection")),
    (
        "server",
        _any(
            r"overload|internal (?:server )?error|service (?:is )?(?:temporarily )?unavailable|bad gateway|timed? ?out",
            r"time-out|upstream (?:connect|error)|connection (?:reset|refused|error)|socket hang up|at capacity",
            r"server had an error",
        ),
    ),
    (
        "config",
        _any(
            r"invalid (?:chat )?(?:setting|parameter|params?|value|argument|type"
            r"|option)|unsupported (?:parameter|value)",
            r"unknown (?:parameter|field)|does(?: not|n't) support|not supported|not permitted|extra inputs",
            r"unrecognized (?:request )?argument|unexpected (?:keyword|field)"
            r"|input should be|schema is invalid|\u53c2\u6570",
            r"must be unique|may only be set",
        ),
    ),
)  # fmt: skip

_CODES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        "overflow",
        re.compile(
            r"context(?:length|window|size|limit)\w{0,12}exceed|exceed\w{0,3}context|modelcontextwindow|maxprompttokens"
            r"|(?:prompt|input|context)toolong|contextoverflow|maxcontextlength|toomanyinputtokens|contextlimitreached"
        ),
    ),
    ("quota", re.compile(r"insufficient(?:quota|balance|credits|funds)|billing|creditbalance|paymentrequired")),
    ("rate", re.compile(r"ratelimit|throttl|toomanyrequests|resourceexhausted|requestslimit|tokenslimitperminute")),
    ("string_length", re.compile(r"stringabovemaxlength|stringtoolong")),
    ("bytes", re.compile(r"requesttoolarge|entitytoolarge|payloadtoolarge|contenttoolarge|bodytoolarge")),
    ("auth", re.compile(r"authenticat|unauthor|permission|invalidapikey|forbidden|accessdenied")),
    ("model", re.compile(r"modelnotfound|modelnotavailable|notfounderror")),
    ("filtered", re.compile(r"contentfilter|contentpolicy|safety|datainspection")),
    ("server", re.compile(r"overloaded|internalserver|servererror|unavailable|apierror|timeout")),
)  # fmt: skip

_STATUS: dict[int, Kind] = {
    401: "auth", 402: "quota", 403: "auth", 404: "model", 408: "server", 413: "suspected", 429: "rate",
}  # fmt: skip

LIMIT_WORD = re.compile(r"\blimit\b ?:?", re.IGNORECASE)
REQUESTED_WORD = re.compile(r"\brequested\b ?:?", re.IGNORECASE)


def by_words(text: str) -> Kind:
    """Return the kind a text tells of by its words alone, ``unknown`` where they tell none."""
    for kind, words in _NARROW:
        if words.search(text) and not (kind == "output_cap" and _CAP_TOO.search(text)):
            return kind
    if _TOO_LONG.search(text):
        return "overflow"
    return next((kind for kind, words in _LATE if words.search(text)), "unknown")


def by_codes(said: Said) -> Kind:
    """Return the kind the codes tell of, then HTTP's status. A code that several kinds share tells none."""
    for kind, codes in _CODES:
        if any(codes.search(code) for code in said.codes):
            return kind
    if said.status in _STATUS:
        return _STATUS[said.status]
    return "server" if said.status >= 500 else "unknown"
