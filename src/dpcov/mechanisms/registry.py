"""The list of mechanisms: a new one joins with one row here, and every contract test runs on it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from dpcov.errors import UsageError
from dpcov.mechanisms.adaptive import Adaptive
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.coinpress import CoinPress
from dpcov.mechanisms.eigenvectors import Eigenvectors
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.kapralov_talwar import KapralovTalwar
from dpcov.mechanisms.laplace import Laplace
from dpcov.mechanisms.nuclear import Nuclear
from dpcov.mechanisms.nuclear_projection import NuclearProjection
from dpcov.mechanisms.projection import Projection
from dpcov.mechanisms.separate import Separate
from dpcov.mechanisms.stratified import Stratified
from dpcov.mechanisms.stratified_nuclear import StratifiedNuclear
from dpcov.mechanisms.thresholding import Thresholding
from dpcov.mechanisms.zero import Zero

MECHANISMS: tuple[type[Mechanism[Any]], ...] = (
    Zero,
    Gaussian,
    Laplace,
    Projection,
    Thresholding,
    Stratified,
    Separate,
    Adaptive,
    StratifiedNuclear,
    Eigenvectors,
    KapralovTalwar,
    Nuclear,
    NuclearProjection,
    CoinPress,
)


def names() -> tuple[str, ...]:
    """Names of all mechanisms."""
    return tuple(mechanism.name for mechanism in MECHANISMS)


def find_mechanism(name: str) -> type[Mechanism[Any]]:
    """Look a mechanism up by name."""
    for mechanism in MECHANISMS:
        if mechanism.name == name:
            return mechanism
    raise UsageError(f"There is no mechanism of this name. Use one of: {', '.join(names())}.")


def make_mechanism(name: str, options: Mapping[str, Any]) -> Mechanism[Any]:
    """Build a mechanism with options, naming the known ones when an option does not exist."""
    mechanism = find_mechanism(name)
    known = [field.name for field in dataclasses.fields(mechanism)]  # type: ignore[arg-type]
    if unknown := ", ".join(sorted(set(options) - set(known))):
        has = ", ".join(known) or "none"
        raise UsageError(f"The {name} mechanism has no option {unknown}; it has: {has}.")
    return mechanism(**options)
