"""The doors for plain arrays whose rows have a public norm bound.

Contract: as for tables; nothing but a release comes out, except from :func:`moments`, whose result
is sensitive.
"""

import os
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dpcov.data.cells import cells_of, text_column
from dpcov.data.engines.base import BallEncoding, TellRows
from dpcov.data.engines.local import GroupedRows
from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.data.gather import Gathering
from dpcov.data.groups import Grouping
from dpcov.data.questions import Ask, MomentsQuestion
from dpcov.data.seal import sealed
from dpcov.data.sources.base import number_names
from dpcov.errors import BudgetError, UsageError
from dpcov.mechanisms.auto import AUTO, resolve
from dpcov.mechanisms.base import Mechanism, Problem
from dpcov.noise.entropy import Entropy
from dpcov.pipeline.publish import Account, ReleaseMaker, publish, unspent
from dpcov.pipeline.terms import ReleaseTerms
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Neighbors, check_neighbors
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.options import Between, plain
from dpcov.published.file.columns import LARGEST_BOUND, SMALLEST_BOUND, EncodedColumn
from dpcov.published.release import Release


def second_moment(
    X: Any,
    *,
    norm_bound: float | None = None,
    budget: Budget,
    mechanism: str | Mechanism[Any] = AUTO,
    neighbors: Neighbors = "replace-one",
    rows_per_person: int = 1,
    groups: Iterable[object] | None = None,
    categories: Iterable[str] | None = None,
    accept_large_delta: bool = False,
    entropy: Entropy | None = None,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    engine: str | None = None,
    threads: int | None = None,
    memory_limit: float | None = None,
    **options: Any,
) -> Release:
    """Release X'X / n of a plain array whose rows are clipped to a public norm bound.

    Parameters
    ----------
    X : (n, d) array, sparse matrix, or Moments
        Sensitive rows, or their exact moments from :func:`moments`.
    norm_bound : float
        Public bound on the l2 norm of a row; longer rows are scaled down to it.  Required for rows.
    groups : iterable of length n, optional
        The group of each row of an array or a data frame in memory; needs ``categories``.  One
        matrix for each group at the price of one release.
    categories : iterable of str, optional
        The public names of all groups.
    budget, mechanism, neighbors, accept_large_delta, entropy, ledger, dataset, **options
    engine, threads, memory_limit
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
    with unspent():
        bound = X.norm_bound if isinstance(X, Moments) and norm_bound is None else norm_bound
        bound = _check_norm_bound(bound)
        where = Gathering(engine=engine, threads=threads, memory_limit=memory_limit)
        names = number_names(X.n_features) if isinstance(X, Moments) else where.columns(X)
        codes, group_names = _group_codes(groups, categories)
        encoding = BallEncoding(n_features=len(names), norm_bound=bound)
        problem = Problem(
            n_features=len(names),
            neighbors=check_neighbors(neighbors),
            rows_per_person=rows_per_person,
            n_groups=max(1, len(group_names)),
        )
        choice = resolve(mechanism, options, problem, budget)
        terms = ReleaseTerms(
            mechanism=choice.make(),
            choice=choice,
            budget=budget,
            problem=problem,
            columns=tuple(
                EncodedColumn(name=name, source=name, kind="numeric", center=0.0, half_range=1.0)
                for name in names
            ),
            norm_bound=bound,
            intercept_is_public=False,
            groups=group_names,
            accept_large_delta=plain("accept_large_delta", accept_large_delta, bool),
        )

        if isinstance(X, Moments):
            terms.require_one_question()
            if X.norm_bound != bound:
                raise UsageError(
                    f"These moments were gathered with norm_bound={X.norm_bound}. Give that."
                )
            ask = Ask.saved(X)
        else:
            rows = X if codes is None else GroupedRows(rows=X, groups=codes)
            ask = terms.ask(where, rows, encoding)
        paid = Account.of(ledger, dataset)
    return publish(ReleaseMaker(terms), ask, paid, None, False, entropy)


def moments(
    X: Any,
    *,
    norm_bound: float,
    engine: str | None = None,
    threads: int | None = None,
    memory_limit: float | None = None,
    progress: TellRows | None = None,
    **spec: Any,
) -> Moments:
    """Exact **sensitive** moments of an array, to be shared by several mechanisms.

    Those of several arrays, such as batches, are added by ``total.merge(part)``, which changes and
    returns ``total``, and refuses to count any of them twice.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    norm_bound : float
        Public bound on the l2 norm of a row; longer rows are scaled down to it.
    engine, threads, memory_limit, progress
        As in :func:`release`.
    **spec
        Fields of :class:`~dpcov.data.exact.moments.MomentsSpec`, where a mechanism wants others
        than its defaults; :func:`second_moment` says which.
    """
    known = [field.name for field in fields(MomentsSpec)]
    if unknown := sorted(set(spec) - set(known)):
        raise UsageError(f"Moments have no option {unknown[0]}; they have: {', '.join(known)}.")
    where = Gathering(engine=engine, threads=threads, memory_limit=memory_limit, progress=progress)
    encoding = BallEncoding(
        n_features=len(where.columns(X)), norm_bound=_check_norm_bound(norm_bound)
    )
    made: Moments = where.answer(X, encoding, MomentsQuestion(spec=MomentsSpec(**spec)))
    made.parts = frozenset({os.urandom(16)})
    return made


def _check_norm_bound(norm_bound: float | None) -> float:
    try:
        bound: float = plain(
            "norm_bound", norm_bound, Annotated[float, Between(SMALLEST_BOUND, LARGEST_BOUND)]
        )
    except UsageError as error:
        raise BudgetError(
            f"{error} It is publicly known to bound the l2 norm of a row, and never computed from "
            "the data."
        ) from None
    return bound


def _group_codes(
    groups: Iterable[object] | None, categories: Iterable[str] | None
) -> tuple[NDArray[np.intp] | None, tuple[str, ...]]:
    """Number every row's group by the public list of categories."""
    if groups is None and categories is None:
        return None, ()
    if groups is None or categories is None:
        raise UsageError("Give the groups of the rows and the public list of categories together.")
    grouping = Grouping("groups", categories)
    # Times and spans become bare numbers, or dates with an hour, which no listed date is.
    dtype = groups.dtype if isinstance(groups, np.ndarray) else np.dtype(object)
    if dtype.kind in "mM" and dtype != np.dtype("datetime64[D]"):
        raise UsageError(
            "Groups that are dates are days; give groups.astype('datetime64[D]'), or texts."
        )
    cells = cells_of(groups)
    # Python's own numbers would forget a single precision.
    held = np.asarray(groups if hasattr(groups, "__array__") else ())
    if held.dtype in (np.float16, np.float32):
        cells = list(held)
    column = sealed(
        lambda: text_column(cells, "groups"), "groups", lambda _: "give a category for every row."
    )
    return grouping.codes_of(column), grouping.names
