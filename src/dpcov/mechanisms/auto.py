"""Choose the mechanism that suits a release, from public numbers only.

Contract: looks at the number of columns, the relation, the budget and public bounds, never at a
row, so the choice costs no privacy and may be printed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dpcov.errors import UsageError
from dpcov.mechanisms.base import Mechanism, Problem
from dpcov.mechanisms.registry import MECHANISMS, make_mechanism
from dpcov.privacy.budget import Budget, check_budget
from dpcov.privacy.guarantee import PureDP
from dpcov.published.file.statistics import Post

AUTO: Final = "auto"

# Up to here one matrix under the gauge law beats shells unless the norm bound is loose.
FEW_FEATURES_PURE = 3

# Below so many rows times epsilon per squared number of columns, one unshrunk matrix may be worse
# than zero.
ENOUGH_ROWS = 5


_FOREIGN = (
    "{name} is no mechanism of dpcov: whoever wrote it answers for its guarantee, and dpcov has "
    "not tested it"
)
_NO_MECHANISM = (
    "mechanism must be a name or a Mechanism object; a class of your own is called first, as in "
    "mechanism=Diagonal()."
)
_HAS_OPTIONS = "There is no argument {option}; options of a mechanism go where it is made."


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A mechanism for a release, options that differ from its defaults, and the reason.

    ``reason`` is None where the custodian named the mechanism; ``post`` says how to read the
    release, where it is not the mechanism's own way.
    ``made`` is the mechanism, where the custodian made it.
    """

    mechanism: str
    reason: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    post: Post | None = None
    made: Mechanism[Any] | None = None

    def make(self) -> Mechanism[Any]:
        """Build the mechanism."""
        return self.made or make_mechanism(self.mechanism, self.options)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the release says about the choice."""
        if self.made is not None and type(self.made) not in MECHANISMS:
            return (_FOREIGN.format(name=self.mechanism),)
        return () if self.reason is None else (f"auto chose {self.mechanism}: {self.reason}",)


def resolve(
    mechanism: str | Mechanism[Any],
    options: Mapping[str, Any],
    problem: Problem,
    budget: Budget,
    *,
    shortest_row: float = 0.0,
) -> Choice:
    """Take a mechanism as made or named, or choose one for ``auto``; the user's options win."""
    if isinstance(mechanism, Mechanism):
        if options:
            raise UsageError(_HAS_OPTIONS.format(option=next(iter(options))))
        return Choice(mechanism=mechanism.name, made=mechanism)
    if not isinstance(mechanism, str):
        raise UsageError(_NO_MECHANISM)
    if mechanism != AUTO:
        return Choice(mechanism=mechanism, options=options)
    chosen = choose(problem, budget, shortest_row=shortest_row)
    return replace(chosen, options={**chosen.options, **options})


def choose(problem: Problem, budget: Budget, *, shortest_row: float = 0.0) -> Choice:
    """Choose the mechanism of least expected error among those that can keep the budget.

    ``shortest_row`` is a public lower bound on the norm of a row as a fraction of the norm bound:
    1 / norm bound with an intercept.

    Examples
    --------
    >>> choose(Problem(n_features=30, neighbors="replace-one"), Budget(rho=1)).mechanism
    'stratified'
    """
    check_budget(budget)
    if isinstance(budget.promise, PureDP):
        return _choose_pure(problem, budget, shortest_row)
    return _choose_gaussian(problem, shortest_row)


def _choose_gaussian(problem: Problem, shortest_row: float) -> Choice:
    if problem.n_groups > 1:
        reason = "it releases a matrix for every group at the price of one"
        return Choice(mechanism="stratified", reason=reason)
    if shortest_row > 0.5 and problem.neighbors == "replace-one":
        reason = (
            "every row is known to be longer than half the norm bound, "
            "so noise by length would gain nothing"
        )
        return Choice(mechanism="gaussian", post="shrink", reason=reason)
    reason = "the budget allows Gaussian noise, and short rows get less of it than long ones"
    return Choice(mechanism="stratified", reason=reason)


def _choose_pure(problem: Problem, budget: Budget, shortest_row: float) -> Choice:
    if problem.n_groups == 1 and not _drowned(problem, budget):
        if problem.n_features == 1:
            reason = (
                "one column is one number, "
                "and Laplace noise on it is the smallest that keeps the budget"
            )
            return Choice(mechanism="laplace", post="clip", reason=reason)
        if problem.n_features <= FEW_FEATURES_PURE and problem.neighbors == "replace-one":
            reason = (
                "with two or three columns one matrix with noise shaped like the change of a row "
                "is the most accurate; name stratified-nuclear if the norm bound may be far too "
                "large"
            )
            gauge = {"noise": "gauge"}
            return Choice(mechanism="nuclear", options=gauge, post="clip", reason=reason)
    reason = "the budget has no delta, and matrix noise by length of rows is the smallest then"
    options = {"shorten": not shortest_row}
    return Choice(mechanism="stratified-nuclear", options=options, reason=reason)


def _drowned(problem: Problem, budget: Budget) -> bool:
    # Whether so few rows are public that an estimate must be able to come out as zero.
    if problem.neighbors != "replace-one" or problem.n_rows is None:
        return False
    strength = problem.n_rows * budget.pure_epsilon() / problem.rows_per_person
    return strength < ENOUGH_ROWS * problem.n_features**2
