"""Sum up a regression in a table, as statistical software does, with the privacy noise in it.

Contract: reads a fitted model; costs no privacy.
"""

from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.intervals.table import Interval, IntervalTable
from dpcov.markup import CELL, Child, card, el, facts, listing, name_of, shorten
from dpcov.published.summary import printable
from dpcov.published.words import rows_in_words

if TYPE_CHECKING:
    from dpcov.analysis.estimators.linear_model import LinearModel

_HEAD = ("coef", "std err", "sampling", "privacy")
_WIDTH, _LONGEST = 12, 40
_NOTES = (
    "coef: what the model predicts with; intervals start from the estimate before post-processing.",
    "std err: both parts together; sampling: which rows are in the table; privacy: the noise.",
)
_PENALIZED = "The penalty is taken as given: intervals are for what it gives without noise."


@dataclass(frozen=True, kw_only=True, eq=False)
class RegressionSummary:
    """Coefficients of a regression with their standard errors and intervals, and its fit.

    Prints as text, and shows itself in notebooks.

    Attributes
    ----------
    title : str
    facts : tuple of pairs of str
        Rows, guarantee, R² and what else belongs to all coefficients.
    tables : tuple of IntervalTable
        One for each target.
    notes : tuple of str
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    tables: tuple[IntervalTable, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        names = [shorten(row.name, _LONGEST) for table in self.tables for row in table.rows]
        width = max(map(len, names), default=0)
        rule = "=" * (width + _WIDTH * (len(_HEAD) + 2))
        label = max(len(name) for name, _ in self.facts)
        lines = [self.title, rule, *(f"{name:<{label}}  {value}" for name, value in self.facts)]
        for table in self.tables:
            cells = "".join(f"{word:>{_WIDTH}}" for word in (*_HEAD, *_ends(table.level)))
            lines += [rule, *self._headings(table), " " * width + cells, "-" * len(rule)]
            for row in table.rows:
                numbers = "".join(f"{number:>{_WIDTH}}" for number in _numbers(row))
                lines.append(f"{shorten(row.name, _LONGEST):<{width}}{numbers}")
        return printable("\n".join([*lines, rule, *self.notes]))

    __repr__ = __str__

    def _headings(self, table: IntervalTable) -> list[str]:
        return [table.what] if len(self.tables) > 1 else []

    def _repr_html_(self) -> str:
        made: list[Child] = [
            listing(
                ("", *_HEAD, *_ends(table.level)),
                [(name_of(row.name, CELL), *_numbers(row)) for row in table.rows],
                table.what,
            )
            for table in self.tables
        ]
        return card(
            "Regression",
            self.title,
            facts(self.facts),
            *made,
            [el("p", said) for said in self.notes],
        )


def regression_summary(
    model: "LinearModel", tables: list[IntervalTable], r2: list[float]
) -> RegressionSummary:
    """Sum up a fitted model with intervals and R² of every target."""
    release, names = model.release_, [goal.name for goal in model._goals]
    title = f"{type(model).__name__} of {', '.join(shorten(name, _LONGEST) for name in names)}"
    told = [
        ("Release", f"{release.manifest.title or 'untitled table'}, {release.fingerprint[:12]}"),
        ("Guarantee", str(release.guarantee)),
        ("Rows", rows_in_words(release)),
        (model._r2_words, ", ".join(f"{value:.3f}" if isfinite(value) else "–" for value in r2)),
        ("Features", f"{len(tables[0].rows) - model.fit_intercept} coefficients"),
    ]
    if any(model._penalties):
        told.append(("Penalty", ", ".join(f"{alpha:.4g}" for alpha in model._penalties)))
    notes = [*_NOTES, *([_PENALIZED] if any(model._penalties) else [])]
    coefficients = np.column_stack([np.atleast_1d(model.intercept_), np.atleast_2d(model.coef_)])
    # As tables of intervals have them: with the intercept, where there is one.
    own = tuple(
        replace(
            table, rows=tuple(map(_with_coefficient, table.rows, row[not model.fit_intercept :]))
        )
        for table, row in zip(tables, coefficients.tolist(), strict=True)
    )
    notes += [said for said in tables[0].notes if said not in notes]
    return RegressionSummary(title=title, facts=tuple(told), tables=own, notes=tuple(notes))


def _with_coefficient(row: Interval, coefficient: float) -> Interval:
    return replace(row, estimate=coefficient)


def _ends(level: float) -> tuple[str, str]:
    tail = (1 - level) / 2
    return f"[{tail:.4g}", f"{1 - tail:.4g}]"


def _numbers(row: Interval) -> list[str]:
    values = (row.estimate, row.std_error, row.sampling_std, row.privacy_std, row.lower, row.upper)
    return [f"{value:.4g}" for value in values]
