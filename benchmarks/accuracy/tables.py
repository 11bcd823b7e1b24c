"""A population's rows, and the exact moments that contestants ask for.

Contract: rows are made only when something has to be drawn, and moments of a kind are gathered once
for all budgets and contestants.
"""

from functools import cached_property

import numpy as np

import dpcov
from benchmarks.accuracy.populations import Blocks, Population
from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.mechanisms.base import Problem

Matrix = np.ndarray


class Table:
    """Rows in the unit ball with the matrix that errors are measured against: their second moment,
    or a stated one."""

    def __init__(self, population: Population) -> None:
        self._population = population
        self._moments: dict[MomentsSpec, Moments] = {}
        self._truth: Matrix | None = None

    @cached_property
    def blocks(self) -> Blocks:
        return self._population.blocks()

    @property
    def problem(self) -> Problem:
        return Problem(n_features=self.blocks.d, neighbors="replace-one", n_rows=self.blocks.n)

    @property
    def truth(self) -> Matrix:
        """Known once any moments were gathered."""
        assert self._truth is not None
        return self._truth

    def moments(self, spec: MomentsSpec) -> Moments:
        if spec not in self._moments:
            self._moments[spec] = self._gather(spec)
        return self._moments[spec]

    def _gather(self, spec: MomentsSpec) -> Moments:
        """One pass over the rows; also their second moment in floating point, where no truth is
        known yet."""
        fields = {name: getattr(spec, name) for name in spec.__dataclass_fields__}
        truth = self.blocks.truth if self._truth is None else self._truth
        total, product = None, np.zeros((self.blocks.d, self.blocks.d))
        for rows in self.blocks.make():
            part = dpcov.moments(rows, norm_bound=1.0, **fields)
            if total is None:
                total = part
            else:
                total.merge(part)
            if truth is None:
                product += rows.T @ rows
        assert total is not None
        self._truth = product / self.blocks.n if truth is None else truth
        return total
