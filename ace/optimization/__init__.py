"""Optimizers of agents: the teleprompter `ACE`, and jobs that run it or one of four of DSPy's."""

from ace.optimization.job import optimize
from ace.optimization.optimizers import JobConfig
from ace.optimization.teleprompter import ACE, as_generator
from ace.optimization.workload import Workload, program_workload, suite_workload
from ace.react.saved_program import load_optimized

__all__ = [
    "ACE",
    "JobConfig",
    "Workload",
    "as_generator",
    "load_optimized",
    "optimize",
    "program_workload",
    "suite_workload",
]
