"""One run of an agent: a state machine without I/O, the policy it asks, and the drivers that execute its steps."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
