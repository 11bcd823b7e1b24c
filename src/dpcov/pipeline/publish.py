"""From a table that can be asked to a published release: refuse early, ask, charge, draw, write, in this order.

Contract: whatever can be refused is refused before a row is read; the budget is reserved after the first
question is safely answered and before any randomness is drawn; an error says whether the budget was spent.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpcov.data.moments import Moments
from dpcov.data.questions import Ask
from dpcov.errors import DataError, UsageError
from dpcov.files import ReservedFile
from dpcov.mechanisms.auto import AUTO, Choice
from dpcov.mechanisms.base import Calibration, Mechanism, Problem
from dpcov.noise.entropy import Entropy, SystemEntropy
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Guarantee, Neighbors, costs_nothing
from dpcov.privacy.ledger.ledger import Ledger, Reservation
from dpcov.privacy.ledger.spend import Spend
from dpcov.privacy.meaning import check_delta, warn_of_large_epsilon
from dpcov.published.assembly import Facts, assemble, rehearse
from dpcov.published.columns import EncodedColumn
from dpcov.published.file import packed_size
from dpcov.published.linalg.one_thread import one_thread
from dpcov.published.manifest import MechanismRecord, SpentRecord
from dpcov.published.release import Release
from dpcov.published.statistics import NoisyStatistics

_MANIFEST_ROOM = 2**20
_MATRICES_PER_GROUP = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Account:
    """The ledger and the dataset in it that pay for a release."""

    ledger: Ledger
    dataset: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReleasePlan:
    """Everything public that was decided before any row is read."""

    mechanism: Mechanism[Any]
    choice: Choice
    budget: Budget
    neighbors: Neighbors
    columns: tuple[EncodedColumn, ...]
    norm_bound: float
    rows_per_person: int
    intercept_is_public: bool
    title: str = ""
    schema_toml: str | None = None
    stated_rows: int | None = None
    groups: tuple[str, ...] = ()
    accept_large_delta: bool = False

    def problem(self, n_rows: int | None) -> Problem:
        """State the public facts, with the number of rows where it is public."""
        return Problem(
            n_features=len(self.columns),
            neighbors=self.neighbors,
            n_rows=n_rows if self.neighbors == "replace-one" else None,
            rows_per_person=self.rows_per_person,
            n_groups=max(1, len(self.groups)),
        )

    def calibrate(self, n_rows: int | None) -> Calibration:
        """Choose the noise from public numbers, and refuse a promise that protects nobody."""
        calibration: Calibration = self.mechanism.calibrate(self.problem(n_rows), self.budget)
        if not self.accept_large_delta:
            check_delta(calibration.promise, self.neighbors, n_rows)
        return calibration


def publish(
    plan: ReleasePlan,
    ask: Ask,
    account: Account | None,
    output: str | Path | None,
    overwrite: bool,
    entropy: Entropy | None,
) -> Release:
    """Refuse early, ask, charge, draw, write; in this order."""
    randomness = _check_entropy(entropy)
    calibration = plan.calibrate(plan.stated_rows)
    _rehearse(plan, calibration, account)
    spend = _spend(plan, calibration)
    if account is not None and spend is not None:
        account.ledger.check(account.dataset, spend, plan.neighbors)
    warn_of_large_epsilon(calibration.promise, stacklevel=3)
    with contextlib.ExitStack() as stack:
        with _noting("No budget was spent and nothing was released."):
            file = None
            if output is not None:
                file = stack.enter_context(ReservedFile(output, _room(plan), overwrite=overwrite))
            first = ask(plan.mechanism.question(plan.problem(plan.stated_rows)))
            n_rows = _public_rows(plan, first)
            calibration = plan.calibrate(n_rows)
        reservation = _reserve(account, plan, calibration)
        with _noting(_spent_note(reservation)):
            if reservation is not None:
                reservation.mark_drawn()
            problem = plan.problem(n_rows)
            with one_thread(problem.n_features):
                statistics = plan.mechanism.draw(ask, calibration, problem, randomness)
            spent = (
                None
                if reservation is None
                else SpentRecord(dataset=reservation.dataset, entry=reservation.id)
            )
            made = _release_of(
                plan, calibration, statistics, n_rows, spent, private=randomness.private
            )
            if file is not None:
                file.write(made.to_bytes())
            if reservation is not None:
                reservation.commit(made.fingerprint)
    return made


def _room(plan: ReleasePlan) -> int:
    """Bytes to take on the disk before anything is spent: as many matrices as a release rarely exceeds."""
    wanted = plan.mechanism.moments_spec(plan.problem(plan.stated_rows))
    matrices = min(wanted.n_strata, _MATRICES_PER_GROUP * wanted.groups)
    return packed_size([(len(plan.columns), len(plan.columns))] * matrices, _MANIFEST_ROOM)


@contextlib.contextmanager
def _noting(note: str) -> Iterator[None]:
    """Tell whoever meets an error what it means for the budget."""
    try:
        yield
    except BaseException as error:
        error.add_note(note)
        raise


def _spent_note(reservation: Reservation | None) -> str:
    if reservation is None:
        return "No ledger was charged."
    return (
        f"The budget IS spent: entry {reservation.id} of dataset {reservation.dataset} stays in the ledger, "
        "because noise may have been drawn already."
    )


def _check_entropy(entropy: Entropy | None) -> Entropy:
    if entropy is None:
        return SystemEntropy()
    if not hasattr(entropy, "words") or not isinstance(getattr(entropy, "private", None), bool):
        raise UsageError(
            "entropy must be a source such as SystemEntropy(), or SeededEntropy(7) for research."
        )
    return entropy


def _public_rows(plan: ReleasePlan, exact: Moments) -> int | None:
    """The number of rows where the relation makes it public; checks it against what the custodian stated."""
    if exact.n_rows == 0:
        raise DataError("The data hold no rows.")
    if plan.neighbors == "add-remove-one":
        return None
    if plan.stated_rows is not None and plan.stated_rows != exact.n_rows:
        raise DataError(
            "The data do not hold the number of rows that was stated as public (replace-one neighbors). "
            "Correct --rows, or use add-remove-one neighbors if the number is private."
        )
    return exact.n_rows


def _reserve(
    account: Account | None, plan: ReleasePlan, calibration: Calibration
) -> Reservation | None:
    spend = _spend(plan, calibration)
    if account is None or spend is None:
        return None
    return account.ledger.reserve(account.dataset, spend, plan.neighbors)


def _spend(plan: ReleasePlan, calibration: Calibration) -> Spend | None:
    """What the ledger is charged; None where the release does not depend on the table."""
    if costs_nothing(calibration.promise):
        return None
    return Spend(
        promise=calibration.promise,
        mechanism=plan.mechanism.name,
        noise_multiplier=calibration.noise_multiplier,
        rows_per_person=plan.rows_per_person,
    )


def _release_of(
    plan: ReleasePlan,
    calibration: Calibration,
    statistics: NoisyStatistics,
    n_rows: int | None,
    spent: SpentRecord | None,
    *,
    private: bool,
) -> Release:
    facts = _facts(plan, n_rows, spent)
    facts["intercept_is_public"] &= _keeps_intercept(statistics)
    return assemble(
        statistics,
        _guarantee(plan, calibration),
        private=private,
        post=plan.choice.post,
        notes=plan.choice.notes,
        **facts,
    )


def _rehearse(plan: ReleasePlan, calibration: Calibration, account: Account | None) -> None:
    """Refuse now what could not be written after the charge."""
    n_rows = plan.problem(plan.stated_rows or 1).n_rows
    spent = None if account is None else SpentRecord(dataset=account.dataset, entry=1)
    rehearse(_guarantee(plan, calibration), **_facts(plan, n_rows, spent))


def _guarantee(plan: ReleasePlan, calibration: Calibration) -> Guarantee:
    return Guarantee(
        promise=calibration.promise,
        neighbors=plan.neighbors,
        rows_per_person=plan.rows_per_person,
        numerics=plan.mechanism.numerics,
    )


def _facts(plan: ReleasePlan, n_rows: int | None, spent: SpentRecord | None) -> Facts:
    mechanism = MechanismRecord(
        name=plan.mechanism.name,
        options=_options(plan.mechanism),
        chosen_by=AUTO if plan.choice.reason else "custodian",
    )
    return Facts(
        mechanism=mechanism,
        n_rows=n_rows,
        norm_bound=plan.norm_bound,
        intercept_is_public=plan.intercept_is_public,
        columns=plan.columns,
        title=plan.title,
        groups=plan.groups,
        schema_toml=plan.schema_toml,
        spent=spent,
    )


def _options(mechanism: Mechanism[Any]) -> dict[str, str | int | float | bool | None]:
    fields = dataclasses.fields(mechanism)  # type: ignore[arg-type]
    return {field.name: getattr(mechanism, field.name) for field in fields}


def _keeps_intercept(statistics: NoisyStatistics) -> bool:
    """Whether the mechanism left every row as long as it was, as far as its statistics tell."""
    return statistics.layout != "estimate" and statistics.radius == 1.0
