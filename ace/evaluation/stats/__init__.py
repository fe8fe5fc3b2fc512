"""Estimates with 95 % intervals, tests for pairs, and what repeated runs show."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
