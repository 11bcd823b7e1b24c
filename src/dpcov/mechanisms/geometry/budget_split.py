"""Divide the budget of a release between a survey, first matrices, losses and the last matrix.

Contract: from public numbers only.  Parts of one (epsilon, delta) make one Gaussian mechanism
together.  Proof : surveyed.md, Theorem 2.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from typing import Any

from dpcov.errors import BudgetError
from dpcov.mechanisms.base import Calibration, Mechanism, Problem
from dpcov.mechanisms.blocks.cost import Cost, part_of
from dpcov.mechanisms.blocks.counts import rho_inside
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.geometry.lengths import USUAL, entry_std
from dpcov.mechanisms.geometry.survey import doubt, weight
from dpcov.mechanisms.geometry.table_facts import TableFacts
from dpcov.mechanisms.nuclear import Nuclear
from dpcov.privacy.budget import Budget, budget_of
from dpcov.privacy.calibrate import gaussian_delta, gaussian_noise_multiplier
from dpcov.privacy.convert import sqrt_down
from dpcov.privacy.guarantee import ZCDP, ApproxDP, Promise, PureDP
from dpcov.published.digits import percent

# Part of the budget for the survey at least: a tenth costs 5 % of error.  In pure epsilon counts of
# several columns need more, and so may rows whose number is private.
SHARE, SHARE_PURE, SHARE_PRIVATE = Fraction(1, 10), Fraction(1, 5), Fraction(1, 5)

# And at most, where few rows need it.
MOST_SHARE = Fraction(1, 2)

# Part of the survey's cost for the lengths of rows.
LENGTHS = Fraction(1, 5)

# Part of the budget for what scaling rows down takes of columns: it costs about 1 % of error.
LOSSES = Fraction(1, 32)

# Part of the budget for a first matrix, from which the linear map of the geometry follows.
FIRST = Fraction(1, 10)

# And for each of those under the map, at most so many, where noise hides directions (whitening.md).
AGAIN, MOST_AGAIN = Fraction(1, 20), 3

# Largest eigenvalue of its noise, on correlations, with which it is worth that: this one, or this
# part of the sum of all, since few directions hold much of what many columns do (surveyed.md).
_RESOLVED, _RESOLVED_PART = 1.0, 1 / 8


@dataclass(frozen=True, kw_only=True)
class SurveyedCalibration(Calibration):
    """What the survey costs, and calibrations of a first matrix and of the rest; None: not made.

    ``whole`` is what all parts add up to, ``losses`` the cost of what scaling rows down takes of
    columns.  ``again`` is that of another matrix under the map; ``rests`` are the rest after one of
    them, two, ... instead of ``inner``.
    """

    whole: Cost
    survey: Cost
    first: Calibration | None = None
    again: Calibration | None = None
    losses: Cost | None = None
    inner: Calibration
    rests: tuple[Calibration, ...] = ()

    def with_part(self, cost: Promise) -> str:
        """What a part costs, and how much that is of the whole."""
        part, whole = (
            each.epsilon if isinstance(each, PureDP) else each.rho
            for each in (part_of(cost, Fraction(1)), self.whole)
        )
        return f"{cost}, {percent(float(part / whole))} of the budget"


@dataclass(frozen=True, kw_only=True)
class BudgetSplit:
    """How the budget of a mechanism is divided for a table."""

    inner: Mechanism[Any]
    table: TableFacts

    def share(self, problem: Problem, budget: Budget) -> Fraction:
        """The least part of the budget with which a survey shows enough of so many rows."""
        is_pure = isinstance(budget.promise, PureDP)
        # Levels alone take less than a column of numbers would.
        whole = min(Fraction(1), weight(self.table.columns))
        if problem.n_rows is None:
            return SHARE_PRIVATE * whole
        least = (SHARE_PURE if is_pure else SHARE) * whole
        survey = self.split(problem, budget, least).survey
        # Noise falls in proportion to epsilon, and to the root of rho.
        noise = doubt(part_of(survey, 1 - LENGTHS), self.table.columns, problem)
        wanted = float(least) * (noise if is_pure else noise**2)
        return max(least, min(MOST_SHARE, Fraction(wanted).limit_denominator(100)))

    def with_first(
        self, problem: Problem, budget: Budget, share: Fraction
    ) -> SurveyedCalibration | None:
        """Parts with a first matrix; None where there is none, or where it would show nothing."""
        # A single column has no correlations, and a survey centers levels as well.
        if not self.inner.is_isotropic or self.table.n_features - self.table.n_levels < 2:
            return None
        try:
            made = self.split(problem, budget, share, FIRST)
        # The noise of so small a part cannot be drawn.
        except BudgetError:
            return None
        return made if _resolves(made.first, problem, self.table.n_features) else None

    def split(
        self, problem: Problem, budget: Budget, share: Fraction, first: Fraction = Fraction(0)
    ) -> SurveyedCalibration:
        """Parts for a survey, and for a ``first`` matrix if it has one; the rest is the last's."""
        losses = LOSSES if self.table.tells_losses else Fraction(0)
        rest = 1 - share - first - losses
        whole = one_gaussian(budget.promise)
        inner = _calibrated(self.inner, problem, part_of(whole, rest))
        # Noise of another law keeps the promise through zCDP.
        if isinstance(budget.promise, ApproxDP) and inner.noise_multiplier is None:
            whole = ZCDP(rho=budget.zcdp_rho())
            inner = _calibrated(self.inner, problem, part_of(whole, rest))
        multipliers = [_together(inner, part_of(whole, 1 - rest), budget.promise)]
        drawn_first, again, rests = None, None, []
        if first:
            plain, whole_table = first_mechanism(budget.promise), replace(problem, n_groups=1)
            drawn_first = _calibrated(plain, whole_table, part_of(whole, first))
            # Noise of a part of a pure epsilon grows so much that more of them cost more than they
            # show (surveyed.md).
            for _ in range(MOST_AGAIN if isinstance(whole, ZCDP) else 0):
                rest -= AGAIN
                again = _calibrated(plain, whole_table, part_of(whole, AGAIN))
                rests.append(_calibrated(self.inner, problem, part_of(whole, rest)))
                multipliers.append(_together(rests[-1], part_of(whole, 1 - rest), budget.promise))
        stated = [each for each in multipliers if each is not None]
        return SurveyedCalibration(
            promise=budget.promise,
            noise_multiplier=min(stated, default=None),
            rho=None if stated else rho_inside(budget),
            whole=whole,
            survey=part_of(whole, share),
            first=drawn_first,
            again=again,
            losses=part_of(whole, losses) if losses else None,
            inner=inner,
            rests=tuple(rests),
        )


def first_mechanism(promise: Promise) -> Mechanism[Any]:
    """What draws a first matrix: one of all rows together, whatever draws the last."""
    return Nuclear() if isinstance(promise, PureDP) else Gaussian()


def _calibrated(mechanism: Mechanism[Any], problem: Problem, cost: Cost) -> Calibration:
    found: Calibration = mechanism.calibrate(problem, budget_of(cost))
    return found


def one_gaussian(promise: Promise) -> Cost:
    """All that may be spent: parts of an (epsilon, delta) make one Gaussian mechanism together."""
    if isinstance(promise, ApproxDP):
        return ZCDP(rho=1 / (2 * gaussian_noise_multiplier(promise.epsilon, promise.delta) ** 2))
    return promise


def _resolves(first: Calibration | None, problem: Problem, n_features: int) -> bool:
    """Whether a first matrix shows something: its noise has eigenvalues below those of the rows."""
    if first is None or problem.n_rows is None:
        return first is not None
    std = entry_std(first, problem) * (USUAL * n_features + 1) / problem.n_rows
    return 2 * sqrt(n_features) * std <= max(_RESOLVED, _RESOLVED_PART * n_features)


def _together(inner: Calibration, cost: Cost, promise: Promise) -> Fraction | None:
    """Multiplier of the one Gaussian mechanism that the survey and the other one make."""
    if inner.noise_multiplier is None or isinstance(cost, PureDP):
        return None
    multiplier = sqrt_down(1 / (1 / inner.noise_multiplier**2 + 2 * cost.rho))
    exceeds = isinstance(promise, ApproxDP) and (
        gaussian_delta(multiplier, promise.epsilon) > promise.delta
    )
    if exceeds:
        raise BudgetError(
            "This budget cannot be split for a survey. Use another one, or geometry='schema' "
            "(--geometry schema)."
        )
    return multiplier
