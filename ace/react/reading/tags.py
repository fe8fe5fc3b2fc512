"""Tags in a text, as a tree: what a model writes as XML need not be XML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ace.react.reading.objects import MAX_DEPTH
from ace.react.reading.words import word

MAX_TAGS = 5_000
"""Tags of a reply that are read."""

_TAG = re.compile(r"<(/?)([A-Za-z_][\w.:-]{0,60})((?:[ =][^<>]{0,200})?)(/?)>")
_ATTRIBUTE = re.compile(r"(?:\bname\s*=|^=)\s*[\"']?([\w.:-]{1,80})")


@dataclass
class Node:
    """A tag: its name, the name that it gives as an attribute, where it and its inside begin, and its end (-1: nowhere)."""

    text: str
    name: str
    attribute: str | None
    begin: int
    start: int
    end: int
    children: list[Node]

    @property
    def closed(self) -> bool:
        """Whether it comes to an end."""
        return self.end >= 0

    @property
    def inside(self) -> str:
        """What stands in it."""
        return self.text[self.start : self.end].strip()

    @property
    def source(self) -> str:
        """The tag as it was written; of the whole text, what reaches from its first tag to its last."""
        inner = self.children if not self.name else [self]
        return self.text[inner[0].begin : max(node.end for node in inner)] if inner else ""

    @property
    def value(self) -> Any:
        """What stands in it: text, the tags in it by name, or a list where all have one name."""
        names = {child.name for child in self.children}
        if not self.children or not all(child.closed for child in self.children):
            return html.unescape(self.inside)
        if len(names) == 1 and (len(self.children) > 1 or names <= {"item", "li", "element", "value"}):
            return [child.value for child in self.children]
        return self.parts()

    def parts(self) -> dict[str, Any]:
        """The tags in it as values: ``<args><key>a</key></args>``."""
        return {child.attribute or child.name: child.value for child in self.children if child.closed}


def tree(text: str) -> Node:
    """The tags of a text in a root of their own, `tree("<a>1</a>").children`; one never closed holds what follows."""
    root = Node(text, "", None, 0, 0, len(text), [])
    stack = [root]
    for match in islice(_TAG.finditer(text), MAX_TAGS):
        name = word(match[2])
        if match[1]:
            depth = next((d for d in range(len(stack) - 1, 0, -1) if stack[d].name == name), 0)
            if depth:
                stack[depth].end = match.start()
                del stack[depth:]
            continue
        attribute = _ATTRIBUTE.search(match[3])
        node = Node(text, name, attribute[1] if attribute else None, match.start(), match.end(), -1, [])
        stack[-1].children.append(node)
        if match[4]:
            node.end = match.end()
        elif len(stack) < MAX_DEPTH:
            stack.append(node)
    return root


def walk(root: Node) -> Iterator[Node]:
    """All tags, `list(walk(tree(text)))`: an outer one before those in it."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))
