"""How often the stand-in `SimulatedLM` errs: rates that were estimated from recorded runs of real models.

They are measured, not chosen; ``rates.toml`` names the runs that they come from, with counts and intervals.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

RATES_FILE = Path(__file__).with_name("rates.toml")
CONDITIONS = ("without_bullet", "with_bullet", "misled")
ERRORS = ("malformed", "refused", "wasted", "stopped", "wrong_write", "extra_step", "extra_write")
Rates = dict[str, float]
"""The probability of each of `ERRORS`."""


def load_rates(factor: float = 1.0) -> dict[str, Rates]:
    """Load the rates by condition, as committed.

    Args:
        factor: All rates times this, each at most 0.95; for sensitivity analyses.

    Examples:
        >>> sorted(load_rates())
        ['misled', 'with_bullet', 'without_bullet']
    """
    table = tomllib.loads(RATES_FILE.read_text(encoding="utf-8"))
    return {name: {kind: min(0.95, table[name][kind]["rate"] * factor) for kind in ERRORS} for name in CONDITIONS}
