"""Finish a matrix: what mechanisms of one matrix share, from its moments to what is stated."""

from fractions import Fraction
from typing import Any

import numpy as np

from dpcov.data.exact.moments import Moments
from dpcov.errors import NumericError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.counts import public_rows
from dpcov.published.file.statistics import NoiseLaw, NoisyStatistics, Post, PublishedArray
from dpcov.published.linalg.symmetric import Array, symmetrize


def sscp_of(moments: Moments) -> Array:
    """The **sensitive** sscp of the single stratum, rows in the unit ball."""
    (stratum,) = moments.strata
    return stratum.sscp.to_float() * 4.0**-moments.spec.bits


def finish(
    sscp: Array,
    problem: Problem,
    row_count: int | None,
    *,
    clip: float,
    post: Post,
    notes: tuple[str, ...] = (),
) -> NoisyStatistics:
    """Divide a private sscp by the number of rows and bring it to units of the norm bound."""
    rows = public_rows(problem, row_count)
    # The number is public or private already, so dividing by it is post-processing.
    if not np.isfinite(sscp).all():
        raise NumericError("The private matrix overflowed; nothing was released. Raise the budget.")
    arrays: dict[str, PublishedArray] = {"second_moment": symmetrize(sscp) * (clip**2 / rows)}
    if row_count is not None:
        arrays["row_count"] = np.array([row_count], dtype=np.int64)
    return NoisyStatistics(layout="estimate", arrays=arrays, radius=clip, post=post, notes=notes)


def noise_law(
    family: str, *, row_count: Fraction | None = None, **variances: int | float | str | None
) -> NoiseLaw:
    """State a noise law in the release; exact numbers are written out, a row count's as a float."""
    stated: dict[str, Any] = {
        name: None if value is None else str(value) for name, value in variances.items()
    }
    count = None if row_count is None else str(float(row_count))
    return NoiseLaw(family=family, row_count_variance=count, **stated)
