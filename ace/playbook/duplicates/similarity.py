"""When two lessons are the same: near in meaning or in words, and equal in everything that vectors do not see."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from ace.core.language import ANTONYMS, CONNECTING, FORCES, NEGATIVE, NUMBERS, UNITS, stem, undoubled

JACCARD = 0.9
"""Of the sets of lower-case words; above it two texts are duplicates, whatever their vectors."""

LONGEST_TEXT = 3_000
"""Characters; longer texts are the same only when they are equal."""

NEARLY_VERBATIM = 0.6
"""Share of the content words of the shorter text that the other one has too."""

_NOT_NUMBERS = frozenset({"one"})
"""Mostly a pronoun."""
_WORD = re.compile(r"[^\W_]+(?:['’][a-z]+)?")
_IDENTIFIER = re.compile(
    r"`[^`]+`|\b[A-Za-z]\w*(?:[._/-]\w+)*_\w+(?:[.]\w+)*\b|\b\w+(?:\.\w+)+\b(?:\(\))?|\b\w+\(\)|\b[a-z]+[A-Z]\w*\b|\b(?:[A-Z][a-z0-9]+){2,}\b"
    r"|(?<!\w)[/~][\w./-]+|\b[A-Z]{2,}\b|(?<=[a-z,] )[A-HJ-Z]\b"
)
_TOKEN = re.compile(rf"(?P<identifier>{_IDENTIFIER.pattern})|(?P<word>{_WORD.pattern})")
_FOREIGN = re.compile(r"(?![\u0000-\u024f\u1e00-\u1eff])[^\W\d_]")
"""A letter that is not Latin."""
_OPERATOR = re.compile(r"(?<=\s)(?:[<>]=?|[≤≥]|[=!]=)(?=\s|\d)")
_WHEN = re.compile(r"\b(before|after|when|whenever|once|if|unless|while|until|for|to)\b", re.IGNORECASE)
_THEN = re.compile(r"\b(then|next|afterwards)\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:%|\b|(?=st|nd|rd|th)|(?=[a-z]))|(?<=\bv)\d+\b")
_NAME = re.compile(r"(?<=[a-z,;] )['\"“]?([A-Z][A-Za-z0-9-]+)")
"""A capitalised word inside a sentence."""


class Marks(NamedTuple):
    """What must agree between two texts that teach the same."""

    numbers: frozenset[str]
    negations: int
    """How many words negate the meaning."""
    identifiers: frozenset[str]


@lru_cache(maxsize=65_536)
def words(text: str) -> frozenset[str]:
    """Return the lower-case words of a text."""
    return frozenset(_WORD.findall(text.lower()))


def _word_list(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def jaccard(a: str, b: str) -> float:
    """Divide the shared words by all words.

    Examples:
        >>> jaccard("Check the balance first", "check the balance")
        0.75
    """
    left, right = words(a), words(b)
    return len(left & right) / len(left | right) if left or right else float(a == b)


@lru_cache(maxsize=65_536)
def marks(text: str) -> Marks:
    """Find numbers, negations and identifiers of a text.

    Examples:
        >>> marks("Never call `refund` more than two times")
        Marks(numbers=frozenset({'2'}), negations=1, identifiers=frozenset({'refund'}))
    """
    text = _calm(text)
    identifiers = {_bare(found) for found in _IDENTIFIER.findall(text)}
    plain = _IDENTIFIER.sub(" ", text)
    spoken = _WORD.findall(plain.lower())
    numbers = {found.replace(",", "").rstrip("%") for found in _NUMBER.findall(plain)}
    numbers |= {NUMBERS[word] for word in spoken if word in NUMBERS and word not in _NOT_NUMBERS}
    numbers |= {word.removesuffix("s") for word in spoken if word in UNITS} - {"may", "second", "m"}
    identifiers |= {found for found in _NAME.findall(plain) if found.lower() not in UNITS | {"api", "apis", "i"}}
    negations = sum(word in NEGATIVE or word.endswith(("n't", "n’t")) for word in spoken)
    return Marks(frozenset(numbers), negations, frozenset(identifiers - {""}))


def _in_order(text: str) -> list[str]:
    return [_bare(found) for found in _IDENTIFIER.findall(_calm(text))]


def _calm(text: str) -> str:
    """Return the text where NOT is no name, but the word that it is."""
    return _SHOUTED.sub(lambda found: found[0].lower() if found[0].lower() in _SPOKEN else found[0], text)


_SHOUTED = re.compile(r"\b[A-Z]{2,}\b")
_SPOKEN = NEGATIVE | CONNECTING


def _bare(identifier: str) -> str:
    return identifier.strip("`").removesuffix("()").strip()


def text_difference(a: str, b: str) -> str:
    """Say what keeps two texts apart, however near their vectors are; empty when nothing does.

    Examples:
        >>> text_difference("Retry after 10 s", "Retry after 30 s")
        'numbers: 10 / 30'
        >>> text_difference("Ask the user first.", "Do not ask the user first.")
        'a negation'
        >>> text_difference("Send it from Ana to Bo.", "Send it from Bo to Ana.")
        'the order of the same words'
    """
    if max(len(a), len(b)) > LONGEST_TEXT:
        return "" if a == b else "too long to compare"
    left, right = marks(a), marks(b)
    for what, here, there in (
        ("numbers", left.numbers, right.numbers),
        ("names", left.identifiers, right.identifiers),
    ):
        if here != there:
            return f"{what}: {_listed(here - there)} / {_listed(there - here)}"
    if left.negations != right.negations:
        return "a negation"
    if _in_order(a) != _in_order(b):
        return "the order of the names"
    return opposed(a, b) or _shifted(a, b) or _replaced(a, b) or _reordered(a, b) or _unknown_script(a, b)


def contradiction(a: str, b: str) -> str:
    """Find the difference that makes two similar texts different lessons; empty when there is none.

    Negations, names of tools, antonyms, force and order; not names of people, dates, numbers and other words, in which a
    lesson's examples may differ.

    Examples:
        >>> contradiction("Do refund the order, then tell Ana", "Do not refund the order, then tell Bo")
        'a negation'
        >>> contradiction("Refund the order, then tell Ana", "Refund the order, then tell Bo")
        ''
    """
    left, right = (frozenset(_in_order(text)) for text in (a, b))
    if left != right:
        return f"names: {_listed(left - right)} / {_listed(right - left)}"
    if marks(a).negations != marks(b).negations:
        return "a negation"
    return opposed(a, b) or _shifted(a, b) or _reordered(a, b)


def _listed(items: frozenset[str]) -> str:
    return ", ".join(sorted(items)) or "-"


def opposed(a: str, b: str) -> str:
    """Find in two texts of nearly the same words a word and its antonym."""
    left, right = words(a) - words(b), words(b) - words(a)
    for one in left:
        for other in right:
            if frozenset((one, other)) in ANTONYMS or _prefixed(one, other):
                return f"antonyms: {one} / {other}"
    return ""


def _prefixed(one: str, other: str) -> bool:
    """Check whether two words are a word and its negated form: `able` and `unable`, `connect` and `disconnect`."""
    short, long = sorted((one, other), key=len)
    return long in {f"{prefix}{short}" for prefix in ("un", "dis", "in", "im", "non", "de", "ir", "mis")}


def _stems(text: str) -> list[str]:
    """Return the content words, without their endings; names and calls whole."""
    found: list[str] = []
    for match in _TOKEN.finditer(text):
        if match["identifier"]:
            found.append(_bare(match["identifier"]).lower())
        elif (word := match["word"].lower().replace("’", "'").removesuffix("'s")) not in CONNECTING:
            found.append(undoubled(stem(word)))
    return found


def _replaced(a: str, b: str) -> str:
    """Find in texts of nearly the same words the content word that stands for another one and changes what is taught."""
    left, right = _stems(a), _stems(b)
    lost, gained = set(left) - set(right), set(right) - set(left)
    if not (lost and gained):
        return ""
    shared = len(set(left) & set(right)) / max(1, min(len(set(left)), len(set(right))))
    swaps = [
        (left[i1:i2], right[j1:j2])
        for kind, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
        if kind == "replace" and set(left[i1:i2]) & lost and set(right[j1:j2]) & gained
    ]
    if shared >= NEARLY_VERBATIM and swaps and len(lost) + len(gained) <= 2 * len(swaps) + 2:
        return f"other words: {' '.join(swaps[0][0])} / {' '.join(swaps[0][1])}"
    return ""


def _reordered(a: str, b: str) -> str:
    """Check for the same content in another order; only a temporal clause may change its place."""
    left, right = _stems(a), _stems(b)
    if left == right or sorted(left) != sorted(right):
        return ""
    if any(left[i:] + left[:i] == right for i in range(1, len(left))) and _says_when(a) and _says_when(b):
        return ""  # "before X do Y" is "do Y before X", but "X, then Y" is not "Y, then X"
    return "the order of the same words"


def _says_when(text: str) -> bool:
    """Check whether one of two clauses is only a condition of the other; then either may come first, in its own words."""
    return bool(_WHEN.search(text)) and not _THEN.search(text)


def _shifted(a: str, b: str) -> str:
    """Find another force, scope or joint: `may` in the place of `must`, `any` of `all`, `or` of `and`, `<` of `>`."""
    left, right = (frozenset(_word_list(text)) | frozenset(_OPERATOR.findall(text)) for text in (a, b))
    for kinds in FORCES:
        here, there = ([kind for kind in kinds if kind & found] for found in (left, right))
        mine, theirs = [k for k in here if k not in there], [k for k in there if k not in here]
        if mine and theirs:
            return f"another force: {min(mine[0] & left)} / {min(theirs[0] & right)}"
    return ""


def _unknown_script(a: str, b: str) -> str:
    """Keep words of other scripts apart, which have no stems, antonyms and negations here: only the same words are the
    same."""
    foreign = any(_FOREIGN.search(text) for text in (a, b))
    return "words of another script" if foreign and _word_list(a) != _word_list(b) else ""
