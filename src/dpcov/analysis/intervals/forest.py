"""Draw intervals below each other, a forest plot.  matplotlib is imported when used."""

from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.markup import shorten
from dpcov.published.plots import NAME_LENGTH, new_axes

if TYPE_CHECKING:
    from dpcov.analysis.intervals.table import IntervalTable

_INTERCEPT = "(intercept)"


def plot_intervals(table: "IntervalTable", axes: Any = None) -> Any:
    """Draw one line for every interval; see :meth:`IntervalTable.plot`."""
    rows = [row for row in table.rows if row.name != _INTERCEPT] or list(table.rows)
    if axes is None:
        axes = new_axes(7.0, min(20.0, 1.4 + 0.3 * max(len(rows), 2)))
    for place, row in enumerate(rows):
        ends = row.lower, row.upper
        if np.isfinite(ends).all():
            axes.plot(ends, [place, place], color="C0", linewidth=2, solid_capstyle="butt")
        else:
            # In shares of the width: from end to end, whatever the other lines need.
            axes.axhline(place, color="0.6", linestyle=":", linewidth=1.5)
    bounded = [place for place, row in enumerate(rows) if np.isfinite([row.lower, row.upper]).all()]
    estimates = [rows[place].estimate for place in bounded]
    axes.plot(estimates, bounded, "o", color="C0", markersize=5)
    numbers = [x for place in bounded for x in (rows[place].lower, rows[place].upper)]
    # Whether an interval holds zero is what people look for, where zero is near.
    if numbers and min(numbers) <= 0.3 * max(numbers) and max(numbers) >= 0.3 * min(numbers):
        axes.axvline(0.0, color="0.5", linewidth=0.8)
    names = [shorten(row.name, 2 * NAME_LENGTH) for row in rows]
    axes.set_yticks(range(len(rows)), names, parse_math=False)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    hidden = "; dotted: not bounded" if len(bounded) < len(rows) else ""
    told = f"{100 * table.level:g} % intervals{hidden}"
    axes.set_xlabel(shorten(f"{table.what}, {told}", 90), parse_math=False)
    return axes
