"""Predictions over a grid of budgets, for the page of ``dpcov plan --html``.

Contract: never sees a row.  Every number comes from `predict` at a budget
of the grid; the randomness behind it is seeded alike for all budgets, so that differences between them are
not noise.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from dpcov.errors import UsageError
from dpcov.mechanisms.auto import choose
from dpcov.pipeline.plan.page import PlanStop, PlanSweep
from dpcov.pipeline.plan.predict import Assumption, Prediction, predict
from dpcov.privacy.budget import LARGEST_EPSILON, LARGEST_RHO, Budget
from dpcov.privacy.guarantee import format_number

FACTORS = tuple(
    Fraction(text) for text in ("0.1", "0.2", "0.3", "0.5", "0.7", "1", "1.5", "2", "3", "5", "10")
)
"""Budgets on the page, relative to the one that was asked for."""


def sweep(
    assumptions: Sequence[Assumption], progress: Callable[[int, int], None] | None = None
) -> PlanSweep:
    """Predict every mechanism at a grid of budgets around the one of the assumptions.

    Parameters
    ----------
    assumptions : sequence of Assumption
        Equal but for the trace.
    progress : callable, optional
        Called with the number of predictions made so far, and that of all.
    """
    if not assumptions:
        raise UsageError("Assume at least one trace.")
    first = assumptions[0]
    budgets = list(_grid(first.budget))
    found: list[list[dict[str, Prediction]]] = []
    for budget in budgets:
        found.append([])
        for assumed in assumptions:
            found[-1].append(_predictions(replace(assumed, budget=budget)))
            if progress is not None:
                progress(sum(map(len, found)), len(budgets) * len(assumptions))
    mechanisms = tuple(dict.fromkeys(name for stop in found for row in stop for name in row))
    return PlanSweep(
        n_rows=first.n_rows,
        n_features=first.n_features,
        neighbors=first.neighbors,
        spectrum=first.spectrum,
        unit="epsilon" if first.budget.rho is None else "rho",
        fixed="" if first.budget.delta is None else f", delta {format_number(first.budget.delta)}",
        traces=tuple(assumed.trace for assumed in assumptions),
        mechanisms=mechanisms,
        stops=tuple(
            _stop(first, budget, rows, mechanisms)
            for budget, rows in zip(budgets, found, strict=True)
        ),
        start=budgets.index(first.budget),
    )


def _grid(budget: Budget) -> Iterator[Budget]:
    """Budgets around this one, those that are too large to mean anything left out."""
    for factor in FACTORS:
        if budget.rho is not None:
            if budget.rho * factor <= LARGEST_RHO:
                yield Budget(rho=budget.rho * factor)
        elif budget.epsilon is not None and budget.epsilon * factor <= LARGEST_EPSILON:
            yield Budget(epsilon=budget.epsilon * factor, delta=budget.delta)


def _predictions(assumed: Assumption) -> dict[str, Prediction]:
    return {prediction.mechanism: prediction for prediction in predict(assumed)}


def _stop(
    first: Assumption,
    budget: Budget,
    rows: Sequence[dict[str, Prediction]],
    mechanisms: Sequence[str],
) -> PlanStop:
    choice = choose(first.problem, budget)
    amount = budget.epsilon if budget.rho is None else budget.rho
    assert amount is not None  # a budget has one of them
    found = [[row.get(name) for name in mechanisms] for row in rows]
    return PlanStop(
        amount=float(amount),
        text=format_number(amount),
        promise=str(budget),
        choice=choice.mechanism,
        reason=choice.reason or "",
        errors=tuple(tuple(None if p is None else p.relative_error for p in row) for row in found),
        bounds=tuple(tuple(p is not None and p.kind == "bound" for p in row) for row in found),
    )
