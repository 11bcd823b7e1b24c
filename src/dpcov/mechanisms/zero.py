"""Release the zero matrix: the baseline of all experiments.

Guarantee : 0-DP; the output does not depend on the table, so no ledger is charged.
    Unit : everybody.  Private input : none.  Numerics : exact.  Proof : zero.md.
Sensitivity : None.
Utility : The error is the norm of the truth; who does worse spent a budget for nothing.
References : Dong, Liang, Yi (2022), section 6.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpcov.mechanisms.base import Ask, Calibration, Entropy, Mechanism, NoisyStatistics, Problem
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP


@dataclass(frozen=True, kw_only=True)
class Zero(Mechanism[Calibration]):
    """The zero matrix, for any budget, at no cost."""

    name = "zero"
    summary = "the zero matrix: baseline, costs nothing"
    paper = "Dong, Liang, Yi (2022), 6"
    numerics = "exact"
    promises = (PureDP, ZCDP, ApproxDP)
    states_noise = False

    def calibrate(self, problem: Problem, budget: Budget) -> Calibration:
        """Promise everything."""
        self.check(problem, budget)
        return Calibration(promise=PureDP(epsilon=Fraction(0)))

    def draw(
        self, ask: Ask, calibration: Calibration, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Ask nothing and draw nothing."""
        zeros = np.zeros((problem.n_features, problem.n_features))
        return NoisyStatistics(layout="estimate", arrays={"second_moment": zeros}, post="none")
