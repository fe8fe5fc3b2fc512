"""The sentence that a report starts with: whether an arm helped, on how many tasks, how sure that is, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ace.evaluation.report.models import ComparisonReport, Interval
from ace.evaluation.report.wording import span
from ace.evaluation.row import RunReport


def verdict(
    differences: Sequence[ComparisonReport], pairs: Sequence[tuple[RunReport, RunReport]], label: str = ""
) -> str:
    """One arm against the first, in one sentence, on the runs that both have made.

    Where the arm is `none`, the sentence is about the first one: a reader asks what a memory does, not what its absence
    does. Tokens and dollars are told where runs of both arms know them.

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
    after = pairs[0][1].arm
    success = next(row for row in differences if (row.after, row.metric) == (after, "success"))
    change, interval = success.difference, success.interval
    if after == "none":
        pairs = [(late, early) for early, late in pairs]
        change, interval = -change, _turned(interval)
    base, arm = pairs[0][0].arm, pairs[0][1].arm
    solved = [100 * sum(pair[i].correct for pair in pairs) / len(pairs) for i in (0, 1)]
    low, high = interval
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
    sure = f"95 %: {span(interval, 100, sign='+')}" if low is not None else success.rule
    return (
        f"{found}{how}: it solved {solved[1]:.0f} % of runs where {base} solved "
        f"{solved[0]:.0f} %, a difference of {100 * change:+.1f} points ({sure}), on {tasks} "
        f"tasks of {success.families} {'family' if success.families == 1 else 'families'}; a run took {_price(pairs)}."
    )


def nothing_to_compare(base: str, arm: str | None = None) -> str:
    """Why there is no verdict: there is one arm only, or two have no run in common.

    Examples:
        >>> nothing_to_compare("playbook")
        'Nothing to compare with: the only arm is playbook.'
    """
    if arm is None:
        return f"Nothing to compare with: the only arm is {base}."
    return f"Nothing to compare with: the arms {base} and {arm} have no run of the same task and seed in common."


def _turned(interval: Interval) -> Interval:
    low, high = interval
    return None if high is None else -high, None if low is None else -low


def _price(pairs: Sequence[tuple[RunReport, RunReport]]) -> str:
    """What a run of the second arm takes more or less than one of the first."""

    def change(of: Callable[[RunReport], float]) -> float:
        return sum(of(late) - of(early) for early, late in pairs) / len(pairs)

    def known(of: Callable[[RunReport], float]) -> bool:
        return all(any(of(pair[i]) for pair in pairs) for i in (0, 1))

    def tokens(run: RunReport) -> float:
        return run.input_tokens + run.output_tokens

    def cost(run: RunReport) -> float:
        return run.cost

    parts: list[str] = []
    if memory := change(lambda run: run.memory_tokens):
        parts.append(f"{_more(memory, 0)} tokens of memory")
    if known(tokens):
        parts.append(f"{_more(change(tokens), 0)} tokens in all")
    if known(cost):
        dollars = change(cost)
        parts.append(f"{abs(dollars):,.4f} US$ {'less' if dollars < 0 else 'more'}")
    steps = f"{_more(change(lambda run: run.iterations), 1)} iterations"
    return f"{', '.join(parts)} and {steps}" if parts else steps


def _more(change: float, digits: int) -> str:
    """``1.8 fewer``."""
    return f"{abs(change):,.{digits}f} {'fewer' if change < 0 else 'more'}"
