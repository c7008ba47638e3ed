"""The words without which nobody says that an input is too long for a model, in any order and by any provider."""

from __future__ import annotations

import re

OUT = r"max_?(?:new|output|completion|generated|gen)?_?tokens"
_WIN = (
    r"(?:context[ _-]?(?:window|length|size|limit|budget|capacity|tokens?)"
    r"|max(?:imum)?[ _-](?:context|prompt|input|model|sequence|length|number of tokens|tokens allowed)"
    r"|max_model_len|n_ctx|prompt length|(?:input|prompt|model)[ _-]?(?:token )?(?:length )?limit"
    r"|max_seq_len|max_position_embeddings|tokens? limit|token maximum|token window)"
)
_OVER = (
    r"(?:exceed(?:s|ed|ing)?|(?:long|larg|great|bigg)er than|too (?:long|large"
    r"|big|many tokens)|beyond|surpass(?:es|ed)?"
    r"|overflow(?:s|ed)?|over(?:ran|run| the)|more than|does(?: not|n't) fit|cannot fit|out of (?:room|space)|went over"
    r"|above the|past the|outgrown?)"
)
_IN = r"(?:prompt|inputs?|messages?|conversation|history|context|chat|dialog(?:ue)?|sequence|query|transcript)"
_LESS = r"(?:(?:less|fewer|no more|lower) than|at most|up to|under|below)"


def any_of(*patterns: str) -> re.Pattern[str]:
    """Return one pattern that holds where any of these does, in small letters.

    Those that begin at a word's edge look for it together, so that each begins with a letter: a search over many then
    passes most places of a text by at one look.
    """
    parts = [part for pattern in patterns for part in _alternatives(pattern)]
    edged = [part[2:] for part in parts if part.startswith(r"\b")]
    others = [part for part in parts if not part.startswith(r"\b")]
    return re.compile("|".join([*others, *([rf"\b(?:{'|'.join(edged)})"] if edged else [])]))


def _alternatives(pattern: str) -> list[str]:
    """Return what a pattern holds on its own level, between its bars."""
    found, deep = [""], 0
    for piece in re.findall(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", pattern, re.DOTALL):
        deep += (piece == "(") - (piece == ")")
        if piece == "|" and not deep:
            found.append("")
        else:
            found[-1] += piece
    return found


BESIDE = re.compile(
    rf"(?:inputs?|prompt|messages)\b.{{0,40}}(?:\+|and|or) {OUT}|context (?:length|limit) (?:is|exceeded)"
    r"|(?:\d|tokens) ?\+ ?\d|\bgot -\d{2}",
    re.IGNORECASE,
)
"""An output allowance named beside the input: the two together are too much, which is an overflow."""

_LONG = (
    rf"\b{_IN}\b(?: ?\([^()]{{0,40}}\)| tokens?| length| size| history){{0,3}},?"
    r"(?: is| are| was| were| has become| became| got)? too (?:long|large|big)\b"
)
PLAINLY = any_of(_LONG, r"\bcontext[ _-]?(?:window|length|size)\b")
"""Words of an overflow that nobody says of a rate."""

TOO_LONG = any_of(
    _LONG,
    rf"{_OVER}\b.{{0,60}}?\b{_WIN}",
    rf"\b{_WIN}.{{0,40}}?\b{_OVER}",
    rf"\b(?:tokens?|{_IN})\b.{{0,60}}?\bexceed(?:s|ed|ing)?\b.{{0,50}}?"
    r"\b(?:limit|maximum|max|tokens allowed|window|context)\b",
    rf"\b{_IN}\b.{{0,60}}?\b(?:long|larg|great|bigg)er than (?:the |our )?(?:maximum|max|limit|allowed)\b",
    rf"\b{_IN} (?:that )?you \w{{3,12}} (?:is|was|are|were) too (?:long|large|big)\b",
    r"\bcontents?\b.{0,20}\btoo (?:long|large|big)\b.{0,40}\btokens?\b",
    r"\bmax(?:imum)? (?:context|prompt|input|model|sequence) (?:length|window"
    r"|size|len)(?: is|:| of| =)(?: only)? ?[\d~]",
    r"\bcontext (?:length|window|size) is only\b",
    rf"\b(?:inputs?|prompt|messages?|input length)[ _]?(?:tokens?)? ?(?:\([\d.,]{{1,14}}\) ?)?(?:\+|and) ?{OUT} ?"
    r"(?:\([\d.,]{1,14}\) ?)?(?:must be|should be|exceed|is|are|>|\u2265)",
    rf"\b{OUT}\b.{{0,20}}\b(?:must|should) be\b.{{0,30}}\bgot -\d{{2}}",  # what a window leaves behind a longer input
    r"\brange of input length should be\b",
    r"\b(?:current|actual|prompt|input|total|requested) (?:length|size|count|tokens?)(?: is| of| ?:) ?\d"
    r".{0,40}\blimit (?:is|of|:) ?\d",
    rf"\b{_IN}\b.{{0,40}}?\d.{{0,40}}?\b(?:but|while|whereas|yet|only|against|and)\b.{{0,60}}?\b{_WIN}",
    rf"\b{_IN}\b.{{0,40}}?\d.{{0,40}}?\b(?:but|while)\b.{{0,30}}?\bcontext (?:is|of|has) (?:only )?\d",
    rf"\b{_WIN} (?:is|of) (?:only )?\d.{{0,40}}?\b(?:you|your|however|but|while|whereas|yet|request)\b.{{0,40}}?\d",
    r"\bonly supports? up to [\d,. ]{1,14}",
    rf"\d ?tokens?\b.{{0,20}}?\b(?:but|while|whereas|yet|and|exceed\w{{0,3}})\b.{{0,50}}?(?:\b{_WIN}|\bmodel only)",
    rf"\b{_IN}\b(?: tokens?)? (?:must|should|may|can) (?:have|contain|be|hold) (?:only )?{_LESS} "
    r"\d[\d.,'_]{0,14} tokens?\b",
    rf"\b(?:inputs?|prompt)[ _]tokens?\b(?: ?\([^()]{{0,40}}\))? (?:must|should) be {_LESS} (?:the )?{_WIN}",
    r"\btoo (?:long|large|big)\b.{0,60}?\bmax(?:imum)? (?:size|length|count)(?: is|:| of)? ?\d[\d.,'_ ]{0,14}tokens?\b",
    r"\btruncate to \d.{0,20}\brequired \d",
    r"\d ?tokens?\b.{0,40}?\bcontext (?:is|of|has) (?:only )?\d",
    r"\bmax(?:imum)? (?:number of )?(?:input|prompt|context) tokens?(?: for this model)?(?: is|:| of|=)? ?\d.{0,40}\d",
    r"\btokens?\b.{0,40}?\b(?:over|above|past|beyond) (?:the |our )?(?:limit|maximum)\b",
    rf"\d\)? ?(?:tokens? )?(?:>|\u2265)=? ?(?:the )?{_WIN}",
    rf"\b{_IN}\b.{{0,40}}?\d ?tokens?\)? exceeds? \d",
    rf"\d ?tokens?\b.{{0,40}}?, (?:the |this )?(?:model's )?{_WIN} (?:is|of) (?:only )?\d",
    rf"\b{_IN}\b.{{0,40}}?\d ?tokens?\)?,? (?:the )?(?:limit|max(?:imum)?)(?: is|:| of)? ?\d",
    rf"\b{_IN}\b.{{0,40}}?\d ?tokens?\b.{{0,30}}?\bmodel\b.{{0,20}}?\b(?:at most|up to|only) \d",
    r"\b(?:hit|reached|exhausted) (?:the |your |its )?(?:model's )?(?:max(?:imum)? )?context\b",
    r"\bcontext(?:length|window|size|limit)exceeded\b",
    rf"\b{_WIN}\b.{{0,30}}?\b(?:small|short|low)er than (?:the |your )?{_IN}\b",
    r"\btoo many (?:input|prompt|context) tokens\b|\btoo many tokens in (?:the|your|this)\b",
    r"\btoo many tokens\b.{0,60}?\b(?:cannot exceed|size limit|context|for this model)",
    rf"\b(?:tokens?|{_IN})\b.{{0,60}}?\b(?:cannot|can't|must not|may not|should not) exceed (?:the )?\d",
    r"\bmax(?:imum)? (?:\w+ )?tokens of \d[\d.,'_]{0,14} (?:was |were |has been |have been |is )?exceeded",
    r"\b(?:prompt|input|messages|conversation|request)\b.{0,60}?\d ?(?:tokens? )?(?:>|\u2265) ?\d",
    r"\breduce (?:the )?(?:length|size|number|amount) of (?:the |your )?"
    r"(?:messages?|prompt|inputs?|conversation|history|context|chat)\b",
    r"\bran out of (?:room|space) in (?:the |its )?(?:model's )?context",
    r"\bcontext[ _](?:length|window|size|limit)(?: limit)?(?: of [\d.,]{1,14}k?)?[ _]?(?:was |has been |is |been )?"
    r"(?:exceeded|overflow|reached|full)",
    r"\bexceed_context_size|model_context_window_exceeded|context_length_exceeded|max_prompt_tokens_exceeded",
    r"(?:\u4e0a\u4e0b\u6587|\u8f93\u5165|\u63d0\u793a\u8bcd|\u5bf9\u8bdd|\u4f1a\u8bdd|\u6d88\u606f|\u5185\u5bb9|prompt|tokens?).{0,20}"
    r"(?:\u8d85\u8fc7|\u8d85\u51fa|\u8fc7\u957f|\u8d85\u957f|\u8d85\u9650|\u592a\u957f|\u6700\u5927\u957f\u5ea6)",
    r"\u6700\u5927(?:\u4e0a\u4e0b\u6587|\u8f93\u5165).{0,10}?\d.{0,20}?\d",
    r"(?:\u30b3\u30f3\u30c6\u30ad\u30b9\u30c8|\u5165\u529b|\u30d7\u30ed\u30f3\u30d7\u30c8).{0,20}"
    r"(?:\u8d85\u3048|\u8d85\u904e|\u9577\u3059\u304e)",
    r"(?:\ucee8\ud14d\uc2a4\ud2b8|\uc785\ub825|\ud504\ub86c\ud504\ud2b8).{0,30}(?:\ucd08\uacfc|\ub108\ubb34 \uae38)",
)
