"""How the adaptive mechanism splits its budget and how large it takes errors to be.

Contract: parts of a split add up to one.  Looks at public and already private numbers only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from dpcov.mechanisms.blocks.clip_search import Candidates, Search
from dpcov.mechanisms.blocks.matrix_noise import MatrixNoise
from dpcov.mechanisms.separate import SeparateNoise

Constants = Literal["theory", "tuned"]

# A bound that fails with this probability is about the expected size.
TYPICAL = 0.9

# Share of the bound on the error of separate noise, a worst case over all spectra, that ``tuned``
# counts with; on the papers' synthetic tables the error is 0.02 to 0.25 of it.
SEPARATE_FACTOR = 0.3


class Split(NamedTuple):
    """Parts of the budget for the radius, the trace, the search of a clip norm and the matrix."""

    radius: Fraction
    trace: Fraction
    search: Fraction
    matrix: Fraction

    @classmethod
    def of(cls, *weights: int) -> "Split":
        """Split in proportion to weights."""
        return cls(*(Fraction(weight, sum(weights)) for weight in weights))


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Everything in which ``theory`` and ``tuned`` differ.

    Bounds on errors fail with ``failure_probability``, or the user's where it is None;
    ``separate_factor`` multiplies the bound on the error of turned eigenvectors.
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
            with_radius=Split.of(1, 1, 2, 4),
            without_radius=Split.of(0, 1, 2, 4),
            search="balance",
            failure_probability=None,
            separate_factor=1.0,
        ),
        "tuned": Rules(
            with_radius=Split.of(1, 1, 4, 18),
            without_radius=Split.of(0, 1, 2, 9),
            search="marginal",
            failure_probability=TYPICAL,
            separate_factor=SEPARATE_FACTOR,
        ),
    }
)
