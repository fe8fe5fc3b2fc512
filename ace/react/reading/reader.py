"""From a reply to the calls that stand in it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice, takewhile
from typing import Any, NamedTuple

from ace.react.reading.objects import CUT, NOTHING, OBJECT, code_at, is_list, is_object, object_at, read_text, strict

MAX_PARTS = 200
"""Headings, tags, and beginnings of calls that are read: of each so many."""
DATA_PART = 4_000
"""Characters of data in which a quoted call is looked for at once; twice as long as the longest that is found."""
MAX_WRAPPED = 5
"""Objects and lists around a call."""

_WORDS = {
    "thought": r"(?:next_)?(?:thoughts?|reasoning|rationale|analysis)",
    "name": r"(?:next_)?(?:tool|function|action|recipient)(?:_name)?|name|tool_to_use",
    "args": r"(?:next_)?(?:(?:tool|function|action)_)?(?:args|arguments|parameters|params|inputs?|kwargs)",
    "calls": r"(?:tool_|function_)calls?|tool_uses?",
    "end": r"observation|(?:final_)?answer",
}
"""What models call the parts of a decision; what others wrote may use these words too."""
_KIND = re.compile(f"(?:{'|'.join(f'(?P<{kind}>{words})' for kind, words in _WORDS.items())})(?:_[0-9]+)?")
_HUMP, _GAP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])"), re.compile(r"[\s_-]+")
_ANY = "|".join(_WORDS.values())
_SPACED = _ANY.replace("_", r"(?:[ _]|\\_)")
_MARKER = re.compile(r"\[\[\s{0,3}##\s{0,3}([A-Za-z][\w ]{0,40}?)\s{0,3}##\s{0,3}\]\][*:]{0,3}")
"""A field as a decision is asked for. Foreign text never holds one: `as_data` takes it apart."""
_TAKEN_APART = re.compile(r"\[ \[\s{0,3}##\s{0,3}([A-Za-z][\w -]{0,40}?)\s{0,3}##\s{0,3}\] \]")
_AS_ASKED = re.compile(rf"\s*{_MARKER.pattern}(?:(?!\[\[ ## completed).)*+(?:\[\[ ## completed ## \]\]\s*)?", re.S)
"""A reply in the form with fields, and nothing else."""
_LABEL = re.compile(rf"^[^\w\n<{{\"']{{0,12}}+({_SPACED}) ?\d*[ \t*_`#\]}}]{{0,8}}(?:[:=][*_]{{0,3}}|$)", re.M | re.I)
"""A word alone on its line or before a colon, whatever stands around it."""
_NAMED = r"(?:(?:=|\s{1,9}name\s{0,9}=\s{0,9})[\"']?([\w.:-]{1,128})[\"']?)?\s{0,9}>"
_TAG = re.compile(rf"<({_ANY}|invoke(?=[ =])){_NAMED}")
_PARAMETER = re.compile(rf"<([A-Za-z_][\w.-]{{0,80}}){_NAMED}")
_CALL = re.compile(
    rf"(?P<object>{OBJECT})"
    # or a tool's name at the beginning of a line or right after a special token, not in the middle of prose
    r"|(?:^[ \t>$`\[]{0,6}+|(?<=[\]>])(?<![-=]>)|(?<=\), )|call: ?|to=)(?:\w{1,40}+ ?= ?|print\(|await )?"
    r"(?P<name>[A-Za-z_][\w.-]{0,127}+)(?:[ \t]{0,3}(?=\()|(?::\d{1,3})?(?:\[CALL_ID\]\w{1,40})?(?:[:\[ \t]{0,4}"
    r"|[ \t]{0,9}\n{1,2}|[ \t]{0,9}(?:code)?[<\[][^{}\n]{1,60}[\]>])(?:```\w{0,20}\s{0,9})?(?=\{))",
    re.M | re.I,
)
MARKUP = re.compile(
    r"<[^<>]{1,60}>|\[\[ ## \w+ ## \]\]|\[/?[A-Z_]{3,20}\]|```\w*|[`#\s\[\](){}|,;:./]+|[<>]"
    r"|\b(?:tool_calls?|function_calls?|json|python)\b"
)
"""What stands around a call and says nothing."""
_PLACEHOLDER = re.compile(r"\{\w+\}|<\w+>|\.\.\.")
_AROUND = re.compile(r"a|action|and|call|function|i|is|let|ll|me|name|now|s|the|then|to|tool|use|using|will", re.I)
"""Words beside a tool's name that leave its meaning as it is; any other may turn it around: "I will not call ..."."""


def plain(name: Any) -> str:
    """Take from a name what makes no difference to a reader: `plain("lookUp")` is ``look_up``."""
    return _GAP.sub("_", _HUMP.sub("_", str(name).replace("\\_", "_").strip())).casefold()


def kind_of(word: Any) -> str | None:
    """Say which part of a decision a word names, `kind_of("Action Input")` is ``args``; None for no part."""
    found = _KIND.fullmatch(plain(word))
    return found and found.lastgroup


@dataclass(frozen=True)
class Written:
    """A call as it was written, `Written("look_up", {"key": "a"})`: nothing about it is checked."""

    name: Any
    args: Any
    source: str = field(default="", compare=False, repr=False)
    """Where in the reply it stands."""

    @property
    def bare(self) -> str:
        """Its name and arguments without spaces, marks and capitals."""
        return re.sub(r"[\W_]", "", f"{self.name} {json.dumps(self.args, sort_keys=True, default=str)}").casefold()


@dataclass(frozen=True)
class Reading:
    """What a reply says, `Reading("look it up", (Written("look_up", {"key": "a"}),))`."""

    thought: str = ""
    calls: tuple[Written, ...] = ()
    cut: bool = False
    """Whether a call was begun that does not come to an end, and none before it does."""

    @classmethod
    def of(cls, thought: str, calls: Sequence[Any]) -> Reading:
        """Put calls in their order, up to `CUT`; one that only repeats the one before counts once."""
        once = tuple(call for call, _ in groupby(takewhile(lambda call: call is not CUT, calls)))
        return cls(thought, once, CUT in calls and not once)


class Section(NamedTuple):
    """What stands under a heading or in a tag, and whether the reply goes on after it."""

    kind: str | None
    body: str
    closed: bool
    source: str


class CallReader:
    """Reads replies of a model that may call some tools.

    Args:
        schemas: The tools' names to the JSON Schemas of their arguments.

    Examples:
        >>> reader = CallReader({"look_up": {"type": "object", "properties": {"key": {"type": "string"}}}})
        >>> reader.read('I need it. {"tool": "Look_Up", "arguments": {"key": "a"}}').calls
        (Written(name='look_up', args={'key': 'a'}),)
        >>> reader.name("functions.lookUp()"), reader.arguments("look_up", {"Key": "a"})
        ('look_up', {'key': 'a'})
    """

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self.schemas = schemas
        self._names: dict[str, str] = {}
        for name in schemas:  # a plain name that two tools share names neither
            self._names[plain(name)] = "" if plain(name) in self._names else name

    def read(self, text: str, shown: Callable[[], str] = str) -> Reading:
        """Read the calls of a reply: under the headings that were asked for, else of the shape that begins first.

        Args:
            text: The reply.
            shown: Gives the prompt's data. A call in another shape that stands there word for word is a quotation, and so is
                one beside other words that equals a call there.
        """
        reading = Reading() if _begins_inside(text) else self._headed(text, _MARKER)
        if reading.calls and (len(reading.calls) > 1 or not _AS_ASKED.fullmatch(text)):
            reading = replace(reading, calls=self._unquoted(text, reading.calls, shown()))
        shapes = [(_LABEL, self._headed), (_TAG, self._tagged), (_CALL, self._scanned)]
        begun = [(found.start(), *shape) for shape in shapes if (found := shape[0].search(text))]
        for _, opener, shape in sorted(begun, key=lambda item: item[0]):
            # after a call that is cut off, another shape might take a part of its arguments for a call
            if reading.calls or reading.cut:
                break
            reading = shape(text, opener)
            if reading.calls:
                reading = replace(reading, calls=self._unquoted(text, reading.calls, shown()))
        return reading

    def _unquoted(self, text: str, calls: Sequence[Written], data: str) -> tuple[Written, ...]:
        """Keep the calls that do not stand in the data: not word for word, nor, beside other words, in another shape."""
        bare = "".join(data.split())
        quoted = {part for part in {call.source for call in calls} if "".join(part.split()) in bare}
        others = tuple(call for call in calls if call.source not in quoted)
        if not others or not speaks(text, calls):
            return others
        told = {name: self._calls_in(data, name) for name in {str(call.name) for call in others}}
        return tuple(call for call in others if call.bare not in told[str(call.name)])

    def _calls_in(self, data: str, name: str) -> set[str]:
        """Find the calls of a tool in data, in every shape, without what makes no difference to a reader."""
        found = set[str]()
        for start in range(0, len(data), DATA_PART // 2):
            part = data[start : start + DATA_PART]
            if name.casefold() in part.casefold():
                lines = re.sub(rf"(?=\b(?:{re.escape(name)}|(?:{_SPACED}) ?[:=]))", "\n", part, flags=re.I)
                headed = (self._headed(part, _TAKEN_APART), self._headed(lines, _LABEL))
                shapes = (*headed, self._tagged(part, _TAG), self._scanned(lines, _CALL))
                found |= {call.bare for reading in shapes for call in reading.calls}
        return found

    def knows(self, call: Written) -> bool:
        """Check whether it names a tool and has an object of arguments."""
        return self.has(call.name) and is_object(call.args)

    def has(self, name: Any) -> bool:
        """Check whether there is a tool of exactly that name."""
        return isinstance(name, str) and name in self.schemas

    def properties(self, name: Any) -> Mapping[str, Any]:
        """Return the arguments of a tool, by name; none for an unknown one."""
        return self.schemas[name].get("properties", {}) if self.has(name) else {}

    def name(self, written: Any) -> Any:
        """Return the tool that is meant: quotes, capitals, a prefix and a remark do not matter.

        Args:
            written: What stands in the name's place; of several lines the first one counts.
        """
        if not isinstance(written, str) or self.has(written):
            return written
        lines = (line.strip("`'\"*<>.:[] \t") for line in written.splitlines() if "```" not in line)
        bare = re.sub(r"^(?:functions|tools|default_api)\.|(?::\d+|\(\))$", "", next(filter(None, lines), "")[:300])
        words = re.findall(r"[^\W_][\w-]*", bare)
        named = {word for word in words if self.has(word)}
        if len(named) == 1 and all(_AROUND.fullmatch(word) for word in words if word not in named):
            return named.pop()
        return self._names.get(plain(bare)) or bare

    def arguments(self, name: Any, args: Any, *, as_text: bool = False) -> Any:
        """Return arguments by the names that the tool gives them.

        Args:
            name: The tool.
            args: What was written: an object, or the text of one.
            as_text: Whether values came as text, because the shape has no other, and become what the schema wants.
        """
        properties = self.properties(name)
        read = read_text(args) if isinstance(args, str) else NOTHING
        args = args if read is NOTHING else read
        args = args[0] if is_list(args) and len(args) == 1 and is_object(args[0]) else args
        if not is_object(args):
            return {} if args is None or args == [] else args
        if len(args) == 1:
            [(key, inner)] = args.items()
            args = inner if kind_of(key) == "args" and key not in properties and is_object(inner) else args
        folded = {plain(key): key for key in properties}
        given = {key if key in properties else folded.get(plain(key), str(key)): value for key, value in args.items()}
        return {key: typed(value, properties.get(key)) for key, value in given.items()} if as_text else given

    def _call(self, named: Section, argued: Section) -> Any:
        """Make the call of a name and the arguments next to it; `CUT` for arguments that do not come to an end."""
        name, text, source = self.name(named.body), argued.body, named.source + argued.source
        parts = list(_tags(text, _PARAMETER)) if text.startswith("<") else []
        if parts:
            value = {match[2] or match[1]: html.unescape(part.body) for match, part in parts}
            closed = argued.closed and all(part.closed for _, part in parts)
            return Written(name, self.arguments(name, value, as_text=True), source) if closed else CUT
        value = strict(text) if argued.closed or text.endswith(("}", '}"')) else NOTHING  # digits may be missing
        if value is NOTHING and (begin := re.search(OBJECT, text)) is not None:
            value, end, whole = object_at(text, begin.start(), closed=argued.closed)
            value = value if whole else CUT
            if whole:  # what is said after it is no part of the call
                source = source[: len(source) - len(argued.source) + argued.source.index(text) + end]
        if value is NOTHING and argued.closed:
            value = "{}" if text.lower() in ("", "none", "n/a") else text
        return CUT if value in (CUT, NOTHING) else Written(name, self.arguments(name, value), source)

    def _headed(self, text: str, opener: re.Pattern[str]) -> Reading:
        """Read calls under headings."""
        found = list(islice(opener.finditer(text), MAX_PARTS))
        sections: list[Section] = []
        for match, after in zip(found, [*found[1:], None], strict=False):
            end = len(text) if after is None else after.start()
            body, kind = text[match.end() : end].strip(), kind_of(match[1])
            if body or after is None or kind_of(after[1]) != kind:  # a heading that is doubled counts once
                sections.append(Section(kind, body, after is not None, text[match.start() : end]))
        return self._paired(sections)

    def _tagged(self, text: str, opener: re.Pattern[str]) -> Reading:
        """Read calls in tags; a tag that names its tool holds the arguments."""
        tags = islice(_tags(text, opener), MAX_PARTS)
        pairs = ((Section("name", match[2] or "", True, ""), section) for match, section in tags)
        return self._paired([section for pair in pairs for section in pair])

    def _paired(self, sections: Sequence[Section]) -> Reading:
        """Read names and the arguments after them, and whole calls."""
        calls: list[Any] = []
        named: Section | None = None
        written = [section for section in sections if not _PLACEHOLDER.fullmatch(section.body)]
        for section in written:
            if section.kind == "args" and named:
                calls.append(self._call(named, section))
                named = None
            elif section.kind == "calls" or (section.kind == "name" and section.body):
                inside = self._whole(section)
                calls += inside
                named = None if inside else section
        return Reading.of(next((part.body for part in written if part.kind == "thought"), ""), calls)

    def _whole(self, section: Section) -> list[Any]:
        """Read whole calls in the place of a name; `CUT` for a name that may be cut off, and for calls that cannot be
        read."""
        inside = self._scanned(section.body, _CALL)
        if section.kind == "calls" and section.closed and not inside.calls and not inside.cut:
            inside = self._tagged(section.body, _TAG)
            inside = inside if inside.calls else Reading.of("", list(_of_no_tool(section.body)))
        named = section.kind == "name"  # ``look_up()`` is a name as well
        calls = [call for call in inside.calls if call.args or "{" in call.source or not named]
        complete = calls or (named and section.closed)
        return [*calls, CUT] if inside.cut or not complete else calls

    def _scanned(self, text: str, opener: re.Pattern[str]) -> Reading:
        """Read calls that stand by themselves, as an object or as code, from left to right."""
        thought, calls = "", list[Any]()
        position = begun = 0
        while begun < MAX_PARTS and CUT not in calls and (match := opener.search(text, position)):
            if match["object"]:
                value, position, whole = object_at(text, match.start())
                found = [CUT] if value is CUT else list(self._of_object(value, whole))
                thought = thought or _thought(value)
            else:
                found, position = self._named(text, match)
            source = text[match.start() : position]
            calls += [call if call is CUT else replace(call, source=source) for call in found]
            begun += 1
        return Reading.of(thought, calls)

    def _named(self, text: str, match: re.Match[str]) -> tuple[list[Any], int]:
        """Read the call of a tool's name and what stands right behind it, and its end: ``f(key="a")``, ``f {"key":
        "a"}``."""
        name, begin = self.name(match["name"]), match.end()
        if not self.has(name):
            return [], match.end("name")
        properties, code = self.properties(name), text[begin] == "("
        args, end = code_at(text, begin, (*properties,) if code else ())
        args = self.arguments(name, args)
        fits = is_object(args) and (code or args.keys() <= properties.keys())
        return [Written(name, args)] if fits else [CUT] if args is CUT else [], end

    def _of_object(self, value: Any, whole: bool, depth: int = 0) -> Iterator[Any]:
        """Yield the calls that an object is or wraps."""
        for item in value if is_list(value) and depth < MAX_WRAPPED else ():
            yield from self._of_object(item, whole, depth + 1)
        if not is_object(value) or depth > MAX_WRAPPED:
            return
        kinds = [(kind_of(key), item) for key, item in value.items()]
        names = [self.name(item) for kind, item in kinds if kind == "name" and isinstance(item, str)]
        given = [item for kind, item in kinds if kind == "args"]
        inner = [item for kind, item in kinds if kind in ("name", "args", "calls") and item]
        if names:
            yield from self._flat(next(filter(self.has, names), names[0]), value, given, whole)
        elif len(inner) == 1:
            yield from self._of_object(inner[0], whole, depth + 1)
        else:  # {"look_up": {"key": "a"}}
            named = [(key, item) for key, item in value.items() if self.has(key) and is_object(item)]
            yield from (Written(key, self.arguments(key, item)) for key, item in named)

    def _flat(self, name: Any, value: dict[str, Any], given: list[Any], whole: bool) -> Iterator[Any]:
        """Yield the call of an object that names a tool; its arguments are in a field, or beside the name."""
        args = self.arguments(name, given[0] if given else value)
        if not given:
            args = {key: item for key, item in args.items() if key in self.properties(name) and item != name}
        if self.has(name) or (given and is_object(args)):
            yield Written(name, args) if given or whole else CUT


def speaks(reply: str, calls: Sequence[Written]) -> bool:
    """Check whether anything but calls and their markup stands in a reply: then a call may be an example or a quotation."""
    rest = reply
    for source in dict.fromkeys(call.source for call in calls):
        if not source or source not in rest:
            return True
        rest = rest.replace(source, " ", 1)
    return bool(MARKUP.sub("", rest))


def _of_no_tool(text: str) -> Iterator[Written]:
    """Yield calls in the form that was asked for, of tools that there are not."""
    value = strict(text)
    listed = value.get("tool_calls") if is_object(value) else None
    for call in listed if is_list(listed) else ():
        if is_object(call) and isinstance(call.get("name"), str):
            yield Written(call["name"], call.get("args"))


def _begins_inside(text: str) -> bool:
    """Check whether the first heading of a reply stands in an object: there it is a part of an argument."""
    first, end = _MARKER.search(text), 0
    for begin in re.finditer(OBJECT, text[: first.start()]) if first else ():
        end = object_at(text, begin.start())[1] if begin.start() >= end else end
    return first is not None and end > first.start()


def _tags(text: str, opener: re.Pattern[str]) -> Iterator[tuple[re.Match[str], Section]]:
    """Yield the tags of a text, outermost ones; one never closed holds what follows."""
    position = 0
    while match := opener.search(text, position):
        end = text.find(f"</{match[1]}>", match.end())
        position = len(text) if end < 0 else end + len(match[1]) + 3
        body = text[match.end() : position if end < 0 else end].strip()
        yield match, Section("args" if match[2] else kind_of(match[1]), body, end >= 0, text[match.start() : position])


def typed(value: Any, schema: Any) -> Any:
    """Convert a text to the value that the schema wants: `typed("2", {"type": "integer"})` is 2."""
    text = isinstance(value, str) and not (is_object(schema) and schema.get("type") == "string")
    found = strict(value.lower() if value in ("True", "False") else value) if text else NOTHING
    return value if found is NOTHING else found


def _thought(value: Any) -> str:
    fields = value if is_object(value) else {}
    return next((item for key, item in fields.items() if kind_of(key) == "thought" and isinstance(item, str)), "")
