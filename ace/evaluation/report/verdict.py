"""The sentence that a report starts with: whether an arm helped, on how many tasks, how sure that is, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ace.evaluation.report.findings import tasks as tasks_of
from ace.evaluation.report.models import ComparisonReport, Interval
from ace.evaluation.report.wording import count, p_value, span
from ace.evaluation.row import RunReport
from ace.evaluation.stats import sign_test
from ace.evaluation.stats.differences import LEAST_FAMILIES, LEAST_FAMILIES_FOR_A_FINDING

Pairs = Sequence[tuple[RunReport, RunReport]]


def verdict(differences: Sequence[ComparisonReport], pairs: Pairs, label: str = "") -> str:
    """Compare one arm with the first, in one or two sentences, on the runs that both have made.

    Where the arm is `none`, they are about the first one: a reader asks what a memory does, not what its absence does.
    Tokens and dollars are told where runs of both arms know them. With too few families for an interval they tell what is
    known of these tasks, by an exact sign test, and what is not.

    Args:
        differences: Of all arms against the first.
        pairs: The runs, at least one.
        label: As results are labelled, `simulated` for example.

    Examples:
        >>> from ace.evaluation import Study, StudyConfig
        >>> config = StudyConfig("office", "simulated", "none,gold", limit=4, out=getfixture("tmp_path"))
        >>> Study(config).run().verdicts[0].partition(":")[0]
        'These tasks are too few to tell whether gold helps more than none (simulated)'
    """
    after = pairs[0][1].arm
    success = next(row for row in differences if (row.after, row.metric) == (after, "success"))
    change, interval = success.difference, success.interval
    if after == "none":
        pairs = [(late, early) for early, late in pairs]
        change, interval = -change, _turned(interval)
    base, arm = pairs[0][0].arm, pairs[0][1].arm
    how = f" ({label})" if label else ""
    solved = [100 * sum(pair[i].correct for pair in pairs) / len(pairs) for i in (0, 1)]
    on = f"{count(len({early.id for early, _ in pairs}), 'task')} of {count(success.families, 'family', 'families')}"
    price = f"a run took {_price(pairs)}."
    if all(early.correct == late.correct for early, late in pairs):
        left = {0.0: "; easier ones may show one", 100.0: "; harder ones may show one"}.get(solved[0], "")
        runs = {0.0: "neither solved a run", 100.0: "both solved all"}.get(solved[0], "both solved the same runs")
        return f"{arm} and {base} do not differ here{how}: {runs}, on {on}{left}; {price}"
    low, high = interval
    if low is None or high is None:
        return f"{_within(arm, base, how, pairs, success.families)} {price.capitalize()}"
    found = (
        f"{arm} helped"
        if low > 0
        else f"{arm} hurt"
        if high < 0
        else f"It was not shown that {arm} helps more than {base}"
    )
    few = ""
    if low <= 0 <= high and success.families < LEAST_FAMILIES_FOR_A_FINDING:
        few = f", where {LEAST_FAMILIES_FOR_A_FINDING} families are needed to show a difference"
    return (
        f"{found}{how}: it solved {solved[1]:.0f} % of runs where {base} solved {solved[0]:.0f} %, a difference of "
        f"{100 * change:+.1f} points (95 %: {span(interval, 100, sign='+')}), on {on}{few}; {price}"
    )


def _within(arm: str, base: str, how: str, pairs: Pairs, families: int) -> str:
    """Say what is known of these tasks, and what is not of others: there are too few families for an interval."""
    outcomes = [task.outcome for task in tasks_of(pairs)]
    won, lost = outcomes.count("won"), outcomes.count("lost")
    chance = sign_test(won, lost)
    if chance < 0.05:
        found = f"On these tasks {arm} {'helped' if won > lost else 'hurt'}"
    else:
        found = f"These tasks are too few to tell whether {arm} helps more than {base}"
    here = "this family" if families == 1 else f"these {families} families"
    return (
        f"{found}{how}: {won} won and {lost} lost of {len(outcomes)} against {base} (exact sign test over tasks within "
        f"{here}: p {p_value(chance, equals=True)}). Of other families nothing is known yet: an interval needs "
        f"{LEAST_FAMILIES} families, and showing a difference at least {LEAST_FAMILIES_FOR_A_FINDING}."
    )


def nothing_to_compare(base: str, arm: str | None = None) -> str:
    """Say why there is no verdict: there is one arm only, or two have no run in common.

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


def _price(pairs: Pairs) -> str:
    """Say what a run of the second arm takes more or less than one of the first."""

    def change(of: Callable[[RunReport], float]) -> float:
        return sum(of(late) - of(early) for early, late in pairs) / len(pairs)

    def known(of: Callable[[RunReport], float]) -> bool:
        return all(any(of(pair[i]) for pair in pairs) for i in (0, 1))

    def tokens(run: RunReport) -> float:
        return run.input_tokens + run.output_tokens

    parts: list[str] = []
    if memory := change(lambda run: run.memory_tokens):
        parts.append(f"{_more(memory, 0)} tokens of memory")
    if known(tokens):
        parts.append(f"{_more(change(tokens), 0)} tokens in all")
    if known(lambda run: run.cost):
        dollars = change(lambda run: run.cost)
        parts.append(f"{abs(dollars):,.4f} US$ {'less' if dollars < 0 else 'more'}")
    steps = f"{_more(change(lambda run: run.iterations), 1)} iterations"
    return f"{', '.join(parts)} and {steps}" if parts else steps


def _more(change: float, digits: int) -> str:
    """Write a change as ``1.8 fewer``."""
    told = f"{abs(change):,.{digits}f}"
    return f"{told} {'fewer' if change < 0 else 'more'}" if float(told.replace(",", "")) else "as many"
