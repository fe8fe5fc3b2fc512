"""Workflows on LangGraph: what it runs, with the guards, events, savers and nodes that it lacks. Needs the extra `graph`."""

import lazy_loader

try:
    import langgraph.graph as _  # noqa: F401
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] not in ("langgraph", "langchain_core"):
        raise
    raise ModuleNotFoundError("ace.graph needs LangGraph: pip install 'dspy-ace[graph]'", name=error.name) from None

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
