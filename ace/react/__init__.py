"""`ReActGenerator`, and all knowledge of `dspy.ReAct`."""

from ace.agent.record import DEFAULT_MAX_ITERS
from ace.react.chat import Chat
from ace.react.generator import BulletSource, ReActGenerator
from ace.react.history import to_messages
from ace.react.prediction import ReActPrediction

__all__ = ["DEFAULT_MAX_ITERS", "BulletSource", "Chat", "ReActGenerator", "ReActPrediction", "to_messages"]
