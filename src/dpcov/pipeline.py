"""The way through the house: rows -> moments -> mechanism(budget) -> Release.

Promise: whatever can be refused is refused before a row is read; the budget is reserved after the moments are
safely gathered and before any randomness is drawn; nothing but a :class:`~dpcov.artifact.Release` comes out.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcov.artifact import Release
from dpcov.artifact_file import member_record, packed_size
from dpcov.auto import AUTO, Choice, resolve
from dpcov.columns import EncodedColumn
from dpcov.data.encode import Encoder, read_unit_ball
from dpcov.data.moments import Moments, MomentsSpec
from dpcov.data.prefetch import prefetch
from dpcov.data.rows import EncodedRows, RowsSpec
from dpcov.data.schema import Schema
from dpcov.data.sources import open_source
from dpcov.errors import BudgetError, DataError, UsageError
from dpcov.manifest import Manifest, MechanismRecord, SpentRecord, StatisticsRecord, guarantee_record
from dpcov.mechanisms.base import Calibration, Mechanism, Problem, RowMechanism
from dpcov.noise.entropy import Entropy, SystemEntropy
from dpcov.output import ReservedFile
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Guarantee, Neighbors, check_neighbors, costs_nothing
from dpcov.privacy.ledger import Ledger, Reservation
from dpcov.privacy.spend import Spend
from dpcov.statistics import NoisyStatistics

Progress = Callable[[int], None]
Gathered = TypeVar("Gathered", Moments, EncodedRows)
Gather = Callable[[MomentsSpec | RowsSpec], Moments | EncodedRows]

_BLOCK_ROWS = 8192
_MANIFEST_ROOM = 2**20
SEEDED_WARNING = "not private: the randomness was seeded for research"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Account:
    """The ledger and the dataset in it that pay for a release."""

    ledger: Ledger
    dataset: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Plan:
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

    def problem(self, n_rows: int | None) -> Problem:
        return Problem(
            n_features=len(self.columns),
            neighbors=self.neighbors,
            n_rows=n_rows if self.neighbors == "replace-one" else None,
            rows_per_person=self.rows_per_person,
        )

    def calibrate(self, n_rows: int | None) -> Calibration:
        calibration: Calibration = self.mechanism.calibrate(self.problem(n_rows), self.budget)
        return calibration


def release(
    data: Any,
    *,
    schema: Schema | str | Path,
    budget: Budget,
    mechanism: str = AUTO,
    neighbors: Neighbors = "replace-one",
    n_rows: int | None = None,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    entropy: Entropy | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Release:
    """Release the second moments of a table once, with a differential privacy guarantee.

    Parameters
    ----------
    data : path, "-", data frame, Arrow table, array or sparse matrix
        The sensitive table.  Files are streamed: memory does not depend on the number of rows.
    schema : Schema or path of a schema file
        Public bounds, categories and policies.
    budget : Budget
        What to promise: ``Budget(rho=...)`` or ``Budget(epsilon=..., delta=...)`` for Gaussian noise.
    mechanism : str, default="auto"
        ``auto``, or a name from :func:`dpcov.mechanisms.registry.names`.
    neighbors : {"replace-one", "add-remove-one"}
        Neighbor relation; under ``replace-one`` the number of rows is public.
    n_rows : int, optional
        The number of rows as publicly known (replace-one); contradicting data are refused.
    ledger : Ledger or path, optional
        Where to charge the budget; needs ``dataset``.
    output : path, optional
        Also write the release file, whole or not at all.
    entropy : Entropy, optional
        Operating-system randomness by default; a seeded source marks the release as not private.
    progress : callable, optional
        Called with the number of rows after every block.
    **options
        Options of the mechanism.

    Returns
    -------
    Release

    Raises
    ------
    SchemaError, DataError, BudgetError, LedgerError, ReleaseError
        Before any budget is spent, except when the ledger itself or the final write fails.

    Examples
    --------
    >>> import numpy as np, dpcov
    >>> rows = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> schema = dpcov.Schema(columns={"x0": dpcov.Numeric(lower=0, upper=1), "x1": dpcov.Numeric(lower=0, upper=1)})
    >>> made = dpcov.release(rows, schema=schema, budget=dpcov.Budget(rho="0.5"))
    >>> made.covariance().shape
    (2, 2)
    """
    if n_rows is not None and neighbors == "add-remove-one":
        raise UsageError("Under add-remove-one neighbors the number of rows is private; do not state it.")
    schema = schema if isinstance(schema, Schema) else Schema.from_toml(schema)
    encoder = Encoder(schema)
    problem = Problem(
        n_features=len(encoder.columns),
        neighbors=check_neighbors(neighbors),
        n_rows=n_rows,
        rows_per_person=schema.rows_per_person,
    )
    choice = resolve(mechanism, options, problem, budget, shortest_row=_shortest_row(schema, encoder))
    plan = _Plan(
        mechanism=choice.make(),
        choice=choice,
        budget=budget,
        neighbors=problem.neighbors,
        columns=encoder.columns,
        norm_bound=encoder.norm_bound,
        rows_per_person=schema.rows_per_person,
        intercept_is_public=_intercept_is_public(schema, neighbors),
        title=schema.title,
        schema_toml=schema.dumps(),
        stated_rows=n_rows,
    )

    def gather(spec: MomentsSpec | RowsSpec) -> Moments | EncodedRows:
        return _gather(_table_blocks(data, encoder), len(encoder.columns), spec, encoder.norm_bound, progress)

    return _publish(plan, gather, _account(ledger, dataset), output, overwrite, entropy)


def second_moment(
    X: Any,
    *,
    norm_bound: float | None = None,
    budget: Budget,
    mechanism: str = "gaussian",
    neighbors: Neighbors = "replace-one",
    rows_per_person: int = 1,
    entropy: Entropy | None = None,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    **options: Any,
) -> Release:
    """Release X'X / n of a plain array whose rows are clipped to a public norm bound.

    Parameters
    ----------
    X : (n, d) array, sparse matrix, or Moments
        Sensitive rows, or their exact moments from :func:`moments`.
    norm_bound : float
        Public bound on the l2 norm of a row; longer rows are scaled down to it.  Required for rows.
    budget, mechanism, neighbors, entropy, ledger, dataset, **options
        As in :func:`release`.

    Returns
    -------
    Release
        ``.second_moment(post=...)`` is the (d, d) estimate in the units of ``X``.

    Examples
    --------
    >>> import numpy as np, dpcov
    >>> X = np.random.default_rng(0).normal(size=(5000, 3))
    >>> made = dpcov.second_moment(X, norm_bound=4.0, budget=dpcov.Budget(rho=1))
    >>> made.second_moment().shape
    (3, 3)
    """
    bound = X.norm_bound if isinstance(X, Moments) and norm_bound is None else norm_bound
    bound = _check_norm_bound(bound)
    names = _names(X)
    problem = Problem(
        n_features=len(names), neighbors=check_neighbors(neighbors), rows_per_person=rows_per_person
    )
    choice = resolve(mechanism, options, problem, budget)
    plan = _Plan(
        mechanism=choice.make(),
        choice=choice,
        budget=budget,
        neighbors=problem.neighbors,
        columns=_plain_columns(names),
        norm_bound=bound,
        rows_per_person=rows_per_person,
        intercept_is_public=False,
    )

    def gather(spec: MomentsSpec | RowsSpec) -> Moments | EncodedRows:
        if not isinstance(X, Moments):
            return _gather(_ball_blocks(X, bound), len(names), spec, bound)
        if isinstance(spec, RowsSpec):
            raise UsageError(
                f"The {choice.mechanism} mechanism needs the rows; give them instead of moments."
            )
        if X.spec != spec or X.norm_bound != bound:
            raise UsageError(
                f"These moments do not fit the mechanism; gather them with norm_bound={bound}, {spec}."
            )
        return X

    return _publish(plan, gather, _account(ledger, dataset), None, False, entropy)


def moments(X: Any, *, norm_bound: float, **spec: Any) -> Moments:
    """Exact **sensitive** moments of an array, to be shared by several mechanisms.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    norm_bound : float
        Public bound on the l2 norm of a row; longer rows are scaled down to it.
    **spec
        Fields of :class:`~dpcov.data.moments.MomentsSpec`: ``shells``, ``normalized``, ``bits``.
    """
    bound = _check_norm_bound(norm_bound)
    return _fill(_ball_blocks(X, bound), Moments(len(_names(X)), MomentsSpec(**spec), norm_bound=bound))


def table_moments(
    data: Any, schema: Schema, spec: MomentsSpec, *, progress: Progress | None = None
) -> Moments:
    """Exact **sensitive** moments of a table as a schema encodes it, read once, block by block."""
    encoder = Encoder(schema)
    gathered = Moments(len(encoder.columns), spec, norm_bound=encoder.norm_bound)
    return _fill(_table_blocks(data, encoder), gathered, progress)


def _table_blocks(data: Any, encoder: Encoder) -> Iterator[NDArray[np.float64]]:
    """Encode a table block by block, while the next blocks are being read."""
    read = prefetch(open_source(data).blocks(_BLOCK_ROWS, wanted=encoder.wanted))
    return (encoder.encode(block) for block in read)


def _publish(
    plan: _Plan,
    gather: Gather,
    account: Account | None,
    output: str | Path | None,
    overwrite: bool,
    entropy: Entropy | None,
) -> Release:
    """Refuse early, gather, charge, draw, write; in this order."""
    randomness = _check_entropy(entropy)
    calibration = plan.calibrate(plan.stated_rows)
    spend = _spend(plan, calibration)
    if account is not None and spend is not None:
        account.ledger.check(account.dataset, spend, plan.neighbors)
    with contextlib.ExitStack() as stack:
        with _noting("No budget was spent and nothing was released."):
            file = None
            if output is not None:
                size = packed_size([(len(plan.columns), len(plan.columns))], _MANIFEST_ROOM)
                file = stack.enter_context(ReservedFile(output, size, overwrite=overwrite))
            exact = gather(plan.mechanism.wants(plan.problem(plan.stated_rows)))
            n_rows = _public_rows(plan, exact)
            calibration = plan.calibrate(n_rows)
        reservation = _reserve(account, plan, calibration)
        with _noting(_spent_note(reservation)):
            if reservation is not None:
                reservation.mark_drawn()
            statistics = _draw(plan, exact, calibration, n_rows, randomness)
            made = _assemble(plan, calibration, statistics, n_rows, reservation, account, randomness)
            if file is not None:
                file.write(made.to_bytes())
            if reservation is not None:
                reservation.commit(made.fingerprint)
    return made


def _draw(
    plan: _Plan,
    exact: Moments | EncodedRows,
    calibration: Calibration,
    n_rows: int | None,
    entropy: Entropy,
) -> NoisyStatistics:
    problem = plan.problem(n_rows)
    if isinstance(exact, EncodedRows):
        assert isinstance(plan.mechanism, RowMechanism)
        return plan.mechanism.draw_rows(exact, calibration, problem, entropy)
    return plan.mechanism.draw(exact, calibration, problem, entropy)


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


def _public_rows(plan: _Plan, exact: Moments | EncodedRows) -> int | None:
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


def _reserve(account: Account | None, plan: _Plan, calibration: Calibration) -> Reservation | None:
    spend = _spend(plan, calibration)
    if account is None or spend is None:
        return None
    return account.ledger.reserve(account.dataset, spend, plan.neighbors)


def _spend(plan: _Plan, calibration: Calibration) -> Spend | None:
    """What the ledger is charged; None where the release does not depend on the table."""
    if costs_nothing(calibration.promise):
        return None
    return Spend(
        promise=calibration.promise,
        mechanism=plan.mechanism.name,
        noise_multiplier=calibration.noise_multiplier,
    )


def _assemble(
    plan: _Plan,
    calibration: Calibration,
    statistics: NoisyStatistics,
    n_rows: int | None,
    reservation: Reservation | None,
    account: Account | None,
    entropy: Entropy,
) -> Release:
    arrays = dict(statistics.arrays)
    spent = None
    if reservation is not None and account is not None:
        spent = SpentRecord(dataset=account.dataset, entry=reservation.id)
    guarantee = Guarantee(
        promise=calibration.promise,
        neighbors=plan.neighbors,
        rows_per_person=plan.rows_per_person,
        numerics=plan.mechanism.numerics,
    )
    manifest = Manifest(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        software={"dpcov": version("dpcov"), "numpy": np.__version__},
        title=plan.title,
        mechanism=MechanismRecord(
            name=plan.mechanism.name,
            options=_options(plan.mechanism),
            chosen_by=AUTO if plan.choice.reason else "custodian",
        ),
        guarantee=guarantee_record(guarantee),
        n_rows=n_rows,
        norm_bound=plan.norm_bound,
        intercept_is_public=plan.intercept_is_public and _keeps_intercept(statistics),
        columns=plan.columns,
        schema_toml=plan.schema_toml,
        statistics=StatisticsRecord(
            layout=statistics.layout,
            lattice_bits=statistics.lattice_bits,
            dropped_bits=statistics.dropped_bits,
            radius=statistics.radius,
            post=plan.choice.post or statistics.post,
            noise=statistics.noise,
            notes=plan.choice.notes + statistics.notes,
            post_options=statistics.post_options,
        ),
        members={name: member_record(array) for name, array in arrays.items()},
        spent=spent,
        warnings=() if entropy.private else (SEEDED_WARNING,),
    )
    return Release(manifest, arrays)


def _options(mechanism: Mechanism[Any]) -> dict[str, str | int | float | bool | None]:
    fields = dataclasses.fields(mechanism)  # type: ignore[arg-type]
    return {field.name: getattr(mechanism, field.name) for field in fields}


def _intercept_is_public(schema: Schema, neighbors: str) -> bool:
    """Under replace-one every row carries the same intercept unless rows are weighted or scaled down."""
    unscaled = schema.norm_bound is None or schema.norm_bound >= schema.worst_case_norm
    return neighbors == "replace-one" and schema.intercept and schema.weights is None and unscaled


def _keeps_intercept(statistics: NoisyStatistics) -> bool:
    """Whether the mechanism left every row as long as it was, as far as its statistics tell."""
    return statistics.layout != "estimate" and statistics.radius == 1.0


def _shortest_row(schema: Schema, encoder: Encoder) -> float:
    """Public lower bound on the norm of an encoded row, as a fraction of the norm bound."""
    unscaled = schema.norm_bound is None or schema.norm_bound >= schema.worst_case_norm
    return 1.0 / encoder.norm_bound if schema.intercept and schema.weights is None and unscaled else 0.0


def _account(ledger: Ledger | str | Path | None, dataset: str | None) -> Account | None:
    if ledger is None:
        if dataset is not None:
            raise UsageError("A dataset name needs a ledger; give both, or none.")
        return None
    if dataset is None:
        raise UsageError("Say which dataset of the ledger pays (dataset=..., --dataset).")
    return Account(ledger=ledger if isinstance(ledger, Ledger) else Ledger(ledger), dataset=dataset)


def _check_norm_bound(norm_bound: float | None) -> float:
    usable = isinstance(norm_bound, int | float | np.number) and not isinstance(norm_bound, bool)
    if norm_bound is None or not usable or not 0 < norm_bound < float("inf"):
        raise BudgetError(
            "norm_bound must be a positive number that is publicly known to bound the l2 norm of a row; "
            "it is never computed from the data."
        )
    return float(norm_bound)


def _names(X: Any) -> tuple[str, ...]:
    """Names of the features: the data's own, or x0, x1, ... where it has none."""
    return tuple(f"x{i}" for i in range(X.n_features)) if isinstance(X, Moments) else open_source(X).columns


def _plain_columns(names: Iterable[str]) -> tuple[EncodedColumn, ...]:
    return tuple(
        EncodedColumn(name=name, source=name, kind="numeric", center=0.0, half_range=1.0) for name in names
    )


def _ball_blocks(X: Any, norm_bound: float) -> Iterator[NDArray[np.float64]]:
    return read_unit_ball(open_source(X), norm_bound, _BLOCK_ROWS)


def _gather(
    blocks: Iterable[NDArray[np.float64]],
    n_features: int,
    spec: MomentsSpec | RowsSpec,
    norm_bound: float,
    progress: Progress | None = None,
) -> Moments | EncodedRows:
    """Keep the rows, or their moments only: what the mechanism wants."""
    if isinstance(spec, RowsSpec):
        return _fill(blocks, EncodedRows(n_features, norm_bound=norm_bound), progress)
    return _fill(blocks, Moments(n_features, spec, norm_bound=norm_bound), progress)


def _fill(
    blocks: Iterable[NDArray[np.float64]], gathered: Gathered, progress: Progress | None = None
) -> Gathered:
    for block in blocks:
        gathered.add(block)
        if progress is not None:
            progress(len(block))
    return gathered
