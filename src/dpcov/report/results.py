"""The sections that show numbers: correlations, spectrum, strata, errors, means.

Contract: every chart has the same numbers in a table or a sentence beside it.
"""

from collections.abc import Sequence
from math import floor, log10

import numpy as np

from dpcov.published.estimate.spectrum import Spectrum
from dpcov.published.numbers import Estimates, PartNumbers
from dpcov.published.stratum_table import StratumRow
from dpcov.report import charts
from dpcov.report.charts import number
from dpcov.report.heatmap import strongest
from dpcov.report.html import Child, Html, details, el, join, name_of, table

STRONGEST_SHOWN = 12
CLEAR = 2.0
"""Standard deviations of the noise from which a correlation is more than noise; the script of the map knows it too."""

WHOLE_TABLE = 16
"""Up to this many features the whole matrix is also a table."""
ROWS_SHOWN = 30
POINTS_SHOWN = 400


def correlations(part: PartNumbers, drawn: bool) -> Html:
    """Heat map, the strongest pairs, and the whole matrix where it is small."""
    if part.estimates is None:
        return _problem(part)
    made, names = part.estimates, part.release.feature_names
    if len(names) < 2:
        return el("p", "There is one feature, so there are no correlations.")
    words = (
        "" if part.release.has_intercept else " (about zero: this release does not know the means)"
    )
    intro = el(
        "p",
        f"Estimated correlations{words}. Groups of features that go together are moved next to each other. "
        "Point at a cell, or move with the arrow keys.",
    )
    return join(
        intro,
        _map(part)
        if drawn
        else el("p", "This matrix is too large for a page; use dpcov export.", class_="note"),
        el("h3", "Strongest pairs"),
        _strongest(made, names),
        details("The whole matrix as a table", _matrix(made, names))
        if len(names) <= WHOLE_TABLE
        else None,
    )


def _map(part: PartNumbers) -> Html:
    count = len(part.release.feature_names)
    label = (
        f"Correlation heat map of {count} features. Arrow keys move the cursor, "
        "plus and minus zoom, zero shows everything."
    )
    orders = el(
        "fieldset",
        el("legend", "Order", class_="hidden-text"),
        _choice(part, "clustered", "Clustered", checked=True),
        _choice(part, "schema", "As in the schema", checked=False),
        class_="switch",
    )
    fade = el(
        "label",
        el("input", type="checkbox", class_="fade"),
        " Hide what noise alone could make (below 2 noise std)",
    )
    zoom = el(
        "span",
        el("button", "+", type="button", class_="zoom-in", aria_label="Zoom in"),
        el("button", "−", type="button", class_="zoom-out", aria_label="Zoom out"),
        el("button", "All", type="button", class_="zoom-all", aria_label="Show everything"),
        class_="zoom",
    )
    has_noise = part.estimates is not None and part.estimates.correlation_noise is not None
    return el(
        "figure",
        el("div", orders, zoom, class_="tools"),
        el("canvas", tabindex="0", role="application", aria_label=label, class_="map"),
        el(
            "div",
            "Point at a cell to read it.",
            class_="readout",
            role="status",
            aria_live="polite",
        ),
        el(
            "div",
            el("span", "−1"),
            el("canvas", class_="legend", aria_hidden="true"),
            el("span", "1"),
            class_="scale",
        ),
        el("div", fade, class_="tools") if has_noise else None,
        el("noscript", el("p", "The map needs JavaScript; the tables below do not.")),
        class_="heatmap",
        data_map=part.index,
    )


def _choice(part: PartNumbers, value: str, label: str, *, checked: bool) -> Html:
    return el(
        "label",
        el("input", type="radio", name=f"order-{part.index}", value=value, checked=checked),
        el("span", label),
    )


def _strongest(made: Estimates, names: Sequence[str]) -> Html:
    known = made.correlation_noise
    beyond = (
        made.correlation
        if known is None
        else np.where(np.abs(made.correlation) > CLEAR * known, made.correlation, 0.0)
    )
    pairs = strongest(beyond, STRONGEST_SHOWN)
    if not pairs:
        return el("p", "No correlation stands out from the noise.")
    rows: list[tuple[Child, ...]] = []
    for first, second in pairs:
        r = float(made.correlation[first, second])
        cells: list[Child] = [
            join(name_of(names[first], 40), " × ", name_of(names[second], 40)),
            signed(r),
        ]
        if known is not None:
            std = float(known[first, second])
            cells += [f"{std:.3f}", f"{abs(r) / std:.1f}" if std > 0 else "–"]
        rows.append(tuple(cells))
    if known is None:
        return table(("Pair", "Correlation"), rows, caption="Pairs with the largest correlation")
    caption = f"Largest correlations that are more than {CLEAR:g} noise std (before post-processing) from zero"
    return table(
        ("Pair", "Correlation", "Noise std", "Noise stds from zero"), rows, caption=caption
    )


def signed(r: float) -> str:
    """Print a correlation."""
    return f"{r:+.3f}".replace("-", "−") if np.isfinite(r) else "–"


def _matrix(made: Estimates, names: Sequence[str]) -> Html:
    rows = (
        (name_of(name, 30), *(signed(float(value)) for value in row))
        for name, row in zip(names, made.correlation, strict=True)
    )
    return table(("", *(name_of(name, 30) for name in names)), rows, caption="Correlations")


def spectrum(part: PartNumbers) -> Html:
    """Scree plot with the edge of the noise."""
    if part.estimates is None:
        return _problem(part)
    made = part.estimates.spectrum
    count = len(made.noisy)
    if count < 2:
        return el(
            "p",
            "There is one feature, so its variance is the only eigenvalue; see the table of features.",
        )
    if not np.any(made.noisy > 0):
        return el("p", "No eigenvalue is positive: the noise hides everything.")
    return join(
        el("p", _spectrum_words(made), class_="lead"),
        el("figure", _scree(made), _scree_key(made)),
        details("The eigenvalues as a table", _eigenvalues(made)),
    )


def _spectrum_words(made: Spectrum) -> str:
    count = len(made.noisy)
    if made.edge is None or made.n_above is None:
        return "The law of the noise on this matrix is not known, so its edge cannot be drawn."
    above = made.n_above
    text = f"{above} of {count} components {'stands' if above == 1 else 'stand'} above the noise"
    share = (
        float(made.estimate[:above].sum() / made.estimate.sum())
        if above and made.estimate.sum() > 0
        else 0.0
    )
    tail = f", with {100 * share:.0f} % of the estimated variance." if above else "."
    return (
        f"{text}{tail} Noise alone would reach eigenvalues of about {number(made.edge)} here; what lies "
        "below is not "
        "evidence of structure."
    )


def _scree(made: Spectrum) -> Html:
    count, top = len(made.noisy), float(max(made.noisy[0], made.estimate[0], made.edge or 0.0))
    edge = made.edge or top / 1e3
    low = max(min(edge, top) / 30, top / 1e6)
    x = charts.horizontal(0.5, count + 0.5, logarithmic=False)
    y = charts.vertical(10.0 ** floor(log10(low)), top * 1.4)
    kept = sorted(
        {round(float(place)) for place in np.linspace(1, count, min(count, POINTS_SHOWN))}
    )
    radius = 3.2 if count <= 60 else 2.0
    dots = [
        el("circle", cx=x(place), cy=y(float(made.noisy[place - 1])), r=radius, class_="noisy")
        for place in kept
        if made.noisy[place - 1] > y.low
    ]
    points = [
        (place, float(made.estimate[place - 1]))
        for place in kept
        if made.estimate[place - 1] > y.low
    ]
    label = f"Eigenvalues of {count} components on a logarithmic scale, {_spectrum_words(made)}"
    axes = {"x_label": "component", "y_label": "eigenvalue (encoded units)"}
    return charts.chart(
        x,
        y,
        _noise_band(x, y, made),
        charts.line(x, y, points, class_="estimate"),
        dots,
        label=label,
        **axes,
    )


def _noise_band(x: charts.Axis, y: charts.Axis, made: Spectrum) -> list[Html]:
    if made.edge is None:
        return []
    up = y(made.edge)
    band = el(
        "rect", x=x.start, y=up, width=x.end - x.start, height=max(0.0, y.start - up), class_="band"
    )
    text = el("text", "noise edge", x=x.end - 4, y=up - 5, text_anchor="end", class_="tick")
    return [band, el("line", x1=x.start, x2=x.end, y1=up, y2=up, class_="edge"), text]


def _scree_key(made: Spectrum) -> Html:
    hidden = int(np.sum(made.noisy <= 0))
    negative = (
        f" {hidden} noisy eigenvalue{'s are' if hidden > 1 else ' is'} negative and not drawn."
        if hidden
        else ""
    )
    return el(
        "figcaption",
        el("span", class_="key noisy-key"),
        " released, with noise ",
        el("span", class_="key estimate-key"),
        " after post-processing. Covariance in encoded units, in which every column’s bounds are −1 and "
        f"1.{negative}",
    )


def _eigenvalues(made: Spectrum) -> Html:
    rows = [
        (str(place + 1), number(float(made.noisy[place])), number(float(made.estimate[place])))
        for place in range(min(len(made.noisy), ROWS_SHOWN))
    ]
    return table(
        ("Component", "With noise", "After post-processing"), rows, caption="Largest eigenvalues"
    )


def strata(part: PartNumbers) -> Html:
    """Table of strata, each with a pair of bars."""
    if not part.strata:
        return el(
            "p", "The noise of this release has no known law per matrix, or nothing was drawn."
        )
    sizes = [size for row in part.strata for size in (row.signal, row.noise) if size > 0]
    scale = charts.Axis(low=min(sizes) / 2, high=max(sizes), start=0, end=120)
    rows = [
        (row.label, _bars(row, scale), number(row.signal), number(row.noise), f"{row.n_above}")
        for row in part.strata
    ]
    many = len(part.strata) > 1 or part.n_strata_left_out > 0
    intro = (
        "Rows are sorted into strata by their length, and every stratum has noise in proportion to it: what "
        "short rows say "
        "is known more precisely."
        if many
        else "All rows are in one matrix, with one size of noise."
    )
    left = part.n_strata_left_out
    return join(
        el("p", intro),
        table(
            ("Stratum", "Signal over noise", "Signal", "Noise", "Components above noise"),
            rows,
            caption="Frobenius norms of every published matrix and of its noise, encoded units, means included. "
            "Upper bar: signal, lower bar: noise; logarithmic.",
        ),
        el(
            "p",
            f"{left} further strata, of rows too short to matter here, are not listed.",
            class_="note",
        )
        if left
        else None,
    )


def _bars(row: StratumRow, scale: charts.Axis) -> Html:
    def bar(size: float, top: float, kind: str) -> Html:
        return el(
            "rect", x=0, y=top, width=scale(size) if size > 0 else 0, height=7, rx=1.5, class_=kind
        )

    label = f"signal {number(row.signal)}, noise {number(row.noise)}"
    drawn = (bar(row.signal, 1, "signal-bar"), bar(row.noise, 10, "noise-bar"))
    return el("svg", el("title", label), *drawn, viewBox="0 0 120 18", role="img", class_="bars")


def error(part: PartNumbers) -> Html:
    """Expected error before and after shrinkage, as sentences and a small table."""
    errors, size = part.errors, part.errors.size
    if errors.before is None:
        return el(
            "p",
            "The error of this release is not known, because the law of its noise is not published.",
        )
    rows = [("noisy matrix", number(errors.before), _percent(errors.before, size))]
    if errors.after is not None:
        rows.append(
            (
                "after optimal shrinkage (default)",
                number(errors.after),
                _percent(errors.after, size),
            )
        )
    words = (
        "Frobenius norm of the difference to the exact second moment matrix (rows of the table clipped to "
        "the norm bound), "
        "in encoded units. It counts the noise only; what a sample leaves open comes on top."
    )
    head = ("Estimate", "Expected error", "Relative to the matrix")
    expected = errors.before if errors.after is None else errors.after
    drowned = "The expected error is larger than the matrix: most of what is shown here is noise."
    return join(
        el("p", drowned, class_="warning") if expected > size else None,
        el("p", words),
        table(head, rows, caption=f"Expected error; the matrix itself has size {number(size)}"),
    )


def _percent(value: float, size: float) -> str:
    return f"{number(100 * value / size)} %" if size > 0 else "–"


def features(part: PartNumbers) -> Html:
    """Table of means and standard deviations, each with its noise."""
    if part.estimates is None:
        return _problem(part)
    made = part.estimates.table
    columns: list[tuple[str, object]] = [
        ("Std" if made.means is not None else "Root mean square", made.deviations)
    ]
    if made.deviation_noise is not None:
        columns.append(("± noise", made.deviation_noise))
    if made.mean_noise is not None and made.means is not None:
        columns.insert(0, ("± noise", made.mean_noise))
    if made.means is not None:
        columns.insert(0, ("Mean", made.means))
    values = [np.asarray(column) for _, column in columns]
    rows = [
        (name_of(name), *(number(float(column[place])) for column in values))
        for place, name in enumerate(part.release.feature_names)
    ]
    caption = "Estimates in original units; ± is one standard deviation of the noise, before post-processing"
    made_table = table(("Feature", *(head for head, _ in columns)), rows, caption=caption)
    return el("div", made_table, class_="tall" if len(rows) > ROWS_SHOWN else None)


def _problem(part: PartNumbers) -> Html:
    return el("p", part.problem or "Nothing can be estimated here.", class_="warning")
