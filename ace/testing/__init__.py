"""Test doubles for your own tests: models that need no network, and tools that fail on demand.

What the simulated models produce is labelled.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
