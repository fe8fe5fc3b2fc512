"""No regular expression of the package takes long over a text that repeats one character."""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import pkgutil
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue]  # the tree of a pattern has no public name
from types import ModuleType
from typing import Any

import ace

ROOT = Path(ace.__file__).parent
LENGTH = 20_000
CHARACTERS = " \t\n\u00a0_-.,:;=+*#@/\\|&%$~^!?<>()[]{}'\"`aZ0é\u0301"
"""One of each class that a pattern may name."""
WORTH_A_LOOK = 0.03
"""Seconds over the whole text; a pattern whose time grows with the square takes ten times as long."""
GROWTH = 9
"""Four times the text takes a linear pattern four times as long, and one whose time grows with the square sixteen times."""
ENOUGH = 0.5
"""Seconds after which a pattern is slow, however its time grows."""
_BORDERS = ("match", "fullmatch")
_CALLS = {"search", "sub", "subn", "split", "findall", "finditer", *_BORDERS}


def _how(call: str) -> str:
    return call if call in _BORDERS else "search"


def _flags(argument: ast.expr) -> list[str]:
    return re.findall(r"(?<![\w.])re\.([A-Z]+)\b", ast.unparse(argument))


def _written(path: Path) -> Iterator[tuple[re.Pattern[str], str]]:
    """The patterns that a file spells out in a call of `re`, and how they are used."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        pattern = node.args[0]
        if node.func.attr in _CALLS and ast.unparse(node.func.value) == "re" and isinstance(pattern, ast.Constant):
            given = {name for flags in node.args[1:] + [k.value for k in node.keywords] for name in _flags(flags)}
            yield re.compile(pattern.value, sum(re.RegexFlag[name] for name in given)), _how(node.func.attr)


def _held(value: Any, depth: int = 3) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    elif depth and isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _held(item, depth - 1)
    elif depth and isinstance(value, dict):
        for item in (*value, *value.values()):
            yield from _held(item, depth - 1)
    elif depth and isinstance(value, type) and value.__module__.startswith("ace."):
        yield from _held(dict(vars(value)), depth - 1)


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(ace.__path__, "ace."):
        if found.name.endswith("__main__") or ".migrations" in found.name:
            continue
        try:
            yield importlib.import_module(found.name)
        except ModuleNotFoundError:  # of an extra
            continue


def patterns() -> Iterator[tuple[re.Pattern[str], str]]:
    """Every pattern of the package with each way in which it is used: to search, or from a text's beginning."""
    for path in ROOT.rglob("*.py"):
        yield from _written(path)
    for module in _modules():
        source = inspect.getsource(module)
        for name, value in vars(module).items():
            calls = set(re.findall(rf"(?<![\w.]){re.escape(name)}\.(\w+)\(", source)) & _CALLS
            for pattern in _held(value):
                yield from ((pattern, how) for how in {_how(call) for call in calls} or {"search"})


def openings(pattern: str, flags: int) -> set[str]:
    """What stands before each part of a pattern that repeats, spelled as shortly as it allows."""
    found = {"", "a"}

    def spell(items: Any, before: str) -> str:
        for kind, given in items:
            name = str(kind)
            if name == "LITERAL":
                before += chr(given)
            elif name in ("ANY", "NOT_LITERAL"):
                before += "b"
            elif name == "IN":
                compiled = [c for c in "ab1 -_." if _in(given, c)]
                before += compiled[0] if compiled else ""
            elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
                least, most, inner = given
                found.update({before, spell(inner, before)} if most > 100 else ())
                for _ in range(least):
                    before = spell(inner, before)
            elif name == "SUBPATTERN":
                before = spell(given[3], before)
            elif name == "BRANCH":
                before, *_ = [spell(branch, before) for branch in given[1]]
            elif name in ("ASSERT", "ATOMIC_GROUP"):
                spell(given[1] if name == "ASSERT" else given, before)
        return before

    spell(parser.parse(pattern, flags), "")
    return found


def _in(items: Any, character: str) -> bool:
    """Whether a character is in a set of a parsed pattern."""
    classes = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
    negated, inside = False, False
    for kind, given in items:
        name = str(kind)
        negated = negated or name == "NEGATE"
        inside = inside or (name == "LITERAL" and chr(given) == character)
        inside = inside or (name == "RANGE" and given[0] <= ord(character) <= given[1])
        if name == "CATEGORY":
            _, *no, of = str(given).split("_")
            inside = inside or bool(re.match(classes[of], character)) != bool(no)
    return inside != negated


def seconds(pattern: re.Pattern[str], how: str, text: str) -> float:
    """How long a pattern takes over a text; infinite when it is interrupted."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, ENOUGH)
    began = time.process_time()
    try:
        getattr(pattern, how)(text)
        return time.process_time() - began
    except TimeoutError:
        return math.inf
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def slow(pattern: re.Pattern[str], how: str) -> str:
    """The first text over which the time of a pattern grows faster than the text; empty for none."""
    for opening in openings(pattern.pattern, pattern.flags):
        for character in CHARACTERS:
            # twice: a machine that stops for a moment makes any pattern slow once
            if all(_grows(pattern, how, opening, character) for _ in range(2)):
                return f"{opening!r} and {LENGTH} times {character!r}"
    return ""


def _grows(pattern: re.Pattern[str], how: str, opening: str, character: str) -> bool:
    for length in (
        LENGTH // 8,
        LENGTH,
    ):  # most patterns need not be tried over the whole text to see that they are linear
        taken = seconds(pattern, how, f"{opening}{character * length}\u0001")
        if taken < WORTH_A_LOOK * (length / LENGTH) ** 2:
            return False
        if taken == math.inf:
            return True
        if taken < GROWTH * seconds(pattern, how, f"{opening}{character * (length // 4)}\u0001"):
            return False
    return True


def test_finds_patterns_whose_time_grows_faster_than_the_text() -> None:
    for text, how in (
        (r"^\s*[-*]?\s*([\w ./-]{1,40})\s*[:=]\s*(.+?)\s*,?\s*$", "match"),
        (r"\s+$", "search"),
        (r"(?:then|and)\s*,?\s+(?=\w)", "search"),
        (r"(\w+_?)+:", "match"),
    ):
        # a machine that stops for a moment over the short text hides how much longer the long one takes
        assert any(slow(re.compile(text), how) for _ in range(5)), text
    assert not slow(re.compile(r"\s+$"), "match")
    assert not slow(re.compile(r"[\w.]{1,128}@"), "search")


def test_no_pattern_takes_long_over_one_character_repeated() -> None:
    found = {(pattern.pattern, pattern.flags, how): pattern for pattern, how in patterns()}
    assert len(found) > 100
    late = {text: where for (text, _, how), pattern in found.items() if (where := slow(pattern, how))}
    assert not late
