"""Predict over a grid of budgets, for the page of ``dpcov plan --html``.

Contract: never sees a row.  Every number comes from `predict` at a budget of the grid.  Seeds are
alike for all budgets, so that differences between them are not noise.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

from dpcov.errors import UsageError
from dpcov.mechanisms.auto import choose
from dpcov.pipeline.plan.page import PlanStop, PlanSweep
from dpcov.pipeline.plan.predict import Assumption, Prediction, predict
from dpcov.privacy.budget import LARGEST_EPSILON, LARGEST_RHO, Budget
from dpcov.privacy.guarantee import format_number

# Budgets on the page, relative to the one that was asked for.
FACTORS = tuple(Fraction(tenths, 10) for tenths in (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100))


def sweep(
    assumptions: Sequence[Assumption], progress: Callable[[int, int], None] | None = None
) -> PlanSweep:
    """Predict every mechanism at a grid of budgets around the one of the assumptions.

    The assumptions differ in the trace only.  ``progress`` is told the number of predictions made
    so far, and that of all.
    """
    if not assumptions:
        raise UsageError("Assume at least one trace.")
    first = assumptions[0]
    budgets = list(_grid(first.budget))
    found: list[dict[str, Prediction]] = []
    for budget, assumed in product(budgets, assumptions):
        predictions = predict(replace(assumed, budget=budget))
        found.append({prediction.mechanism: prediction for prediction in predictions})
        if progress is not None:
            progress(len(found), len(budgets) * len(assumptions))
    mechanisms = tuple(dict.fromkeys(name for row in found for name in row))
    cells = [[row.get(name) for name in mechanisms] for row in found]
    count = len(assumptions)
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
            _stop(first, budget, cells[place * count : (place + 1) * count])
            for place, budget in enumerate(budgets)
        ),
        start=budgets.index(first.budget),
    )


def _grid(budget: Budget) -> Iterator[Budget]:
    # Budgets around this one, those that are too large to mean anything left out.
    for factor in FACTORS:
        if budget.rho is not None:
            if budget.rho * factor <= LARGEST_RHO:
                yield Budget(rho=budget.rho * factor)
        elif budget.epsilon is not None and budget.epsilon * factor <= LARGEST_EPSILON:
            yield Budget(epsilon=budget.epsilon * factor, delta=budget.delta)


def _stop(
    first: Assumption, budget: Budget, found: Sequence[Sequence[Prediction | None]]
) -> PlanStop:
    choice = choose(first.problem, budget)
    amount = budget.epsilon if budget.rho is None else budget.rho
    assert amount is not None  # a budget has one of them
    return PlanStop(
        amount=float(amount),
        text=format_number(amount),
        promise=str(budget),
        choice=choice.mechanism,
        reason=choice.reason or "",
        errors=tuple(tuple(None if p is None else p.relative_error for p in row) for row in found),
        bounds=tuple(tuple(p is not None and p.kind == "bound" for p in row) for row in found),
    )
