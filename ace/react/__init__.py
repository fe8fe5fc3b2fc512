"""`ReActGenerator`, and all knowledge of `dspy.ReAct`."""

from ace.agent.record import DEFAULT_MAX_ITERS
from ace.react.generator import BulletSource, ReActGenerator
from ace.react.prediction import ReActPrediction

__all__ = ["DEFAULT_MAX_ITERS", "BulletSource", "ReActGenerator", "ReActPrediction"]
