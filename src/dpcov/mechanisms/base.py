"""What every mechanism is: options, a calibration from public numbers, a draw that asks the table.

Contract: calibration sees public numbers only, so a budget that cannot be honored is refused before
any row is read; ``draw`` is the only place where exact answers and randomness meet.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Generic, TypeVar

from dpcov.data.exact.moments import DEFAULT_BITS, MomentsSpec
from dpcov.data.histograms import HistogramQuestion
from dpcov.data.questions import Ask, MomentsQuestion
from dpcov.errors import BudgetError, UsageError
from dpcov.noise.entropy import Entropy
from dpcov.privacy.budget import Budget, check_budget
from dpcov.privacy.guarantee import NEIGHBORS, ZCDP, ApproxDP, Neighbors, Numerics, Promise, PureDP
from dpcov.privacy.options import Count, make_plain
from dpcov.published.file.statistics import NoisyStatistics, Post


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Public facts about the release to make."""

    # Columns of the encoded rows.
    n_features: Count
    neighbors: Neighbors
    # Public under replace-one, None under add-remove-one.
    n_rows: Count | None = None
    # How many rows one person may own; sensitivities grow by this factor.
    rows_per_person: Count = 1
    # Public groups that get a matrix each.
    n_groups: Count = 1
    # Columns that only say what is missing: accuracy is sought for the others.
    n_indicators: int = 0

    def __post_init__(self) -> None:
        make_plain(self)

    @property
    def moved_rows(self) -> int:
        """Rows in which neighbors differ: replacing takes old ones away and adds new ones."""
        return self.rows_per_person * (2 if self.neighbors == "replace-one" else 1)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Noise chosen for a budget: the promise it really keeps, and its parameters."""

    # Never weaker than the budget asked for.  A pure epsilon of 0 says that the release does not
    # depend on the table, and no ledger is charged.
    promise: Promise
    # Standard deviation over l2 sensitivity of a single Gaussian mechanism; tighter accounting.
    noise_multiplier: Fraction | None = None
    # The zCDP guarantee through which an (epsilon, delta) is met, where there is one; tighter, too.
    rho: Fraction | None = None


# What the signatures of every mechanism name, from one place.
__all__ = ["Ask", "Calibration", "Entropy", "Mechanism", "NoisyStatistics", "Problem"]

CalibrationT = TypeVar("CalibrationT", bound=Calibration)


class Mechanism(ABC, Generic[CalibrationT]):
    """A way to turn sensitive moments into public statistics.

    Subclasses are frozen dataclasses whose fields are the mechanism's options; a field's annotation
    says what it takes (:mod:`dpcov.privacy.options`).  Their modules state guarantee, sensitivity
    and utility.  Unless they say otherwise, neighbors are replace-one (public n) or add-remove-one;
    the unit is the rows of one person; public inputs are options, budget, number of columns and n
    under replace-one; the private input is the moments; running time and memory are not protected.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    numerics: ClassVar[Numerics] = "idealized"
    relations: ClassVar[tuple[Neighbors, ...]] = NEIGHBORS
    promises: ClassVar[tuple[type[Promise], ...]]
    # Whether a matrix for every public group can be released.
    takes_groups: ClassVar[bool] = False
    # Whether a release says how its noise is distributed, which penalties and intervals need.
    states_noise: ClassVar[bool] = True
    # Whether the noise has a law that no rotation changes, so that rows may be mapped first.
    is_isotropic: ClassVar[bool] = False
    # How rows are encoded; options of the mechanisms that let the user choose.
    bits: int = DEFAULT_BITS
    clip: float = 1.0

    def __post_init__(self) -> None:
        make_plain(self)

    @property
    def asks_again(self) -> bool:
        """Whether :meth:`draw` may ask more than one question; then saved moments do not do."""
        return False

    def moments_spec(self, problem: Problem) -> MomentsSpec:
        """Which moments :meth:`draw` wants first; public."""
        return MomentsSpec(bits=self.bits, clip=self.clip)

    def question(self, problem: Problem) -> MomentsQuestion:
        """The first question of :meth:`draw`, which is answered before anything is charged."""
        return MomentsQuestion(spec=self.moments_spec(problem), watched=self.asks_again)

    def largest_questions(
        self, problem: Problem
    ) -> tuple[MomentsQuestion | HistogramQuestion, ...]:
        """Those of :meth:`draw` among which is the one that takes the most memory; public."""
        return (MomentsQuestion(spec=self.moments_spec(problem)),)

    @abstractmethod
    def calibrate(self, problem: Problem, budget: Budget) -> CalibrationT:
        """Choose the noise for a budget from public numbers, or raise :class:`BudgetError`."""

    @abstractmethod
    def draw(
        self, ask: Ask, calibration: CalibrationT, problem: Problem, entropy: Entropy
    ) -> NoisyStatistics:
        """Ask, draw the randomness and return what may be published."""

    def suits(self, post: Post, promise: Promise) -> bool:
        """Whether releases with this promise can be read with ``post``; two need normal noise."""
        is_normal = self.states_noise and not isinstance(promise, PureDP)
        return is_normal or post not in ("shrink", "threshold")

    def check(self, problem: Problem, budget: Budget) -> None:
        """Refuse relations, groups and kinds of budget that this mechanism has no proof for."""
        # Public numbers only: what is refused here costs nothing and reads nothing.
        subject = f"The {self.name} mechanism"
        check_budget(budget)
        if problem.n_groups > 1 and isinstance(budget.promise, PureDP):
            raise BudgetError(
                "Groups need a delta, or rho, in the budget. Give it one, or leave out the groups."
            )
        if problem.n_groups > 1 and not self.takes_groups:
            raise UsageError(f"{subject} releases no groups; use stratified, or leave them out.")
        if problem.neighbors not in self.relations:
            known = " or ".join(self.relations)
            raise BudgetError(f"{subject} has no guarantee under {problem.neighbors}; use {known}.")
        if not isinstance(budget.promise, self.promises):
            kinds = ", or ".join(_IN_WORDS[kind] for kind in self.promises)
            raise BudgetError(f"{subject} cannot honor {budget.promise}; give it {kinds}.")


# What a budget of each kind is made of.
_IN_WORDS = {PureDP: "epsilon alone", ZCDP: "rho", ApproxDP: "epsilon and delta"}
