"""What the studies over several seeds share: their options, and a pool of processes with a progress bar."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import track

Job = TypeVar("Job")
Result = TypeVar("Result")


def options(description: str | None, seeds: int = 5) -> argparse.Namespace:
    """Read ``OUT.json [--seeds N] [--workers 2]``; `seeds` is what a study takes where none are named."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--workers", type=int, default=2)
    return parser.parse_args()


def in_processes(do: Callable[[Job], Result], jobs: Sequence[Job], workers: int, title: str) -> Iterator[Result]:
    """Yield the results, in the order of the jobs."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from track(pool.map(do, jobs), title, len(jobs), console=Console(stderr=True))
