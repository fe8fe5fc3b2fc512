"""Replies in shapes that a person can read, and some that nobody should complete: for `replies.py` and the tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("refund", {"order_id": "A-17", "amount": 12.5}),
    ("find_order", {"customer": "Ann O'Neill", "open_only": True}),
    ("send_note", {"to": "ann@example.com", "body": 'Dear Ann,\n"soon" means {today}; see [1].', "tags": ["a", "b"]}),
)
"""Each shape is written with each of these calls."""

SHAPES, OWN_SHAPES, TAUGHT_SHAPES = json.loads(Path(__file__).with_suffix(".json").read_bytes()).values()
"""By name how a call is written: by models that were taught the fields of the old ReAct or those of another framework; in
the form that prompts of ours and of `dspy.ReActV2` show; and in the formats that models were trained on, which some servers
hand on as text."""
TAGS = {
    "tags": "<{key}>{value}</{key}>",
    "tag_lines": "<{key}>{value}</{key}>\n",
    "named": "<parameter name={key}>{value}</parameter>",
    "quoted_lines": '<parameter name="{key}">{value}</parameter>\n',
    "equal": "<parameter={key}>{value}</parameter>",
    "equal_lines": "<parameter={key}>\n{value}\n</parameter>\n",
}


def written(shape: str, name: str, args: dict[str, Any]) -> str:
    """Write a call in a shape."""
    text, indented = json.dumps(args), json.dumps(args, indent=2)
    plain = {key: value if isinstance(value, str) else json.dumps(value) for key, value in args.items()}
    return Template(shape).substitute(
        {which: "".join(tag.format(key=k, value=v) for k, v in plain.items()) for which, tag in TAGS.items()},
        name=name,
        NAME=name.upper(),
        args=text,
        inner=text[1:-1],
        open=text[:-1],
        string=json.dumps(text),
        python=repr(args),
        titled=json.dumps({key.title(): value for key, value in args.items()}),
        keywords=", ".join(f"{key}={value!r}" for key, value in args.items()),
        json_keywords=", ".join(f"{key}={json.dumps(value)}" for key, value in args.items()),
        wide=json.dumps(args, indent=4).replace("\n", "\n" + " " * 8),
        **{f"indented_{depth}": indented.replace("\n", "\n" + " " * depth) for depth in (0, 2, 6, 8)},
    )


TWO_CALLS = frozenset(
    {"JSON list of two", "two objects", "turn with two calls", "turn as JSON with two calls"}
    | {"lines", "lines with a blank one between", "lines in a fence", "Hermes, two calls", "Llama, pythonic, two calls"}
)
"""Shapes with a second call, of `list_orders`."""


@dataclass(frozen=True)
class Reply:
    """A reply, and the call that a person reads in it; None where there is none."""

    shape: str
    text: str
    call: tuple[str, dict[str, Any]] | None

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """All calls that a person reads in it."""
        more = [("list_orders", dict[str, Any]())] if self.shape.removesuffix(", cut") in TWO_CALLS else []
        return [self.call, *more] if self.call else []


def readable() -> Iterator[Reply]:
    """Yield every shape with every call."""
    for title, shape in (SHAPES | OWN_SHAPES | TAUGHT_SHAPES).items():
        for name, args in CALLS:
            yield Reply(title, written(shape, name, args), (name, args))


def cut_off(every: int = 7) -> Iterator[Reply]:
    """Yield every readable reply, cut at every seventh place: whatever is read must be the whole call, or none."""
    for number, reply in enumerate(readable()):
        for end in range(number % every, len(reply.text), every):
            yield Reply(f"{reply.shape}, cut", reply.text[:end], reply.call)


def hostile(size: int = 1_000_000) -> Iterator[Reply]:
    """Yield long and malformed replies of about `size` characters."""
    parts = {
        "braces": "{",
        "objects in objects": '{"a":',
        "lists of objects": "[{",
        "tags": "<a>",
        "markers": "[[ ## next_tool_name ## ]]\n",
        "markers begun": "[[ ",
        "quotes": '"',
        "broken objects": '{"a" 1} ',
        "fences": "```json\n",
        "labels": "Action: refund\n",
        "calls begun": "refund(",
        "apostrophes": "{'a': '",
        "escaped quotes": '\\"',
        "words": "word ",
        "names": '{"name": "refund", "arguments": {"order_id": ',
    }
    for shape, part in parts.items():
        yield Reply(f"{shape}, {size:,} characters", part * (size // len(part)), None)
    for braces in range(1, 251, 83):
        yield Reply(f"{braces} braces", "{" * braces, None)
