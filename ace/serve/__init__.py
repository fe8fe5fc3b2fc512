"""One playbook for agents of any framework: what they may ask of it, and the MCP server that offers it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
