"""Errors that scikit-learn's tools recognize too, and one warning.

Messages hold names, shapes and public numbers only, never a value of a row.
"""

from contextlib import suppress
from typing import Annotated, Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError

from dpcov.errors import BudgetError, ReleaseError, UsageError, warn_caller
from dpcov.privacy.options import Between, plain
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


# A penalty, or any number that is not negative.
NotNegative = Annotated[float, Between(0)]


def checked(name: str, value: object, hint: Any) -> Any:
    """The plain value of a parameter, as its annotation says; InputError where it has none."""
    try:
        return plain(name, value, hint)
    except UsageError as problem:
        raise InputError(*problem.args) from None


def check_penalty(alpha: object) -> None:
    """Refuse what is neither a penalty nor "auto"."""
    if isinstance(alpha, str) and alpha == "auto":
        return
    try:
        plain("alpha", alpha, NotNegative)
    except UsageError as problem:
        raise InputError(f'{str(problem).rstrip(".")}, or "auto".') from None


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
