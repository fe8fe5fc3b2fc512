"""Makes the evidence that `docs/evidence.md` shows: ``make evidence`` (at most 60 minutes on two cores).

``python -m benchmarks evidence [--data DATA] [--only PART ...] [--show]``. Each part is a study of its own that writes JSON
into ``evidence/``; one that is there already, made by the same code, is not made again, so an interrupted run goes on. At
the end ``benchmarks/evidence.json``, the tables between the marks in `docs/evidence.md` and the plot beside it are written
again, from what this code made; the rest stays as it was. ``--show`` only writes these. Parts that need the public data are
left as they were where DATA is not there: the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.learning.memory_study import span

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "evidence"
KEPT, PAGE, PLOT = ROOT / "benchmarks" / "evidence.json", ROOT / "docs" / "evidence.md", ROOT / "docs" / "evidence.svg"
PARTS: Mapping[str, tuple[str, ...]] = {
    "coverage": ("evaluation.coverage", "{out}"),
    "curves": ("learning.curves", "{out}"),
    "peers": ("learning.memories", "{out}"),
    "retention": ("learning.retention", "{out}"),
    "decisions": ("retrieval.decisions", "{data}", "{out}"),
    "tau2": ("retrieval.tau2", "{data}", "{out}"),
}
"""Each study and its arguments."""
KINDS = {"ace": (".py", ".toml", ".json", ".jsonl", ".gz"), "benchmarks": (".py", ".toml", ".json")}
BEGIN, END = "<!-- {} -->", "<!-- end of {} -->"


def code_digest() -> str:
    """Hash all code, and data in the repository, that a figure can rest on."""
    weights = ROOT / "ace" / "playbook" / "index" / "minilm"  # downloaded, always the same
    files = [
        path
        for folder, kinds in KINDS.items()
        for path in (ROOT / folder).rglob("*")
        if path.suffix in kinds
        and weights not in path.parents
        # lists beside the runner, such as the claims, are read by no study
        and (path.suffix == ".py" or path.parent != ROOT / "benchmarks")
    ]
    return sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()


def current(name: str, digest: str) -> bool:
    """Check whether a study's figures are there, made by this code."""
    stamp = FOLDER / f"{name}.digest"
    return (FOLDER / f"{name}.json").exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == digest


def make(names: Iterable[str], data: Path, console: Console) -> list[str]:
    """Run the studies that are not there yet, and name those that lack their data."""
    FOLDER.mkdir(exist_ok=True)
    digest, skipped = code_digest(), list[str]()
    for name in names:
        out, stamp = FOLDER / f"{name}.json", FOLDER / f"{name}.digest"
        if current(name, digest):
            console.print(f"{name}: there already, made by the same code")
            continue
        script, *arguments = PARTS[name]
        if "{data}" in arguments and not data.is_dir():
            skipped.append(name)
            continue
        started = time.monotonic()
        console.print(f"{name}: running ...")
        fresh = FOLDER / f"{name}.fresh.json"
        filled = [word.format(out=fresh, data=data) for word in arguments]
        subprocess.run([sys.executable, "-m", f"benchmarks.{script}", *filled], cwd=ROOT, check=True)
        os.replace(fresh, out)
        stamp.write_text(digest, encoding="utf-8")
        console.print(f"{name}: done in {time.monotonic() - started:.0f} s")
    return skipped


def kept(console: Console) -> dict[str, Any]:
    """Return what was measured: of each study what this code made, or else what was published before."""
    found: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    digest = code_digest()
    for name in PARTS:
        file = FOLDER / f"{name}.json"
        if current(name, digest):
            found[name] = rounded(json.loads(file.read_text(encoding="utf-8")))
        else:
            why = "was not made by this code" if file.exists() else "is not there"
            console.print(f"{name}: kept as it stands in {KEPT.name}; {FOLDER.name}/{file.name} {why}", soft_wrap=True)
    return found


def rounded(value: Any) -> Any:
    """Round numbers to four digits after the point: more would differ from machine to machine."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


# -- tables ------------------------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table in Markdown."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def curves_table(found: Mapping[str, Any]) -> str:
    """Show what a playbook adds, one thing varied at a time."""
    rows = (
        (
            f"**{row['attempts']}**" if row == found["in_the_middle"] else str(row["attempts"]),
            row["split"],
            row["reader"],
            f"{row['none']:.0f}",
            span(row["success"]),
            span(row["gain_success"], 0, "+"),
            span(row["closed_success"]),
            span(row["gain_iterations"], 1, "+"),
        )
        for row in found["cells"]
    )
    head = ("attempts", "split by", "reader", "none, %", "playbook, %", "points", "way to gold, %", "iterations")
    return table(head, rows)


def peers_table(found: Mapping[str, Any]) -> str:
    """Show the same notes in every memory."""
    rows = (
        (
            row["memory"],
            row["notes"],
            row["reader"],
            span(row["success"]),
            "" if row["memory"] == "ours" else span(row["ours_ahead"], 0, "+"),
            f"{row['iterations']:.1f}",
            f"{row['tokens']:,.0f}",
        )
        for row in found["rows"]
    )
    return table(("memory", "notes of", "reader", "success, %", "ours is ahead by", "iterations", "tokens"), rows)


def retention_table(found: Mapping[str, Any]) -> str:
    """Show A's tasks, before and after."""
    rows = (
        (
            name if name in ("exprag", "mem0", "episodic") else f"ours, {name}",
            *(
                text
                for metric in ("hit", "success")
                for text in (
                    f"{row[metric]['before']:.1f}",
                    f"{row[metric]['after']:.1f}",
                    span(row[metric]["change"], 1, "+"),
                )
            ),
        )
        for name, row in found["memories"].items()
    )
    head = ("memory", "right plan shown, %", "then", "change", "solved, %", "then", "change")
    counts = (
        f"Of {found['lessons']:.0f} lessons in a book, {found['merged']:.1f} were merged into others on average, and "
        f"{found['pruned']:.1f} were pruned."
    )
    return f"{table(head, rows)}\n\n{counts}"


def decisions_table(found: Mapping[str, Any]) -> str:
    """Show what memory could have won, and cost."""
    rows = (
        (
            model,
            memory,
            str(row[memory]["won"]["n"]),
            span(row[memory]["won"]),
            str(row[memory]["cost"]["n"]),
            span(row[memory]["cost"]),
        )
        for model, row in found["models"].items()
        for memory in row
        if isinstance(row[memory], dict)
    )
    return table(("recorded model", "memory", "failed", "could have won, %", "succeeded", "could have cost, %"), rows)


def tau2_table(found: Mapping[str, Any]) -> str:
    """Show gold replay and retrieval."""
    rows = []
    for domain, gold in found["gold"].items():
        searched = found["retrieval"].get(domain)
        cells = ("", "")
        if searched:
            cells = tuple(
                span({"value": searched[left]["all"]["hit@3"], "low": low, "high": high})
                for left in ("loo", "group")
                for low, high in [searched[left]["all"]["interval"]]
            )
        idle = f"{gold['empty_wrong']} of {gold['empty_expected']}"
        rows.append((domain, str(gold["n"]), str(gold["oracle_right"]), idle, *cells))
    head = ("domain", "tasks", "right after gold calls", "wrong when idle", "hit@3, task out, %", "family out, %")
    learned = found.get("learning")
    text = table(head, rows)
    if learned:
        lessons, strategies = sum(learned["sections"].values()), learned["sections"].get("Strategies", 0)
        text += (
            f"\n\nFrom {learned['runs']} recorded conversations of GPT-4o {lessons} lessons were learned, {strategies} of "
            f"them strategies. Of {learned['unseen_with_writes']} airline tasks with writes that were not recorded a lesson "
            f"holds the gold writes in {span(learned['held'])} %, and is among three found in {span(learned['found'])} %. "
            "The strategies by the calls that they teach:\n\n"
        )
        plans = Counter(", ".join(lesson["tools"]) or "no call" for lesson in learned["lessons"])
        text += table(("strategies", "calls"), ((str(count), calls) for calls, count in plans.most_common()))
    return text


def coverage_table(found: Mapping[str, Any]) -> str:
    """Show how often intervals cover."""
    rows = (
        (
            k,
            *(f"{row[name]:.1f}" for name in ("mean", "worst", "earlier_mean", "earlier_worst", "false_alarms")),
            f"{row['width_ratio']:.2f}",
            f"{row['rare_bad_family']:.0f}",
        )
        for k, row in found["families"].items()
    )
    head = (
        "families",
        "covers, %",
        "worst cell",
        "Student's",
        "its worst",
        "false alarms, %",
        "width to Student's",
        "rare bad family",
    )
    return table(head, rows)


TABLES = {
    "coverage": coverage_table,
    "curves": curves_table,
    "peers": peers_table,
    "retention": retention_table,
    "decisions": decisions_table,
    "tau2": tau2_table,
}


def page(text: str, found: Mapping[str, Any]) -> str:
    """Write the page with its tables as they were measured."""
    for name, shown in TABLES.items():
        if name in found:
            begin, end = BEGIN.format(name), END.format(name)
            pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
            if not pattern.search(text):
                raise SystemExit(f"docs/evidence.md has no place for {name!r}: expected {begin} and {end}")
            made = f"{begin}\n{shown(found[name])}\n{end}"
            text = pattern.sub(lambda _, made=made: made, text)
    return text


def plot(found: Mapping[str, Any], target: Path) -> None:
    """Draw the way to gold of each cell, as dots with intervals."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "evidence", "svg.fonttype": "none", "font.size": 9}
    from matplotlib import pyplot

    cells = found["cells"]
    figure, axis = pyplot.subplots(figsize=(7.2, 3.6))
    names = [
        f"{row['attempts']} attempt{'s' * (row['attempts'] > 1)}, by {row['split']}, {row['reader']}" for row in cells
    ]
    for place, row in enumerate(reversed(cells)):
        closed = row["closed_success"]
        colour = "#b4530a" if row == found["in_the_middle"] else "#1f5fbf"
        if closed["low"] is not None:
            axis.plot([closed["low"], closed["high"]], [place, place], color=colour, linewidth=1.5)
        axis.plot([closed["value"]], [place], "o", color=colour, markersize=5)
    axis.set_yticks(range(len(cells)), names[::-1])
    axis.axvline(0, color="#5b6675", linewidth=0.8)
    axis.axvline(100, color="#5b6675", linewidth=0.8, linestyle=":")
    axis.set_xlabel("way from no memory to gold bullets in success, % (simulated)")
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})
    pyplot.close(figure)


def write(found: Mapping[str, Any]) -> None:
    """Write the summary, the page and the plot."""
    KEPT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    if "curves" in found:
        plot(found["curves"], PLOT)


def main() -> int:
    """Make what is missing, write, and say by the exit code whether all was made that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("ACE_DATA", ROOT.parent / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=data, help="the folder of the public data")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--show", action="store_true", help="only write the tables and the plot again")
    given = parser.parse_args()
    console = Console()
    data = given.data.resolve()
    skipped = [] if given.show else make(given.only, data, console)
    write(kept(console))
    console.print(f"written: {KEPT.relative_to(ROOT)}, {PAGE.relative_to(ROOT)}, {PLOT.relative_to(ROOT)}")
    if skipped:
        console.print(f"not made, there are no data at {data}: {', '.join(skipped)}", soft_wrap=True)
    return 1 if skipped else 0


if __name__ == "__main__":
    raise SystemExit(main())
