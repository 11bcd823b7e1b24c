"""The page "How good is it?" with its figures, and that of its tables, from the lines of a contest.

Run: python -m benchmarks.analyst.page [--lines FILE] [--page FILE] [--tables FILE] [--figures DIR]

Tables stand in the pages between ``<!-- NAME -->`` and ``<!-- end -->`` and are written anew.
Numbers are medians over repetitions. Nothing on the pages but these blocks holds a number.
"""

from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from scipy.stats import gmean

from benchmarks.analyst.contest import ONCE
from benchmarks.gallery import EXACT, FIGURES, MUTED, PRIVATE, STYLE, saved
from benchmarks.measured import filled, table
from benchmarks.options import asked

DOCS = FIGURES.parent
LINES = DOCS / "measured" / "rivals.csv"
PAGE, TABLES = DOCS / "how-good.md", DOCS / "measured" / "how-good.md"
OURS = "dpcov"
CELL = ["table", "target", "epsilon"]
ROWS = ["MST, 16 bins", "MST, 32 bins", "AIM, 16 bins", "AIM, 32 bins"]
PCA = ["diffprivlib PCA", "OpenDP PCA"]
SINGLE = ["AdaSSP", "gradient descent", "gradient descent, best rate"]
REPLACED, PURE = "dpcov, replace-one", "dpcov, pure epsilon"
PURE_RIVALS = {"rms": [PURE, *PCA], "r2": [PURE, "diffprivlib regression"]}
WORST_R2 = -1.0
"""Lower ones are not told apart: a prediction that bad is as useless as any other."""
TIE = 0.01
"""Differences of R² that nobody notices."""
FAR = 0.05
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1)
DRAWN = ("how-good-correlations", "how-good-regression")
PURPLE, BLUE, SKY = "#5e35b1", "#1565c0", "#4fc3f7"
LOOKS = {
    "no privacy": {"marker": "|", "color": MUTED, "markersize": 9},
    OURS: {"marker": "o", "color": PRIVATE, "markersize": 6},
    "MST, 16 bins": {"marker": "s", "color": EXACT},
    "MST, 32 bins": {"marker": "s", "color": EXACT, "fillstyle": "none"},
    "AIM, 16 bins": {"marker": "^", "color": PURPLE},
    "AIM, 32 bins": {"marker": "^", "color": PURPLE, "fillstyle": "none"},
    "AdaSSP": {"marker": "x", "color": BLUE},
    "gradient descent": {"marker": "P", "color": BLUE},
    "gradient descent, best rate": {"marker": "P", "color": SKY},
}


def measured(path: Path) -> pd.DataFrame:
    """The lines, with bounds as typed."""
    lines = pd.read_csv(path)
    return lines[lines["wide"] == 1]


def medians(lines: pd.DataFrame, measure: str, aggregate: str = "median") -> pd.DataFrame:
    """A line for each cell, a column for each method that answered."""
    lines = lines.dropna(subset=[measure])
    if measure == "r2":
        lines = lines.assign(r2=lines["r2"].clip(lower=WORST_R2))
    return lines.pivot_table(measure, CELL, "method", aggfunc=aggregate, sort=False)


def correlations(lines: pd.DataFrame, measure: str = "rms") -> pd.DataFrame:
    """Of a correlation; there is one number for a table, whatever its targets."""
    found = medians(lines, measure)
    return found[~found.index.droplevel("target").duplicated()].droplevel("target")


def shown(found: pd.DataFrame, methods: list[str], *, best: str) -> str:
    """As Markdown, the best of each line in bold; ``best`` is min or max."""
    methods = [name for name in methods if name in found]
    found = found.dropna(subset=[name for name in methods if name not in ONCE], how="all")
    judged = found[[name for name in methods if name not in ONCE]].agg(best, axis=1)
    lines = [[*found.index.names, *methods]]
    for key, line in found[methods].iterrows():
        texts = [
            _number(value, round(value - judged[key], 3) == 0 and name not in ONCE)
            for name, value in line.items()
        ]
        lines.append([*map(_part, key), *texts])
    return table(lines)


def _part(part: float | str) -> str:
    """Of a cell's name; long names of columns may break at underscores."""
    return f"{part:g}" if isinstance(part, float) else part.replace("_", "_<wbr>")


def _number(value: float, bold: bool) -> str:
    if pd.isna(value):
        return ""
    text = "below −1" if value <= WORST_R2 else f"{value:.3f}".replace("-", "−")
    return f"**{text}**" if bold else text


def losses(lines: pd.DataFrame) -> str:
    """Cells in which somebody else is better, and by how much."""
    table = ["| cell | what | dpcov | better |", "| --- | --- | --- | --- |"]
    errors = correlations(lines)
    for key, line in errors[[name for name in errors if name in [*ROWS, OURS]]].iterrows():
        better = line[line < line[OURS]].sort_values()
        table += _loss(key, "error of correlations", line[OURS], better)
    found = medians(lines, "r2")
    for key, line in found[[name for name in found if name in [*ROWS, *SINGLE, OURS]]].iterrows():
        better = line[line > line[OURS] + TIE].sort_values(ascending=False)
        table += _loss(key, "R²", line[OURS], better)
    return "\n".join(table)


def _loss(key: tuple, what: str, ours: float, better: pd.Series) -> list[str]:
    where = ", ".join(key[:-1]) + f", ε = {key[-1]:g}"
    names = "; ".join(f"{name} {_number(value, False)}" for name, value in better.items())
    return [f"| {where} | {what} | {_number(ours, False)} | {names} |"] if names else []


def counts(lines: pd.DataFrame) -> str:
    """In how many cells nobody of a kind is better."""
    errors, found = correlations(lines), medians(lines, "r2")
    rows = errors[[name for name in errors if name in ROWS]].dropna(how="all")
    ours = errors.loc[rows.index, OURS]
    closer = int((ours < rows.min(axis=1)).sum())
    times = gmean(rows.min(axis=1) / ours)
    single = found[[name for name in found if name in SINGLE[:2]]].dropna(how="all")
    good = int((found.loc[single.index, OURS] >= single.max(axis=1) - TIE).sum())
    return (
        f"Correlations from dpcov are closer than those of MST and AIM in {closer} of the "
        f"{len(rows)} tables and budgets in which one of them was run: {times:.1f} times in the "
        "geometric mean. Its R² is at least that of AdaSSP and "
        f"untuned gradient descent, to {TIE}, in {good} of {len(single)} regressions."
    )


def pure_counts(r2: pd.DataFrame) -> str:
    """How regressions without a δ compare; R² below zero is worse than the target's mean."""
    found = r2[PURE_RIVALS["r2"]].dropna()
    ours, theirs = (found[name] for name in found)
    return (
        f"Of {len(found)} regressions {int((ours > 0).sum())} from a release and "
        f"{int((theirs > 0).sum())} of diffprivlib have an R² above zero, the R² of the target's "
        f"mean. The release is worse in {int((ours < theirs).sum())} of them."
    )


def unlucky(lines: pd.DataFrame) -> str:
    """Cells in which a regression from the worst of our releases is far from that of the usual."""
    usual = medians(lines, "r2")[OURS]
    worst = medians(lines, "r2", aggregate="min")[OURS]
    table = ["| cell | usual R² | worst R² |", "| --- | --- | --- |"]
    for key in usual.index[worst < usual - FAR]:
        where = ", ".join(key[:-1]) + f", ε = {key[-1]:g}"
        table.append(f"| {where} | {_number(usual[key], False)} | {_number(worst[key], False)} |")
    return "\n".join(table)


def times(lines: pd.DataFrame) -> str:
    """Processor time: seconds, and how many times that of a release."""
    found = correlations(lines, "seconds")
    ratios = found.div(found[OURS], axis=0)
    table = ["| | seconds | over a release |", "| --- | --- | --- |"]
    for name in [OURS, *ROWS, *PCA, *SINGLE, "diffprivlib regression"]:
        if name in found:
            both = (found[name], ratios[name])
            spans = [f"{_short(each.min())} to {_short(each.max())}" for each in both]
            table.append(f"| {name} | {spans[0]} | {spans[1] if name != OURS else '1'} |")
    return "\n".join(table)


def _short(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def repetitions(lines: pd.DataFrame) -> str:
    """How often everybody drew, and who gave no answer."""
    drawn = lines[lines["refused"].isna() & ~lines["method"].isin(ONCE)]
    counts = drawn.groupby([*CELL, "method"]).size().groupby("method").agg(["min", "max"])
    texts = [
        f"{name} {low}" if low == high else f"{name} {low} to {high}"
        for name, low, high in counts.itertuples()
    ]
    refused = lines[lines["refused"].notna()].drop_duplicates(["table", "method"])
    silent = [f"{line.method} on {line.table}" for line in refused.itertuples()]
    return f"Repetitions: {'; '.join(texts)}." + (
        f" No answer: {'; '.join(silent)}." if silent else ""
    )


def blocks(lines: pd.DataFrame) -> dict[str, str]:
    """What stands between the markers of the page."""
    return {
        "counts": counts(lines),
        "losses": losses(lines),
        "unlucky": unlucky(lines),
        "pure-counts": pure_counts(medians(lines, "r2")),
    }


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """What stands between the markers of the page of tables."""
    rms, r2 = correlations(lines), medians(lines, "r2")
    answered = rms.dropna(subset=[name for name in PCA if name in rms], how="all")
    return {
        "correlations": shown(rms, ["nothing", OURS, REPLACED, *ROWS], best="min"),
        "regressions": shown(r2, ["no privacy", OURS, REPLACED, *ROWS, *SINGLE], best="max"),
        "pure-correlations": shown(answered, ["nothing", *PURE_RIVALS["rms"]], best="min"),
        "times": times(lines),
        "repetitions": repetitions(lines),
    }


def _dots(axes: Axes, found: pd.DataFrame, names: list[str], label: str) -> None:
    """A line for each table, a dot for each method; ours on top."""
    for name in [name for name in names if name in found]:
        look = {"markersize": 4.5, "linestyle": "", "zorder": 3 if name == OURS else 2}
        axes.plot(found[name], range(len(found)), label=name, **(look | LOOKS[name]))
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.set_xlabel(label)
    axes.set_yticks(range(len(found)), found.index, fontsize=7)


def drawn(lines: pd.DataFrame) -> dict[str, Figure]:
    """Errors over those of a matrix without correlations, and R²."""
    errors, r2 = correlations(lines), medians(lines, "r2")
    errors = errors.div(errors["nothing"], axis=0)
    single = [table for table, rest in r2.groupby(level="table") if rest.index.nunique() <= 2]
    r2.index = pd.MultiIndex.from_tuples(
        [(table if table in single else f"{table}: {y}", e) for table, y, e in r2.index],
        names=["table", "epsilon"],
    )
    first = _panels(errors, [OURS, *ROWS], "error of correlations / that of zeros")
    for axes in first.axes:
        axes.axvline(1, color=MUTED, linestyle="--", linewidth=0.8)
        axes.set_xscale("log")
        axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axes.xaxis.set_minor_locator(NullLocator())
    return dict(
        zip(DRAWN, (first, _panels(r2, ["no privacy", OURS, *ROWS, *SINGLE], "R²")), strict=True)
    )


def _panels(found: pd.DataFrame, names: list[str], label: str) -> Figure:
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    epsilons = sorted(set(found.index.get_level_values("epsilon")))
    for axes, epsilon in zip(
        figure.subplots(1, len(epsilons), sharex=True, sharey=True), epsilons, strict=True
    ):
        _dots(axes, found.xs(epsilon, level="epsilon"), names, label)
        axes.set_title(f"ε = {epsilon:g}", fontsize=9)
    axes.invert_yaxis()
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def main() -> None:
    options = asked(__doc__, lines=LINES, page=PAGE, tables=TABLES, figures=FIGURES)
    lines = measured(options.lines)
    for path, found in ((options.page, blocks(lines)), (options.tables, tables(lines))):
        path.write_text(filled(path.read_text(encoding="utf-8"), found), encoding="utf-8")
    with matplotlib.rc_context(STYLE):
        for name, figure in drawn(lines).items():
            (options.figures / f"{name}.svg").write_bytes(saved(figure))


if __name__ == "__main__":
    main()
