"""The doors for tables: rows -> moments -> mechanism(budget) -> Release.

Contract: only public numbers are decided here, before a row is read; nothing but a release or a
geometry comes out, except from :func:`checkpoint`, whose result is sensitive.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from dpcov.data.checkpoint import Checkpoint
from dpcov.data.engines.base import TellRows
from dpcov.data.gather import Gathering
from dpcov.data.geometry import Geometry
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import file_of
from dpcov.errors import UsageError
from dpcov.files import ReservedFile, check_output, last_written
from dpcov.mechanisms.auto import AUTO
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.geometry.survey_alone import SurveyAlone
from dpcov.mechanisms.geometry.surveyed import Surveyed
from dpcov.noise.entropy import Entropy
from dpcov.pipeline.publish import Account, GeometryMaker, ReleaseMaker, publish, unspent
from dpcov.pipeline.terms import plan_table
from dpcov.privacy.budget import Budget, check_budget
from dpcov.privacy.guarantee import Neighbors, check_neighbors
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.options import plain
from dpcov.published.release import Release


def release(
    data: Any,
    *,
    schema: Schema | str | Path,
    budget: Budget,
    mechanism: str | Mechanism[Any] = AUTO,
    neighbors: Neighbors = "replace-one",
    n_rows: int | None = None,
    by: str | None = None,
    geometry: Geometry | Release | str | Path | None = None,
    accept_large_delta: bool = False,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    entropy: Entropy | None = None,
    progress: TellRows | None = None,
    engine: str | None = None,
    threads: int | None = None,
    memory_limit: float | None = None,
    **options: Any,
) -> Release:
    """Release the second moments of a table once, with a differential privacy guarantee.

    Parameters
    ----------
    data : path, "-", data frame, Arrow table, array, sparse matrix, or Checkpoint
        The sensitive table, or its moments as gathered by :func:`checkpoint`.  Files are streamed:
        memory does not depend on the number of rows.
    schema : Schema or path of a schema file
        Public bounds, categories and policies.  Its patterns are written out by the names of the
        table's columns.
    budget : Budget
        What to promise: ``Budget(rho=...)``, ``Budget(epsilon=..., delta=...)`` or
        ``Budget(epsilon=...)``.
    mechanism : str or Mechanism, default="auto"
        ``auto``, a name from :func:`dpcov.mechanisms.registry.names`, or a mechanism of your own.
    neighbors : {"replace-one", "add-remove-one"}
        Neighbor relation; under ``replace-one`` the number of rows is public.
    n_rows : int, optional
        The number of rows as publicly known (replace-one); contradicting data are refused.
    by : str, optional
        A categorical column of the schema: one matrix for each of its categories (and one for all
        other values), at the price of one release; see
        :meth:`~dpcov.published.release.Release.group`.
    geometry : "private", "schema", path, Geometry or Release, optional
        Centers and scales in which noise is added: found privately for a tenth of the budget (a
        fifth in pure epsilon), so that bounds may be as wide as possible; those of the bounds; or
        those of a TOML file or of an earlier release (or its file), in which a twentieth of the
        budget says how long rows are.  Private by default; saved moments have that in which they
        were gathered.  Bounds stay where rows are too few for columns to show, and for a schema
        with a norm bound.
    accept_large_delta : bool, default=False
        Insist on a delta of one over the number of rows or more, or above 1e-3 where that number
        is private.
    ledger : Ledger or path, optional
        Where to charge the budget; needs ``dataset``.  Without one nobody adds up the releases.
    output : path, optional
        Also write the release file, whole or not at all.
    entropy : Entropy, optional
        Operating-system randomness by default; a seeded source marks the release as not private.
    progress : callable, optional
        Called with the number of rows after every block.
    engine : {"local", "dask", "spark", "device"}, optional
        Where moments are gathered; found by the type of the data if not given.  All give equal
        moments.
    threads : int, optional
        Threads of the local engine; all cores by default.
    memory_limit : float, optional
        GiB that gathering may take on one machine; what the machine has by default.  What cannot
        fit is refused before a row is read.
    **options
        Options of the mechanism.

    Returns
    -------
    Release

    Raises
    ------
    SchemaError, DataError, BudgetError, LedgerError, ReleaseError
        Before any budget is spent, except when the ledger itself or the final write fails, or a
        table that is read several times changes meanwhile.
    MovedError
        The release is whole, but in another place: its name was taken or its folder lost.

    Examples
    --------
    >>> import numpy as np, dpcov
    >>> rows = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> unit = dpcov.Numeric(lower=0, upper=1)
    >>> schema = dpcov.Schema(columns={"x0": unit, "x1": unit})
    >>> made = dpcov.release(rows, schema=schema, budget=dpcov.Budget(rho="0.5"))
    >>> made.covariance().shape
    (2, 2)
    """
    with unspent():
        where = Gathering(
            engine=engine, threads=threads, memory_limit=memory_limit, progress=progress
        )
        paid = _account(
            budget, neighbors, ledger, dataset, output, overwrite, data, schema, geometry
        )
        if geometry is None:
            geometry = (data.geometry or "schema") if isinstance(data, Checkpoint) else "private"
        declared, data = _declared(schema, data, where)
        terms, encoder = plan_table(
            *(declared, budget, mechanism, neighbors, n_rows, by, options, geometry),
            *(accept_large_delta, isinstance(data, Checkpoint)),
        )
        ask = terms.ask(where, data, encoder)
    return publish(ReleaseMaker(terms), ask, paid, output, overwrite, entropy)


def survey(
    data: Any,
    *,
    schema: Schema | str | Path,
    budget: Budget,
    coming: Budget | None = None,
    neighbors: Neighbors = "replace-one",
    n_rows: int | None = None,
    by: str | None = None,
    accept_large_delta: bool = False,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    entropy: Entropy | None = None,
    progress: TellRows | None = None,
    engine: str | None = None,
    threads: int | None = None,
    memory_limit: float | None = None,
) -> Geometry:
    """Find centers and scales of the columns once, for all releases and checkpoints that follow.

    Parameters
    ----------
    data, schema, neighbors, n_rows, by, accept_large_delta, ledger, dataset, overwrite
    entropy, progress, engine, threads, memory_limit
        As in :func:`release`, except for saved moments: they answer one question only.
    budget : Budget
        Of the survey, all of it.  What few rows cannot show with it is refused unpaid.
    coming : Budget, optional
        What you expect a later release to cost; by default as much as the survey.  It is an
        assumption, nothing is spent of it: where noise is small, few rows are scaled down.
    output : path, optional
        Also write a TOML file, which says how the geometry was found.

    Returns
    -------
    Geometry
        Public, without a linear map; for ``geometry=``.

    Examples
    --------
    >>> import numpy as np, dpcov
    >>> rows = np.random.default_rng(0).normal(50, 10, size=(5000, 2))
    >>> wide = dpcov.Numeric(lower=0, upper=10_000)
    >>> schema, budget = dpcov.Schema(columns={"x0": wide, "x1": wide}), dpcov.Budget(rho="0.5")
    >>> found = dpcov.survey(rows, schema=schema, budget=dpcov.Budget(rho="0.05"), coming=budget)
    >>> bool(30 < found.columns["x0"].center < 70)
    True
    >>> made = dpcov.release(rows, schema=schema, budget=budget, geometry=found)
    """
    with unspent():
        where = Gathering(
            engine=engine, threads=threads, memory_limit=memory_limit, progress=progress
        )
        expected = budget if coming is None else coming
        paid = _account(budget, neighbors, ledger, dataset, output, overwrite, data, schema)
        declared, data = _declared(schema, data, where)
        if declared.norm_bound is not None:
            raise UsageError("A schema with a norm_bound keeps its geometry. Leave norm_bound out.")
        terms, encoder = plan_table(
            declared, expected, AUTO, neighbors, n_rows, by, {}, "private", accept_large_delta
        )
        assert isinstance(terms.mechanism, Surveyed)
        terms = replace(terms, mechanism=SurveyAlone(terms.mechanism, expected), budget=budget)
        ask = terms.ask(where, data, encoder)
    return publish(GeometryMaker(terms), ask, paid, output, overwrite, entropy).geometry


def checkpoint(
    data: Any,
    *,
    schema: Schema | str | Path,
    budget: Budget,
    mechanism: str | Mechanism[Any] = AUTO,
    neighbors: Neighbors = "replace-one",
    n_rows: int | None = None,
    by: str | None = None,
    name: str = "",
    geometry: Geometry | Release | str | Path = "schema",
    engine: str | None = None,
    threads: int | None = None,
    memory_limit: float | None = None,
    progress: TellRows | None = None,
    **options: Any,
) -> Checkpoint:
    """Gather the exact **sensitive** moments that :func:`release` with these arguments asks for.

    Nothing is drawn and no budget is spent.  Checkpoints of several parts or sites are merged,
    saved under a key, and given to :func:`release` as its data.

    Parameters
    ----------
    data, schema, budget, mechanism, neighbors, n_rows, by, **options
    engine, threads, memory_limit, progress
        As in :func:`release`; ``n_rows`` is the public number of all parts together.
    name : str
        The custodian's name for this part of the table.  Parts of one name are never merged, so
        that a table gathered again counts once.
    geometry : "schema", path, Geometry or Release, default="schema"
        That of the bounds, or a public one: moments answer one question, so none is found here.
    """
    name = plain("name", name, str)
    # Before its rows are read.
    written = last_written(file_of(data))
    where = Gathering(engine=engine, threads=threads, memory_limit=memory_limit, progress=progress)
    declared, data = _declared(schema, data, where)
    terms, encoder = plan_table(
        *(declared, budget, mechanism, neighbors, n_rows, by, options, geometry), one_question=True
    )
    terms.require_one_question()
    # What no release can honor is refused before rows are read for hours.
    terms.mechanism.calibrate(terms.problem, terms.budget)
    question = terms.mechanism.question(terms.problem)
    assert terms.schema_toml is not None
    gathered = where.answer(data, encoder, question)
    facts = {"schema_toml": terms.schema_toml, "by": by, "geometry": encoder.geometry}
    return Checkpoint.of_part(gathered, name, written, **facts)


def _account(
    budget: Budget,
    neighbors: Neighbors,
    ledger: Ledger | str | Path | None,
    dataset: str | None,
    output: str | Path | None,
    overwrite: bool,
    data: Any,
    *inputs: object,
) -> Account | None:
    """Refuse what no column decides before the table is opened, and open the account that pays."""
    check_budget(budget)
    check_neighbors(neighbors)
    if output is not None:
        check_output(output, file_of(data), *inputs)
        ReservedFile(output, overwrite=overwrite).discard()
    paid = Account.of(ledger, dataset)
    if paid is not None:
        paid.ledger.remaining(paid.dataset)
    return paid


def _declared(schema: Schema | str | Path, data: Any, where: Gathering) -> tuple[Schema, Any]:
    """Read the schema, and write out its patterns by the names of the table; no row is read."""
    if not isinstance(schema, Schema | str | Path):
        raise UsageError("schema must be a dpcov.Schema or the path of a schema file.")
    read = schema if isinstance(schema, Schema) else Schema.from_toml(schema, complete=True)
    return where.resolve(read, data)
