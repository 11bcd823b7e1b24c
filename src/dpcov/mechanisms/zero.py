"""Release the zero matrix: the baseline of all experiments.

Privacy
-------
Guarantee : 0-DP; the output does not depend on the table, so no ledger is charged.  Neighbors : both.
Unit : everybody.  Public inputs : number of columns.  Private input : none.  Not protected : running time.
Numerics : exact.  Proof : zero.md.

Sensitivity
-----------
None.

Utility
-------
The error is the norm of the truth: a mechanism that is worse spent its budget for nothing.

References
----------
Dong, Liang, Yi (2022), section 6.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpcov.data.questions import Ask
from dpcov.mechanisms.base import Calibration, Mechanism, Problem
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Numerics, Promise, PureDP
from dpcov.published.statistics import NoisyStatistics


@dataclass(frozen=True, kw_only=True)
class Zero(Mechanism[Calibration]):
    """The zero matrix, for any budget, at no cost."""

    name: ClassVar[str] = "zero"
    summary: ClassVar[str] = "the zero matrix: baseline, costs nothing"
    paper: ClassVar[str] = "Dong, Liang, Yi (2022), 6"
    numerics: ClassVar[Numerics] = "exact"
    promises: ClassVar[tuple[type[Promise], ...]] = (PureDP, ZCDP, ApproxDP)

    def calibrate(self, problem: Problem, budget: Budget) -> Calibration:
        """Promise everything."""
        self.check(problem, budget)
        return Calibration(promise=PureDP(epsilon=Fraction(0)))

    def draw(
        self, ask: Ask, calibration: Calibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Ignore the table and the randomness."""
        d = problem.n_features
        return NoisyStatistics(
            layout="estimate", arrays={"second_moment": np.zeros((d, d))}, post="none"
        )
