"""The benchmark gate: base and head interleaved in one run; slower, fatter or newly failing code does not pass.

``python -m benchmarks gate --base HEAD~1 [--head .]``: each side is a commit or a folder. Four scenarios (short answer,
one hop, multi-hop chain, malformed-reply recovery) run in turn in both. A figure fails when the lower 95 % bound of its
ratio is above +10 % at p95 or +5 % in memory, or when an error is new; +7 % at p50, or another number of steps, asks for a
REVIEW. ``benchmarks/signoff.toml`` accepts a figure by name, with a reason; errors it cannot accept. Anything else exits 1.
``--scenarios`` chooses others: a scripted run of
five steps, retrievals from a playbook of 2,000 bullets, commits to it, learning from a run. The report gives for each
scenario the geometric mean of head's median to base's, one ratio per pair of processes.

Examples:
    python -m benchmarks gate --base 72ef5dd --pairs 40 --rounds 4 --scenarios five_steps retrieve add --json /tmp/speed.json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.worker import Worker

ROOT = Path(__file__).resolve().parent.parent
SCENARIOS = ("short_answer", "one_hop", "multi_hop", "malformed_recovery")
RUNS_OF = {"five_steps": 10, "retrieve": 50, "add": 50, "learn": 20}
"""Runs per round of the scenarios that are measured when asked for."""
LIMITS = {"p50": 1.07, "p95": 1.10, "peak_mb": 1.05}
PAIRS, ROUNDS, RUNS, RESAMPLES = 3, 12, 6, 2_000


class Side(Worker):
    """One version of the code, in a process of its own."""

    def __init__(self, tree: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree), "HF_HUB_OFFLINE": "1"}
        super().__init__([sys.executable, Path(__file__).with_name("scenarios.py")], environment, tree)
        running = Path(self.read()["ace"])
        if not running.is_relative_to(tree.resolve()):
            raise SystemExit(f"a worker of the gate runs {running}, not the code in {tree}")

    def run(self, scenario: str, runs: int) -> dict[str, Any]:
        """Make some runs of a scenario.

        Raises:
            SystemExit: The process has ended.
        """
        try:
            return self.ask({"scenario": scenario, "runs": runs})
        except RuntimeError as error:
            raise SystemExit(f"{error}; does this version still have the names that scenarios.py uses?") from error


def checkout(where: str, folder: Path) -> Path:
    """Return a folder as it is, or a commit's tree."""
    if Path(where).is_dir():
        return Path(where).resolve()
    target = folder / where.replace("/", "_")
    target.mkdir()
    archive = subprocess.run(["git", "archive", where, "ace"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", target], input=archive, check=True)
    return target


def measure(
    trees: dict[str, Path], scenarios: Sequence[str] = SCENARIOS, pairs: int = PAIRS, rounds: int = ROUNDS
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return side to scenario to one record per round; who goes first changes from round to round."""
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {side: {s: [] for s in scenarios} for side in trees}
    order = random.Random(0)
    for _ in track(range(pairs), "pairs of processes", console=Console(stderr=True), transient=True):
        sides = {side: Side(tree) for side, tree in trees.items()}
        for number in range(rounds + 1):
            for scenario in scenarios:
                for side in order.sample(list(sides), len(sides)):
                    record = sides[side].run(scenario, RUNS_OF.get(scenario, RUNS))
                    if number:
                        rows[side][scenario].append(record)
        for side in sides.values():
            side.close()
    return rows


def quantile(records: list[dict[str, Any]], figure: str) -> float:
    """Return p50 or p95 of all runs in some rounds, or their median peak memory."""
    if figure == "peak_mb":
        return float(np.median([record["peak_mb"] for record in records]))
    return float(np.quantile([ms for record in records for ms in record["ms"]], {"p50": 0.5, "p95": 0.95}[figure]))


def ratio(base: list[dict[str, Any]], head: list[dict[str, Any]], figure: str) -> tuple[float, float, float]:
    """Return head to base, with a 95 % interval from a bootstrap over rounds (base and head of a round stay together)."""
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(RESAMPLES):
        chosen = rng.integers(0, len(base), len(base))
        draws.append(quantile([head[i] for i in chosen], figure) / quantile([base[i] for i in chosen], figure))
    low, high = np.quantile(draws, [0.025, 0.975])
    return quantile(head, figure) / quantile(base, figure), float(low), float(high)


def ratio_of_pairs(base: list[dict[str, Any]], head: list[dict[str, Any]], rounds: int) -> dict[str, float]:
    """Return the geometric mean of head's median to base's, one ratio per pair of processes, and its 95 % bootstrap
    interval."""
    firsts = range(0, len(base), rounds)
    medians = [[quantile(side[i : i + rounds], "p50") for i in firsts] for side in (base, head)]
    logs = np.log(np.divide(medians[1], medians[0]))
    chosen = np.random.default_rng(0).integers(0, len(logs), (RESAMPLES, len(logs)))
    low, high = np.quantile(logs[chosen].mean(axis=1), [0.025, 0.975])
    return {
        "ratio": float(np.exp(logs.mean())),
        "low": float(np.exp(low)),
        "high": float(np.exp(high)),
        "pairs": len(logs),
        "base_ms": float(np.median(medians[0])),
        "head_ms": float(np.median(medians[1])),
    }


def judge(
    rows: dict[str, dict[str, list[dict[str, Any]]]], signed: dict[str, str]
) -> tuple[list[dict[str, Any]], bool]:
    """Judge every figure, and whether all is well."""
    verdicts: list[dict[str, Any]] = []
    for scenario in rows["base"]:
        base, head = rows["base"][scenario], rows["head"][scenario]
        for figure, limit in LIMITS.items():
            value, low, high = ratio(base, head, figure)
            name = f"{scenario}/{figure}"
            verdict = "ok"
            if low > limit:
                verdict = _signed(name, signed) or ("REVIEW" if figure == "p50" else "FAIL")
            one, other = quantile(base, figure), quantile(head, figure)
            verdicts.append(
                {"name": name, "base": one, "head": other, "ratio": value, "low": low, "high": high, "verdict": verdict}
            )
        errors = [sum(record["errors"] for record in side) for side in (base, head)]
        verdict = "FAIL" if errors[1] > errors[0] else "ok"
        verdicts.append({"name": f"{scenario}/errors", "base": errors[0], "head": errors[1], "verdict": verdict})
        steps = [side[-1]["steps"] for side in (base, head)]
        name = f"{scenario}/steps"
        verdict = "ok" if steps[0] == steps[1] else _signed(name, signed) or "REVIEW"
        verdicts.append({"name": name, "base": steps[0], "head": steps[1], "verdict": verdict})
    return verdicts, all(row["verdict"] not in ("FAIL", "REVIEW") for row in verdicts)


def _signed(name: str, signed: dict[str, str]) -> str:
    return f"signed off: {signed[name]}" if name in signed else ""


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and say by the exit code whether head may pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="HEAD~1", help="commit or folder to compare with")
    parser.add_argument("--head", default=str(ROOT), help="commit or folder to examine")
    parser.add_argument("--signoff", default=str(ROOT / "benchmarks" / "signoff.toml"))
    parser.add_argument("--pairs", type=int, default=PAIRS, help="pairs of processes (%(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of runs in each pair (%(default)s)")
    parser.add_argument("--scenarios", nargs="+", choices=(*SCENARIOS, *RUNS_OF), default=SCENARIOS, metavar="NAME")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--only-measure", action="store_true", help="leave the verdict to who reads the figures")
    given = parser.parse_args(arguments)
    accepted = tomllib.loads(Path(given.signoff).read_text(encoding="utf-8")).get("accept", [])
    signed = {row["figure"]: row["reason"] for row in accepted}
    with tempfile.TemporaryDirectory() as folder:
        trees = {side: checkout(getattr(given, side), Path(folder)) for side in ("base", "head")}
        rows = measure(trees, given.scenarios, given.pairs, given.rounds)
    ratios = {s: ratio_of_pairs(rows["base"][s], rows["head"][s], given.rounds) for s in given.scenarios}
    verdicts, good = judge(rows, signed)
    table = Table(
        title=f"head beside base ({given.base}), {given.pairs} pairs of processes, {given.rounds} rounds each"
    )
    for name in ("figure", "base", "head", "ratio", "95 %", ""):
        table.add_column(name, justify="left" if name in ("figure", "") else "right")
    for row in verdicts:
        interval = f"{row['low']:.2f}-{row['high']:.2f}" if "low" in row else ""
        shown = f"{row['ratio']:.2f}" if "ratio" in row else ""
        colour = {"ok": "green", "REVIEW": "yellow", "FAIL": "red"}.get(row["verdict"], "yellow")
        table.add_row(
            row["name"],
            f"{row['base']:.2f}",
            f"{row['head']:.2f}",
            shown,
            interval,
            f"[{colour}]{row['verdict']}[/{colour}]",
        )
    Console(width=120).print(table)
    for name, found in ratios.items():
        low, high = found["low"], found["high"]
        print(f"{name}: median {found['ratio']:.3f} times base's, pair by pair ({low:.3f} to {high:.3f})")
    if given.json:
        Path(given.json).write_text(
            json.dumps({"good": good, "figures": verdicts, "pairs": ratios}, indent=1), encoding="utf-8"
        )
    return 0 if good or given.only_measure else 1


if __name__ == "__main__":
    raise SystemExit(main())
