"""Shared fixtures. Nothing here needs a network."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():
    # third parties warn at import; once imported, every warning is an error
    warnings.simplefilter("ignore")
    import dspy
    import faiss

from databases import postgres, url  # noqa: F401 - fixtures

from ace.playbook import CallableEmbedder, Playbook
from ace.react import ReActGenerator

collect_ignore = ["crash/playbook_crowd.py", "crash/playbook_harness.py", "crash/toybook.py"]  # scripts of their own

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("ACE_DATA", ROOT.parent / "shared" / "data"))
WORKBENCH = DATA / "workbench"

needs_workbench = pytest.mark.skipif(
    not WORKBENCH.is_dir(),
    reason=f"the WorkBench data are not at {WORKBENCH}; set ACE_DATA to the folder that holds them",
)
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"the benchmark data are not at {DATA}; set ACE_DATA to the folder that holds them"
)


def letters(texts):
    """A toy embedding: how often each letter occurs. Texts with common letters are near each other."""
    return [[text.lower().count(chr(97 + i)) + 1e-3 for i in range(26)] for text in texts]


@pytest.fixture(autouse=True, scope="session")
def _a_minute_for_memory():
    """An agent here waits a minute for its lessons: a machine that stands still for 2 s fails no test of something else."""
    defaults = ReActGenerator.__init__.__kwdefaults__
    assert "memory_timeout" in defaults
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(defaults, "memory_timeout", 60.0)
        yield


@pytest.fixture
def embedder():
    return CallableEmbedder("letters", letters)


@pytest.fixture
def book(tmp_path, embedder):
    with Playbook.open(tmp_path / "book.db", embedder=embedder) as playbook:
        yield playbook


@pytest.fixture(scope="session")
def workbench():
    from ace_suites.workbench import WorkBenchSuite

    return WorkBenchSuite(WORKBENCH)


@pytest.fixture(scope="session")
def office():
    from ace.suites.office import OfficeSuite

    return OfficeSuite()


@pytest.fixture(autouse=True)
def _no_trace():
    """DSPy keeps a global trace by default; tests must not feed each other through it."""
    with dspy.context(trace=None, lm=None):
        yield


assert faiss  # imported above for its warnings
