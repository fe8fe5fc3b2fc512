"""Learning from runs: offline with `fit`, in the background with `observe`, from other frameworks' traces."""

from ace.learner.learner import Learner
from ace.learner.report import LearningReport
from ace.learner.traces import read_requests, read_trace

__all__ = ["Learner", "LearningReport", "read_requests", "read_trace"]
