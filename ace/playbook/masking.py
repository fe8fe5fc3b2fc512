"""Finds what a text says of one person or one case, so that "Refund order 17" and "Refund order 18" are one question.

One function masks lessons and queries, for the dense side, the lexical side and the cache. A masker of your own (a protocol
of one method) may find more, for example with Presidio; its name is part of an index's identity.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple, Protocol

from ace.core.language import DAY, EMPHASIS, MARKS, MONTH, TITLES, common_words

Kind = Literal[
    "email", "url", "date", "time", "number", "money", "id", "quoted", "name", "phone", "card", "account", "text"
]
PERSONAL: frozenset[Kind] = frozenset(("email", "url", "id", "name", "phone", "card", "account"))
"""Kinds of values that belong to somebody: never shown to others, however many tasks share them."""


SHOUTED = 0.75
"""Of the words: where more are capitals, or begin with one, capitals tell nothing."""


class Span(NamedTuple):
    """A part of a text that is masked: ``text[start:end]``."""

    start: int
    end: int
    kind: Kind


class Masker(Protocol):
    """Finds the parts of a text that are masked: `PatternMasker().spans("Refund order 17")`."""

    name: str
    """Names the rules; another name is another index."""

    def spans(self, text: str) -> Sequence[Span]:
        """Return what is masked, in order and without overlap."""
        ...


LETTER = rf"(?:[^\W_]|[{MARKS}])"
"""A character of a word, for a pattern: a letter, a digit, or a mark on one."""
WORD = re.compile(rf"[^\W_]{LETTER}*(?:['’][^\W\d_]{LETTER}*)?")
"""A word in any script."""
TITLE = re.compile(rf"\b(?:{'|'.join(TITLES)}|[^\W\d_a-z])\.$")
"""An abbreviation, or an initial, at the end of a text: what follows is no beginning of a sentence."""
_AFTER_TITLE = "|".join(rf"(?<=\b{title}\. )" for title in TITLES)
_SUFFIX = (
    r"(?:com|org|net|io|edu|gov|info|biz|app|dev|shop|site|online|store|cloud|test|example|local|localhost|"
    r"ac|ae|ar|au|bg|br|ca|ch|cl|cn|co|cy|cz|de|dk|ee|es|eu|fi|fr|ge|gr|hk|hr|hu|id|ie|il|ir|jp|ke|kr|kz|lt|lu|lv|"
    r"mt|mx|my|ng|nl|nz|pe|ph|pk|pt|ro|ru|sa|se|sg|si|sk|th|tr|tw|ua|uk|vn|za)"
)
"""Of domains that are found without a scheme or a path."""
_LABELS = r"(?:[\w-]{1,63}\.){1,8}"
"""Before a domain's suffix. What repeats in a pattern has an end, so that no text takes time that grows with its square."""
SPOKEN = re.compile(rf"{DAY}s?|{MONTH}|{EMPHASIS}|I", re.IGNORECASE)
"""Capitalised words that are no names."""
_RULES: tuple[tuple[Kind, str, int], ...] = (
    ("email", r"[\w.+%'-]{1,128}+@[\w-]+(?:\.[\w-]+)*|[\w.+%-]{1,128}+ ?[\[(]at[\])] ?[\w.-]+(?: ?[\[(]dot[\])] ?\w+)*", 0),
    ("url", r"\b[a-z][a-z+.-]{0,30}://(?:[^\s<>\"'`]|'(?=\w))+|\bwww\.[^\s<>\"'`]+|"
     rf"\b{_LABELS}{_SUFFIX}\b(?![-\w]|\.\w)(?:[/?#:]\S*)?|\b{_LABELS}[a-z]{{2,18}}/\S*", re.I),
    ("account", r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b", 0),
    ("quoted", r"""(?<!\w)(?:"[^"\n]{1,200}"|'[^'\n]{1,120}'(?!\w)|“[^”\n]{1,200}”|‘[^’\n]{1,200}’|«[^»\n]{1,200}»)""",
     0),
    ("card", r"(?<![\w-])\d(?:[ -]?\d){11,18}(?![\w-])", 0),
    ("id", r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)(?:/\d+|:\d+)?", 0),
    ("date",
     rf"\b\d{{4}}-\d\d?-\d\d?\b|\b\d\d?[./]\d\d?[./]\d{{2,4}}\b|\b{MONTH}\.? \d\d?(?:st|nd|rd|th)?(?:,? \d{{4}})?\b|"
     rf"\b\d\d?(?:st|nd|rd|th)?(?: of)? {MONTH}\b(?: \d{{4}})?", re.I),
    ("time", r"\b\d\d?:\d\d(?::\d\d)?(?: ?[ap]\.?m\b\.?)?|\b\d\d? ?[ap]\.?m\b\.?", re.I),
    ("money",
     r"[$€£¥] ?\d[\d,]{0,30}(?:\.\d+)?|\b\d[\d,]{0,30}(?:\.\d+)? ?(?:[$€£¥]|(?:USD|EUR|GBP|dollars?|euros?)\b)", re.I),
    ("phone", r"(?<![\w.])(?:\+\d[\d\s().-]{6,18}\d|\(\d{2,5}\)[\d\s.-]{5,14}\d|0\d{1,4}[ /.-]\d[\d\s.-]{3,12}\d|"
              r"\d{3}[-. ]\d{3}[-. ]\d{4})(?:\s?x\d{1,5})?(?!\w)", 0),
    ("id", r"#\w+(?:-\w+)*|\b(?=[\w-]{0,256}\d)(?=[\w-]{0,256}[A-Za-z])\w+(?:-\w+)*\b|\b\d+(?:-\d+)+\b", 0),
    ("number", r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?%?", 0),
    ("name",
     rf"(?:(?<=[a-z,;:)] )|{_AFTER_TITLE})(?!I\b|I['’]|{DAY}\b|{EMPHASIS})"
     rf"[^\W\d_a-z][\w{MARKS}'’.-]*[\w{MARKS}](?: (?!{DAY}\b)[^\W\d_a-z][\w{MARKS}'’.-]*[\w{MARKS}])*", 0),
)  # fmt: skip
_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, flags)) for kind, pattern, flags in _RULES
)
"""In this order: what one finds is not looked at by the next. A capitalised word inside a sentence is taken for a name."""


MAX_MASKED = 50_000
"""Characters of a text that are looked through: the patterns take a second or more for a million."""


class PatternMasker:
    """Masks by twelve patterns: e-mail, URL, account, quotation, card, date, time, money, phone, id, number, name.

    Examples:
        >>> PatternMasker().spans("Refund order 17 of Ana")
        [Span(start=13, end=15, kind='number'), Span(start=19, end=22, kind='name')]
    """

    name = "patterns-1"

    def spans(self, text: str) -> list[Span]:
        """See `Masker`; of a text of more than `MAX_MASKED` characters all that comes after them is one span."""
        found: list[Span] = [Span(MAX_MASKED, len(text), "text")] if len(text) > MAX_MASKED else []
        text = text[:MAX_MASKED]
        loud = shouted(text)
        for kind, pattern in _PATTERNS:
            matches = list(pattern.finditer(text))
            for match in matches:
                start, end = match.span()
                if kind == "name":
                    end = start + len(re.sub(r"['’]s$", "", match[0]))
                    if loud and all(word.lower() in common_words() for word in WORD.findall(match[0])):
                        continue
                found.append(Span(start, end, kind))
            if matches:
                text = pattern.sub(lambda m: "\0" * len(m[0]), text)
        return sorted(found)


def shouted(text: str) -> bool:
    """Check whether capitals tell nothing, as in ``PLEASE CANCEL MY ORDER`` or in a headline; not of a few words.

    Examples:
        >>> shouted("PLEASE CANCEL MY ORDER"), shouted("Call Rose Banks")
        (True, False)
    """
    words = [word for word in WORD.findall(text) if word[0].isalpha()]
    return (len(words) > 3 and sum(word.isupper() for word in words) > SHOUTED * len(words)) or (
        len(words) > 5 and sum(word[0].isupper() for word in words) > SHOUTED * len(words)
    )


def masked(text: str, spans: Sequence[Span], keep: Collection[Kind] = ()) -> str:
    """Return a text with its spans replaced by the words of their kinds.

    Examples:
        >>> text = "Refund order 17 of Ana"
        >>> spans = PatternMasker().spans(text)
        >>> masked(text, spans), masked(text, spans, keep=["name"])
        ('Refund order number of name', 'Refund order number of Ana')
    """
    parts, at = list[str](), 0
    for span in spans:
        if span.kind not in keep:
            parts += [text[at : span.start], span.kind]
            at = span.end
    return "".join([*parts, text[at:]])
