"""Recorded runs of real models: the steps in ``full_response``, read without evaluating anything.

Only the columns `query` and `full_response` are looked at: what a run led to is for the sandbox to find out.
"""

from __future__ import annotations

import ast
import csv
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ace.core import SuiteError

STOPPED = "Agent stopped due to iteration limit or time limit."


@dataclass(frozen=True)
class RecordedStep:
    """One decision of the model."""

    tool: str
    args: Any
    """Usually a dict; some models gave a plain string."""
    log: str
    """What the model wrote."""


@dataclass(frozen=True)
class Recording:
    """One recorded run."""

    query: str
    steps: tuple[RecordedStep, ...]
    answer: str | None
    """None when the model was cut off before it finished."""

    @property
    def empty(self) -> bool:
        """Whether the run has no step."""
        return not self.steps


def run_names(folder: Path) -> list[str]:
    """Name the recorded runs that a WorkBench folder holds."""
    return sorted({path.stem for path in (folder / "runs").glob("*/*.csv")})


def read_recordings(folder: Path, run: str) -> dict[str, Recording]:
    """Read the recorded runs of one model by query.

    Args:
        folder: The WorkBench folder, with ``runs/DOMAIN/RUN.csv``; or a run's CSV file may be given as `run`.
        run: For example ``gpt-4_domains``.

    Raises:
        SuiteError: There is no such run, or a field cannot be read.
    """
    paths = [Path(run)] if run.endswith(".csv") else sorted((folder / "runs").glob(f"*/{run}.csv"))
    if not paths or not all(path.is_file() for path in paths):
        raise SuiteError(f"no recorded run {run!r} in {str(folder / 'runs')!r}; there are {run_names(folder)}")
    csv.field_size_limit(sys.maxsize)
    recordings: dict[str, Recording] = {}
    for path in paths:
        for number, row in enumerate(_rows(path), start=1):
            try:
                recording = _recording(row["query"], row["full_response"] or "")
            except (KeyError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
                raise SuiteError(f"{path.name!r} row {number}: cannot read the recorded run ({error})") from error
            recordings[recording.query] = recording
    return recordings


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SuiteError(f"cannot read {str(path)!r}: {error}; expected a CSV file in UTF-8") from error


def _recording(query: str, text: str) -> Recording:
    if not text:
        return Recording(query, (), None)
    response: Mapping[str, Any] = _literal(ast.parse(text, mode="eval").body)
    steps = tuple(
        RecordedStep(str(action["tool"]), action["tool_input"], str(action.get("log", "")))
        for action, _observation in response["intermediate_steps"]
    )
    output = response["output"]
    answer = None if output == STOPPED else output if isinstance(output, str) else str(output)
    return Recording(query, steps, answer)


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal, where four harmless forms of a printed result count as literals too."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Dict(keys=keys, values=values):
            return {_literal(k): _literal(v) for k, v in zip(keys, values, strict=True) if k is not None}
        case ast.List(elts=items):
            return [_literal(item) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_literal(item) for item in items)
        case ast.Set(elts=items):
            return {_literal(item) for item in items}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_literal(operand)
        case ast.Name(id="nan"):
            return None
        case ast.Call(func=ast.Name(id="AgentAction"), keywords=keywords):
            return {keyword.arg: _literal(keyword.value) for keyword in keywords}
        case ast.Call(func=ast.Name(id="array" | "Timestamp"), args=[first, *_]):
            return _literal(first)
        case _:
            raise ValueError(f"{ast.unparse(node)[:60]!r} is no literal")
