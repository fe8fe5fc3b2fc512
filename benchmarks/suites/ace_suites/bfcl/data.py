"""The files of the package `bfcl-eval`, and its descriptions of arguments as JSON Schema."""
# pyright: basic

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from ace.core import SuiteError

KINDS = {"dict": "object", "float": "number", "tuple": "array"}
"""BFCL's names of types that JSON Schema calls otherwise."""


def data_folder() -> Path:
    """Find where the package keeps its files.

    Raises:
        SuiteError: It is not installed.
    """
    try:
        return Path(str(importlib.import_module("bfcl_eval").__file__)).parent / "data"
    except ImportError as error:
        raise SuiteError("the suite bfcl needs BFCL; install it with: pip install --no-deps bfcl-eval") from error


def lines(path: Path) -> list[dict[str, Any]]:
    """Read the objects of a file of JSON lines."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def schema_of(node: Any) -> Any:
    """Convert BFCL's description of arguments to JSON Schema."""
    if not isinstance(node, dict):
        return node
    made = {
        key: schema_of(value) for key, value in node.items() if key not in ("type", "properties", "response", "default")
    }
    kind = node.get("type")
    if isinstance(kind, str) and kind != "any":
        made["type"] = KINDS.get(kind, kind)
    if "properties" in node:
        made["properties"] = {name: schema_of(part) for name, part in node["properties"].items()}
    return made
