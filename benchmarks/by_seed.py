"""What the studies over several seeds share: a pool of processes with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from rich.console import Console
from rich.progress import track

Job = TypeVar("Job")
Result = TypeVar("Result")


def in_processes(do: Callable[[Job], Result], jobs: Sequence[Job], workers: int, title: str) -> Iterator[Result]:
    """Yield the results, in the order of the jobs."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from track(pool.map(do, jobs), title, len(jobs), console=Console(stderr=True))
