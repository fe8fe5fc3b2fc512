"""BFCL as suites: its conversations of several turns, and its single turns."""

from __future__ import annotations

from ace_suites.bfcl.conversations import BfclSuite
from ace_suites.bfcl.turns import CATEGORIES, SingleTurnSuite


def load(argument: str) -> BfclSuite | SingleTurnSuite:
    """Load BFCL, turn by turn: base, long_context, miss_param, or of single turns multiple, irrelevance; needs bfcl-eval."""
    return SingleTurnSuite(argument) if argument in CATEGORIES else BfclSuite(argument or "base")
