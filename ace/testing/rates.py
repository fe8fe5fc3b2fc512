"""How often the stand-in `SimulatedLM` errs: rates that were estimated from recorded runs of real models.

They are measured, not chosen; ``rates.toml`` names the runs that they come from, with counts and intervals.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

RATES_FILE = Path(__file__).with_name("rates.toml")
CONDITIONS = ("without_bullet", "with_bullet", "misled")


@dataclass(frozen=True)
class Rates:
    """Probabilities of one condition."""

    malformed: float
    refused: float
    wasted: float
    stopped: float
    wrong_write: float
    extra_step: float
    extra_write: float

    def scaled(self, factor: float) -> Rates:
        """All rates times a factor, each at most 0.95; for sensitivity analyses."""
        return Rates(**{name: min(0.95, getattr(self, name) * factor) for name in _NAMES})


_NAMES = tuple(field.name for field in fields(Rates))


def load_rates(path: Path = RATES_FILE) -> dict[str, Rates]:
    """The rates by condition, as committed.

    Examples:
        >>> sorted(load_rates())
        ['misled', 'with_bullet', 'without_bullet']
    """
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: Rates(**{rate: table[name][rate]["rate"] for rate in _NAMES}) for name in CONDITIONS}
