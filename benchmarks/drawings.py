"""One picture for each page on how it works: the idea at a glance, or measured results.

Run: python -m benchmarks.drawings [--only NAME]

Random numbers are seeded, and measured numbers come from the files in docs/measured.
"""

import argparse
from collections.abc import Callable

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle, Wedge

from benchmarks.gallery import EXACT, FIGURES, MUTED, PRIVATE, SEED, STYLE, saved
from benchmarks.measured import results
from dpcov import SeededEntropy
from dpcov.noise.eigenvectors import acceptance, envelope_width
from dpcov.noise.nuclear import symmetric_nuclear_spectrum
from dpcov.published.estimate.shrink import shrink_values

PALE = "#b2dfdb"


def _figure(columns: int = 1, **more: object) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(7, 3), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False, **more)[0])


def strata() -> Figure:
    """Rows sorted into half rings, and the noise that each ring's matrix gets."""
    rng = np.random.default_rng(SEED)
    figure, (left, right) = _figure(2)
    lengths = np.clip(0.3 * np.exp(0.6 * rng.normal(size=150)), 0.02, 1)
    angles = rng.uniform(0, np.pi, size=150)
    for shell, color in enumerate(("#e0f2f1", "#b2dfdb", "#80cbc4", "#4db6ac")):
        left.add_patch(Wedge((0, 0), 0.5**shell, 0, 180, color=color, linewidth=0))
        left.text(0.75 * 0.5**shell, -0.06, f"{shell}", ha="center", va="top", fontsize=8)
    left.plot(lengths * np.cos(angles), lengths * np.sin(angles), ".", color="black", markersize=2)
    left.set(xlim=(-1.02, 1.02), ylim=(-0.2, 1.02), aspect="equal", title="rows, in shells")
    left.set_axis_off()
    right.bar(range(4), [4.0**-shell for shell in range(4)], color=PRIVATE)
    right.set(xlabel="shell", title="standard deviation of its noise")
    right.set_xticks(range(4))
    right.set_yticks([0, 1 / 16, 1 / 4, 1], ["0", "1/16", "1/4", "1"])
    return figure


def shrinkage() -> Figure:
    """Eigenvalues of a truth, of it with noise, of the estimate and of the oracle."""
    rng, d, v = np.random.default_rng(SEED), 40, 0.25
    truth = np.diag(np.r_[np.full(d - 4, 0.5), 4.0, 7.0, 11.0, 16.0])
    half = rng.normal(size=(d, d)) * np.sqrt(v / 2)
    values, vectors = np.linalg.eigh(truth + half + half.T)
    shrunk, _ = shrink_values(values, v)
    oracle = np.einsum("ki,kl,li->i", vectors, truth, vectors)
    figure, (axes,) = _figure()
    places = np.arange(d, 0, -1)
    axes.plot(places, values, ".", color=MUTED, label="released, with noise")
    axes.plot(places, shrunk, "o", color=PRIVATE, markersize=5, label="after shrinkage")
    axes.plot(places, oracle, "_", color=EXACT, markersize=9, label="the best possible (oracle)")
    axes.axhline(2 * np.sqrt(d * v), color=MUTED, linestyle="--", linewidth=0.8)
    axes.text(d, 2 * np.sqrt(d * v), "noise alone reaches up to here", ha="right", va="bottom")
    axes.set(xlabel="place of the eigenvalue", ylabel="eigenvalue")
    axes.legend(frameon=False)
    return figure


def _nuclear_spectra(d: int, draws: int) -> np.ndarray:
    entropy = SeededEntropy(SEED)
    return np.stack([symmetric_nuclear_spectrum(d, 1.0, entropy) for _ in range(draws)])


def pure() -> Figure:
    """Two laws of noise with the same variance have other eigenvalues."""
    d, draws = 30, 200
    nuclear = _nuclear_spectra(d, draws)
    edge = np.pi * d / 2
    places = np.linspace(-edge, edge, 400)
    radius = 2 * np.sqrt(np.square(nuclear).mean())
    figure, (axes,) = _figure()
    axes.hist(nuclear.ravel(), bins=50, density=True, color=PALE, label="drawn")
    density = np.arccosh(edge / np.abs(places)) / (np.pi * edge)
    axes.plot(places, density, color=PRIVATE, label="nuclear-norm noise, many columns")
    circle = np.sqrt(np.clip(radius**2 - places**2, 0, None)) * 2 / (np.pi * radius**2)
    axes.plot(places, circle, color=EXACT, label="Gaussian noise, many columns")
    axes.set(xlabel="eigenvalue of the noise, 30 columns", ylabel="density", ylim=(0, None))
    axes.legend(frameon=False)
    return figure


def noise() -> Figure:
    """A curve and the stairs above it, in cells of one size."""
    levels, width = 8, 0.25
    figure, (axes,) = _figure()
    for left in np.arange(0, 3, width):
        top, bottom = (levels * np.exp(-(t**2) / 2) for t in (left, left + width))
        for level in range(int(np.ceil(top))):
            under = level + 1 <= bottom
            box = Rectangle((left, level), width, 1, edgecolor="white", linewidth=0.8)
            box.set_facecolor(PALE if under else "#ffe0b2")
            axes.add_patch(box)
    places = np.linspace(0, 3, 200)
    axes.plot(places, levels * np.exp(-(places**2) / 2), color="black")
    axes.plot([], [], "s", color=PALE, label="accepted at once")
    axes.plot([], [], "s", color="#ffe0b2", label="on the edge: compared with the curve")
    axes.set(xlabel="size of the noise", yticks=[], xlim=(0, 3), ylim=(0, levels + 0.2))
    axes.legend(frameon=False)
    return figure


def nuclear_noise() -> Figure:
    """Where eigenvalues are, and one draw in which they keep their distance."""
    found = _nuclear_spectra(10, 2000)
    figure, (axes,) = _figure()
    axes.hist(found.ravel(), bins=80, density=True, color=PALE, label="eigenvalues of many draws")
    axes.plot(found[0], np.full(10, 0.004), "|", color="black", markersize=14, label="of one draw")
    axes.set(xlabel="eigenvalue, 10 columns, scale 1", ylabel="density")
    axes.legend(frameon=False)
    return figure


def bingham() -> Figure:
    """The wanted density on the circle, and the envelope that is drawn instead."""
    values = np.array([3.0, 0.0])
    angles = np.linspace(-np.pi, np.pi, 200)
    squares = np.stack([np.cos(angles) ** 2, np.sin(angles) ** 2])
    target = np.exp(values @ squares)
    target /= target.mean() * 2 * np.pi
    shifted = 0.5 * envelope_width(values.max() - values) + values.max() - values
    envelope = target / acceptance(shifted @ squares, 2)
    figure, (axes,) = _figure()
    axes.fill_between(angles, target, envelope, color="#ffe0b2", label="rejected")
    axes.fill_between(angles, target, color=PALE, label="kept: the wanted law")
    axes.plot(angles, envelope, color=EXACT, linewidth=1, label="envelope")
    axes.set(xlabel="angle to the leading direction", ylabel="density", ylim=(0, None))
    axes.set_xticks(
        [-np.pi, -np.pi / 2, 0, np.pi / 2, np.pi], ["−180°", "−90°", "0°", "90°", "180°"]
    )
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.3, 1))
    return figure


def accuracy() -> Figure:
    """Mean and largest ratio of every group of tables."""
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True, height_ratios=(8, 4))
    zcdp = {line[0]: (line[3], line[4]) for line in results("accuracy-zcdp.csv")[1:-1]}
    pure = {line[0]: (line[2], line[3]) for line in results("accuracy-pure-zero.csv")[1:5]}
    for axes, found, title in zip(
        panels, (zcdp, pure), ("zCDP", "pure ε, where zero is not the best rival"), strict=True
    ):
        mean, largest = np.array(list(found.values()), dtype=float).T
        axes.hlines(range(len(mean)), mean, largest, color=PALE, linewidth=3)
        axes.plot(mean, range(len(mean)), "o", color=PRIVATE, label="mean")
        axes.plot(largest, range(len(mean)), "|", color=PRIVATE, markersize=9, label="largest")
        axes.set_yticks(range(len(mean)), list(found), fontsize=7)
        axes.axvline(1, color=MUTED, linestyle="--", linewidth=0.8)
        axes.invert_yaxis()
        axes.set_title(title, fontsize=9)
    panels[0].legend(frameon=False, loc="lower left")
    panels[1].set(xlabel="r: error of auto / error of the best rival", xlim=(0, 1.05))
    return figure


def intervals_coverage() -> Figure:
    """Median and range over all settings, with the noise counted and without."""
    figure, (axes,) = _figure()
    looks = (("coverage", PRIVATE, -0.15), ("naive", EXACT, 0.15))
    for (name, color, side), label in zip(
        looks, ("counting the noise", "ignoring it"), strict=True
    ):
        head, *lines = results(f"inference-{name}.csv")
        covered = np.array([[float(cell.split(" ")[0]) for cell in line[3:]] for line in lines])
        places = np.arange(len(head) - 3) + side
        axes.hlines(places, covered.min(axis=0), covered.max(axis=0), color=color, alpha=0.4)
        axes.plot(np.median(covered, axis=0), places, "o", color=color, label=label, markersize=5)
    axes.axvline(95, color=MUTED, linestyle="--", linewidth=0.8)
    axes.set_yticks(range(len(head) - 3), head[3:], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("95 % intervals that cover the truth, percent (median and range over settings)")
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def audit() -> Figure:
    """How much of a claim is confirmed as a loss, at the full noise and at half of it."""
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    axes = figure.subplots()
    head, *lines = results("audit-ours.csv")
    places = {name: place for place, name in enumerate(dict.fromkeys(line[0] for line in lines))}
    looks = (("bound", PRIVATE, "o", "bound"), ("half the noise", EXACT, "|", "at half the noise"))
    for column, color, marker, label in looks:
        found = [float(line[head.index(column)]) / _claim(line[3]) for line in lines]
        heights = [places[line[0]] for line in lines]
        axes.plot(found, heights, marker, color=color, markersize=5, label=label, linestyle="")
    axes.axvline(1, color=MUTED, linestyle="--", linewidth=0.8)
    axes.set_yticks(range(len(places)), list(places), fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="lower bound of the audit / claim", xlim=(0, None))
    axes.legend(frameon=False, loc="lower right")
    return figure


def _claim(text: str) -> float:
    """The epsilon or rho of a claim such as (4, 0.001)-DP."""
    return float(text.strip("(").split(")")[0].split(",")[0])


DRAWINGS: dict[str, Callable[[], Figure]] = {
    "strata": strata,
    "shrinkage": shrinkage,
    "pure": pure,
    "noise": noise,
    "nuclear-noise": nuclear_noise,
    "bingham": bingham,
    "accuracy": accuracy,
    "intervals-coverage": intervals_coverage,
    "audit": audit,
}
"""By the name of the file."""


def draw(name: str) -> bytes:
    """One picture as SVG."""
    with matplotlib.rc_context(STYLE):
        return saved(DRAWINGS[name]())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", choices=list(DRAWINGS))
    chosen = parser.parse_args()
    for name in [chosen.only] if chosen.only else DRAWINGS:
        (FIGURES / f"{name}.svg").write_bytes(draw(name))


if __name__ == "__main__":
    main()
