"""What every package shares: errors, events, cancellation, clock, usage, clean text. Imports no other package of `ace`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
