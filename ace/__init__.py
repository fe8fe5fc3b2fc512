"""ACE for DSPy: a tool-calling agent that learns a playbook from its own runs.

The names below load on first use, so that ``import ace`` and ``ace --help`` answer at once: neither DSPy, FAISS, torch
nor SQLAlchemy is imported until something needs it.

Examples:
    >>> import ace
    >>> ace.TaskInput(inputs={"task": "Add 2 and 3"}).text
    'Add 2 and 3'
"""

import lazy_loader

__version__ = "1.0.0rc1"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
