"""Errors that scikit-learn's tools recognize too, and one warning.

Messages hold names, shapes and public numbers only, never a value of a row.
"""

from contextlib import suppress
from typing import Any, get_args

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError

from dpcov.errors import BudgetError, ReleaseError, UsageError, warn_caller
from dpcov.published.linalg.symmetric import Array


class InputError(UsageError, ValueError, TypeError):
    """A table or parameter that an estimator cannot use; scikit-learn expects either of the two."""


class NotFitted(UsageError, NotFittedError):  # type: ignore[misc]  # noqa: N818
    """The estimator has read no release yet."""


class SpentError(BudgetError):
    """Fitting again would spend a second budget on the same people."""


class UnknownNoiseError(ReleaseError):
    """The release does not say how its noise is distributed, which this analysis needs."""


UNKNOWN_PENALTY = "The release has no law of its noise, so alpha cannot be chosen. Give alpha."


class NoiseWarning(UserWarning):
    """A result that privacy noise dominates: finite, but with little of the data in it."""


def require_one_of(name: str, value: str, choices: Any) -> None:
    """Refuse what is not one of a Literal's values."""
    if not isinstance(value, str) or value not in get_args(choices):
        raise InputError(f"{name} must be one of: {', '.join(get_args(choices))}.")


def is_number(value: Any) -> bool:
    """Whether it is a finite number, and no truth value."""
    is_plain = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return is_plain and bool(np.isfinite(value))


def require_number(name: str, value: Any) -> float:
    """Check a number that is not negative."""
    if not is_number(value) or value < 0:
        raise InputError(f"{name} must be a number, at least 0.0.")
    return float(value)


def require_count(name: str, value: Any, smallest: int) -> int:
    """Check a parameter that counts something."""
    if not is_number(value) or value < smallest or value != int(value):
        raise InputError(f"{name} must be a whole number, at least {smallest}.")
    return int(value)


def require_matrix(X: Any, ragged: str, advice: str = "") -> Array:
    """Return an array of numbers, (n, p); ``ragged`` is said where it is none.

    The messages of numpy and of scikit-learn would quote cells.
    """
    if issparse(X):
        raise InputError("Sparse data are not taken here. Give an array, X.toarray().")
    numbers: Array | None = None
    with suppress(TypeError, ValueError, OverflowError):
        array = np.asanyarray(X)
        numbers = array if np.iscomplexobj(array) else array.astype(np.float64)
    # Raised after the handler has ended, whose error would stay in its context.
    if numbers is None:
        raise InputError(ragged)
    # What a mask hides is missing, not the number behind the mask.
    numbers = np.asarray(np.ma.filled(numbers, np.nan))
    if np.iscomplexobj(numbers):
        raise InputError("Complex data not supported; give real numbers.")
    if numbers.ndim != 2:
        problem = f"Expected 2D array, got {numbers.ndim}D array instead. Reshape your data."
        raise InputError(f"{problem} {advice}".rstrip())
    return numbers


def warn_noise(message: str) -> None:
    """Warn the caller of a public method."""
    warn_caller(message, NoiseWarning)
