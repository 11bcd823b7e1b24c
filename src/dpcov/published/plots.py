"""Draw a release with matplotlib: correlations, blank where noise alone could have made them.

Contract: public numbers only.  Names are text, never formulas.  matplotlib is imported when used.
"""

from typing import Any

import numpy as np

from dpcov.errors import ReleaseError, UsageError
from dpcov.extras import load_extra
from dpcov.markup import shorten
from dpcov.published.pooled import PooledGroups, most_distinct
from dpcov.published.reading.base import BaseRelease
from dpcov.published.words.numbers import group_numbers

NAME_LENGTH = 24
# Groups that are drawn beside all rows.
_MAPS = 24
# Features up to which every cell has its number, its dot, and its name beside the map.
_NUMBERS, _DOTS, _NAMES = 12, 60, 80
# Correlations from here on are so dark that numbers on them are white.
_DARK = 0.6


def new_axes(width: float, height: float, grid: tuple[int, int] = (1, 1)) -> Any:
    """Axes of a new figure, in inches, or a grid of them; pyplot's, so that notebooks show it."""
    pyplot = load_extra("matplotlib.pyplot", "Drawing", "plots")
    return pyplot.subplots(*grid, figsize=(width, height), layout="constrained")[1]


def axes_or_new(axes: Any, width: float, height: float) -> Any:
    """The given axes, or new ones for None; UsageError for what nothing can be drawn on."""
    if axes is None:
        return new_axes(width, height)
    if not hasattr(axes, "plot"):
        raise UsageError("axes must be matplotlib axes, or None for new ones.")
    return axes


def plot_groups(release: BaseRelease, found: PooledGroups) -> Any:
    """Draw all rows and the groups that differ most from them; see :meth:`dpcov.Release.plot`."""
    whole = np.nan_to_num(release.correlation_matrix())
    places = most_distinct(found, whole, _MAPS)
    shown = [("all rows", whole), *((found.names[g], found.correlations[g]) for g in places)]
    columns = min(len(shown), 5)
    rows = -(-len(shown) // columns)
    grid = new_axes(2.2 * columns + 1.0, 2.4 * rows, (rows, columns))
    for axes, (name, matrix) in zip(grid.flat, shown, strict=False):
        picture = axes.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="none")
        axes.set_title(shorten(name, NAME_LENGTH), parse_math=False, fontsize="small")
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    first = grid.flat[0]
    title = shorten(release.manifest.title or "untitled table", 60)
    first.figure.suptitle(f"{title}, {release.guarantee.promise}", parse_math=False)
    first.figure.colorbar(picture, ax=grid, shrink=0.8, label="correlation, estimated together")
    return first


def plot_correlations(release: BaseRelease, axes: Any = None) -> Any:
    """Draw the heat map; see :meth:`dpcov.Release.plot`."""
    found = group_numbers(release)
    if found.estimates is None:
        raise ReleaseError(found.problem)
    made, p = found.estimates, len(release.feature_names)
    side = min(12.0, 2.5 + 0.3 * max(p, 6))
    axes, hidden = axes_or_new(axes, side + 1.0, side), made.hidden
    shown = np.ma.masked_array(made.correlation, mask=hidden | np.isnan(made.correlation))
    picture = axes.imshow(shown, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="none")
    if p <= _DOTS:
        rows, columns = np.nonzero(hidden)
        axes.plot(columns, rows, ".", color="0.5", markersize=3, gid="hidden by the noise")
    if p <= _NUMBERS:
        _write_numbers(axes, shown)
    if p <= _NAMES:
        names = [shorten(name, NAME_LENGTH) for name in release.feature_names]
        turned = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(p), names, parse_math=False, **turned)
        axes.set_yticks(range(p), names, parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    title = shorten(release.manifest.title or "untitled table", 60)
    axes.set_title(f"{title}, {release.guarantee.promise}", parse_math=False, fontsize="medium")
    is_known = made.correlation_noise is not None
    remark = "blank: noise could make it" if is_known else "its noise is not known"
    axes.figure.colorbar(picture, ax=axes, shrink=0.8, label=f"correlation ({remark})")
    return axes


def _write_numbers(axes: Any, shown: Any) -> None:
    for row, column in np.argwhere(~np.ma.getmaskarray(shown)).tolist():
        r = float(shown[row, column])
        color = "white" if abs(r) > _DARK else "black"
        told = f"{r:.2f}".replace("-", "−")
        axes.text(column, row, told, ha="center", va="center", color=color, fontsize="x-small")
