"""Write the sections that show numbers: correlations, spectrum, strata, errors, means.

Contract: every chart has the same numbers in a table or a sentence beside it.
"""

from collections.abc import Sequence
from math import floor, log10

import numpy as np

from dpcov.markup import Child, Html, details, el, join, name_of, table
from dpcov.published.digits import plural
from dpcov.published.words.diagnosis import diagnose
from dpcov.published.words.numbers import Estimates, GroupNumbers, Spectrum
from dpcov.published.words.summary import LIGHTS, SIZES, told_columns
from dpcov.published.words.verdicts import Diagnosis
from dpcov.report import charts
from dpcov.report.charts import number
from dpcov.report.heatmap import strongest
from dpcov.report.html import fill

STRONGEST_SHOWN = 12
# Up to this many features the whole matrix is also a table.
WHOLE_TABLE = 16
ROWS_SHOWN = 30
POINTS_SHOWN = 400


def correlations(group: GroupNumbers, drawn: bool) -> Html:
    """Heat map, the strongest pairs, and the whole matrix where it is small."""
    if group.estimates is None:
        return _problem(group)
    made, names = group.estimates, group.release.feature_names
    noise = made.correlation_noise
    if len(names) < 2:
        return el("p", "There is one feature, so there are no correlations.")
    sources = np.array([column.source for column in group.release.features])
    # The levels of one column exclude each other, which is no finding.
    alike = sources[:, None] == sources
    return fill(
        "correlations.html",
        group=group,
        made=made,
        drawn=drawn,
        strongest=_strongest(group, made, alike),
        of_levels=bool(np.any(np.triu(alike & ~made.hidden, 1))),
        unknown=any(np.isnan(x).any() for x in (made.correlation, noise) if x is not None),
        whole=_matrix(made, names) if len(names) <= WHOLE_TABLE else None,
    )


def _strongest(group: GroupNumbers, made: Estimates, alike: np.ndarray) -> Html | None:
    r, noise, names = made.correlation, made.correlation_noise, group.release.feature_names
    beyond = np.where(alike | made.hidden, 0.0, r)
    pairs = strongest(beyond, STRONGEST_SHOWN)
    if not pairs:
        return None
    head: tuple[Child, ...] = ("Pair", "Correlation")
    caption = "Pairs with the largest correlation"
    if noise is not None:
        head += ("Noise std", "Noise stds from zero")
        caption = (
            f"Largest correlations that are more than {made.clear:.1f} noise std from zero: noise "
            "alone makes any such pair in one of twenty releases"
        )
    return table(head, [_pair(made, names, *pair) for pair in pairs], caption=caption)


def _pair(made: Estimates, names: Sequence[str], first: int, second: int) -> list[Child]:
    r = float(made.correlation[first, second])
    both = join(name_of(names[first], 40), " × ", name_of(names[second], 40))
    if made.correlation_noise is None:
        return [both, signed(r)]
    std = float(made.correlation_noise[first, second])
    return [both, signed(r), f"{std:.3f}", f"{abs(r) / std:.1f}" if std > 0 else "–"]


def signed(r: float) -> str:
    """Print a correlation."""
    return f"{r:+.3f}".replace("-", "−") if np.isfinite(r) else "–"


def _matrix(made: Estimates, names: Sequence[str]) -> Html:
    short = [name_of(name, 30) for name in names]
    pairs = zip(short, made.correlation.tolist(), made.hidden.tolist(), strict=True)
    rows = (
        (name, *("·" if is_hidden else signed(r) for r, is_hidden in zip(row, hidden, strict=True)))
        for name, row, hidden in pairs
    )
    dots = "; a dot stands for what noise alone could make" * (made.correlation_noise is not None)
    return details(
        "The whole matrix as a table", table(("", *short), rows, caption=f"Correlations{dots}")
    )


def spectrum(group: GroupNumbers) -> Html:
    """Scree plot with the edge of the noise."""
    if group.estimates is None:
        return _problem(group)
    made = group.estimates.spectrum
    if len(made.noisy) < 2:
        return el("p", "There is one feature, so its variance is the only eigenvalue.")
    if not np.any(made.noisy > 0):
        return el("p", "No eigenvalue is positive: the noise hides everything.")
    return fill(
        "scree.html",
        words=_spectrum_words(made),
        chart=_scree(made),
        has_edge=made.edge is not None,
        hidden=int(np.sum(made.noisy <= 0)),
        eigenvalues=_eigenvalues(made),
    )


def _spectrum_words(made: Spectrum) -> str:
    if made.edge is None or made.n_above is None:
        return "The law of the noise on this matrix is not known, so its edge cannot be drawn."
    above, whole = made.n_above, made.estimate.sum()
    share = made.estimate[:above].sum() / whole if whole > 0 else 0.0
    tail = f", with {100 * share:.0f} % of the estimated variance" if above else ""
    return (
        f"Above the noise: {above} of {plural(len(made.noisy), 'component')}{tail}. "
        f"Noise alone would reach eigenvalues of about {number(made.edge)} here; "
        "what lies below is not evidence of structure."
    )


def _scree(made: Spectrum) -> Html:
    count, top = len(made.noisy), float(max(made.noisy[0], made.estimate[0], made.edge or 0.0))
    edge = made.edge or top / 1e3
    # The axis ends below the edge, so that it is seen, and at most six decades below the top.
    low = max(min(edge, top) / 30, top / 1e6)
    x = charts.horizontal(0.5, count + 0.5, logarithmic=False)
    y = charts.vertical(10.0 ** floor(log10(low)), top * 1.4)
    # So many points at most that a page of thousands of components stays small.
    kept = np.unique(np.rint(np.linspace(1, count, min(count, POINTS_SHOWN))).astype(int)).tolist()

    def shown(values: np.ndarray) -> list[tuple[float, float]]:
        points = ((place, float(values[place - 1])) for place in kept)
        return [(place, value) for place, value in points if value > y.low]

    radius = 3.2 if count <= 60 else 2.0
    return charts.chart(
        x,
        y,
        _noise_band(x, y, made.edge),
        charts.line(x, y, shown(made.estimate), class_="estimate"),
        (el("circle", cx=x(a), cy=y(b), r=radius, class_="noisy") for a, b in shown(made.noisy)),
        label=f"Eigenvalues of {plural(count, 'component')} on a logarithmic scale. "
        f"{_spectrum_words(made)}",
        x_label="component",
        y_label="variance of the component",
    )


def _noise_band(x: charts.Axis, y: charts.Axis, edge: float | None) -> list[Html]:
    if edge is None:
        return []
    up, width = y(edge), x.end - x.start
    return [
        el("rect", x=x.start, y=up, width=width, height=y.start - up, class_="band"),
        el("line", x1=x.start, x2=x.end, y1=up, y2=up, class_="edge"),
    ]


def _eigenvalues(made: Spectrum) -> Html:
    head = ("Component", "With noise", "After post-processing")
    pairs = np.column_stack([made.noisy, made.estimate])[:ROWS_SHOWN].tolist()
    rows = ((str(place), *map(number, pair)) for place, pair in enumerate(pairs, start=1))
    return table(head, rows, caption="Largest eigenvalues")


def features(group: GroupNumbers) -> Html:
    """The verdict on every column, with estimates and how far they may be off."""
    found = diagnose(group.release, group)
    return join(el("p", found.headline, class_="lead"), verdicts(found))


def verdicts(found: Diagnosis) -> Html:
    """What is said of columns, and their table."""
    head, numbers = told_columns(found)
    rows = []
    for column, own in zip(found.columns, numbers, strict=True):
        light = el("span", LIGHTS[column.verdict], class_=f"light {column.verdict}")
        rows.append((name_of(column.in_unit), light, *own))
    size = SIZES[found.knows_means]
    caption = (
        "± holds 95 of 100 errors that noise and scaling rows down make; correlations: with the "
        f"columns that can be used, at the median; {size[:1].lower()}{size[1:]}"
    )
    made = table(("Column", "Verdict", *head), rows, caption=caption, text=(1,))
    return fill(
        "verdicts.html",
        found=found,
        made=made,
        lights=LIGHTS,
        finding=list(found.by_finding()),
        plural=plural,
    )


def _problem(group: GroupNumbers) -> Html:
    return el("p", group.problem, class_="warning")
