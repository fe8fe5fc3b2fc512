"""WorkBench (Styles et al., 2024): 690 office tasks over five databases, scored by final state.

Written from a specification of its behaviour; the data are the user's own copy.
"""

from ace.evaluation.workbench.recordings import Recording, read_recordings
from ace.evaluation.workbench.sandbox import TOOLKITS, WRITING, Sandbox, World
from ace.evaluation.workbench.suite import DOMAINS, WorkBenchSuite

__all__ = ["DOMAINS", "TOOLKITS", "WRITING", "Recording", "Sandbox", "WorkBenchSuite", "World", "read_recordings"]
