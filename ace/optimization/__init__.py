"""Learning as a DSPy optimizer."""

from ace.optimization.teleprompter import ACE, as_generator

__all__ = ["ACE", "as_generator"]
