"""The constants of the adaptive mechanism: how it splits its budget and how large it takes errors to be.

Contract: parts of a split add up to one.  Looks at public and already private numbers only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from types import MappingProxyType
from typing import Literal

import numpy as np

from dpcov.mechanisms.blocks.clip_search import Candidates, Search
from dpcov.mechanisms.blocks.matrix_noise import MatrixNoise
from dpcov.mechanisms.separate import SeparateNoise

Constants = Literal["theory", "tuned"]

TYPICAL = 0.9
"""A bound that fails with this probability is about the expected size."""

SEPARATE_FACTOR = 0.3
"""Share of the bound on the error of separate noise, a worst case over all spectra, that ``tuned`` counts with; on the
papers' synthetic tables the error is 0.02 to 0.25 of it."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Fractions of the budget for the radius, the trace, the search of a clip norm and the matrix."""

    radius: Fraction
    trace: Fraction
    search: Fraction
    matrix: Fraction


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Everything in which ``theory`` and ``tuned`` differ.

    Parameters
    ----------
    with_radius, without_radius : Split
    search : Search
    failure_probability : float or None
        Of the bounds on errors; None for the user's choice.
    separate_factor : float
        What the bound on the error of turned eigenvectors is multiplied with.
    """

    with_radius: Split
    without_radius: Split
    search: Search
    failure_probability: float | None
    separate_factor: float

    def candidates(
        self,
        together: MatrixNoise,
        separately: SeparateNoise,
        *,
        trace: float,
        shells: range,
        dimension: int,
        beta: float,
    ) -> Candidates:
        """Errors of both mechanisms at clip norms 2**-shell, given a private bound on the trace."""
        beta = beta if self.failure_probability is None else self.failure_probability
        norms = 2.0 ** -np.array(shells, dtype=np.float64)
        turned = 2.0 * sqrt(trace * separately.matrix.spectral_bound(dimension, beta / 2))
        values = separately.values.norm_bound(dimension, beta / 2)
        return Candidates(
            shells=shells,
            together=norms**2 * together.frobenius_bound(dimension, beta),
            separately=self.separate_factor * (norms * turned + norms**2 * values),
        )


RULES: Mapping[Constants, Rules] = MappingProxyType(
    {
        "theory": Rules(
            with_radius=Split(
                radius=Fraction(1, 8),
                trace=Fraction(1, 8),
                search=Fraction(1, 4),
                matrix=Fraction(1, 2),
            ),
            without_radius=Split(
                radius=Fraction(0),
                trace=Fraction(1, 7),
                search=Fraction(2, 7),
                matrix=Fraction(4, 7),
            ),
            search="balance",
            failure_probability=None,
            separate_factor=1.0,
        ),
        "tuned": Rules(
            with_radius=Split(
                radius=Fraction(1, 24),
                trace=Fraction(1, 24),
                search=Fraction(1, 6),
                matrix=Fraction(3, 4),
            ),
            without_radius=Split(
                radius=Fraction(0),
                trace=Fraction(1, 12),
                search=Fraction(1, 6),
                matrix=Fraction(3, 4),
            ),
            search="marginal",
            failure_probability=TYPICAL,
            separate_factor=SEPARATE_FACTOR,
        ),
    }
)
