"""Replies in shapes that a person can read, and some that nobody should complete: for `dropin_replies.py` and the tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("refund", {"order_id": "A-17", "amount": 12.5}),
    ("find_order", {"customer": "Ann O'Neill", "open_only": True}),
    ("send_note", {"to": "ann@example.com", "body": 'Dear Ann,\n"soon" means {today}; see [1].', "tags": ["a", "b"]}),
)
"""Each shape is written with each of these calls."""

Shape = Callable[[str, dict[str, Any]], str]


def _marked(name: str, args: str, thought: str = "I know what to do.") -> str:
    return f"[[ ## next_thought ## ]]\n{thought}\n\n[[ ## next_tool_name ## ]]\n{name}\n\n[[ ## next_tool_args ## ]]\n{args}"


def _j(value: Any) -> str:
    return json.dumps(value)


def _xml(args: dict[str, Any], tag: str) -> str:
    def text(value: Any) -> str:
        return value if isinstance(value, str) else _j(value)

    return "".join(tag.format(key=key, value=text(value)) for key, value in args.items())


END = "\n\n[[ ## completed ## ]]"

SHAPES: dict[str, Shape] = {
    "markers": lambda n, a: _marked(n, _j(a)) + END,
    "markers without an end": lambda n, a: _marked(n, _j(a)),
    "markers on one line": lambda n, a: (
        _marked(n, _j(a)).replace("\n\n", " ").replace("]]\n", "]] ") + " [[ ## completed ## ]]"
    ),
    "markers in other capitals": lambda n, a: _marked(n, _j(a)).replace("next_tool", "Next_Tool"),
    "markers without spaces": lambda n, a: _marked(n, _j(a)).replace("[[ ## ", "[[## ").replace(" ## ]]", " ##]]"),
    "name in other capitals": lambda n, a: _marked(n.upper(), _j(a)) + END,
    "name in backquotes": lambda n, a: _marked(f"`{n}`", _j(a)) + END,
    "name with brackets": lambda n, a: _marked(f"{n}()", _j(a)) + END,
    "arguments in a fence": lambda n, a: _marked(n, f"```json\n{json.dumps(a, indent=2)}\n```") + END,
    "arguments as a string": lambda n, a: _marked(n, _j(_j(a))) + END,
    "arguments in prose": lambda n, a: _marked(n, f"The arguments are:\n{_j(a)}\nThat is all.") + END,
    "arguments as Python": lambda n, a: _marked(n, repr(a)) + END,
    "a comma too many": lambda n, a: _marked(n, _j(a)[:-1] + ",}") + END,
    "a bracket too few before the end marker": lambda n, a: _marked(n, _j(a)[:-1]) + END,
    "markers doubled": lambda n, a: _marked(n, _j(a)).replace(
        "[[ ## next_tool_name ## ]]\n", "[[ ## next_tool_name ## ]]\n" * 2
    ),
    "arguments' marker doubled": lambda n, a: _marked(n, _j(a)).replace(
        "[[ ## next_tool_args ## ]]\n", "[[ ## next_tool_args ## ]]\n\n[[ ## next_tool_args ## ]]\n"
    ),
    "reply doubled": lambda n, a: f"{_marked(n, _j(a))}{END}\n\n{_marked(n, _j(a))}{END}",
    "arguments first": lambda n, a: f"[[ ## next_tool_args ## ]]\n{_j(a)}\n\n[[ ## next_tool_name ## ]]\n{n}{END}",
    "layout repeated first": lambda n, a: (
        _marked("{next_tool_name}", "{next_tool_args}", "{next_thought}") + "\n\n" + _marked(n, _j(a))
    ),
    "without a thought": lambda n, a: _marked(n, _j(a)).partition("\n\n")[2] + END,
    "a field too many": lambda n, a: _marked(n, _j(a)) + "\n\n[[ ## confidence ## ]]\n0.9" + END,
    "call in the name's place": lambda n, a: f"[[ ## next_tool_name ## ]]\n{_j({'name': n, 'arguments': a})}{END}",
    "JSON fields": lambda n, a: _j({"next_thought": "t", "next_tool_name": n, "next_tool_args": a}),
    "JSON fields, indented": lambda n, a: json.dumps(
        {"next_thought": "t", "next_tool_name": n, "next_tool_args": a}, indent=2
    ),
    "JSON fields in other order": lambda n, a: _j({"next_tool_args": a, "next_tool_name": n, "next_thought": "t"}),
    "JSON fields in a fence": lambda n, a: (
        f"```json\n{_j({'next_thought': 't', 'next_tool_name': n, 'next_tool_args': a})}\n```"
    ),
    "JSON without the last bracket": lambda n, a: _j({"next_thought": "t", "next_tool_name": n, "next_tool_args": a})[
        :-1
    ],
    "JSON with more fields": lambda n, a: _j({"step": 1, "next_tool_name": n, "next_tool_args": a, "confidence": 0.9}),
    "JSON in prose": lambda n, a: f"I will do that now: {_j({'tool': n, 'args': a})} and then see.",
    "JSON after braces in prose": lambda n, a: (
        f"Given {{this}} and {{that}}, I call\n{_j({'name': n, 'arguments': a})}"
    ),
    "JSON after thinking": lambda n, a: f"<think>\nHm. {{x}} or y?\n</think>\n{_j({'name': n, 'arguments': a})}",
    "JSON in other capitals": lambda n, a: _j({"Name": n.upper(), "Arguments": a}),
    "JSON with arguments as a string": lambda n, a: _j({"name": n, "arguments": _j(a)}),
    "JSON as Python": lambda n, a: repr({"name": n, "arguments": a}),
    "JSON with comments": lambda n, a: f'{{"name": "{n}", // the tool\n "arguments": {_j(a)},}}',
    "JSON list": lambda n, a: _j([{"name": n, "arguments": a}]),
    "JSON list of two": lambda n, a: _j([{"name": n, "arguments": a}, {"name": "list_orders", "arguments": {}}]),
    "two objects": lambda n, a: f"{_j({'name': n, 'arguments': a})}\n{_j({'name': 'list_orders', 'arguments': {}})}",
    "API's own format": lambda n, a: _j(
        {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": n, "arguments": _j(a)}}]}
    ),
    "function_call": lambda n, a: _j({"function_call": {"name": n, "arguments": a}}),
    "recipient": lambda n, a: _j({"recipient_name": f"functions.{n}", "parameters": a}),
    "name as key": lambda n, a: _j({n: a}),
    "arguments beside the name": lambda n, a: _j({"tool": n, **a}),
    "action and input": lambda n, a: _j({"action": n, "action_input": a}),
    "action in action": lambda n, a: _j({"thought": "t", "action": {"tool": n, "args": a}}),
    "argument names in other capitals": lambda n, a: _j(
        {"tool": n, "args": {key.title(): value for key, value in a.items()}}
    ),
    "tool_call tag": lambda n, a: f"<tool_call>\n{_j({'name': n, 'arguments': a})}\n</tool_call>",
    "special tokens": lambda n, a: f"<|tool_call|>{_j({'name': n, 'parameters': a})}<|/tool_call|>",
    "TOOL_CALLS": lambda n, a: f"[TOOL_CALLS] [{_j({'name': n, 'arguments': a})}]",
    "XML fields": lambda n, a: (
        f"<next_thought>t</next_thought>\n<next_tool_name>{n}</next_tool_name>\n<next_tool_args>{_j(a)}</next_tool_args>"
    ),
    "XML with arguments as tags": lambda n, a: (
        f"<tool_call><name>{n}</name><arguments>{_xml(a, '<{key}>{value}</{key}>')}</arguments></tool_call>"
    ),
    "invoke": lambda n, a: f"<invoke name='{n}'>{_xml(a, '<parameter name={key}>{value}</parameter>')}</invoke>",
    "function tag": lambda n, a: f"<function={n}>{_xml(a, '<parameter={key}>{value}</parameter>')}</function>",
    "function tag around JSON": lambda n, a: f"<function={n}>{_j(a)}</function>",
    "labels": lambda n, a: f"Thought: t\nAction: {n}\nAction Input: {_j(a)}",
    "labels and an observation": lambda n, a: f"Thought: t\nAction: {n}\nAction Input: {_j(a)}\nObservation:",
    "labels in bold": lambda n, a: f"**Thought:** t\n**Tool:** {n}\n**Arguments:** {_j(a)}\n",
    "label and a fence": lambda n, a: f"Thought: t\n\nAction:\n```json\n{_j({'action': n, 'action_input': a})}\n```\n",
    "field names as labels": lambda n, a: f"next_thought: t\nnext_tool_name: {n}\nnext_tool_args: {_j(a)}\n",
    "code": lambda n, a: f"{n}({', '.join(f'{key}={value!r}' for key, value in a.items())})",
    "code in a fence": lambda n, a: (
        f"I call it.\n```python\n{n}({', '.join(f'{key}={value!r}' for key, value in a.items())})\n```"
    ),
}
"""By name: how a call is written, by models that were taught the fields of the old ReAct or those of another framework."""


def _turn(calls: str, thought: str = "I know what to do.") -> str:
    return f"[[ ## next_thought ## ]]\n{thought}\n\n[[ ## tool_calls ## ]]\n{calls}"


def _called(name: str, args: Any, *more: Any, key: str = "args") -> dict[str, Any]:
    return {"tool_calls": [{"name": name, key: args}, *more]}


OTHER = {"name": "list_orders", "args": {}}

OWN_SHAPES: dict[str, Shape] = {
    "turn": lambda n, a: _turn(_j(_called(n, a))) + END,
    "turn without an end": lambda n, a: _turn(_j(_called(n, a))),
    "turn on one line": lambda n, a: (
        _turn(_j(_called(n, a))).replace("\n\n", " ").replace("]]\n", "]] ") + " [[ ## completed ## ]]"
    ),
    "turn with markers in other capitals": lambda n, a: _turn(_j(_called(n, a))).replace("## tool_", "## Tool_"),
    "turn with markers without spaces": lambda n, a: (
        _turn(_j(_called(n, a))).replace("[[ ## ", "[[## ").replace(" ## ]]", " ##]]")
    ),
    "turn with markers doubled": lambda n, a: _turn(_j(_called(n, a))).replace(
        "[[ ## tool_calls ## ]]\n", "[[ ## tool_calls ## ]]\n" * 2
    ),
    "turn doubled": lambda n, a: f"{_turn(_j(_called(n, a)))}{END}\n\n{_turn(_j(_called(n, a)))}{END}",
    "turn after its layout": lambda n, a: _turn("{tool_calls}", "{next_thought}") + "\n\n" + _turn(_j(_called(n, a))),
    "turn without a thought": lambda n, a: _turn(_j(_called(n, a))).partition("\n\n")[2] + END,
    "turn with the thought last": lambda n, a: (
        f"[[ ## tool_calls ## ]]\n{_j(_called(n, a))}\n\n[[ ## next_thought ## ]]\nI know what to do.{END}"
    ),
    "turn with a field too many": lambda n, a: _turn(_j(_called(n, a))) + "\n\n[[ ## confidence ## ]]\n0.9" + END,
    "turn with a result that it made up": lambda n, a: _turn(_j(_called(n, a))) + "\n\n[[ ## result ## ]]\nDone.",
    "turn with the name in other capitals": lambda n, a: _turn(_j(_called(n.upper(), a))) + END,
    "turn with the name in backquotes": lambda n, a: _turn(_j(_called(f"`{n}`", a))) + END,
    "turn with brackets behind the name": lambda n, a: _turn(_j(_called(f"{n}()", a))) + END,
    "turn in a fence": lambda n, a: _turn(f"```json\n{json.dumps(_called(n, a), indent=2)}\n```") + END,
    "turn with arguments as a string": lambda n, a: _turn(_j(_called(n, _j(a)))) + END,
    "turn with arguments under another key": lambda n, a: _turn(_j(_called(n, a, key="arguments"))) + END,
    "turn in prose": lambda n, a: _turn(f"The calls are:\n{_j(_called(n, a))}\nThat is all.") + END,
    "turn as Python": lambda n, a: _turn(repr(_called(n, a))) + END,
    "turn with a comma too many": lambda n, a: _turn(_j(_called(n, a))[:-1] + ",}") + END,
    "turn with a bracket too few": lambda n, a: _turn(_j(_called(n, a))[:-1]) + END,
    "turn with one call and no list": lambda n, a: _turn(_j({"name": n, "args": a})) + END,
    "turn with a list alone": lambda n, a: _turn(_j([{"name": n, "args": a}])) + END,
    "turn with the API's own calls": lambda n, a: (
        _turn(_j({"tool_calls": [{"id": "c1", "type": "function", "function": {"name": n, "arguments": _j(a)}}]})) + END
    ),
    "turn with ids": lambda n, a: _turn(_j({"tool_calls": [{"id": "c1", "name": n, "args": a}]})) + END,
    "turn with two calls": lambda n, a: _turn(_j(_called(n, a, OTHER))) + END,
    "turn as JSON": lambda n, a: _j({"next_thought": "t", "tool_calls": _called(n, a)}),
    "turn as JSON, indented": lambda n, a: json.dumps({"next_thought": "t", "tool_calls": _called(n, a)}, indent=2),
    "turn as JSON, other order": lambda n, a: _j({"tool_calls": _called(n, a), "next_thought": "t"}),
    "turn as JSON in a fence": lambda n, a: f"```json\n{_j({'next_thought': 't', 'tool_calls': _called(n, a)})}\n```",
    "turn as JSON without the last bracket": lambda n, a: _j({"next_thought": "t", "tool_calls": _called(n, a)})[:-1],
    "turn as JSON with more fields": lambda n, a: _j({"step": 1, "tool_calls": _called(n, a), "confidence": 0.9}),
    "turn as JSON, the list at once": lambda n, a: _j({"next_thought": "t", **_called(n, a)}),
    "turn as JSON with two calls": lambda n, a: _j({"next_thought": "t", "tool_calls": _called(n, a, OTHER)}),
    "turn as XML": lambda n, a: (
        f"<next_thought>\nt\n</next_thought>\n\n<tool_calls>\n{_j(_called(n, a))}\n</tool_calls>"
    ),
    "turn as XML on one line": lambda n, a: (
        f"<next_thought>t</next_thought><tool_calls>{_j(_called(n, a))}</tool_calls>"
    ),
    "turn as XML without the last tag": lambda n, a: (
        f"<next_thought>\nt\n</next_thought>\n\n<tool_calls>\n{_j(_called(n, a))}\n"
    ),
    "turn as XML with a list alone": lambda n, a: f"<tool_calls>\n{_j([{'name': n, 'args': a}])}\n</tool_calls>",
    "turn as labels": lambda n, a: f"next_thought: t\ntool_calls: {_j(_called(n, a))}\n",
    "line": lambda n, a: _j({"name": n, "args": a}),
    "line after a thought": lambda n, a: f"I know what to do.\n{_j({'name': n, 'args': a})}",
    "line, indented": lambda n, a: f"I know what to do.\n{json.dumps({'name': n, 'args': a}, indent=2)}",
    "line in a fence": lambda n, a: f"I know what to do.\n```json\n{_j({'name': n, 'args': a})}\n```",
    "line in a fence without a language": lambda n, a: f"I know what to do.\n```\n{_j({'name': n, 'args': a})}\n```",
    "line in backquotes": lambda n, a: f"I know what to do: `{_j({'name': n, 'args': a})}`",
    "line after a label": lambda n, a: f"Thought: t\nCall: {_j({'name': n, 'args': a})}",
    "line with a result that it made up": lambda n, a: f"{_j({'name': n, 'args': a})}\n\n[[ ## result ## ]]\nDone.",
    "line and words": lambda n, a: f"{_j({'name': n, 'args': a})}\nThen I wait for the result.",
    "line with other keys": lambda n, a: _j({"tool": n, "arguments": a}),
    "line, arguments first": lambda n, a: _j({"args": a, "name": n}),
    "line with arguments as a string": lambda n, a: _j({"name": n, "args": _j(a)}),
    "line as Python": lambda n, a: repr({"name": n, "args": a}),
    "line with a comma too many": lambda n, a: _j({"name": n, "args": a})[:-1] + ",}",
    "line in a list": lambda n, a: _j([{"name": n, "args": a}]),
    "line after a number": lambda n, a: f"1. {_j({'name': n, 'args': a})}",
    "lines": lambda n, a: f"{_j({'name': n, 'args': a})}\n{_j(OTHER)}",
    "lines with a blank one between": lambda n, a: f"Both.\n{_j({'name': n, 'args': a})}\n\n{_j(OTHER)}\n",
    "lines in a fence": lambda n, a: f"```json\n{_j({'name': n, 'args': a})}\n{_j(OTHER)}\n```",
    "line doubled": lambda n, a: f"{_j({'name': n, 'args': a})}\n{_j({'name': n, 'args': a})}",
    "signature filled in": lambda n, a: (
        f"I know what to do.\n{n}({', '.join(f'{key}={_j(value)}' for key, value in a.items())})"
    ),
}
"""The same in the form that prompts of ours and of `dspy.ReActV2` show."""


def _keywords(args: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in args.items())


TAUGHT_SHAPES: dict[str, Shape] = {
    "Hermes": lambda n, a: f"<think>\nHm.\n</think>\n\n<tool_call>\n{_j({'name': n, 'arguments': a})}\n</tool_call>",
    "Hermes, two calls": lambda n, a: (
        f"<tool_call>\n{_j({'name': n, 'arguments': a})}\n</tool_call>\n<tool_call>\n{_j(OTHER)}\n</tool_call>"
    ),
    "Qwen Coder": lambda n, a: (
        f"<tool_call>\n<function={n}>\n"
        + _xml(a, "<parameter={key}>\n{value}\n</parameter>\n")
        + "</function>\n</tool_call>"
    ),
    "Claude": lambda n, a: (
        f'I do it.\n<function_calls>\n<invoke name="{n}">\n'
        + _xml(a, '<parameter name="{key}">{value}</parameter>\n')
        + "</invoke>\n</function_calls>"
    ),
    "Claude 2": lambda n, a: (
        f"<function_calls>\n<invoke>\n<tool_name>{n}</tool_name>\n<parameters>\n"
        + _xml(a, "<{key}>{value}</{key}>\n")
        + "</parameters>\n</invoke>\n</function_calls>"
    ),
    "Mistral": lambda n, a: f"[TOOL_CALLS]{n}[ARGS]{_j(a)}",
    "Mistral with an id": lambda n, a: f"[TOOL_CALLS]{n}[CALL_ID]abc123XYZ[ARGS]{_j(a)}",
    "Llama": lambda n, a: f"<|python_tag|>{_j({'name': n, 'parameters': a})}",
    "Llama, pythonic": lambda n, a: f"[{n}({_keywords(a)})]",
    "Llama, pythonic, two calls": lambda n, a: f"[{n}({_keywords(a)}), list_orders()]",
    "Harmony": lambda n, a: (
        "<|channel|>analysis<|message|>I need it.<|end|><|start|>assistant<|channel|>commentary "
        f"to=functions.{n} <|constrain|>json<|message|>{_j(a)}<|call|>"
    ),
    "Kimi": lambda n, a: f"<|tool_call_begin|>functions.{n}:0<|tool_call_argument_begin|>{_j(a)}<|tool_call_end|>",
    "DeepSeek": lambda n, a: (
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{n}\n```json\n{_j(a)}\n```<｜tool▁call▁end｜>"
    ),
    "Gemma": lambda n, a: f"```tool_code\nprint({n}({_keywords(a)}))\n```",
    "Command": lambda n, a: f"Action: ```json\n{json.dumps([{'tool_name': n, 'parameters': a}], indent=4)}\n```",
    "Functionary": lambda n, a: f">>>{n}\n{_j(a)}",
    "OLMo": lambda n, a: f"<function_calls>{n}({_keywords(a)})</function_calls>",
    "Raven": lambda n, a: f"Call: {n}({_keywords(a)})<bot_end>",
    "smolagents": lambda n, a: f"Thought: t\nCode:\n```py\nresult = {n}({_keywords(a)})\n```<end_code>",
    "API's message": lambda n, a: _j(
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": n, "arguments": _j(a)}}]}
    ),
    "MCP": lambda n, a: _j({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": n, "arguments": a}}),
    "JavaScript": lambda n, a: f"```ts\nawait {n}({_j(a)});\n```",
}
"""The same in the formats that models were trained on, which some servers hand on as text."""

TWO_CALLS = frozenset(
    {"JSON list of two", "two objects", "turn with two calls", "turn as JSON with two calls"}
    | {"lines", "lines with a blank one between", "lines in a fence", "Hermes, two calls", "Llama, pythonic, two calls"}
)
"""Shapes with a second call, `OTHER`."""


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
    for shape, write in (SHAPES | OWN_SHAPES | TAUGHT_SHAPES).items():
        for name, args in CALLS:
            yield Reply(shape, write(name, args), (name, args))


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
