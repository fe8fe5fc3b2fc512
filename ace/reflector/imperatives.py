"""How English asks for something: the one rule about a language in what decides whether a lesson is trusted.

A clause that begins with a verb, or a verb after a word such as *please*, *must* or *could you*. Which words are verbs is
not listed: a common word is one when the list of common words has it with -ing or -ed. Other languages are not read; what a
text asks for in them is found by the values that it holds alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from ace.core.language import FUNCTION_WORDS, NO_REQUESTS, VERBS, common_words

_WORD = r"(?:e-)?[A-Za-z]+"
_BARE = re.compile(
    r"(?:^\W*|--\s*|(?:[.:!?;]\s+|[>)\]]\s*|\n[^\S\n]*)(?:\d+[.)]\s*|\[.\]\s*|[-*]\s*)?|\b(?:then|and|also|first|now|just|immediately|always|"
    rf"instead|only|not)(?:\s*,)?\s+|,\s+(?={_WORD}(?:\s+\w+://|(?:\s+[^\s,]+){{3}})))(?=({_WORD}))",
    re.IGNORECASE,
)
"""Where a clause begins; after a comma only one of some length."""
_AFTER = re.compile(
    r"\b(?:please|kindly|must|should|shall|ha(?:ve|s) to|needs? to|"
    r"(?:want|like|ask|tell|told|require|expect|advise)(?:s|ed)? (?:you|someone|somebody|everyone|the \w+|them) to|"
    r"(?:can|could|would|will) (?:you|someone|somebody|whoever(?: \w+){1,3}?)|unless you|you can|you may|"
    r"(?:remember|sure|important|forget|kind as|favou?r|trouble|someone|somebody|whoever|necessary|required|left) to)"
    rf"\s+(?:(?:also|first|just|please|only|immediately)\s+)?(?=({_WORD}))",
    re.IGNORECASE,
)
"""What stands before a verb when somebody is asked."""
_PASSIVE = re.compile(
    r"\b(?:must|should|shall|ha(?:ve|s) to|needs? to|is to|are to)\s+be\s+(?=([a-z]+))", re.IGNORECASE
)
_NO_VERB = re.compile(
    r"\s+(?:(?-i:[a-z]{2,}ed)|is|was|has|had|have|will|can|are|were|of|and|or|sent|found|made|done|like|on\s+\d+)\b"
    r"|\s*[:=,]|[-._/@]\w|\s+#?\d+\s*$|\s*(?:[.!?]+\s*)?$|-"
    r"|\s+(?:beyond|because|since|due|than)\b|(?:\s+[\w-]+){1,2}:\s|\s+#?\d+\s+(?-i:[A-Z])"
    r"|\s+(?:[^\W\d]|-)*\d[\w-]*(?:\s*\([^)]*\))?\s+(?:is|was|has|have|are|were)\b",
    re.IGNORECASE,
)
"""What follows a word that is a noun here: "Email forwarded", "Total: 4", "Order W-1 was stopped"."""


def asking(sentence: str) -> Iterator[int]:
    """Find where a sentence asks for something: at the verb, or at what is to be done where that comes before it.

    Examples:
        >>> list(asking("The lamp is broken. Please refund order W-12."))
        [27]
        >>> list(asking("Total: 98.70 euros"))
        []
    """
    for found in _BARE.finditer(sentence):
        word = found[1].lower()
        if word not in NO_REQUESTS and is_verb(word) and not _NO_VERB.match(sentence, found.end(1)):
            yield found.end()
    for found in _AFTER.finditer(sentence):
        if found[1].lower() not in NO_REQUESTS - {"have", "look"}:
            yield found.end()
    yield from (found.start() for found in _PASSIVE.finditer(sentence))


@lru_cache(maxsize=10_000)
def is_verb(word: str) -> bool:
    """Check whether a word in lower case may be a verb.

    Examples:
        >>> [is_verb(word) for word in ("refund", "reschedule", "lamp", "apologise")]
        [True, True, False, True]
    """
    if word in VERBS:
        return True
    word = word.replace("e-", "")
    if word in FUNCTION_WORDS:
        return False
    known, stem = common_words(), re.sub(r"is(e?)$", r"iz\1", word).removesuffix("e")
    bases = {stem, word, word.removesuffix("e"), word + word[-1]}
    plural = {f"{word}s", f"{word}es", re.sub("y$", "ies", word)}
    past = {f"{base}ed" for base in (*bases, re.sub("y$", "i", word))}
    return any(f"{base}ing" in known for base in bases) or bool(past & known and plural & known)
