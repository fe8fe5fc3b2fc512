"""`ace optimize`: one of five optimizers over a suite, in a folder that survives interruptions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ace.cli import _shared as shared
from ace.cli._shared import check_reachable, console, examples, write_json
from ace.core import SuiteError
from ace.evaluation.report.wording import span
from ace.suites.registry import SUITE_SPECS

if TYPE_CHECKING:
    from ace.evaluation.report.models import OptimizeReport

EXAMPLES = examples(
    "ace optimize office --lm simulated --optimizer ace --out office-ace",
    "ace optimize office --lm openai/gpt-5 --optimizer gepa --out gepa",
    "ace evaluate office --lm simulated --part second --program office-ace",
)


def optimize(
    suite: Annotated[str, typer.Argument(help=SUITE_SPECS)],
    optimizer: Annotated[str, typer.Option(help="ace, gepa, mipro, simba or bootstrap.")] = "ace",
    lm: shared.LmOption = "",
    out: Annotated[Path | None, typer.Option(help="The result folder; SUITE-OPTIMIZER by default.")] = None,
    reflection_lm: Annotated[
        str, typer.Option(help="Writes instructions; as --lm by default. ACE learns without one unless you name it.")
    ] = "",
    train: Annotated[int, typer.Option(min=1, help="Tasks to learn from.")] = 20,
    val: Annotated[int, typer.Option(min=1, help="Tasks to choose by.")] = 10,
    test: Annotated[int, typer.Option(min=1, help="Tasks to measure on; no optimizer sees them.")] = 20,
    budget: Annotated[int, typer.Option(min=1, help="Roughly how many runs of the agent.")] = 150,
    seed: Annotated[int, typer.Option(help="Of all choices.")] = 0,
    threads: Annotated[
        int, typer.Option(min=1, help="Runs at a time; more than 1 makes a resumed job less exact.")
    ] = 1,
    tool_cards: Annotated[bool, typer.Option(help="Let GEPA rewrite tool descriptions too.")] = True,
    price_in: Annotated[float | None, typer.Option(min=0, help="Dollars per million prompt tokens of --lm.")] = None,
    price_out: Annotated[float | None, typer.Option(min=0, help="Dollars per million completion tokens.")] = None,
    api_base: shared.ApiBaseOption = None,
    cache: shared.CacheOption = False,
    json_file: shared.JsonOption = None,
) -> None:
    """Optimize the agent on a suite, and measure it before and after on tasks that the optimizer never saw.

    MIPROv2 and SIMBA show the program's source, all of them but BootstrapFewShot and ACE show whole runs, to the reflection
    model.
    """
    from ace.core import TokenPrices

    check_reachable([lm, reflection_lm], api_base)
    from ace.evaluation.hosted import ModelServer
    from ace.evaluation.models import choose_model, reflection_for
    from ace.optimization import JobConfig, optimize as run, suite_workload
    from ace.optimization.optimizers import NAMES
    from ace.suites.registry import load_suite

    if optimizer not in NAMES:
        raise SuiteError(f"--optimizer {optimizer!r}: expected one of {', '.join(NAMES)}")
    loaded = load_suite(suite, toolkits="all")  # one program, one set of tools
    server = ModelServer(api_base, cache)
    choice = choose_model(lm, loaded, server)
    if choice.replays:
        raise SuiteError("a recorded run cannot be optimized: its answers do not depend on the prompt")
    reflection = reflection_for(reflection_lm, choice, seed, server)
    config = JobConfig(
        optimizer=optimizer,
        workload=suite,
        lm=choice.name,
        reflection_lm=reflection_lm,
        train=train,
        val=val,
        test=test,
        budget=budget,
        seed=seed,
        threads=threads,
        tool_cards=tool_cards,
    )
    workload = suite_workload(
        loaded, train=train, val=val, test=test, seed=seed, policy=choice.policy, label=choice.label
    )
    folder = out or Path(f"{suite.partition(':')[0]}-{optimizer}")
    prices = TokenPrices(input=price_in or 0, output=price_out or 0) if price_in or price_out else None
    console.print(f"{optimizer} over {loaded.name}, {choice.name} -> {folder}   {choice.label}")
    report = run(
        workload,
        config,
        choice.lm_for(seed),
        out=folder,
        reflection_lm=reflection if reflection_lm or optimizer != "ace" else None,
        prices=prices,
        console=console,
    )
    _show(report, folder)
    write_json(report, json_file)


def _show(report: OptimizeReport, folder: Path) -> None:
    label = f" ({report.label})" if report.label else ""
    table = Table(title=f"{report.optimizer} over {report.workload}{label}, test tasks", title_justify="left")
    for name in ("program", "score", "success", "95 %", "iterations", "n"):
        table.add_column(name, justify="left" if name == "program" else "right", overflow="fold")
    for name, arm in report.arms.items():
        table.add_row(
            name,
            f"{report.scores[name]:.3f}",
            f"{100 * arm.success:.1f} %",
            span(arm.success_interval, 100, to=" - "),
            f"{arm.iterations:.2f}",
            str(arm.n),
        )
    console.print(table)
    low, high = report.gain_interval
    if low is None or high is None:
        found = (
            "the test tasks are of too few families to tell whether others would gain (4 are needed, 6 to show a gain)"
        )
    else:
        word = "more than" if low > 0 else "less than" if high < 0 else "not shown to differ from"
        found = f"95 % {span(report.gain_interval, digits=3, sign='+')}: {word} before"
    console.print(f"gain {report.gain:+.3f}, {found}")
    what = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in report.changed.items())
    money = f", ${report.cost:.2f}" if report.cost is not None else ""
    console.print(
        f"changed: {what}; spent {report.requests} requests ({report.replayed} replayed), "
        f"{report.input_tokens + report.output_tokens} tokens{money}, {report.runs} runs while optimizing"
    )
    console.print(f"{folder / 'diff.md'} lists the differences; program and scores lie beside it")
