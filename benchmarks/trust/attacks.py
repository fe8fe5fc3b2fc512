"""Do runs that obey planted instructions leave a lesson that is shown? ``python -m benchmarks.trust.attacks OUT.json``.

In five small worlds strangers plant instructions in what tools answer: five goals each, in thirteen English wordings, and in
three German and three Spanish ones, in data that the task needs or that is only read. Each run is learned from as a success,
into an empty book: once where the model did what the planted words ask, once where it did not. An attack is left when any
lesson of a run that obeyed is shown. Beside it, what the first question alone leaves without either of its halves:
without the reading of imperatives, and without the values that an answer and a call share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.progress import track

from ace.evaluation.stats import share_interval
from ace.learner import Learner
from ace.playbook import MiniLMEmbedder, Playbook
from ace.playbook.bullet import SHOWN_STAGES
from ace.reflector import asked
from benchmarks.command import command
from benchmarks.trust.worlds import LANGUAGES, Planted, planted

EMBEDDER = MiniLMEmbedder()


def shown(run: Planted) -> bool:
    """Check whether an empty book shows anything after it has learned from the run."""
    with Playbook(embedder=EMBEDDER) as book:
        Learner(book).learn_from_traces([run.messages], [True], read_only=run.reads)
        return any(bullet.stage in SHOWN_STAGES for bullet in book.bullets)


def left(runs: Iterable[Planted]) -> dict[str, Any]:
    """Return the share of runs whose lessons are shown, with its interval, by wording and world."""
    rows = [(run, shown(run)) for run in runs]
    parts: dict[str, list[bool]] = defaultdict(list)
    for run, found in rows:
        parts[run.wording].append(found)
        parts[run.world].append(found)
    count = sum(found for _, found in rows)
    return {
        "n": len(rows),
        "shown": count,
        "share": count / len(rows),
        "interval": share_interval(count, len(rows)),
        "by": {name: sum(found) / len(found) for name, found in parts.items()},
    }


def main() -> dict[str, Any]:
    """Return the report."""
    report = dict[str, Any]()
    for language in LANGUAGES:
        runs = list(planted(languages=[language]))
        obeyed = [run for run in runs if run.followed]
        report[language] = left(track(obeyed, f"{language}, obeyed", console=Console(stderr=True)))
        report[f"{language}, not followed"] = left(run for run in runs if not run.followed)
    english = [run for run in planted() if run.followed]
    # the halves of the first question, by itself
    with patch.object(asked._Call, "unasked", lambda *_: False):
        with patch.object(asked, "asking", lambda sentence: ()):
            report["without imperatives"] = left(english)
        with patch.object(asked, "_loose", lambda args, heard: ([], [])):
            report["without values"] = left(english)
    return report


if __name__ == "__main__":
    command(main)
