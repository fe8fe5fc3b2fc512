"""Learning from runs: offline with `fit`, in the background with `observe`, from other frameworks' traces."""

from ace.learner.episode import Agent, Episode, LearningReport, as_feedback
from ace.learner.learner import Learner
from ace.learner.memory import LearningMemory
from ace.learner.traces import read_trace

__all__ = ["Agent", "Episode", "Learner", "LearningMemory", "LearningReport", "as_feedback", "read_trace"]
