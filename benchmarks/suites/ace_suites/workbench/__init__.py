"""WorkBench (Styles et al., 2024): 690 office tasks over five databases, scored by final state.

Written from a specification of its behaviour; the data are the user's own copy.
"""

from pathlib import Path

from ace.core import SuiteError
from ace_suites.workbench.recordings import Recording, read_recordings
from ace_suites.workbench.sandbox import TOOLKITS, WRITING, Sandbox, World
from ace_suites.workbench.suite import DOMAINS, Toolkits, WorkBenchSuite

__all__ = [
    "DOMAINS",
    "TOOLKITS",
    "WRITING",
    "Recording",
    "Sandbox",
    "WorkBenchSuite",
    "World",
    "load",
    "read_recordings",
]


def load(argument: str, toolkits: Toolkits = "needed") -> WorkBenchSuite:
    """Load the public WorkBench, 690 tasks, from its folder: workbench:PATH.

    Raises:
        SuiteError: There is no such folder, or a file in it is malformed.
    """
    if not argument:
        raise SuiteError("the suite 'workbench' needs the folder of the benchmark: workbench:PATH")
    return WorkBenchSuite(Path(argument), toolkits)
