"""From a reply to the calls that stand in it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

from ace.react.reading.objects import CUT, MAX_TRIES, NOTHING, OBJECT, balanced, found, is_list, is_object, strict
from ace.react.reading.tags import Node, tree, walk
from ace.react.reading.tools import Tools, fenced, literal_arguments, placeholder, unfenced
from ace.react.reading.words import ANY, OWN, WRAPPERS, Words, plain, word

MAX_CHARS = 4_000_000
"""Of a longer reply nothing is read."""
MAX_HEADINGS = 2_000
"""Headings of a reply that are read."""
_CALLING_TAGS = WRAPPERS | {"", "invoke", "function", "tool", "action"}

_NAMES = {"own": r"next_thought|next_tool_name|next_tool_args|tool_calls|completed", "marked": r"[A-Za-z][\w ]{0,40}?"}
_NAMES["any"] = "|".join(
    name.replace("_", r"(?:[ _]|\\_)")
    for name in sorted({*ANY.all, "observation", "final_answer", "answer", "completed"}, key=len, reverse=True)
)
_MARKER = rf"\[\[\s{{0,3}}##\s{{0,3}}({_NAMES['marked']})\s{{0,3}}##\s{{0,3}}\]\][*:]{{0,3}}"
_MARKED = re.compile(rf"^[ \t>*-]{{0,8}}{_MARKER}", re.M)
_MARKED_ANYWHERE = re.compile(_MARKER)
# the field alone on its line, or before a colon: whatever brackets and hashes stand around it
_OWN_HEADING = re.compile(
    rf"^[^\w\n<{{\"']{{0,12}}(?:\{{\{{[ #]{{0,6}})?({_NAMES['own']})(?:[^\w\n\"'`{{(]{{1,14}}|[ \t]*$)", re.M | re.I
)
_LABELLED = re.compile(
    rf"^[^\w\n<{{\"']{{0,12}}({_NAMES['any']})(?:[ ]?\d{{1,2}})?"
    rf"(?:[ \t*_`]{{0,4}}[:=][*_]{{0,3}}|[ \t]*\]\]|[ \t]*#{{1,4}}[ \t]*$)"
    rf"|^[ \t]*#{{1,4}}[ \t]*({_NAMES['any']})[ \t:]*$",
    re.M | re.I,
)
_OWN_WORD = re.compile(r"(\S?)\s?next_(?:thought|tool_name|tool_args)", re.I)
_OWN_OBJECT = re.compile(r"""\{\s{0,500}["']?next_(?:thought|tool_name|tool_args)["']?\s{0,20}:""")

OWN_SHAPES = 4
"""The first shapes, which read the fields that were asked for."""
_NAME = re.compile(r"[A-Za-z_][\w.:/-]{0,127}")
"""What may be a tool's name."""


@dataclass(frozen=True)
class Written:
    """A call as it was written, `Written("look_up", {"key": "a"})`: nothing about it is checked."""

    name: Any
    args: Any
    source: str = field(default="", compare=False, repr=False)
    """Where in the reply it stands."""


@dataclass(frozen=True)
class Reading:
    """What a reply says, `Reading("look it up", (Written("look_up", {"key": "a"}),))`."""

    thought: str = ""
    calls: tuple[Written, ...] = ()
    cut: bool = False
    """Whether a call was begun that does not come to an end, and none before it does."""

    @classmethod
    def of(cls, thought: str, calls: Sequence[Any]) -> Reading:
        """Calls in their order, up to `CUT`; one that only repeats the one before counts once."""
        whole: list[Written] = []
        for call in calls:
            if call is CUT:
                break
            if not whole or whole[-1] != call:
                whole.append(call)
        return cls(thought, tuple(whole), bool(calls) and not whole)


Shape = Callable[[str], Reading]
"""Reads the calls that a reply holds in one shape."""


class CallReader:
    """Reads replies of a model that may call some tools.

    Args:
        schemas: The tools' names to the JSON Schemas of their arguments.

    Examples:
        >>> reader = CallReader({"look_up": {"type": "object", "properties": {"key": {"type": "string"}}}})
        >>> reader.read('I need it. {"tool": "Look_Up", "arguments": {"key": "a"}}').calls
        (Written(name='look_up', args={'key': 'a'}),)
    """

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self.tools = Tools(schemas)

    def read(self, text: str, shown: Callable[[], str] = str) -> Reading:
        """The calls of a reply: those in the fields that were asked for, else those of the first shape with a known tool.

        Args:
            text: The reply.
            shown: Gives the prompt's data. A call in another shape that stands there word for word is a quotation.
        """
        nearest = Reading()
        if len(text) > MAX_CHARS:
            return nearest
        text = _unescaped(text)
        for number, shape in enumerate(self._shapes(text, shown)):
            try:
                reading = shape(text)
            except RecursionError:
                continue
            # after a call that is cut off, another shape might take a part of its arguments for a call
            if reading.cut or (reading.calls and self.knows(reading.calls[0])):
                return reading
            if reading.calls and number < OWN_SHAPES and _NAME.fullmatch(str(reading.calls[0].name)):
                return (
                    reading  # what the asked fields name is meant, right or wrong, and no call that a thought tells of
                )
            if reading.calls and not nearest.calls:
                nearest = reading
        return nearest

    def _shapes(self, text: str, shown: Callable[[], str]) -> Iterator[Shape]:
        asked: dict[str, Shape] = {
            "marker": lambda text: self._sections(_split(text, _MARKED), ANY),
            "marker in a line": lambda text: self._sections(_split(text, _MARKED_ANYWHERE), ANY),
            "tag": lambda text: self._tags(text, OWN),
            "object": lambda text: self._objects(text, OWN),
        }
        # the shape that the reply begins with: an argument may hold the text of another
        own = _OWN_WORD.search(text)
        begun = {"<": "tag", '"': "object", "'": "object", "{": "object"}.get(own[1] if own else "", "marker")
        yield asked.pop(begun)
        yield from asked.values()  # `OWN_SHAPES` so far
        yield lambda text: self._sections(_split(text, _OWN_HEADING), OWN)
        yield lambda text: self._sections(_numbered(_split(text, _MARKED)), ANY)
        others: tuple[Shape, ...] = (
            lambda text: self._tags(text, ANY),
            lambda text: self._sections(_split(text, _LABELLED), ANY),
            lambda text: self._objects(text, ANY),
            self._begun,
            self._code,
        )
        for shape in others:
            yield partial(_not_quoted, shape, shown)

    def has(self, name: str) -> bool:
        """Whether there is a tool of exactly that name."""
        return self.tools.has(name)

    def knows(self, call: Written) -> bool:
        """Whether it names a tool and has an object of arguments."""
        return self.has(call.name) and is_object(call.args)

    def mentions(self, text: str) -> bool:
        """Whether a tool's name stands in a text, `reader.mentions(reply)`."""
        return any(name in text for name in self.tools.schemas)

    # -- headings, and what stands under them -----------------------------------------------------------------------------

    def _sections(self, sections: Sequence[Section], words: Words) -> Reading:
        """Calls from headed sections: a name, and the arguments next to it."""
        thought = next((section.body for section in sections if section.heading in words.thought and section.body), "")
        pairs = _Pairs(self.tools)
        for section in sections:
            if CUT in pairs.calls:
                break
            if section.heading == "tool_calls" and section.body:
                inside = self._objects(section.body, ANY)
                pairs.calls.extend([*inside.calls, *([CUT] if inside.cut or not inside.calls else [])])
            elif section.heading in words.name and section.body and not placeholder(section.body):
                self._named(section, pairs)
            elif section.heading in words.args and (section.body or section.after not in words.args):
                pairs.argued(section)
        return Reading.of(thought, pairs.calls)

    def _named(self, section: Section, pairs: _Pairs) -> None:
        """A name, or a whole call in its place."""
        inside = self._objects(section.body, ANY)
        if not inside.calls and not inside.cut:
            inside = self._begun(section.body)
        if not inside.calls and not inside.cut:
            code = self._code(section.body)  # ``look_up()`` is a name as well
            inside = code if any(call.args for call in code.calls) else inside
        if inside.calls or inside.cut:
            pairs.calls.extend([*inside.calls, *([CUT] if inside.cut else [])])
        elif section.after or pairs.held is not None:
            pairs.named(section)
        else:
            pairs.calls.append(CUT)  # the name may be cut off as well

    # -- tags -----------------------------------------------------------------------------------------------------------

    def _tags(self, text: str, words: Words) -> Reading:
        nodes = list(walk(tree(text))) if "<" in text else []
        thought = next((node.inside for node in nodes if node.name in words.thought and node.closed), "")
        calling = [node for node in nodes if words is OWN or node.name in _CALLING_TAGS or node.name.endswith("call")]
        calls = [self._tagged(node, words) for node in calling]
        return Reading.of(thought, [call for call in calls if call is not None])

    def _tagged(self, node: Node, words: Words) -> Any:
        """The call that a tag holds; None for none, `CUT` for one that does not come to an end."""
        names = [
            child for child in node.children if child.name in words.name and not (child.attribute or child.children)
        ]
        attribute = node.attribute if words is ANY else None
        written = attribute or next((child.inside for child in names if child.closed), None)
        if written is None:
            return None
        name = self.tools.name(written)
        own = next((child for child in node.children if child.name in words.args and not child.attribute), None)
        if own is None and words is OWN:
            return None
        args = self._of_tags(node, own, name)
        return (
            args
            if args is CUT or args is None
            else Written(name, self.tools.arguments(name, args, as_text=True), node.source)
        )

    def _of_tags(self, node: Node, own: Node | None, name: Any) -> Any:
        """The arguments of a call in tags: under a tag of theirs, one tag for each, or right in the call's tag."""
        if own is not None:
            inside = own.inside if own.closed else own.text[own.start : node.end if node.closed else len(own.text)]
            value = self.tools.body(name, inside, followed=own.closed)
            return value if value is CUT or is_object(value) else own.parts()
        parts = [child for child in node.children if child.attribute or child.name in ("parameter", "param", "arg")]
        if parts:
            closed = node.closed and all(part.closed for part in parts)
            return {part.attribute or part.name: part.value for part in parts} if closed else CUT
        if not node.closed:
            return CUT if node.attribute else None
        value: Any = strict(unfenced(node.inside)) if node.inside else {}
        return value if is_object(value) and self.has(name) and node.name else None

    # -- objects --------------------------------------------------------------------------------------------------------

    def _objects(self, text: str, words: Words) -> Reading:
        """Calls from JSON objects anywhere in a text; those in fences first."""
        for part in (*fenced(text), text) if "{" in text else ():
            thought, calls, own = "", list[Any](), dict[str, Any]()
            for item in found(part, _OWN_OBJECT if words is OWN else OBJECT):
                value = item.value
                if words is OWN and is_object(value):  # one object for each field is one call as well
                    own = {**({} if OWN.name & own.keys() and OWN.args & own.keys() else own), **value}
                    value = own if item.unclosed == frozenset() else value
                    if not (OWN.name & value.keys() and OWN.args & value.keys()):
                        continue
                thought = thought or _thought(value)
                source = part[item.start : item.end]
                for call in [CUT] if value is CUT else self._of_object(value, item.unclosed):
                    calls.append(CUT if call is CUT else replace(call, source=source))
            if calls:
                return Reading.of(thought, calls)
        return Reading()

    def _of_object(self, value: Any, unclosed: frozenset[int], depth: int = 0) -> Iterator[Any]:
        """The calls that an object is or wraps."""
        if depth and isinstance(value, str):
            value = strict(value)
        if is_list(value):
            for item in value:
                yield from self._of_object(item, unclosed, depth + 1)
        elif is_object(value) and depth < 5:
            own = value
            fields = {word(key): item for key, item in own.items()} | {plain(key): item for key, item in own.items()}
            names = [key for key, item in fields.items() if key in ANY.name and _a_name(item)]
            if names:
                named = next((key for key in names if self.has(self.tools.name(_a_name(fields[key])))), names[0])
                yield from self._flat(own, fields, named, unclosed)
            else:
                yield from self._wrapped(own, fields, unclosed, depth)

    def _wrapped(
        self, own: dict[str, Any], fields: dict[str, Any], unclosed: frozenset[int], depth: int
    ) -> Iterator[Any]:
        for key, item in fields.items():
            inner = list(self._of_object(item, unclosed, depth + 1)) if key in WRAPPERS | ANY.name else []
            if inner:
                yield from inner
                return
        for key, item in own.items():  # {"look_up": {"key": "a"}}
            if is_object(item) and self.has(self.tools.name(key)):
                name = self.tools.name(key)
                yield CUT if id(item) in unclosed else Written(name, self.tools.arguments(name, item))

    def _flat(self, own: dict[str, Any], fields: dict[str, Any], named: str, unclosed: frozenset[int]) -> Iterator[Any]:
        """The call of an object that names a tool; its arguments are in a field, or beside the name."""
        name = self.tools.name(_a_name(fields[named]))
        key = next((key for key in fields if key in ANY.args), None)
        if key is not None:
            args: Any = {} if fields[key] is None else fields[key]
            if _is_schema(args, self.tools.properties(name)):
                return  # the tool's description, not a call
        else:
            known = {plain(other) for other in self.tools.properties(name)} - {named}
            args = {key: value for key, value in own.items() if plain(key) in known}
            if not args and not self.has(name) and len(own) > 1:
                return
        open_ended = id(args) in unclosed or (key is None and id(own) in unclosed)
        yield CUT if open_ended else Written(name, self.tools.arguments(name, args))

    # -- a name, then its arguments ---------------------------------------------------------------------------------------

    @cached_property
    def _name_first(self) -> re.Pattern[str]:
        # at the beginning of a line, or right after a special token: not in the middle of prose
        before = r"(?:^[ \t>$]{0,6}|(?<=[\]>|])|call:|to=)(?:functions\.|tools\.|default_api\.|print\()*"
        between = r"(?::\d{1,3})?[ \t]{0,4}(?:\[CALL_ID\]\w{1,40})?"
        between += r"(?:[:\[ \t]{0,4}|[ \t]*\n{1,2}|[ \t]*[<\[][^{}\n]{1,60}[\]>])"
        return re.compile(rf"{before}({self.tools.pattern}){between}(?:```\w*\s*)?(?=\{{)", re.M)

    def _begun(self, text: str) -> Reading:
        """Calls that are a tool's name and an object: ``look_up {"key": "a"}``, as many models' own formats have it."""
        calls: list[Any] = []
        position = tries = 0
        left = 2 * len(text)  # what may be looked through: an object that does not end is looked for to the very end
        while "{" in text and tries < MAX_TRIES and (match := self._name_first.search(text, position)) is not None:
            tries += 1
            rest = text[match.end() :]
            if (left := left - len(rest)) < 0:
                break
            item = next(found(rest, re.compile(r"\{")), None)
            if item is not None:
                left += len(rest) - item.end
            if item is None or item.start != 0:
                position = match.end()
                continue
            if item.value is CUT or item.unclosed:
                calls.append(CUT)
                break
            position = match.end() + item.end
            keys = {plain(key) for key in self.tools.properties(match[1])}
            if all(plain(str(key)) in keys for key in item.value):
                args = self.tools.arguments(match[1], item.value)
                calls.append(Written(match[1], args, text[match.start() : position]))
        return Reading.of("", calls)

    # -- code -----------------------------------------------------------------------------------------------------------

    @cached_property
    def _as_code(self) -> re.Pattern[str]:
        before = r"^[ \t>$`\[]{0,6}(?:<\|[\w]{1,30}\|>)?(?:print\(|await |functions\.|tools\.|default_api\.)*"
        return re.compile(rf"{before}({self.tools.pattern})(?:\.call)?\s{{0,3}}\(", re.I | re.M)

    def _code(self, text: str) -> Reading:
        """Calls as a programmer writes them, each at the beginning of a line: ``look_up(key="a")``."""
        calls: list[Any] = []
        position = tries = 0
        while tries < MAX_TRIES and (match := self._as_code.search(text, position)) is not None:
            tries += 1
            position, stack = balanced(text, match.end() - 1)
            if stack:
                calls.append(CUT)
                break
            name = self.tools.name(match[1])
            args = literal_arguments(text[match.end() - 1 : position], list(self.tools.properties(name)))
            if args is not None:
                calls.append(Written(name, args, text[match.start() : position]))
        return Reading.of("", calls)


@dataclass(frozen=True)
class Section:
    """A heading, what stands under it, and the heading that follows."""

    heading: str
    body: str
    after: str
    source: str
    """Heading and body as they were written."""


@dataclass
class _Pairs:
    """Puts names and arguments together, whichever comes first."""

    tools: Tools
    calls: list[Any] = field(default_factory=list[Any])
    name: Any = None
    held: Section | None = None
    source: str = ""

    def named(self, section: Section) -> None:
        """A name stands there."""
        self.name, self.source = self.tools.name(section.body), section.source
        if self.held is not None:
            self._pair(self.held)

    def argued(self, section: Section) -> None:
        """Arguments stand there."""
        if self.name is not None:
            self._pair(section)
        elif not self.calls:
            self.held = section

    def _pair(self, section: Section) -> None:
        args = self.tools.body(self.name, section.body, followed=bool(section.after))
        if args is CUT:
            self.calls.append(CUT)
        elif args is not NOTHING:
            source = self.source + section.source
            self.calls.append(Written(self.name, self.tools.arguments(self.name, args), source))
            self.name, self.held = None, None


def _split(text: str, heading: re.Pattern[str]) -> list[Section]:
    headings = list(islice(heading.finditer(text), MAX_HEADINGS))
    ends = [match.start() for match in headings[1:]] + [len(text)]
    names = [word((match[1] or match[match.lastindex or 1]).replace("\\", "")) for match in headings] + [""]
    return [
        Section(names[index], text[match.end() : end].strip(), names[index + 1], text[match.start() : end])
        for index, (match, end) in enumerate(zip(headings, ends, strict=False))
    ]


def _numbered(sections: Sequence[Section]) -> list[Section]:
    """Sections by names without their numbers: ``tool_name_2``, as the trajectory has it, and ``nextToolName``."""
    names = [plain(re.sub(r"_\d+$", "", section.heading)) for section in sections] + [""]
    return [replace(section, heading=names[i], after=names[i + 1]) for i, section in enumerate(sections)]


def _unescaped(text: str) -> str:
    """The reply that a model wrote as a JSON string, with its line breaks spelled out, or with its tags escaped."""
    if text[:1] == '"' and isinstance(inner := strict(text), str):
        return inner
    if "\n" not in text and "##" in text:
        text = text.replace("\\n", "\n")
    return html.unescape(text) if "&lt;next_tool_name" in text else text


def _not_quoted(shape: Shape, shown: Callable[[], str], text: str) -> Reading:
    """A reading without the calls that stand in the prompt's data word for word: they are quoted, not made."""
    reading = shape(text)
    if not reading.calls:
        return reading
    data = _squeezed(shown())
    return replace(reading, calls=tuple(call for call in reading.calls if _squeezed(call.source) not in data))


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _a_name(value: Any) -> str:
    """A name, as text or in an object or a list of its own; empty for none."""
    if is_object(value) and len(value) == 1:
        return _a_name(value.get("name"))
    if is_list(value) and len(value) == 1:
        return _a_name(value[0])
    return value if isinstance(value, str) else ""


def _is_schema(args: Any, properties: Mapping[str, Any]) -> bool:
    return is_object(args) and args.get("type") == "object" and "properties" in args and "properties" not in properties


def _thought(value: Any) -> str:
    fields = value if is_object(value) else {}
    return next((item for key, item in fields.items() if word(key) in ANY.thought and isinstance(item, str)), "")
