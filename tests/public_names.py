"""The names that the packages export."""

import importlib
import inspect
import pkgutil

import ace


def exported():
    """Public package to the names it offers."""
    found = {"ace": list(ace.__all__)}
    for module in pkgutil.walk_packages(ace.__path__, "ace."):
        if module.ispkg and not any(part.startswith("_") for part in module.name.split(".")):
            found[module.name] = list(getattr(importlib.import_module(module.name), "__all__", ()))
    return {name: names for name, names in found.items() if names}


def documented():
    """Public classes and functions by name, each once."""
    found = {}
    for package, names in exported().items():
        for name in names:
            value = getattr(importlib.import_module(package), name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found[name] = value
    return found


def docstring(value):
    """What a class or function says of itself; a class inherits nothing."""
    return (vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__) or ""
