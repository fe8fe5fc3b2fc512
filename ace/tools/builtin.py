"""Tools that come with the library: a calculator, a string helper, search over a local corpus."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from ace.core import ToolError
from ace.tools.tool import Tool, tool

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: operator.mod,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


def _round(value: Any, digits: Any = 0) -> Any:
    if not isinstance(digits, int) or abs(digits) > 100:  # a huge number of digits would freeze the process
        raise ValueError("round takes at most 100 digits")
    return round(value, digits) if digits else round(value)


_OF_MATH = ("sqrt", "exp", "log", "log10", "sin", "cos", "tan", "floor", "ceil")
_FUNCTIONS: dict[str, Callable[..., Any]] = {name: getattr(math, name) for name in _OF_MATH}
_FUNCTIONS.update(abs=abs, round=_round, min=min, max=max)
_CONSTANTS = {"pi": math.pi, "e": math.e}
_MAX_EXPRESSION = 500
_MAX_MAGNITUDE = 1e100


@tool(read_only=True, idempotent=True, category="math", examples=("(17 + 4) * 2", "sqrt(2) ** 2"))
def calculator(expression: str) -> float:
    """Work out an arithmetic expression: + - * / // % **, brackets, and functions such as sqrt, log, round, min, max."""
    if len(expression) > _MAX_EXPRESSION:
        raise ToolError("refused", f"The expression is longer than {_MAX_EXPRESSION} characters.")
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ToolError("refused", f"{expression!r} is not an arithmetic expression.", source=error) from error
    except (ArithmeticError, ValueError, TypeError) as error:
        raise ToolError("refused", f"{expression!r} has no value: {error}", source=error) from error


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _UNARY:
            return _UNARY[type(sign)](_value(operand))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            return _bounded(_BINARY[type(sign)](_value(left), _value(right)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*(_value(arg) for arg in args)))
        case _:
            raise ToolError("refused", f"{ast.unparse(node)!r} is not allowed in an arithmetic expression.")


def _power(base: Any, exponent: Any) -> Any:
    # checked before computing: 9 ** 9 ** 9 would otherwise eat the machine
    if abs(base) > 1 and exponent * math.log10(abs(base)) > 100:
        raise ToolError("refused", "The result is too large.")
    return _bounded(base ** float(exponent) if exponent < 0 else base**exponent)


def _bounded(value: Any) -> Any:
    if isinstance(value, complex):
        raise ValueError("the result is not a real number")
    if not abs(value) <= _MAX_MAGNITUDE:  # not a number is refused too
        raise ToolError("refused", "The result is too large.")
    return value


StringOperation = Literal["length", "upper", "lower", "title", "reverse", "strip", "words", "count", "replace"]
_SYNONYMS = {"uppercase": "upper", "lowercase": "lower", "trim": "strip"}
"""What models and other frameworks say; the schema names one word for each."""


def _own_word(operation: Any) -> Any:
    return _SYNONYMS.get(operation, operation) if isinstance(operation, str) else operation


@tool(read_only=True, idempotent=True, category="text")
def string_helper(
    operation: Annotated[StringOperation, BeforeValidator(_own_word)],
    text: str,
    target: str = "",
    replacement: str = "",
) -> str | int:
    """Do one thing with a text; `count` and `replace` look for `target`, `words` counts the words."""
    if operation in ("count", "replace") and not target:
        raise ToolError("refused", f"{operation} needs a non-empty `target`.")
    match operation:
        case "length":
            return len(text)
        case "words":
            return len(text.split())
        case "count":
            return text.count(target)
        case "replace":
            return text.replace(target, replacement)
        case "reverse":
            return text[::-1]
        case _:
            return getattr(text, operation)()


class CorpusSearch:
    """Search over texts that you bring, ranked by TF-IDF over words; `as_tool()` gives the tool.

    Examples:
        >>> search = CorpusSearch({"refunds.md": "Refunds take five days.", "hours.md": "Open from nine."})
        >>> search("how long does a refund take")[0]["title"]
        'refunds.md'
    """

    def __init__(self, documents: dict[str, str] | Sequence[str]) -> None:
        if not isinstance(documents, dict):
            documents = {f"document {i + 1}": text for i, text in enumerate(documents)}
        if not documents:
            raise ValueError("the corpus is empty; pass at least one document")
        self.documents = documents
        self._counts = {title: Counter(_words(f"{title} {text}")) for title, text in documents.items()}
        frequency = Counter(word for counts in self._counts.values() for word in counts)
        self._idf = {word: math.log(1 + len(documents) / n) for word, n in frequency.items()}

    @classmethod
    def from_folder(cls, folder: str | Path, pattern: str = "**/*.md") -> CorpusSearch:
        """Read every file of `folder` that matches `pattern` as UTF-8.

        Raises:
            FileNotFoundError: Nothing matches.
        """
        root = Path(folder)
        files = sorted(path for path in root.glob(pattern) if path.is_file())
        if not files:
            raise FileNotFoundError(f"no file matches {pattern!r} in {str(root)!r}")
        return cls({str(p.relative_to(root)): p.read_text(encoding="utf-8", errors="replace") for p in files})

    def __call__(self, query: str, limit: int = 3) -> list[dict[str, Any]]:
        """Search the corpus; the best passages come first."""
        words = set(_words(query))
        scores = {
            title: sum(self._idf[w] * (1 + math.log(counts[w])) for w in words if w in counts)
            / math.sqrt(1 + counts.total())
            for title, counts in self._counts.items()
        }
        best = sorted((t for t in scores if scores[t] > 0), key=lambda t: (-scores[t], t))[: max(1, limit)]
        return [{"title": t, "text": self.documents[t][:1_000], "score": round(scores[t], 4)} for t in best]

    def as_tool(self, name: str = "search_corpus") -> Tool:
        """Return this corpus as a read-only tool."""
        return Tool.from_function(self.__call__, name=name, read_only=True, idempotent=True, category="search")


def _words(text: str) -> list[str]:
    # a plural "s" is dropped, so that "refund" finds "refunds"
    return [w[:-1] if len(w) > 3 and w.endswith("s") else w for w in re.findall(r"\w+", text.lower())]


def builtin_tools() -> tuple[Tool, ...]:
    """Return the built-in tools that need no corpus: `ReActGenerator(tools=builtin_tools())`."""
    return (calculator, string_helper)
