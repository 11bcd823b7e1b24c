"""Which mechanism suits a release, chosen from public numbers only.

Contract: looks at the number of columns, the relation, the budget and public bounds, never at a row, so the
choice costs no privacy and may be printed.  Knows nothing of randomness.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dpcov.errors import BudgetError
from dpcov.mechanisms.base import Mechanism, Problem
from dpcov.mechanisms.registry import make_mechanism
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import PureDP
from dpcov.privacy.options import plain
from dpcov.published.statistics import Post

AUTO: Final = "auto"

FEW_FEATURES_PURE = 3
"""Up to here one matrix under the gauge law beats nuclear-norm noise on shells unless the norm bound is loose."""

ENOUGH_ROWS = 5
"""Below this many rows times epsilon per squared number of columns, one unshrunk matrix may be worse than zero."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A mechanism for a release and the reason for it.

    Parameters
    ----------
    mechanism : str
        Name in the registry.
    reason : str or None
        Why it was chosen, for the release's notes; None where the custodian named it.
    options : mapping
        Settings that differ from the mechanism's defaults.
    post : Post or None
        How to read the release, where it is not the mechanism's own way.
    """

    mechanism: str
    reason: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    post: Post | None = None

    def make(self) -> Mechanism[Any]:
        """Build the mechanism."""
        return make_mechanism(self.mechanism, self.options)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the release says about the choice."""
        return () if self.reason is None else (f"auto chose {self.mechanism}: {self.reason}",)


def resolve(
    name: str,
    options: Mapping[str, Any],
    problem: Problem,
    budget: Budget,
    *,
    shortest_row: float = 0.0,
) -> Choice:
    """Take a mechanism as named, or choose one where the name is ``auto``; the user's options win."""
    if plain("mechanism", name, str) != AUTO:
        return Choice(mechanism=name, options=options)
    chosen = choose(problem, budget, shortest_row=shortest_row)
    return Choice(
        mechanism=chosen.mechanism,
        reason=chosen.reason,
        options={**chosen.options, **options},
        post=chosen.post,
    )


def choose(problem: Problem, budget: Budget, *, shortest_row: float = 0.0) -> Choice:
    """Choose the mechanism of least expected error among those that can keep the budget.

    Parameters
    ----------
    problem : Problem
    budget : Budget
    shortest_row : float, default=0
        Public lower bound on the norm of a row as a fraction of the norm bound: 1 / norm bound with an intercept.

    Examples
    --------
    >>> choose(Problem(n_features=30, neighbors="replace-one"), Budget(rho=1)).mechanism
    'stratified'
    """
    if not isinstance(budget, Budget):
        raise BudgetError("Give the budget as Budget(epsilon=..., delta=...) or Budget(rho=...).")
    pure = isinstance(budget.promise, PureDP)
    return (
        _choose_pure(problem, budget, shortest_row)
        if pure
        else _choose_gaussian(problem, shortest_row)
    )


def _choose_gaussian(problem: Problem, shortest_row: float) -> Choice:
    if problem.n_groups > 1:
        return Choice(
            mechanism="stratified",
            reason="it releases a matrix for every group at the price of one",
        )
    if shortest_row > 0.5 and problem.neighbors == "replace-one":
        return Choice(
            mechanism="gaussian",
            post="shrink",
            reason="every row is known to be longer than half the norm bound, so norm shells would gain nothing",
        )
    return Choice(
        mechanism="stratified",
        reason="the budget allows Gaussian noise, and one layer of noise per norm shell fits rows of any length",
    )


def _choose_pure(problem: Problem, budget: Budget, shortest_row: float) -> Choice:
    if problem.n_groups == 1 and not _drowned(problem, budget):
        if problem.n_features == 1:
            return Choice(
                mechanism="laplace",
                post="clip",
                reason="one column is one number, and Laplace noise on it is the smallest that keeps the budget",
            )
        if problem.n_features <= FEW_FEATURES_PURE and problem.neighbors == "replace-one":
            return Choice(
                mechanism="nuclear",
                options={"noise": "gauge"},
                post="clip",
                reason="with two or three columns one matrix with noise shaped like the change of a row is the most "
                "accurate; name stratified-nuclear if the norm bound may be far too large",
            )
    return Choice(
        mechanism="stratified-nuclear",
        options={"shorten": not shortest_row},
        reason="the budget has no delta, and nuclear-norm noise per norm shell is the smallest then",
    )


def _drowned(problem: Problem, budget: Budget) -> bool:
    """Whether so few rows are known to be there that an estimate must be able to come out as zero."""
    if problem.neighbors != "replace-one" or problem.n_rows is None:
        return False
    strength = problem.n_rows * budget.pure_epsilon() / problem.rows_per_person
    return strength < ENOUGH_ROWS * problem.n_features**2
