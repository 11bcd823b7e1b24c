"""Error of the shrunk matrix against trivial estimates and the oracle (docs/shrinkage.md).

Run: python -m benchmarks.accuracy.shrinkage [--quick] [--no-trace] [--detail]
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from scipy.optimize import isotonic_regression

from dpcov.published.estimate.risk import NoisySpectrum, stein_risk
from dpcov.published.estimate.shrink import candidates, shrink_spectrum, shrink_values
from dpcov.published.linalg.project import capped_simplex_projection, simplex_projection
from dpcov.published.linalg.symmetric import eigh

TRIVIAL = ("noisy", "clipped", "projected", "zero")
SIGNAL_TO_NOISE = (0.1, 0.3, 0.5, 1.0, 2.0, 4.0, 10.0, 30.0)
REPETITIONS = {1: 200, 2: 100, 3: 80, 5: 60, 10: 40, 20: 24, 30: 16, 50: 10, 100: 6, 200: 3, 500: 2}
QUICK = {1: 40, 3: 20, 10: 10, 30: 4, 100: 2}

CALIBRATION = {2: 300, 5: 150, 20: 60, 100: 10}
QUICK_CALIBRATION = {5: 10, 50: 3}


def spectra(dimension: int) -> dict[str, np.ndarray]:
    rank = np.arange(1, dimension + 1.0)
    shapes = {
        "identity": np.ones(dimension),
        "linear": rank / dimension,
        "1/k": 1.0 / rank,
        "1/k^2": 1.0 / rank**2,
        "exponential": np.exp(-rank / max(dimension / 10.0, 1.0)),
        "spikes+identity": np.where(rank <= 3, 10.0 / rank, 0.3),
    }
    shapes |= {f"rank {r}": (rank <= r) * 1.0 for r in (1, 3, 10) if r < dimension}
    return {"identity": shapes["identity"]} if dimension == 1 else shapes


def symmetric_noise(dimension: int, variance: float, generator: np.random.Generator) -> np.ndarray:
    square = generator.standard_normal((dimension, dimension))
    return (square + square.T) * np.sqrt(variance / 2.0)


def kernel_shrinkage(values: np.ndarray, v: float) -> np.ndarray:
    """Bun et al. (2016) smoothed as by Ledoit and Wolf (2020), made increasing and given the known
    trace."""
    d = values.size
    width = 2.0 * np.sqrt(d * v) * d ** (-1 / 3)
    x = (values[:, None] - values) / width
    edge = np.abs((1.0 + x / np.sqrt(5)) / (1.0 - x / np.sqrt(5)))
    logarithm = np.log(edge, where=edge > 0, out=np.zeros_like(x))
    transform = 3 * x / 10 + 3 / (4 * np.sqrt(5)) * (1 - x**2 / 5) * logarithm
    raw = values - 2.0 * v * transform.sum(axis=1) / width
    return simplex_projection(isotonic_regression(raw).x, max(values.sum(), 0.0))


def one_draw(
    levels: np.ndarray, v: float, private_trace: bool, generator: np.random.Generator
) -> dict:
    """Squared errors of every estimate for one noisy matrix, and the error that ``shrink``
    expected."""
    noisy = np.diag(levels) + symmetric_noise(levels.size, v, generator)
    trace = levels.sum() + np.sqrt(2.0 * v) * generator.standard_normal()
    known = {"trace": trace, "trace_variance": 2.0 * v} if private_trace else {}
    raw, vectors = eigh(noisy)
    shrunk, risk = shrink_values(raw, v, **known)
    share = 2.0 * v * levels.size / (2.0 * v * (levels.size + 1))
    values = raw + share * (trace - raw.sum()) / levels.size if private_trace else raw
    oracle = (vectors**2).T @ levels
    floor = np.sum(levels**2) - np.sum(oracle**2)
    estimates = {
        "noisy": raw,
        "clipped": np.maximum(raw, 0.0),
        "projected": capped_simplex_projection(values, max(values.sum(), 0.0)),
        "zero": np.zeros_like(raw),
        "kernel": kernel_shrinkage(values, v),
        "shrink": shrunk,
        "oracle": oracle,
    }
    errors = {
        name: np.sum((estimate - oracle) ** 2) + floor for name, estimate in estimates.items()
    }
    return errors | {"expected": risk}


def mean_errors(
    levels: np.ndarray, v: float, private_trace: bool, repetitions: int
) -> dict[str, float]:
    generator = np.random.default_rng(20160001)
    collected = defaultdict(list)
    for _ in range(repetitions):
        for name, error in one_draw(levels, v, private_trace, generator).items():
            collected[name].append(error)
    return {name: float(np.mean(errors)) for name, errors in collected.items()}


def cells(
    dimension: int, private_trace: bool, repetitions: int
) -> Iterator[tuple[str, float, dict[str, float]]]:
    """Mean squared errors in units of the noise, E‖W‖², for every spectrum and signal-to-noise
    ratio."""
    v = 1.0 / (dimension * (dimension + 1))
    yield "nothing", 0.0, mean_errors(np.zeros(dimension), v, private_trace, repetitions)
    for name, shape in spectra(dimension).items():
        for ratio in SIGNAL_TO_NOISE:
            levels = shape * ratio / np.linalg.norm(shape)
            yield name, ratio, mean_errors(levels, v, private_trace, repetitions)


def summary(dimension: int, private_trace: bool, repetitions: int, detail: bool) -> str:
    rows, absent = [], 0.0
    for name, ratio, error in cells(dimension, private_trace, repetitions):
        best = min(error[trivial] for trivial in TRIVIAL)
        if ratio == 0.0:
            absent = np.sqrt(error["shrink"])
            continue
        gain, kernel = np.sqrt(error["shrink"] / best), np.sqrt(error["kernel"] / best)
        oracle = np.sqrt(max(error["oracle"], 0.0) / error["shrink"])
        rows.append((name, ratio, gain, kernel, oracle, error["expected"] - error["shrink"]))
        if detail:
            print(
                f"    {name:16}{ratio:5g}  {gain:.3f}  kernel {kernel:.3f}  oracle {oracle:.3f}  "
                f"expected/true {error['expected'] / error['shrink']:.3f}"
            )
    visible = [row for row in rows if row[1] >= 0.5]
    faint = [row for row in rows if row[1] < 0.5]
    worst = max(visible, key=lambda row: row[2])
    gains, kernels, oracles = (np.array([row[i] for row in visible]) for i in (2, 3, 4))
    bias = np.mean([row[5] for row in rows])
    return (
        f"| {dimension} | {np.exp(np.log(gains).mean()):.3f} | "
        f"{np.exp(np.log(kernels).mean()):.3f} "
        f"| {gains.max():.3f} ({worst[0]}, {worst[1]:g}) | {max(row[2] for row in faint):.2f} | "
        f"{absent:.3f} "
        f"| {np.median(oracles):.3f} | {bias:+.3f} |"
    )


def calibration(dimension: int, repetitions: int) -> str:
    """Mean Stein risk over mean squared error, in units of the noise, for every candidate and the
    average."""
    v = 1.0 / (dimension * (dimension + 1))
    generator = np.random.default_rng(5)
    gaps = defaultdict(list)
    for shape in spectra(dimension).values():
        for ratio in (0.3, 1.0, 3.0):
            levels = shape * ratio / np.linalg.norm(shape)
            differences = defaultdict(list)
            for _ in range(repetitions):
                noisy = np.diag(levels) + symmetric_noise(dimension, v, generator)
                values, vectors = eigh(noisy)
                spectrum = NoisySpectrum(
                    values=values, off_diagonal_variance=v, mean_variance=2.0 * v
                )
                truth = (vectors**2).T @ levels
                floor = np.sum(levels**2) - np.sum(truth**2)
                for name, estimate in candidates(spectrum).items():
                    error = np.sum((estimate.values - truth) ** 2) + floor
                    differences[name].append(stein_risk(estimate, spectrum) - error)
                values, risk = shrink_spectrum(spectrum)
                error = np.sum((values - truth) ** 2) + floor
                differences["average"].append(risk - error)
            for name, values in differences.items():
                gaps[name].append(np.mean(values))
    columns = " | ".join(f"{np.mean(gap):+.3f} ({np.abs(gap).max():.3f})" for gap in gaps.values())
    return f"| {dimension} | {columns} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer dimensions and repetitions, under a minute"
    )
    parser.add_argument(
        "--no-trace", action="store_true", help="no private trace beside the matrix"
    )
    parser.add_argument(
        "--detail", action="store_true", help="print every spectrum and signal-to-noise ratio"
    )
    arguments = parser.parse_args()
    print(
        "| d | mean gain | kernel | worst at S/N ≥ 0.5 | worst at S/N < 0.5 | S = 0 | "
        "oracle/shrink | expected − true |"
    )
    print("|--|--|--|--|--|--|--|--|")
    for dimension, repetitions in (QUICK if arguments.quick else REPETITIONS).items():
        print(summary(dimension, not arguments.no_trace, repetitions, arguments.detail), flush=True)
    print("\n| d | coarse | fine | projected | zero | average |\n|--|--|--|--|--|--|")
    for dimension, repetitions in (QUICK_CALIBRATION if arguments.quick else CALIBRATION).items():
        print(calibration(dimension, repetitions), flush=True)


if __name__ == "__main__":
    main()
