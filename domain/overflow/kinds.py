"""The kinds of a provider's refusal, told by words, by codes, and last by HTTP's status (``transform.md`` 1.8).

A kind is a rule over the words such a refusal cannot do without, never one provider's sentence. What only sounds like
an overflow (a rate, a cap on the answer, bytes, images) is looked for first, since its words are narrower; what
could quote an overflow's words (a wrong setting, a role out of order) last.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from .parts import Said
from .toolong import BESIDE, OUT, PLAINLY, TOO_LONG, any_of

Kind: TypeAlias = Literal[
    "overflow", "output_driven", "suspected", "rate", "rate_tier", "quota", "output_cap", "bytes", "string_length",
    "images", "pairing", "cache_marks", "thinking", "empty_block", "shape", "config", "auth", "model", "filtered",
    "server", "unknown",
]  # fmt: skip

OVERFLOWS = frozenset({"overflow", "output_driven", "suspected"})

_SIZE = r"\b\d[\d.,]{0,14} ?(?:bytes|[kmg]i?b)\b"
_SEEN = r"(?:images?|pictures?|photos?|videos?|audios?|pdfs?|pdf pages|documents?|attachments?|media|files?)(?:\(s\))?"
_MOST = r"(?:max(?:imum)?|at most|up to|limit(?:ed)?|only (?:supports?|allows?|accepts?))"
_NEAR = r"(?:[^.+]|\.(?! )){0,40}?"  # of one sentence, and nothing is added; a model's name may hold a stop
_CALLS = r"(?:function|tool)[ _]?(?:calls?|uses?|responses?|results?|outputs?)"

_RATE = any_of(
    r"\bper[ _-]?(?:min(?:ute)?|hour|day|second)s?\b|/ ?min(?:ute)?\b"
    r"|\b[tr]p[mds]\b|\bqps\b|for this (?:minute|hour|day)",
    r"(?<!higher )\b(?:daily|weekly|monthly|hourly) (?:\w+ ){0,2}limit|\b\d{1,2}[ -]?hours? limit",
    r"rate[ _-]?limit|throttl(?:ed|ing)|too many requests|slow down|too quickly|in this interval"
    r"|number of requests?\b|current requests\b",
    r"(?:try again|retry(?: again)?) (?:in|after) \d|retry-after|resource (?:has been )?exhausted",
    r"concurren(?:t|cy) (?:requests|limit|connections)|too many concurrent|per[ -]model limit",
    r"organization concurrency|\u901f\u7387\u9650\u5236|\u8fc7\u4e8e\u9891\u7e41",
    r"\u6bcf(?:\u5206\u949f|[\u5929\u65e5\u79d2])|\u5e76\u53d1|\u9891\u7387|\u9650\u6d41|\u8bf7\u6c42\u8fc7\u591a",
)
_WAIT = any_of(
    r"please wait|wait before|try again (?:in|after|later)|retry(?: again)? (?:in|after|later)|\u8bf7\u7a0d\u540e"
)
"""Advice to wait. It stands behind anything, an overflow and a server's fault too."""

_NARROW: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        "quota",
        any_of(
            r"extra usage is required|out of extra usage|long context beta|quota is not enough|\bno quota\b",
            r"\b(?:credit (?:balance|limit)|insufficient[ _](?:quota|balance|funds|credits?))",
            r"exceeded your current quota|\bquota exceeded\b|\bbilling\b|payment required|usage limit",
            r"spend(?:ing)? limit|service quota|\b(?:max|over|team|user|key) budget\b|budget has been exceeded",
            r"budget for (?:this|your)|overdue|\u4f59\u989d\u4e0d\u8db3|\u6b20\u8d39|\u5145\u503c|\u989d\u5ea6",
        ),
    ),
    ("model", any_of(r"\b(?:deployment|model)\b.{0,40}\b(?:does not exist|not exist\b|not found)")),
    ("rate", _RATE),
    ("rate", _WAIT),
    (
        "quota",  # what only money lifts: a model's window is raised by nobody's visit
        any_of(
            r"\bto increase(?: (?:it|this|the limit|your limits?))?,? (?:visit|see|go to)",
            r"upgrade (?:to a paid|your (?:plan|account))|\bfree plan\b|\bpaid (?:plan|account)\b",
            r"\b(?:key|account|organi[sz]ation|team|project|plan) (?:has |have )?(?:exceeded|reached|used|hit)\b",
            r"\bexceeded (?:your|its) (?:\w+ )?tokens? limit\b|\bupgrade (?:your )?(?:plan|tier)\b",
            r"\bbalance is insufficient\b|\u5df2\u8fbe\u5230.{0,12}\u4f7f\u7528\u4e0a\u9650",
            r"\bcredits?\b(?! card)|can only afford|\bkey limit\b|exceeded your (?:\w+ ){0,3}(?:usage|allowance)\b",
        ),
    ),
    (
        "images",
        any_of(
            r"(?<!tokens of )\bimages?\b(?:(?!tokens).){0,60}?\b(?:dimensions?|pixels?"
            r"|too (?:many|large|big)|exceed(?:s|ing)?|maximum of \d)",
            r"\btoo much media\b|\b(?:too many|maximum of \d{1,6}|exceed\w{0,3}.{0,30})\s?(?:images?"
            r"|pdf pages|media|documents|attachments)\b",
            r"\b(?:images?|pdf|document|file) (?:is|are) too (?:large|big)|process (?:the |this |input )?image",
            rf"\b\d{{1,6}} {_SEEN}(?:(?!tokens|context).){{0,40}}?\b{_MOST}\b",
            rf"\b{_MOST}(?: is| of|:)? \d{{1,6}} {_SEEN}(?!\w)",
            r"\bimage\.source\b.{0,40}\binvalid\b|(?:invalid|unsupported|corrupt\w{0,4}|malformed) (?:input )?image"
            r"|\bimage is (?:not valid|invalid)",
            r"\bimage (?:was specified using|appears to be|does not match)|too many pages",
            r"\u56fe\u7247.{0,12}(?:\u8d85|\u8fc7\u5927|\u6700\u591a)",
        ),
    ),
    (
        "string_length",
        any_of(
            r"(?:string|array) (?:too long|exceeds)|string_above_max_length",
            r"expected an? (?:string|array) with max\w{0,4} length",
            r"maximum length \d+, but got|\bexpected maxlength\b|use offset and limit",
            rf"(?:\bfile content|{_CALLS})\b.{{0,40}}\bexceeds? max|\btoo many (?:messages|tools|items)\b",
            r"string should have at (?:most|least)|(?:at most|(?:less|fewer|more) than) \d+ characters",
            r"\w(?:_key|_id|name|description|metadata|url)s?\b.{0,12}\btoo long\b",
        ),
    ),
    (
        "server",  # what is full is the machine; a size in bytes stands there too
        any_of(
            r"\b(?:system|gpu|device|process|physical|available|insufficient|enough|prefill) memory\b",
            r"\bmemory[ _](?:guard|limit)|\bout of memory\b",
        ),
    ),
    (
        "bytes",
        any_of(
            r"\b(?:body|payload|entity|content[ -]length)\b.{0,40}?\b(?:too large|exceed(?:s|ed)?|over the|limit)\b"
            r"(?!.{0,80}\d ?tokens?\b)",
            r"\b(?:exceed(?:s|ed)?|over) (?:the )?(?:maximum|max|allowed) (?:request "
            r"|payload |body )?size\b(?! of the (?:con|pro))",
            r"payload limit|\bbytes are too (?:large|many)\b|(?:request|payload|entity|body|content)_too_large",
            r"\bclosed?\b.{0,40}\b1009\b|\b1009\W{1,3}message too"  # tokens, an error's code may be 1009
            r"|\b(?:websocket|grpc|frame)\b.{0,60}\btoo (?:big|large|long)|\bmessage too big\b",
            r"received message larger than max|(?:\u8bf7\u6c42\u4f53|\u6587\u4ef6).{0,10}(?:\u8fc7\u5927|\u8d85)",
            r"\brequest (?:is )?too large(?! for (?:the )?(?:model|context))(?!.{0,200}tokens?\b)",
            rf"{_SIZE}.{{0,60}}\b(?:limit|maximum|max|exceed)|\b(?:limit|maximum|max|exceed\w{{0,3}})\b.{{0,60}}{_SIZE}",
        ),
    ),
    (
        "empty_block",
        any_of(
            r"non-?whitespace text|for empty text|content is empty|empty (?:text|content) (?:block|part)",
            r"\b(?:text|content|message|part)s?\b(?!['\"] ?:)(?:(?!tokens|\. ).){0,80}?"
            r"\b(?:is|are|was|were|cannot be|must not be|may not be|can't be) (?:empty|blank)\b",
            r"must (?:be|have|contain) non-?empty|non-?empty content|at least one (?:content|parts?)\b",
            r"\bcontents? is not specified|\blength must be greater than 0\b",
        ),
    ),
    (
        "thinking",  # it may name the call that stands where the reasoning should
        any_of(
            r"expected .{0,3}(?:thinking|redacted_thinking|reasoning)\b|must start with a thinking block",
            r"\b(?:required|its|the) .{0,2}reasoning.{0,2} item|thought[ _]signature",
        ),
    ),
    ("cache_marks", any_of(r"cache_control|cachepoint|cache[ _]?(?:point|breakpoint|mark)s?\b")),
    (
        "pairing",
        any_of(
            r"tool_use|tool_result|tooluse|toolresult|tool_calls?\b|tool_call_id|tool call (?:id|found)|call_id",
            r"function call(?:ing)?(?: output| turn| parts?)|function response parts?|tool messages? (?:must|respond)",
            r"no tool (?:output|call) found|duplicate items?\b|function response turn|single tool[ -]call",
            rf"(?:number|count|amount) of {_CALLS}|{_CALLS} (?:and|does not|do not|don't|must) ",
            rf"{_CALLS}(?:'s)?.{{0,60}}\b(?:not found|missing|without)\b",
        ),
    ),
    ("config", any_of(r"must be greater than.{0,30}budget_tokens|budget_tokens.{0,30}(?:must|should) be")),
    (
        "thinking",
        any_of(
            r"\bredacted_thinking\b|thinking(?: or \S{1,30})? blocks?|invalid signature",
            r"reasoning_content|reasoning(?: item| block)|of type '?reasoning|encrypted[ _]content|block_binding",
            r"in (?:the )?thinking mode",
        ),
    ),
    (
        "output_cap",
        any_of(
            rf"(?<!\band )(?<!\+ )(?<!\bor )\b{OUT}\b{_NEAR}(?:must be (?:<|less"
            rf"|at most|no more|between|lower|smaller)"
            r"|exceed|too (?:large|high|big)|larger than|greater than|cannot be (?!set\b)|should be|> ?\d"
            r"|(?:supported|valid|allowed) range|range is \[?\d)",
            rf"(?:supported|valid|allowed) range (?:of|for) {OUT}|\b{OUT}\b[^.+]{{0,80}}?\babove maximum value",
            r"(?<!\+ )(?<!and )\bmax(?:imum)? (?:\w+ )?tokens must be (?:<|less|at most|no more)",
            r"(?<!\+ )(?<!and )(?<!or )\b(?:output|completion|response|answer) tokens?\b(?:(?!context).){0,30}"
            r"\bexceed(?:s|ed)?\b(?! (?:the )?(?:model's )?(?:context|window))",
            rf"\b{OUT}.{{0,20}}(?:\u8d85|\u8fc7\u5927|\u8fc7\u957f|\u8303\u56f4)",
            rf"(?:maximum|max) (?:value for|allowed (?:number of|for)) (?:{OUT}|output tokens|completion tokens)",
            r"maximum tokens you requested|max(?:imum)? (?:output|completion) (?:token|length|limit)",
            r"supports at most [\d,. ]{1,14}(?:completion|output) tokens|model output limit",
            r"(?:output|completion) tokens? (?:maximum|max|limit|cap)\b",
        ),
    ),
)  # fmt: skip

_LATE: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        "shape",
        any_of(
            r"(?:must|should) (?:be )?alternat(?:e|ing)\b|alternat\w{0,5} between|first message must|in the same turn",
            r"last message|prefill|cannot end with|message must be at the (?:beginning|start|end)",
            r"final (?:position|turn)|unexpected role|invalid (?:message )?role",
            r"must (?:start|end|begin) with an? (?:user|assistant)|at least one message|\b(?:first|last) role\b",
            r"\broles? '?\w+'? after role|with (?:the )?role (?:of )?'?user",
        ),
    ),
    ("auth", any_of(r"api[ _-]?key|unauthori[sz]ed|authenticat|permission|\bforbidden|denied|invalid (?:token|cred)"
            r"|(?:security|access|api) token\b.{0,30}\b(?:expired|invalid)|this credential"
            r"|\bnot authori[sz]ed\b|organi[sz]ation must be verified")),
    (
        "model",
        any_of(
            r"model(?: \S{1,120})? (?:was |is )?(?:not found|does not exist|not exist|is not (?:available|supported)"
            r"|has been (?:deprecated|decommissioned|retired))",
            r"unknown model|no such model|\u6a21\u578b\u4e0d\u5b58\u5728",
        ),
    ),
    ("filtered", any_of(r"content[ _](?:filter|policy|management)|safety|flagged|usage policies|data_inspection"
            r"|sensitive (?:information|content|words?)|inappropriate content|\u654f\u611f|\u8fdd\u89c4")),
    (
        "server",
        any_of(
            r"overload|internal (?:server )?error|service (?:is )?(?:temporarily )?unavailable|bad gateway|timed? ?out",
            r"time-out|upstream (?:connect|error)|connection (?:reset|refused|error)|socket hang up|at capacity",
            r"closed before|fetch failed|\be(?:connreset|connrefused|notfound|timedout)\b|insufficient system resource",
            r"(?:tier )?capacity exceeded|unable to process your request|high demand|\u8bbf\u95ee\u91cf\u8fc7\u5927",
            r"server had an error|unexpected error|\bdegraded\b|\bis (?:currently |still )?loading\b",
        ),
    ),
    (
        "config",
        any_of(
            r"invalid (?:chat )?(?:setting|parameter|params?|value|argument|type"
            r"|option)|unsupported (?:parameter|value)",
            r"unknown (?:parameter|field)|does(?: not|n't) (?:support|work with)|not supported|isn't supported"
            r"|not permitted|extra inputs",
            r"unrecognized (?:request )?argument|unexpected (?:keyword|field)"
            r"|input should be|schema is invalid|\u53c2\u6570",
            r"\btool_choice\b(?!['\"]? ?: ?['\"{])|must be unique|may only be set|must contain the word",
            r"\bjson (?:format|schema|mode)\b|\b(?:is|are) not (?:available|allowed|enabled)\b|set at the same time",
            r"should (?:match|have at (?:most|least))|does(?: not|n't) match|below minimum value|above maximum value",
            r"\bnot valid json|\binvalid json|\bproto is invalid|is invalid\. please choose|\bexpected minitems\b",
            r"\bmust be set to\b|\bmust have an? \w+ parameter\b|\bnot greater than \d",
            r"\bmust be (?:less|lower|greater|higher|at least|at most|between|one of|strictly)\b",
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
    ("quota", re.compile(r"insufficient(?:quota|balance|credits|funds)|billing|creditbalance|paymentrequired"
            r"|servicequota|(?:current|service|account)quotaexceed|exceededcurrentquota|budgetexceed|exceededbudget"
            r"|overdue|arrearage")),
    ("rate", re.compile(r"ratelimit|throttl|toomanyrequests|resourceexhausted|requestslimit|tokenslimitperminute")),
    ("string_length", re.compile(r"stringabovemaxlength|stringtoolong")),
    ("bytes", re.compile(r"requesttoolarge|entitytoolarge|payloadtoolarge|contenttoolarge|bodytoolarge")),
    ("auth", re.compile(r"authenticat|unauthor|permission|invalidapikey|forbidden|accessdenied")),
    (
        "model",
        re.compile(r"(?:model|deployment)notfound|model(?:decommissioned|not(?:supported|available))|notfounderror"),
    ),
    ("filtered", re.compile(r"contentfilter|contentpolicy|safety|datainspection")),
    ("server", re.compile(r"overloaded|internalserver|servererror|unavailable|apierror|timeout")),
)  # fmt: skip

_STATUS: dict[int, Kind] = {
    401: "auth", 402: "quota", 403: "auth", 404: "model", 408: "server", 413: "suspected", 429: "rate",
}  # fmt: skip

LIMIT_WORD = re.compile(r"\blimit\b", re.IGNORECASE)
REQUESTED_WORD = re.compile(r"\brequested\b", re.IGNORECASE)


def by_words(text: str) -> Kind:
    """Return the kind a text tells of by its words alone, ``unknown`` where they tell none."""
    text = text.lower()
    for kind, words in _NARROW:
        if words.search(text):
            if (kind == "output_cap" and BESIDE.search(text)) or (words is _WAIT and PLAINLY.search(text)):
                continue
            return kind
    if TOO_LONG.search(text):
        return "overflow"
    return next((kind for kind, words in _LATE if words.search(text)), "unknown")


def only_waits(text: str) -> bool:
    """Whether a text of the kind ``rate`` advises to wait and says of no rate."""
    return not _RATE.search(text.lower())


def by_codes(said: Said) -> Kind:
    """Return the kind the codes tell of, then HTTP's status. A code that several kinds share tells none."""
    for kind, codes in _CODES:
        if any(codes.search(code) for code in said.codes):
            return kind
    if said.status in _STATUS:
        return _STATUS[said.status]
    return "server" if said.status >= 500 else "unknown"
