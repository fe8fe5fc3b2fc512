"""The sentence that a report starts with: whether an arm helped, on how many tasks, how sure that is, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence

from ace.evaluation.report.models import ComparisonReport
from ace.evaluation.report.wording import span
from ace.evaluation.row import RunReport


def verdict(
    differences: Sequence[ComparisonReport], pairs: Sequence[tuple[RunReport, RunReport]], label: str = ""
) -> str:
    """One arm against the first, in one sentence, on the runs that both have made.

    Args:
        differences: Of all arms against the first.
        pairs: The runs, at least one.
        label: As results are labelled, `simulated` for example.

    Examples:
        >>> from ace.evaluation import Study, StudyConfig
        >>> config = StudyConfig("office", "simulated", "none,gold", limit=4, out=getfixture("tmp_path"))
        >>> Study(config).run().verdicts[0].partition(":")[0]
        'Whether gold helps more than none cannot be said yet (simulated)'
    """
    base, arm = pairs[0][0].arm, pairs[0][1].arm
    success = next(row for row in differences if (row.after, row.metric) == (arm, "success"))
    steps = next(row for row in differences if (row.after, row.metric) == (arm, "iterations"))
    solved = [100 * sum(pair[i].correct for pair in pairs) / len(pairs) for i in (0, 1)]
    memory = sum(late.memory_tokens - early.memory_tokens for early, late in pairs) / len(pairs)
    low, high = success.interval
    tasks = len({early.id for early, _ in pairs})
    if low is None or high is None:
        found = f"Whether {arm} helps more than {base} cannot be said yet"
    elif low > 0:
        found = f"{arm} helped"
    elif high < 0:
        found = f"{arm} hurt"
    else:
        found = f"It was not shown that {arm} helps more than {base}"
    how = f" ({label})" if label else ""
    sure = f"95 %: {span(success.interval, 100, sign='+')}" if low is not None else success.rule
    tokens = f"{_more(memory, 0)} tokens of memory and " if memory else ""
    return (
        f"{found}{how}: it solved {solved[1]:.0f} % of runs where {base} solved "
        f"{solved[0]:.0f} %, a difference of {100 * success.difference:+.1f} points ({sure}), on {tasks} "
        f"tasks of {success.families} {'family' if success.families == 1 else 'families'}; a run took {tokens}"
        f"{_more(steps.difference, 1)} iterations."
    )


def _more(change: float, digits: int) -> str:
    """``1.8 fewer``."""
    return f"{abs(change):,.{digits}f} {'fewer' if change < 0 else 'more'}"
