"""Finds what a text says of one person or one case, so that "Refund order 17" and "Refund order 18" are one question.

One function masks lessons and queries, for the dense side, the lexical side and the cache. A masker of your own (a protocol
of one method) may find more, for example with Presidio; its name is part of an index's identity.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from importlib import resources
from typing import Literal, NamedTuple, Protocol

Kind = Literal[
    "email", "url", "date", "time", "number", "money", "id", "quoted", "name", "phone", "card", "account", "text"
]
PERSONAL: frozenset[Kind] = frozenset(("email", "url", "id", "name", "phone", "card", "account"))
"""Kinds of values that belong to somebody: never shown to others, however many tasks share them."""


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
        """What is masked, in order and without overlap."""
        ...


_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)"
)
_EMPHASIS = r"(?:NOT|NO|NEVER|ALL|ANY|ONLY|DO|DON['’]T|MUST|AND|OR|BUT|IF|THE|ASAP|PLEASE)\b"
"""Words that are shouted, and name nobody."""
_DAY = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
SPOKEN = re.compile(rf"{_DAY}s?|{_MONTH}|{_EMPHASIS}|I", re.IGNORECASE)
"""Capitalised words that are no names."""
_RULES: tuple[tuple[Kind, str, int], ...] = (
    ("email", r"[\w.+%'-]+@[\w-]+(?:\.[\w-]+)+", 0),
    ("url", r"\b(?:https?://|www\.)[^\s<>\"'`]+|\b[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|edu|gov)\b(?:/\S*)?", re.I),
    ("account", r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b", 0),
    ("quoted", r"""(?<!\w)(?:"[^"\n]{1,200}"|'[^'\n]{1,120}'(?!\w)|“[^”\n]{1,200}”|‘[^’\n]{1,200}’|«[^»\n]{1,200}»)""",
     0),
    ("card", r"(?<![\w-])\d(?:[ -]?\d){11,18}(?![\w-])", 0),
    ("date",
     rf"\b\d{{4}}-\d\d?-\d\d?\b|\b\d\d?[./]\d\d?[./]\d{{2,4}}\b|\b{_MONTH}\.? \d\d?(?:st|nd|rd|th)?(?:,? \d{{4}})?\b|"
     rf"\b\d\d?(?:st|nd|rd|th)?(?: of)? {_MONTH}\b(?: \d{{4}})?", re.I),
    ("time", r"\b\d\d?:\d\d(?::\d\d)?(?: ?[ap]\.?m\b\.?)?|\b\d\d? ?[ap]\.?m\b\.?", re.I),
    ("money", r"[$€£¥] ?\d[\d,]*(?:\.\d+)?|\b\d[\d,]*(?:\.\d+)? ?(?:[$€£¥]|(?:USD|EUR|GBP|dollars?|euros?)\b)", re.I),
    ("phone", r"(?<![\w.])(?:\+\d[\d\s().-]{6,18}\d|\(\d{2,5}\)[\d\s.-]{5,14}\d|0\d{1,4}[ /.-]\d[\d\s.-]{3,12}\d|"
              r"\d{3}[-. ]\d{3}[-. ]\d{4})(?:\s?x\d{1,5})?(?!\w)", 0),
    ("id", r"#\w+(?:-\w+)*|\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])\w+(?:-\w+)*\b|\b\d+(?:-\d+)+\b", 0),
    ("number", r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?%?", 0),
    ("name",
     rf"(?<=[a-z,;:)] )(?!I\b|I['’]|{_DAY}\b|{_EMPHASIS})[^\W\d_a-z][\w'’.-]*\w(?: (?!{_DAY}\b)[^\W\d_a-z][\w'’.-]*\w)*", 0),
)  # fmt: skip
_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, flags)) for kind, pattern, flags in _RULES
)
"""In this order: what one finds is not looked at by the next. A capitalised word inside a sentence is taken for a name."""


class PatternMasker:
    """Masks by twelve patterns: e-mail, URL, account, quotation, card, date, time, money, phone, id, number, name.

    Example:
        >>> PatternMasker().spans("Refund order 17 of Ana")
        [Span(start=13, end=15, kind='number'), Span(start=19, end=22, kind='name')]
    """

    name = "patterns-1"

    def spans(self, text: str) -> list[Span]:
        """See `Masker`."""
        found: list[Span] = []
        for kind, pattern in _PATTERNS:
            for match in pattern.finditer(text):
                start, end = match.span()
                if kind == "name":
                    end = start + len(re.sub(r"['’]s$", "", match[0]))
                found.append(Span(start, end, kind))
            text = pattern.sub(lambda m: "\0" * len(m[0]), text)
        return sorted(found)


def masked(text: str, spans: Sequence[Span], keep: Collection[Kind] = ()) -> str:
    """A text with its spans replaced by the words of their kinds.

    Example:
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


@lru_cache(maxsize=1)
def common_words() -> frozenset[str]:
    """Common English words in lower case, without proper names: SCOWL, size 35 (its licence is in ``LICENSE``)."""
    packed = resources.files("ace.playbook").joinpath("words.txt.gz").read_bytes()
    return frozenset(gzip.decompress(packed).decode().split())
