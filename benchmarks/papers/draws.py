"""Draw once from a mechanism of the library; exact moments are gathered once for every spec."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpcov
from benchmarks.papers.tables import Data
from dpcov import Budget
from dpcov.mechanisms.auto import resolve
from dpcov.mechanisms.base import Problem
from dpcov.noise.entropy import Entropy

Array = NDArray[np.float64]


def draw(
    mechanism: str,
    options: Mapping[str, Any],
    data: Data,
    budget: Budget,
    entropy: Entropy,
    *,
    post: str | None = None,
) -> Array:
    """Second moment by a registered mechanism, or ``auto``; raises a dpcov error where it cannot
    honor the budget."""
    n_rows, n_features = data.rows.shape
    problem = Problem(n_features=n_features, neighbors="replace-one", n_rows=n_rows)
    choice = resolve(mechanism, options, problem, budget)
    made = choice.make()
    made.calibrate(problem, budget)
    release = dpcov.second_moment(
        data.rows if made.asks_again else data.moments(made.moments_spec(problem)),
        norm_bound=1.0,
        budget=budget,
        mechanism=choice.mechanism,
        entropy=entropy,
        accept_large_delta=True,  # Wang et al. take 1/n
        **choice.options,
    )
    return release.second_moment(post=post or choice.post)  # type: ignore[arg-type]
