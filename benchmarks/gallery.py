"""The figures of tutorials and gallery: small SVG files from seeded releases of public tables.

Run: python -m benchmarks.gallery [--data DIR] [--out DIR] [--only NAME]

Tables and schemas are those of the tutorials (see benchmarks/tutorials.py).  The coefficient path
and the intervals need the Adult file, and are left as they are without.
"""

import argparse
import io
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.data import MissingTable, data_directory
from benchmarks.tutorials import exact_ridge, names_of, need_adult, seeded
from dpcov import Budget
from dpcov.analysis import NoiseWarning, PrivateLDA, PrivatePCA, PrivateRidge
from dpcov.mechanisms.auto import AUTO
from dpcov.pipeline.plan.predict import Assumption, predict

Array = NDArray[np.float64]

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
SEED = 1
PRIVATE, EXACT, MUTED = "#00796b", "#c2571a", "#888888"
STYLE = {
    # Text stays text, which is small, can be searched, and needs no font file.
    "svg.fonttype": "none",
    "svg.hashsalt": "dpcov",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def heat_map(directory: Path) -> Figure:
    """Correlations of ten measurements of 569 biopsies, beside those of the rows."""
    page = names_of("breast-cancer.md")
    made = seeded(page["biopsies"], page["schema"], Budget(epsilon=4, delta="1e-5"), SEED)
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    short = [name.removeprefix("mean ") for name in made.feature_names]
    exact = np.corrcoef(page["biopsies"].to_numpy().T)
    panels = [
        (left, "released, ε = 4", made.correlation_matrix()),
        (right, "without privacy", exact),
    ]
    for axes, title, matrix in panels:
        drawn = axes.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="none")
        axes.set_xticks(range(len(short)), short, rotation=60, ha="right", fontsize=7)
        axes.set_title(title, fontsize=9)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    left.set_yticks(range(len(short)), short, fontsize=7)
    figure.colorbar(drawn, ax=[left, right], shrink=0.7, label="correlation")
    return figure


def scree(directory: Path) -> Figure:
    """Variances of the components of the same biopsies, and the noise edge."""
    page = names_of("breast-cancer.md")
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    made = seeded(page["biopsies"], page["schema"], Budget(epsilon=4, delta="1e-5"), SEED)
    pca = PrivatePCA.from_release(made, scaling="encoded", n_components="noise")
    places = np.arange(1, len(pca.scree_) + 1)
    axes.plot(
        places, page["values"][::-1], "o", color=EXACT, fillstyle="none", label="without privacy"
    )
    above = places <= pca.n_above_noise_
    axes.plot(
        places[above], pca.scree_[above], "o", color=PRIVATE, label="released, above the noise"
    )
    axes.plot(
        places[~above], pca.scree_[~above], ".", color=MUTED, label="released, could be noise alone"
    )
    axes.axhline(pca.noise_edge_, linestyle="--", color=MUTED)
    axes.annotate("noise edge", (places[-1], pca.noise_edge_ * 1.1), ha="right", color="#555555")
    axes.set(
        xlabel="component",
        ylabel="variance (encoded units)",
        xticks=places,
        yscale="log",
        ylim=(1e-4, 0.7),
    )
    axes.legend(frameon=False, fontsize=8)
    return figure


def coefficient_path(directory: Path) -> Figure:
    """Ridge coefficients of income on Adult over the penalty at epsilon 0.1, and the penalty chosen
    without data."""
    page = names_of("adult.md", data=need_adult(directory))
    made = seeded(page["learn"], page["schema"], Budget(epsilon="0.1", delta="1e-6"), SEED)
    ridge = PrivateRidge.from_release(made, target="income=>50K")
    names = list(ridge.get_encoded_names())
    spread = page["encoded"](page["learn"])[names].std().to_numpy()
    exact = page["exact"].coef_ * spread
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(names):
        (line,) = axes.plot(
            ridge.alphas_, ridge.coef_path()[0, :, place] * spread[place], label=name
        )
        axes.plot(
            ridge.alphas_[0] * 0.8, exact[place], marker="<", color=line.get_color(), clip_on=False
        )
    axes.axvline(ridge.alpha_, linestyle="--", color=MUTED)
    axes.annotate(
        "chosen from the release", (ridge.alpha_ * 1.1, axes.get_ylim()[1] * 0.93), color="#555555"
    )
    axes.axhline(0, color=MUTED, linewidth=0.6)
    axes.set(
        xscale="log",
        xlabel="penalty (encoded units)",
        ylabel="change of the share above 50K\nper standard deviation",
    )
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def intervals(directory: Path) -> Figure:
    """Coefficients of income on Adult with 95 % intervals that count the noise, and with naive
    ones."""
    page = names_of("adult.md", data=need_adult(directory))
    made = seeded(page["learn"], page["schema"], Budget(epsilon=1, delta="1e-6"), SEED)
    ridge = PrivateRidge.from_release(made, target="income=>50K")
    table, exact = ridge.conf_int(), exact_ridge(page, ridge, "income=>50K")
    names = list(ridge.get_encoded_names())
    spread = page["encoded"](page["learn"])[names].std().to_numpy()
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(names))
    lower, upper, middle = (
        values[1:] * spread for values in (table.lower, table.upper, table.estimate)
    )
    naive = 1.96 * table.sampling_std[1:] * spread
    axes.hlines(places, lower, upper, color=PRIVATE, linewidth=2, label="sampling and privacy")
    axes.hlines(
        places + 0.25,
        middle - naive,
        middle + naive,
        color=MUTED,
        linewidth=2,
        label="naive: sampling alone",
    )
    axes.plot(exact * spread, places, "o", color=EXACT, fillstyle="none", label="without privacy")
    axes.axvline(0, color=MUTED, linewidth=0.6)
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set_xlabel("change of the share above 50K per standard deviation")
    axes.legend(frameon=False, fontsize=8)
    return figure


def lda_confusion(directory: Path) -> Figure:
    """Which digits are taken for which, at epsilon 2 and without privacy."""
    page = names_of("digits.md")
    made = seeded(page["learn"], page["schema"], Budget(epsilon=2, delta="1e-5"), SEED)
    test, names = page["test"], page["names"]
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    models = [
        (left, "released, ε = 2", PrivateLDA.from_release(made, target="digit")),
        (right, "without privacy", page["exact"]),
    ]
    for axes, title, model in models:
        guessed = model.predict(test[names])
        counts = np.array(
            [
                [np.sum((test["digit"] == str(i)) & (guessed == str(j))) for j in range(10)]
                for i in range(10)
            ]
        )
        shares = counts / counts.sum(axis=1, keepdims=True)
        axes.imshow(shares, cmap="Greens", vmin=0, vmax=1.2, interpolation="none")
        for i, j in zip(*np.nonzero(counts), strict=True):
            axes.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize=7)
        axes.set_xticks(range(10))
        axes.set_title(f"{title}: {np.mean(guessed == test['digit']):.0%} correct", fontsize=9)
        axes.set_xlabel("recognized as")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    left.set_yticks(range(10))
    left.set_ylabel("digit")
    return figure


def plan(directory: Path) -> Figure:
    """The numbers of ``dpcov plan --mechanisms`` for 20,000 rows, 30 features and these traces."""
    asked = Assumption(n_rows=20_000, n_features=30, budget=Budget(epsilon=1, delta="1e-6"))
    assumptions = [replace(asked, trace=trace) for trace in (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)]
    found = [{each.mechanism: each for each in predict(assumed)} for assumed in assumptions]
    figure = Figure(figsize=(7, 4.5), dpi=150, layout="constrained")
    axes = figure.subplots()
    for name in dict.fromkeys(name for row in found for name in row):
        line = [
            (assumed.trace, row[name].relative_error)
            for assumed, row in zip(assumptions, found, strict=True)
            if name in row
        ]
        width = 3 if name == AUTO else 1
        axes.plot(*zip(*line, strict=True), label=name, marker="o", markersize=3, linewidth=width)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="assumed trace: mean squared row length over the squared norm bound",
        ylabel="expected relative error (1: publishing zeros)",
        title=f"{asked.n_rows:,} rows, {asked.n_features} features, {asked.budget}, "
        f"{asked.neighbors}",
    )
    # Errors beyond ten times that of publishing zeros are cut off.
    axes.set_ylim(top=min(axes.get_ylim()[1], 10.0))
    axes.legend(fontsize="small")
    return figure


DRAWINGS: dict[str, Callable[[Path], Figure]] = {
    "heat-map": heat_map,
    "scree": scree,
    "coefficient-path": coefficient_path,
    "intervals": intervals,
    "lda-confusion": lda_confusion,
    "plan": plan,
}


def draw(name: str, directory: Path) -> bytes:
    """One figure as an SVG file that is the same at every run."""
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        return saved(DRAWINGS[name](directory))


def saved(figure: Figure) -> bytes:
    """An SVG file that is the same at every run, within the style of the pages."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg")
    image = re.sub(rb"<metadata>.*?</metadata>\s*", b"", buffer.getvalue(), flags=re.DOTALL)
    # A hundredth of a point is finer than any screen; texts between tags stay as they are.
    return re.sub(rb">[^<]*<|(\d\.\d\d)\d+", lambda found: found[1] or found[0], image)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data")
    parser.add_argument("--out", type=Path, default=FIGURES)
    parser.add_argument("--only", choices=list(DRAWINGS))
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in [chosen.only] if chosen.only else DRAWINGS:
        try:
            image = draw(name, data_directory(chosen.data))
        except MissingTable as missing:
            print(f"{name} left out: {missing}")
            continue
        (chosen.out / f"{name}.svg").write_bytes(image)
        print(f"{name}.svg: {len(image) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
