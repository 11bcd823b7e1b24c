"""Write the section that shows groups side by side: small maps, means, and what differs most.

Contract: reads estimates of all groups together (docs/several.md).  Maps are inline SVG, with one
color scale, and a table stands behind them.
"""

import numpy as np

from dpcov.errors import ReleaseError, UsageError
from dpcov.markup import Child, Html, el, join, name_of, note, table
from dpcov.published.digits import plural
from dpcov.published.linalg.symmetric import Array
from dpcov.published.pooled import PooledGroups, most_distinct, told_groups
from dpcov.published.release import Release
from dpcov.published.words.design import design_of
from dpcov.published.words.numbers import WITHIN, GroupNumbers
from dpcov.report.charts import number
from dpcov.report.html import fill
from dpcov.report.results import signed

# Small maps, the features of one, shades of a color, columns of the table, and differences.
MAPS_SHOWN, FEATURES_SHOWN, SHADES, COLUMNS_SHOWN, DIFFERENCES_SHOWN = 24, 40, 10, 12, 12


def side_by_side(release: Release, whole: GroupNumbers) -> Html | None:
    """Groups beside each other; None for a release without groups to compare."""
    if len(release.group_names) < 2 or not release.has_intercept:
        return None
    try:
        found = release.pooled
    # A law of noise that is not published, or rows that it hides.
    except (ReleaseError, UsageError) as problem:
        return el("p", str(problem), class_="warning")
    if whole.estimates is None:
        return el("p", whole.problem, class_="warning")
    common = np.nan_to_num(whole.estimates.correlation)
    several = len({column.source for column in release.features}) > 1
    return join(
        fill("groups.html", count=f"{len(found.names):,}"),
        _maps(found, common) if several else None,
        _means(found, release),
        _differences(found, whole, common) if several else None,
    )


def _maps(found: PooledGroups, common: Array) -> Html:
    p = len(common)
    if p > FEATURES_SHOWN:
        return note(f"Small maps have up to {FEATURES_SHOWN} features; choose a group above.")
    places = most_distinct(found, common, MAPS_SHOWN)
    shown = [("all rows", common), *((found.names[k], found.correlations[k]) for k in places)]
    left = len(found.names) - len(places)
    more = note(f"Groups that differ most from all rows; {plural(left, 'other')} below.")
    figures = (
        el("figure", _small_map(name, matrix), el("figcaption", name_of(name, 24)))
        for name, matrix in shown
    )
    scale = el("p", el("span", class_="below key"), " −1 … ", el("span", class_="above key"), " 1")
    return join(el("div", figures, class_="multiples"), scale, more if left else None)


def _small_map(name: str, correlation: Array) -> Html:
    # One path for every shade: a page of many groups stays small.
    p, shades = len(correlation), np.rint(np.nan_to_num(correlation) * SHADES).astype(int)
    np.fill_diagonal(shades, 0)
    paths = []
    for shade in np.unique(shades[shades != 0]).tolist():
        cells = np.argwhere(shades == shade).tolist()
        drawn = "".join(f"M{column} {row}h1v1h-1z" for row, column in cells)
        side = "above" if shade > 0 else "below"
        paths.append(el("path", d=drawn, class_=side, opacity=f"{abs(shade) / SHADES:g}"))
    title = el("title", f"Correlations of {plural(p, 'feature')}: {name}")
    return el("svg", title, paths, viewBox=f"0 0 {p} {p}", role="img", class_="small-map")


def _means(found: PooledGroups, release: Release) -> Html:
    columns = release.features[:COLUMNS_SHOWN]
    head: list[Child] = ["Group", "Rows", *(name_of(column.name, 24) for column in columns)]
    groups = told_groups(release, found, len(columns))
    rows = [(name_of(name), *told) for name, *told in groups]
    caption = "Means, ± what holds 95 of 100 errors of noise, of sampling and of pooling"
    made = el("div", table(head, rows, caption=caption), class_="tall sortable")
    left = len(release.features) - len(columns)
    return join(made, note(f"{left} more columns: choose a group above.") if left > 0 else None)


def _differences(found: PooledGroups, whole: GroupNumbers, common: Array) -> Html:
    """Correlations that differ most from those of all rows, in units of their errors."""
    assert whole.estimates is not None
    # The levels of one column exclude each other, which is no finding.
    sources = np.array([column.source for column in whole.release.features])
    rows, columns = np.nonzero(np.triu(sources[:, None] != sources))
    noise = whole.estimates.correlation_noise
    n = max(2.0, float(found.counts.sum()) / design_of(whole.release).effect)
    own = (1 - common**2) / np.sqrt(n)
    # The errors of all rows are those of the groups in part: as if they were others', to be safe.
    errors = np.sqrt(found.correlation_std**2 + own**2 + (0 if noise is None else noise**2))
    apart = (found.correlations - common)[:, rows, columns]
    half = WITHIN * errors[:, rows, columns]
    sizes = np.abs(apart) / half
    # What noise hides differs by nothing known: it comes last, and is not shown.
    order = np.argsort(-sizes, axis=None, kind="stable")[:DIFFERENCES_SHOWN]
    order = order[np.isfinite(sizes.flat[order])]
    names, lines = whole.release.feature_names, []
    for g, k in zip(*np.unravel_index(order, sizes.shape), strict=True):
        i, j = rows[k], columns[k]
        pair = el("span", name_of(names[i], 40), " × ", name_of(names[j], 40), class_="pair")
        told = map(signed, (found.correlations[g, i, j], common[i, j], apart[g, k]))
        drawn = _interval(apart[g, k], half[g, k])
        lines.append((name_of(found.names[g]), pair, *told, number(half[g, k]), drawn))
    head = ("Group", "Pair", "Here", "All rows", "Difference", "±", "−1 to 1")
    clear = int(np.sum(sizes > 1))
    said = f"Intervals that exclude that there is no difference: {clear:,} of {sizes.size:,}."
    words = el("p", said if clear else "No interval excludes that there is no difference.")
    caption = "Correlations of groups that differ most from those of all rows"
    made = el("div", table(head, lines, caption=caption, text=(1, 6)), class_="named")
    return join(el("h3", "What differs most"), words, made if lines else None)


def _interval(middle: float, half: float) -> Html:
    # From -1 to 1; beyond, an interval ends at the border.
    ends = np.clip([middle - half, middle + half], -1, 1)
    low, high, place = (round(60 + 58 * float(x), 1) for x in (*ends, np.clip(middle, -1, 1)))
    return el(
        "svg",
        el("line", x1=60, x2=60, y1=1, y2=15, class_="mark"),
        el("line", x1=low, x2=high, y1=8, y2=8, class_="estimate"),
        el("circle", cx=place, cy=8, r=3.2, class_="dot"),
        viewBox="0 0 120 16",
        aria_hidden="true",
        class_="interval",
    )
