"""Predict the error of every mechanism from public numbers only.

Contract: never sees a row.  Predictions rest on an assumed table, all of whose rows have the same
length, with eigenvalues proportional to 1/k.  In a private geometry every column has unit spread,
and rows are scaled down to the usual length; what that takes from long tails is not predicted.  The
randomness in here is seeded and protects nobody.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from math import log2, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpcov.data.exact.moments import Moments, MomentsSpec, part_energies
from dpcov.errors import BudgetError, PrivacyWarning, UsageError, require_kind
from dpcov.mechanisms.auto import AUTO, resolve
from dpcov.mechanisms.base import Mechanism, Problem
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.mechanisms.geometry.budget_split import SurveyedCalibration
from dpcov.mechanisms.geometry.lengths import USUAL
from dpcov.mechanisms.geometry.survey import SurveyColumn
from dpcov.mechanisms.geometry.surveyed import Surveyed
from dpcov.mechanisms.geometry.table_facts import TableFacts
from dpcov.mechanisms.registry import make_mechanism, names
from dpcov.noise.entropy import SeededEntropy
from dpcov.pipeline.arrays import second_moment
from dpcov.privacy.budget import Budget, budget_of, check_budget
from dpcov.privacy.guarantee import Neighbors, PureDP, check_neighbors, costs_nothing
from dpcov.privacy.options import plain
from dpcov.published.file.columns import EncodedColumn

# How a number was found: in closed form, as the mean error on the assumed table, or as the error of
# the noise alone, which post-processing only lowers.
Kind = Literal["formula", "simulated", "bound"]

# Tables wider than this are not simulated with most mechanisms: a release takes seconds there.
SIMULATED_FEATURES = 512
# The same for mechanisms that are slower, or worth waiting for.
OTHER_LIMITS = {"stratified": 2000, "adaptive": 128, "eigenvectors": 24, "kapralov-talwar": 24}
# Plain Gaussian noise that is read by projections on sets that hold the truth: no error grows.
BOUNDED = ("gaussian", "projection")
_MOST_REPETITIONS = 64
# Repetitions times columns: errors of wide matrices hardly vary.
_ENOUGH_VALUES = 256


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """Public numbers and assumptions about a table.

    ``trace`` is the mean squared length of a row over the squared norm bound, in (0, 1]; in a
    private ``geometry`` it is computed, and a part of the budget is the survey's.
    """

    n_rows: int
    n_features: int
    budget: Budget
    trace: float = 0.1
    neighbors: Neighbors = "replace-one"
    rows_per_person: int = 1
    geometry: Literal["schema", "private"] = "schema"

    def __post_init__(self) -> None:
        check_budget(self.budget)
        object.__setattr__(self, "trace", plain("trace", self.trace, float))
        if not 0 < self.trace <= 1:
            raise UsageError("A trace is mean squared row length over squared norm bound: (0, 1].")
        # Checks the counts: n_rows also where it is private.
        relation = check_neighbors(self.neighbors)
        Problem(n_features=self.n_features, neighbors=relation, n_rows=self.n_rows)
        if not isinstance(self.geometry, str) or self.geometry not in ("schema", "private"):
            raise UsageError("A plan is for geometry 'schema' or 'private'.")
        if self.geometry == "private":
            # Columns of unit spread beside an intercept of 1.
            trace = self.n_features / (USUAL * (self.n_features - 1) + 1)
            object.__setattr__(self, "trace", trace)

    @property
    def problem(self) -> Problem:
        """What a mechanism is calibrated for."""
        return Problem(
            n_features=self.n_features,
            neighbors=self.neighbors,
            n_rows=self.n_rows if self.neighbors == "replace-one" else None,
            rows_per_person=self.rows_per_person,
        )

    @property
    def eigenvalues(self) -> NDArray[np.float64]:
        """Assumed eigenvalues of the second moment, descending; they sum to the trace."""
        shape = 1.0 / np.arange(1.0, self.n_features + 1)
        return np.asarray(self.trace * shape / shape.sum())

    @property
    def second_moment(self) -> NDArray[np.float64]:
        """The assumed second moment in a fixed random basis, so that it is not sparse."""
        d = self.n_features
        basis, _ = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))
        moment = (basis * self.eigenvalues) @ basis.T
        return np.asarray((moment + moment.T) / 2)

    def moments(self, spec: MomentsSpec) -> Moments:
        """Exact moments of the assumed table."""
        radius = min(sqrt(self.trace) / spec.clip, 1.0)
        shell = min(int(-log2(radius)), spec.shells - 1)
        inside = part_energies(spec.parts) >= min(1.0, (radius * 2.0**shell) ** 2)
        moments = Moments(self.n_features, spec)
        stratum = moments.strata[shell * spec.parts + int(inside.sum()) - 1]
        stratum.n_rows = self.n_rows
        shares = self.second_moment / self.trace
        # Sums that do not fit into one word are added in pieces.
        pieces = max(1, self.n_rows >> 20)
        unit = 4.0**spec.bits * self.n_rows / pieces
        for _ in range(pieces):
            stratum.sscp.add(np.trunc(shares * unit * (radius * 2.0**shell) ** 2), int(2 * unit))
            if stratum.normalized is not None:
                stratum.normalized.add(np.trunc(shares * unit), int(2 * unit))
        return moments


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Expected Frobenius error of a mechanism (or ``auto``), and how it was found.

    ``relative_error`` is over the norm of the assumed second moment; publishing zeros has 1.
    """

    mechanism: str
    error: float
    relative_error: float
    kind: Kind


def left_for(assumed: Assumption, mechanism: Mechanism[Any]) -> Budget | None:
    """What a survey leaves of the budget; None where none is made and bounds stay."""
    if assumed.geometry == "schema":
        return assumed.budget
    intercept = EncodedColumn(name="1", source="1", kind="intercept", center=0.0, half_range=1.0)
    columns = [SurveyColumn(str(place)) for place in range(assumed.n_features - 1)]
    declared = [intercept, *(replace(intercept, kind="numeric") for _ in columns)]
    surveyed = Surveyed(mechanism, TableFacts(columns, declared))
    calibration = surveyed.calibrate(assumed.problem, assumed.budget)
    if costs_nothing(calibration.promise):
        return assumed.budget
    if isinstance(calibration, SurveyedCalibration):
        return budget_of(calibration.inner.promise)
    return None


def predict(assumed: Assumption, mechanisms: Iterable[str] = ()) -> tuple[Prediction, ...]:
    """Predict the error of mechanisms, by default of all of them and ``auto``.

    Mechanisms that cannot keep the budget, need rows, or are too slow to simulate at this width
    are left out, and those that would make no survey for a private geometry.

    Examples
    --------
    >>> assumed = Assumption(n_rows=10_000, n_features=8, budget=Budget(rho="0.1"), trace=0.2)
    >>> [prediction.mechanism for prediction in predict(assumed, ["gaussian", "auto"])]
    ['gaussian', 'auto']
    """
    require_kind("assumed", assumed, Assumption)
    require_kind("mechanisms", mechanisms, Iterable)
    # What auto chose is predicted once under both names.
    found, made = cache(_predict_one), []
    for name in tuple(mechanisms) or (AUTO, *names()):
        try:
            chosen = resolve(name, {}, assumed.problem, assumed.budget).mechanism
            mechanism = make_mechanism(chosen, {})
            mechanism.calibrate(assumed.problem, assumed.budget)
            left = left_for(assumed, mechanism)
        except BudgetError:
            continue
        if mechanism.asks_again or left is None:
            continue
        if prediction := found(replace(assumed, budget=left), mechanism):
            made.append(replace(prediction, mechanism=name))
    return tuple(made)


def _predict_one(assumed: Assumption, mechanism: Mechanism[Any]) -> Prediction | None:
    kind: Kind
    name = mechanism.name
    size = float(np.linalg.norm(assumed.eigenvalues))
    if name == "zero":
        error, kind = size, "formula"
    elif assumed.n_features <= OTHER_LIMITS.get(name, SIMULATED_FEATURES):
        error, kind = _simulated_error(assumed, mechanism), "simulated"
    elif name in BOUNDED and not isinstance(assumed.budget.promise, PureDP):
        error, kind = noise_error(assumed), "bound"
    else:
        return None
    return Prediction(mechanism=name, error=error, relative_error=error / size, kind=kind)


def noise_error(assumed: Assumption) -> float:
    """Root mean squared Frobenius error of the unbiased Gaussian release."""
    # With variance v on the diagonal, v/2 off it and a free trace of variance v,
    # E ||error||**2 = v (d (d + 1) / 2 - d / (d + 1)).  Under add-remove-one the last term is
    # absent, and the noisy row count adds an error of its own.
    mechanism = Gaussian()
    calibration = mechanism.calibrate(assumed.problem, assumed.budget)
    d = assumed.n_features
    entries = d * (d + 1) / 2 - (calibration.trace_variance is not None) * d / (d + 1)
    return sqrt(calibration.diagonal_variance * entries) / (4.0**mechanism.bits * assumed.n_rows)


def _simulated_error(assumed: Assumption, mechanism: Mechanism[Any]) -> float:
    # Mean Frobenius error of releases of the assumed table, each with fresh seeded noise.
    moments, truth = assumed.moments(mechanism.moments_spec(assumed.problem)), assumed.second_moment
    repetitions = min(max(1, _ENOUGH_VALUES // assumed.n_features), _MOST_REPETITIONS)
    how: dict[str, Any] = {
        "budget": assumed.budget,
        "mechanism": mechanism.name,
        "neighbors": assumed.neighbors,
        "rows_per_person": assumed.rows_per_person,
    }
    with warnings.catch_warnings():
        # Nobody's rows are in a made-up table, so a large epsilon harms nobody here.
        warnings.simplefilter("ignore", PrivacyWarning)
        sources = map(SeededEntropy, range(repetitions))
        made = (second_moment(moments, **how, entropy=each) for each in sources)
        return float(np.mean([np.linalg.norm(each.second_moment() - truth) for each in made]))
