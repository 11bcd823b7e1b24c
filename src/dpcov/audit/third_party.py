"""Mechanisms of other packages, named on the command line."""

import importlib
from typing import Any

from dpcov.errors import UsageError
from dpcov.mechanisms.base import Mechanism


def load_mechanism(place: str) -> Mechanism[Any]:
    """Import ``package.module:Class`` and build it with its default options; runs that module's code.

    Raises
    ------
    UsageError
        There is no such class, or it does not follow :class:`~dpcov.mechanisms.base.Mechanism`.
    """
    module_name, separator, class_name = place.partition(":")
    if not separator:
        raise UsageError("Name a mechanism as package.module:Class.")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError):
        raise UsageError(
            f"Cannot import {place}. Give an importable package.module:Class; PYTHONPATH says where to look."
        ) from None
    if not (isinstance(found, type) and issubclass(found, Mechanism)):
        raise UsageError(f"{place} is no subclass of dpcov.mechanisms.base.Mechanism.")
    try:
        return found()
    except TypeError:
        raise UsageError(
            f"{place} cannot be built without arguments. Give its options defaults."
        ) from None
