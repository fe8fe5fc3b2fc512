"""What the scripts of this folder share: a book with a toy embedder, and children that are forked after the imports."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import faiss  # noqa: F401 - imported once, for all forks

    from ace.playbook import CallableEmbedder, Playbook


def toy(texts):
    return [[text.count(letter) + 0.1 for letter in "aeinorst0123456789"] for text in texts]


def opened(url: str, folder: Path) -> Playbook:
    """The book, with its indexes saved in a folder."""
    return Playbook.open(url, embedder=CallableEmbedder("toy", toy), index_folder=folder)


def in_child(work: Callable[[], object]) -> int:
    """Run something in a fork; its exit code says whether it raised."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return pid
