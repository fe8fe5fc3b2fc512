"""From runs to the figures of a report: arms with intervals, and comparisons of arms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ace.evaluation.report.findings import grouped, pairs_of
from ace.evaluation.report.models import ArmReport, ComparisonReport, DomainReport
from ace.evaluation.row import RunReport
from ace.evaluation.stats import compare, holm, mean, pass_hat_k, share, share_closed

METRICS = ("success", "iterations", "tokens")
"""What arms are compared in."""


def summarise(runs: Sequence[RunReport]) -> dict[str, ArmReport]:
    """Compute means per arm, with intervals that respect task families."""
    return {arm: _arm(rows) for arm, rows in grouped((run.arm, run) for run in runs).items()}


def value_of(run: RunReport, metric: str) -> float:
    """Return one of `METRICS` of a run."""
    if metric == "success":
        return float(run.correct)
    return float(run.input_tokens + run.output_tokens) if metric == "tokens" else float(run.iterations)


def _arm(rows: Sequence[RunReport]) -> ArmReport:
    groups = [row.group for row in rows]
    success = share([float(row.correct) for row in rows], groups)
    iterations = mean([row.iterations for row in rows], groups)
    repeats = grouped((row.id, row.correct) for row in rows)
    most = min(map(len, repeats.values()))
    return ArmReport(
        success=success.value,
        iterations=iterations.value,
        n=len(rows),
        success_interval=success.interval,
        iterations_interval=iterations.interval,
        lm_calls=sum(row.lm_calls for row in rows) / len(rows),
        memory_tokens=sum(row.memory_tokens for row in rows) / len(rows),
        tokens=sum(value_of(row, "tokens") for row in rows) / len(rows),
        seconds=sum(row.seconds for row in rows) / len(rows),
        cost=sum(row.cost for row in rows),
        unfinished=sum(row.termination != "completed" for row in rows),
        pass_hat_k={k: pass_hat_k(repeats, k).value for k in range(1, most + 1)} if most > 1 else {},
    )


def by_domain(runs: Sequence[RunReport]) -> dict[str, DomainReport]:
    """Count per domain."""
    domains: dict[str, DomainReport] = {}
    for run in runs:
        row = domains.setdefault(run.domain, DomainReport())
        row.n += 1
        row.correct += run.correct
        row.error += run.termination != "completed"
    return domains


def comparisons(
    runs: Sequence[RunReport], against: str | None = None, seeded: Sequence[str] = ()
) -> list[ComparisonReport]:
    """Compare every arm against one of them, on the runs that both have made; p values are corrected for their number.

    Args:
        runs: Of all arms.
        against: The arm that the others are compared with; the first one by default.
        seeded: Arms whose runs of one seed share more than randomness, as a playbook that was learned with it: there seeds
            are a random effect beside the families.
    """
    arms = list(dict.fromkeys(run.arm for run in runs))
    base = against or next(iter(arms), "")
    found: list[ComparisonReport] = []
    for arm in arms:
        pairs = pairs_of(runs, base, arm) if arm != base else []
        groups, seeds = [early.group for early, _ in pairs], [early.seed for early, _ in pairs]
        for metric in METRICS if pairs else ():
            before, after = ([value_of(pair[i], metric) for pair in pairs] for i in (0, 1))
            if metric == "tokens" and not any(before) and not any(after):
                continue  # the model's API reports none
            shared = seeds if {arm, base} & set(seeded) else None
            result = compare(before, after, groups, shared, binary=metric == "success")
            found.append(
                ComparisonReport(
                    metric=metric,
                    before=base,
                    after=arm,
                    n=len(pairs),
                    difference=result.difference.value,
                    interval=result.difference.interval,
                    p=_known(result.difference.p),
                    p_corrected=None,
                    gained=result.gained,
                    lost=result.lost,
                    mcnemar=_known(result.mcnemar),
                    smallest_effect=_known(result.smallest_effect),
                    families=result.paired.families,
                    rule=result.paired.reason,
                )
            )
    corrected = holm({str(i): math.nan if row.p is None else row.p for i, row in enumerate(found)})
    return [row.model_copy(update={"p_corrected": _known(corrected[str(i)])}) for i, row in enumerate(found)]


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None


def ways_closed(
    runs: Sequence[RunReport], seeded: Sequence[str] = ()
) -> dict[str, dict[str, tuple[float | None, float | None, float | None]]]:
    """Estimate how much of the way from the arm `none` to `gold` each other arm goes: estimate, low and high.

    Args:
        runs: Of all arms; those that all three have made count.
        seeded: See `comparisons`.
    """
    arms: dict[str, dict[tuple[int, str], RunReport]] = {"none": {}, "gold": {}}
    for run in runs:
        arms.setdefault(run.arm, {})[run.seed, run.id] = run
    found: dict[str, dict[str, tuple[float | None, float | None, float | None]]] = {}
    for arm, rows in arms.items():
        keys = sorted(rows.keys() & arms["none"].keys() & arms["gold"].keys())
        if arm in ("none", "gold") or not keys:
            continue
        groups, seeds = [rows[key].group for key in keys], [key[0] for key in keys] if arm in seeded else None
        for metric in ("iterations", "success"):
            start, own, end = ([value_of(arms[name][key], metric) for key in keys] for name in ("none", arm, "gold"))
            closed = share_closed(start, own, end, groups, seeds)
            if _known(closed.value) is not None:
                found.setdefault(arm, {})[metric] = (closed.value, *closed.interval)
    return found


def closed(arms: dict[str, ArmReport]) -> dict[str, dict[str, float]]:
    """Return how much of the way from `none` to `gold` each arm goes; empty when the two do not differ."""
    none, gold = arms.get("none"), arms.get("gold")
    if none is None or gold is None:
        return {}
    shares: dict[str, dict[str, float]] = {}
    for name, arm in arms.items():
        shares[name] = {
            metric: (getattr(arm, metric) - getattr(none, metric)) / (getattr(gold, metric) - getattr(none, metric))
            for metric in ("iterations", "success")
            if getattr(gold, metric) != getattr(none, metric)
        }
    return shares
