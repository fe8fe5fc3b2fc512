"""`ace run`: one task."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ace.cli import _shared as shared
from ace.cli._shared import check_reachable, check_writable, console, counted, examples, write_json
from ace.core import SuiteError, ToolRegistrationError

if TYPE_CHECKING:
    from ace.evaluation.models import ModelChoice
    from ace.playbook import Playbook
    from ace.suites import Suite
    from ace.tasks import Feedback, TaskOutput
    from ace.tools import Tool

EXAMPLES = examples(
    "ace run 'What is 17% of 240?' --lm ollama_chat/llama3.2",
    "ace run 'Refund order 17' --tools shop:tools --playbook pb.db",
    "ace run --suite office --task 'refund#0' --lm simulated:oracle",
    "ace run --resume RUN_ID --run-store runs --decision approve",
)


def run(
    task: Annotated[str | None, typer.Argument(help="What to do, in words.")] = None,
    lm: shared.LmOption = "",
    tools: shared.ToolsOption = None,
    corpus: shared.CorpusOption = None,
    playbook: shared.BookOption = None,
    domain: shared.DomainOption = None,
    max_iters: Annotated[int | None, typer.Option(min=0, help="Limit on iterations; 10 by default.")] = None,
    suite: Annotated[str | None, typer.Option(help="Run a task of this suite instead.")] = None,
    task_id: Annotated[str | None, typer.Option("--task", help="The task's id in the suite.")] = None,
    steps: Annotated[bool, typer.Option(help="Show every step.")] = True,
    trace: Annotated[
        Path | None,
        typer.Option(callback=check_writable, help="Write the run's spans to this file, one JSON line each."),
    ] = None,
    output_mode: Annotated[
        str, typer.Option("--output", help="structured: the trace and the usage too; simple: the bare answer.")
    ] = "structured",
    run_store: Annotated[Path | None, typer.Option(help="Keep every step of the run in this folder.")] = None,
    resume: Annotated[str | None, typer.Option(help="Go on with this run of --run-store.")] = None,
    decision: Annotated[str | None, typer.Option(help="approve or deny, for a run that waits for one.")] = None,
    judge_lm: shared.JudgeOption = "",
    api_base: shared.ApiBaseOption = None,
    cache: shared.CacheOption = False,
    json_file: shared.JsonOption = None,
) -> None:
    """Solve one task and show how."""
    from ace.evaluation.reach import check_named

    if output_mode not in ("simple", "structured"):
        raise SuiteError(f"--output must be simple or structured, got {output_mode!r}")
    if [task, suite, resume].count(None) != 2:
        raise SuiteError("pass one of: a task in words, --suite with --task, --resume with --run-store")
    own = {"--tools": tools, "--corpus": corpus, "--domain": domain, "--max-iters": max_iters, "--run-store": run_store}
    _check_suite(suite, task_id, [name for name, value in own.items() if value is not None])
    _check_resumed(resume, run_store, decision)
    check_named(lm)
    check_reachable([lm], api_base, playbook)
    from ace.evaluation.hosted import ModelServer
    from ace.evaluation.models import choose_model, load_suite_for

    server = ModelServer(api_base, cache)
    loaded = load_suite_for(suite, lm, judge_lm, server) if suite else None
    choice = choose_model(lm, loaded, server)
    from ace.playbook import Playbook
    from ace.react import ReActGenerator

    book = Playbook.open(playbook) if playbook else None
    feedback = None
    with _spans_in(trace):
        if loaded is not None:
            output, feedback = _suite_task(loaded, suite, task_id, choice, book)
        else:
            agent = ReActGenerator(
                tools=named_tools(tools, corpus),
                playbook=book,
                lm=choice.lm_for(0),
                policy=choice.policy,
                run_store=run_store,
            )
            if resume is not None:
                output = agent.resume(resume, decision).output  # pyright: ignore[reportArgumentType] - checked there
            else:
                output = agent.run(task, domain=domain, max_iters=max_iters)
    write_json(output, json_file)
    if output_mode == "simple":
        console.print(str(output.answer))
    else:
        _show(output, feedback, run_store, steps, choice)
    if output.error:
        raise typer.Exit(1)


def _check_suite(suite: str | None, task_id: str | None, own: list[str]) -> None:
    if suite and task_id is None:
        raise SuiteError(f"--suite needs --task ID, a task of it; see: ace suite list {suite}")
    if suite and own:
        raise SuiteError(f"a suite brings its own agent; leave {', '.join(own)} out")


def _check_resumed(resume: str | None, run_store: Path | None, decision: str | None) -> None:
    if resume is not None and run_store is None:
        raise SuiteError("--resume needs --run-store, the folder that holds the run")
    if decision is not None and resume is None:
        raise SuiteError("--decision goes with --resume, the run that waits for it")


@contextmanager
def _spans_in(file: Path | None) -> Generator[None]:
    """Write OpenTelemetry's spans of the block to a file, where one is given; also those of a run that is interrupted."""
    if file is None:
        yield
        return
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    except ModuleNotFoundError as error:
        raise typer.BadParameter(f"--trace needs the package {error.name!r}: pip install 'dspy-ace[trace]'") from error
    provider, kept = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        file.write_text(
            "".join(f"{span.to_json(indent=None)}\n" for span in kept.get_finished_spans()), encoding="utf-8"
        )


def _suite_task(
    suite: Suite, spec: str | None, task_id: str | None, choice: ModelChoice, book: Playbook | None
) -> tuple[TaskOutput, Feedback]:
    from ace.evaluation.episodes import AgentPool

    found = next((task for task in suite.tasks if task.id == task_id), None)
    if found is None:
        raise SuiteError(f"the suite {suite.name!r} has no task {task_id!r}; see: ace suite list {spec}")
    episode = suite.episode(found)
    output = AgentPool(suite, choice.policy).agent(episode, choice.lm_for(0), book).run(episode.task)
    return output, episode.score(output)


def _show(
    output: TaskOutput, feedback: Feedback | None, run_store: Path | None, steps: bool, choice: ModelChoice
) -> None:
    from ace.evaluation.reach import in_words

    if output.error is not None and output.error.kind == "model_transport" and not output.usage.iterations:
        raise SuiteError(in_words(output.error.message, choice.name))  # there is nothing to show but why
    console.print(f"policy: {choice.policy.name}   {choice.label}")
    if steps:
        console.print(str(output.trace))
    if output.error:
        console.print(f"{output.termination_reason}: {output.error.message}", style="red")
    if output.request is not None and run_store is not None:
        calls = ", ".join(f"{call.tool_name}({call.tool_args})" for call in output.request.calls)
        console.print(f"waits for a decision about {calls}; go on with:")
        console.print(f"  --run-store {run_store} --resume {output.run_id} --decision approve|deny")
    if feedback is not None:
        console.print(f"task solved: {'yes' if feedback.success else 'no'} {feedback.text}")
    usage = output.usage
    spent = f"{counted(usage.iterations, 'iteration')}, {counted(usage.lm_calls, 'request')}, {usage.seconds:.1f} s"
    console.print(spent)
    if output.answer is not None:
        console.print(f"answer: {output.answer}")


def named_tools(names: list[str] | None, corpus: Path | None) -> list[Any]:
    """Return the tools that were named, or the built-in ones."""
    from ace.tools import CorpusSearch, builtin_tools

    found: list[Any] = [] if names else list(builtin_tools())
    for name in names or ():
        found.extend(_load(name))
    if corpus is not None:
        try:
            found.append(CorpusSearch.from_folder(corpus, "**/*.*").as_tool())
        except FileNotFoundError as error:
            raise ToolRegistrationError(str(error)) from error
    return found


def _load(name: str) -> list[Tool | Any]:
    import importlib
    import os
    import sys

    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        value = getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # border to the user's module: it may do anything while it is imported
        raise ToolRegistrationError(
            f"--tools {name!r}: {error}; expected MODULE:NAME, for example my_shop:tools"
        ) from error
    finally:
        sys.path.pop(0)
    return list(value) if isinstance(value, (list, tuple)) else [value]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
