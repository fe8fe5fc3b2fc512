"""Task suites: what one is, the registry that loads them, suites from files, and the office demo."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
