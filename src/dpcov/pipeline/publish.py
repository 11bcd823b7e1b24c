"""Publish a release or a geometry: refuse early, ask, charge, draw, write, in this order.

Contract: whatever can be refused is refused before a row is read; the budget is reserved after the
first question is answered and before any randomness is drawn; an error says whether it was spent.
"""

import contextlib
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from dpcov.data.geometry import Geometry
from dpcov.data.questions import Ask
from dpcov.errors import (
    DataError,
    LedgerError,
    ReleaseError,
    ReleaseWarning,
    UsageError,
    warn_caller,
)
from dpcov.files import ReservedFile
from dpcov.mechanisms.auto import AUTO
from dpcov.mechanisms.base import Calibration, Mechanism, Problem
from dpcov.mechanisms.geometry.survey_alone import SurveyAlone
from dpcov.mechanisms.geometry.surveyed import Surveyed
from dpcov.mechanisms.geometry.whitening import with_map
from dpcov.noise.entropy import Entropy, SystemEntropy
from dpcov.pipeline.terms import ReleaseTerms
from dpcov.privacy.guarantee import Guarantee, costs_nothing
from dpcov.privacy.ledger.ledger import Ledger, Reservation
from dpcov.privacy.ledger.spend import Spend
from dpcov.privacy.meaning import warn_of_large_epsilon
from dpcov.privacy.options import plain
from dpcov.published.assembly import Facts, assemble, rehearse
from dpcov.published.file.archive import packed_size
from dpcov.published.file.manifest import MechanismRecord, SpentRecord
from dpcov.published.linalg.one_thread import one_thread
from dpcov.published.release import Release

_MANIFEST_ROOM = 2**20
_MATRICES_PER_GROUP = 8
_LINE_ROOM = 2**9
_CHARGING = (
    "The budget may have been charged just now; `dpcov ledger show` tells. Nothing was released."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Account:
    """The ledger and the dataset in it that pay for a release."""

    ledger: Ledger
    dataset: str

    @classmethod
    def of(cls, ledger: Ledger | str | Path | None, dataset: str | None) -> "Account | None":
        """That of a ledger or its path; None without one."""
        if ledger is None:
            if dataset is not None:
                raise UsageError("A dataset name needs a ledger; give both, or none.")
            return None
        if dataset is None:
            raise UsageError("Say which dataset of the ledger pays (dataset=..., --dataset).")
        book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        return cls(ledger=book, dataset=plain("dataset", dataset, str))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundGeometry:
    """A geometry, and comments for its file: numbers that the survey published, public facts."""

    geometry: Geometry
    notes: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the file."""
        return sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """TOML text."""
        return self.geometry.dumps(self.notes).encode()


MadeT = TypeVar("MadeT", Release, FoundGeometry)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drawn:
    """What a mechanism drew, and public facts about it."""

    value: Any
    calibration: Calibration
    n_rows: int | None
    spent: SpentRecord | None
    private: bool


@dataclasses.dataclass(frozen=True)
class Maker(ABC, Generic[MadeT]):
    """States what was drawn; only :func:`publish` spends and draws."""

    terms: ReleaseTerms

    @abstractmethod
    def rehearse(self, calibration: Calibration, account: Account | None) -> int:
        """Refuse now what could not be written after the charge; bytes to take on the disk."""

    @abstractmethod
    def make(self, drawn: Drawn) -> MadeT:
        """State what was drawn."""


def publish(
    maker: Maker[MadeT],
    ask: Ask,
    account: Account | None,
    output: str | Path | None,
    overwrite: bool,
    entropy: Entropy | None,
) -> MadeT:
    """Refuse early, ask, charge, draw, write; in this order."""
    with contextlib.ExitStack() as stack:
        with unspent():
            randomness, terms = _check_entropy(entropy), maker.terms
            if account is not None and output is not None and account.ledger.is_file(output):
                raise UsageError(f"{Path(output).name} is the ledger's. Write to another file.")
            calibration, neighbors = terms.calibrate(terms.problem), terms.problem.neighbors
            room = maker.rehearse(calibration, account)
            spend = _spend(terms, calibration)
            if account is not None and spend is not None:
                account.ledger.check(account.dataset, spend, neighbors)
            warn_of_large_epsilon(calibration.promise)
            file = None
            if output is not None:
                file = stack.enter_context(ReservedFile(output, room, overwrite=overwrite))
            first = ask(terms.mechanism.question(terms.problem))
            problem, calibration = _calibrated(terms, first.n_rows)
        reservation, spend = None, _spend(terms, calibration)
        if account is not None and spend is not None:
            with _noting(_CHARGING, KeyboardInterrupt):
                reservation = account.ledger.reserve(account.dataset, spend, neighbors)
        with _noting(_spent_note(reservation)):
            spent = None
            if reservation is not None:
                reservation.mark_drawn()
                spent = SpentRecord(
                    dataset=reservation.dataset, entry=reservation.id, opened=reservation.opened
                )
            with one_thread(problem.n_features):
                value = terms.mechanism.draw(ask, calibration, problem, randomness)
            made = maker.make(
                Drawn(
                    value=value,
                    calibration=calibration,
                    n_rows=problem.n_rows,
                    spent=spent,
                    # A seeded geometry hides nothing of the rows that it was found in.
                    private=randomness.private and not (terms.known and terms.known.seeded),
                )
            )
            with _noting_what_is_whole(file):
                if file is not None:
                    _write(file, made.to_bytes())
                if reservation is not None:
                    _commit(reservation, made.fingerprint)
    return made


def unspent() -> contextlib.AbstractContextManager[None]:
    """Tell whoever meets an error before the budget is charged that it is not."""
    return _noting("No budget was spent and nothing was released.")


def _write(file: ReservedFile, content: bytes) -> None:
    """Write what is paid for; elsewhere where its folder is gone, or cannot be written any more."""
    try:
        file.write(content)
    except ReleaseError as error:
        try:
            file.write_elsewhere(content)
        except (OSError, ReleaseError):
            raise error from None


def _commit(reservation: Reservation, fingerprint: str) -> None:
    """Name the release in the ledger; what is paid for and made is kept where that fails."""
    try:
        reservation.commit(fingerprint)
    except LedgerError as error:
        warn_caller(
            f"{error} What was made here is whole, and nothing has to be made again. Entry "
            f"{reservation.id} of dataset {reservation.dataset} counts, but may not name it.",
            ReleaseWarning,
        )


@contextlib.contextmanager
def _noting(note: str, kind: type[BaseException] = BaseException) -> Iterator[None]:
    """Tell whoever meets an error what it means for the budget."""
    try:
        yield
    except kind as error:
        error.add_note(note)
        raise


@contextlib.contextmanager
def _noting_what_is_whole(file: ReservedFile | None) -> Iterator[None]:
    """Tell whoever interrupts the end of a release what there is of it."""
    try:
        yield
    except KeyboardInterrupt as error:
        if file is None:
            error.add_note("What was made is lost.")
        elif file.is_whole:
            error.add_note(f"What was made is whole, in {file.path}: nothing has to be made again.")
        raise


def _spent_note(reservation: Reservation | None) -> str:
    if reservation is None:
        return "No ledger was charged."
    return (
        f"The budget IS spent: entry {reservation.id} of dataset {reservation.dataset} stays in "
        "the ledger, because noise may have been drawn already."
    )


def _check_entropy(entropy: Entropy | None) -> Entropy:
    if entropy is None:
        return SystemEntropy()
    is_source = hasattr(entropy, "words") and not isinstance(entropy, type)
    if not is_source or not isinstance(getattr(entropy, "private", None), bool):
        raise UsageError(
            "entropy must be a source such as SystemEntropy(), or SeededEntropy(7) for research."
        )
    return entropy


def _calibrated(terms: ReleaseTerms, n_rows: int) -> tuple[Problem, Calibration]:
    """The problem and the noise for so many rows."""
    problem = dataclasses.replace(terms.problem, n_rows=_public_rows(terms.problem, n_rows))
    return problem, terms.calibrate(problem)


def _public_rows(stated: Problem, n_rows: int) -> int | None:
    """The number of rows where the relation makes it public, checked against what was stated."""
    if n_rows == 0:
        raise DataError("The data hold no rows. Give at least one.")
    if stated.neighbors == "add-remove-one":
        return None
    if stated.n_rows is not None and stated.n_rows != n_rows:
        raise DataError(
            "The data do not hold the number of rows that was stated as public (replace-one). "
            "Correct that number, or use add-remove-one neighbors if it is private."
        )
    return n_rows


def _spend(terms: ReleaseTerms, calibration: Calibration) -> Spend | None:
    """What the ledger is charged; None where the release does not depend on the table."""
    if costs_nothing(calibration.promise):
        return None
    return Spend(
        promise=calibration.promise,
        mechanism=terms.mechanism.name,
        rho=calibration.rho,
        noise_multiplier=calibration.noise_multiplier,
        rows_per_person=terms.problem.rows_per_person,
    )


class ReleaseMaker(Maker[Release]):
    """Makes a release."""

    def rehearse(self, calibration: Calibration, account: Account | None) -> int:
        """Refuse now what could not be written after the charge; a release rarely needs more."""
        terms, problem = self.terms, self.terms.problem
        n_rows = (problem.n_rows or 1) if problem.neighbors == "replace-one" else None
        spent = None if account is None else SpentRecord(dataset=account.dataset, entry=1)
        rehearse(_guarantee_of(terms, calibration), **_facts(terms, n_rows, spent))
        wanted = terms.mechanism.moments_spec(problem)
        matrices = min(wanted.n_strata, _MATRICES_PER_GROUP * wanted.groups)
        return packed_size([(len(terms.columns), len(terms.columns))] * matrices, _MANIFEST_ROOM)

    def make(self, drawn: Drawn) -> Release:
        """State what was drawn."""
        terms, statistics = self.terms, drawn.value
        facts = _facts(terms, drawn.n_rows, drawn.spent)
        if statistics.columns is not None and statistics.norm_bound is not None:
            facts["columns"], facts["norm_bound"] = statistics.columns, statistics.norm_bound
        if terms.stated is not None:
            statistics = with_map(statistics, terms.stated.linear)
            statistics = msgspec.structs.replace(statistics, lost=terms.stated.lost)
        # Whether the mechanism left every row as long as it was, as far as its statistics tell.
        facts["intercept_is_public"] &= statistics.layout != "estimate" and statistics.radius >= 1.0
        facts["intercept_is_public"] &= drawn.n_rows is not None or "row_count" in statistics.arrays
        return assemble(
            statistics,
            _guarantee_of(terms, drawn.calibration),
            private=drawn.private,
            post=terms.choice.post,
            notes=terms.notes,
            **facts,
        )


class GeometryMaker(Maker[FoundGeometry]):
    """Makes a geometry alone, by the survey that a release makes otherwise."""

    def rehearse(self, calibration: Calibration, account: Account | None) -> int:
        """A geometry can always be written; every column takes a few lines."""
        return _LINE_ROOM * (len(self.terms.columns) + 8)

    def make(self, drawn: Drawn) -> FoundGeometry:
        """State what was drawn, for whom, and for which releases."""
        assert isinstance(self.terms.mechanism, SurveyAlone)
        notes = [
            f"found with {_guarantee_of(self.terms, drawn.calibration)}",
            f"the norm bound was chosen for releases with {self.terms.mechanism.coming}",
        ]
        if drawn.spent is not None:
            notes.append(f"charged: entry {drawn.spent.entry} of dataset {drawn.spent.dataset}")
        if not drawn.private:
            notes.insert(0, "NOT PRIVATE: the randomness was seeded, for research on public data")
        units = {column.name: column.unit for column in self.terms.columns}
        columns = {
            name: msgspec.structs.replace(scale, unit=units.get(name, ""))
            for name, scale in drawn.value.columns.items()
        }
        geometry = msgspec.structs.replace(drawn.value, columns=columns, seeded=not drawn.private)
        return FoundGeometry(geometry=geometry, notes=tuple(notes))


def _guarantee_of(terms: ReleaseTerms, calibration: Calibration) -> Guarantee:
    """What is promised, and to whom."""
    return Guarantee(
        promise=calibration.promise,
        neighbors=terms.problem.neighbors,
        rows_per_person=terms.problem.rows_per_person,
        numerics=terms.mechanism.numerics,
    )


def _facts(terms: ReleaseTerms, n_rows: int | None, spent: SpentRecord | None) -> Facts:
    mechanism = MechanismRecord(
        name=terms.mechanism.name,
        options=_options(terms.mechanism),
        chosen_by=AUTO if terms.choice.reason else "custodian",
    )
    return Facts(
        mechanism=mechanism,
        n_rows=n_rows,
        norm_bound=terms.norm_bound,
        intercept_is_public=terms.intercept_is_public,
        columns=terms.columns,
        title=terms.title,
        groups=terms.groups,
        schema_toml=terms.schema_toml,
        spent=spent,
    )


def _options(mechanism: Mechanism[Any]) -> dict[str, str | int | float | bool | None]:
    mechanism = mechanism.inner if isinstance(mechanism, Surveyed) else mechanism
    fields = dataclasses.fields(mechanism)  # type: ignore[arg-type]
    return {field.name: getattr(mechanism, field.name) for field in fields}
