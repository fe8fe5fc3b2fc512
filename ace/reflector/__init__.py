"""From the trace of a run to the lessons in it."""

from ace.reflector.mining import Lesson
from ace.reflector.reflector import Reflector

__all__ = ["Lesson", "Reflector"]
