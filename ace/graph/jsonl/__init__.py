"""Checkpoints as JSON lines: one append-only file per thread, each line checked against damage."""

from ace.graph.jsonl.records import CheckpointInfo
from ace.graph.jsonl.saver import JsonlCheckpointer

__all__ = ["CheckpointInfo", "JsonlCheckpointer"]
