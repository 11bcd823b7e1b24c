"""The tables and budgets of every part of the comparison."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import data
from benchmarks.papers.synthetic import synthetic_rows

Rows = np.ndarray
REAL_RHOS = (0.05, 0.1, 0.5, 1.0)


@dataclass(frozen=True, kw_only=True)
class Population:
    """A table of rows in the unit ball, and the budgets at which it is released.

    Parameters
    ----------
    name, group : str
        The group is a figure or a source of data; results are summarized by group.
    load : callable
        Returns the rows, and the matrix that errors are measured against if it is not their second moment.
    """

    name: str
    group: str
    budgets: tuple[dict[str, float], ...]
    load: Callable[[], Rows | tuple[Rows, np.ndarray]]
    norm: str = "frobenius"


def zcdp(quick: bool, directory: Path) -> Iterator[Population]:
    """Figures 2 and 3 of Dong et al., and real tables, under zCDP."""
    yield from _dong(quick, "rho", 0.1, (1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 1.0), (2, 3), 50_000)
    yield from _real(quick, directory, _rhos((0.05, 1.0) if quick else REAL_RHOS))


def pure(quick: bool, directory: Path) -> Iterator[Population]:
    """Figures 7 and 8 of Dong et al., Figure 1 of Amin et al., and real tables, under pure epsilon."""
    epsilons = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
    yield from _dong(quick, "epsilon", 0.2**0.5, epsilons, (7, 8), 50_000)
    if not quick:
        yield from _dong(quick, "epsilon", 0.2**0.5, (), (7, 8), 500_000)
    yield from _real(quick, directory, _epsilons((1.0, 4.0) if quick else (1.0, 2.0, 4.0, 8.0)))
    amin = _epsilons((0.1, 1.0, 4.0) if quick else (0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0))
    for name, load in (("wine", data.wine), ("airfoil", partial(data.airfoil, directory))):
        yield Population(name=name, group="Amin 1", budgets=amin, load=partial(_unit_maximum, load))
    if not quick:
        load = partial(_unit_maximum, partial(data.adult, directory))
        yield Population(name="adult", group="Amin 1", budgets=amin, load=load)


def sparse(quick: bool, directory: Path) -> Iterator[Population]:
    """Figure 1 of Wang et al.: sparse truth, error against the population in the spectral norm."""
    ns = (2_000, 20_000) if quick else (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
    settings = [(100, 1.0, share) for share in (0.1, 0.2, 0.3, 0.5)]
    settings += [(p, 1.0, 0.2) for p in (50, 200, 500)] + [(200, epsilon, 0.2) for epsilon in (0.1, 0.5, 2.0)]
    for p, epsilon, share in settings:
        if quick and (p > 200 or epsilon not in (1.0, 2.0)):
            continue
        for n in ns:
            yield Population(
                name=f"p={p} n={n} sparsity={share}",
                group=f"p={p} epsilon={epsilon:g} sparsity={share}",
                budgets=({"epsilon": epsilon, "delta": 1 / n},),
                load=partial(sparse_rows, n, p, share),
                norm="spectral",
            )


def robustness(quick: bool, directory: Path) -> Iterator[Population]:
    """Shapes of spectra and tails over wide ranges of d and n, against the plain Gaussian mechanism."""
    ds = (1, 2, 3, 5, 10, 30, 100) if quick else (1, 2, 3, 5, 10, 30, 100, 300, 1000)
    ns = (100, 10_000) if quick else (100, 1_000, 10_000, 100_000, 1_000_000)
    for d in ds:
        for n in ns:
            if d * n > 2 * 10**8:
                continue
            for shape in SHAPES:
                yield Population(
                    name=f"{shape} d={d} n={n}",
                    group=shape,
                    budgets=_rhos((0.01, 1.0)),
                    load=partial(shaped_rows, n, d, shape),
                )


def _rhos(values: tuple[float, ...]) -> tuple[dict[str, float], ...]:
    return tuple({"rho": value} for value in values)


def _epsilons(values: tuple[float, ...]) -> tuple[dict[str, float], ...]:
    return tuple({"epsilon": value} for value in values)


def _dong(
    quick: bool, kind: str, usual: float, sweep: tuple[float, ...], figures: tuple[int, int], middle: int
) -> Iterator[Population]:
    """Unit rows over n and d; then d, n, N and the budget varied around d = 200, n = ``middle``, N = 4."""

    def population(
        group: str, d: int, n: int, bins: int, budgets: tuple[float, ...] = (usual,)
    ) -> Population:
        return Population(
            name=f"d={d} n={n} N={bins}",
            group=f"Dong {group}",
            budgets=tuple({kind: budget} for budget in budgets),
            load=partial(zipf_rows, n, d, bins),
        )

    ds = (10, 50, 200) if quick else (10, 20, 30, 50, 70, 100, 200, 400, 800)
    ns = (
        (1_000, 10_000)
        if quick
        else (1_000, 2_000, 5_000, 10_000, 20_000, 100_000, 200_000, 400_000, 800_000)
    )
    units = (1_000, 16_000) if quick else (1_000, 4_000, 16_000)
    for n, d in ((n, d) for n in units for d in ds if middle == 50_000):
        yield population(f"{figures[0]}", d, n, 1)
    for d in ds:
        yield population(f"{figures[1]} d", d, middle, 4)
    for n in ns if middle == 50_000 else ():
        yield population(f"{figures[1]} n", 200, n, 4)
    for bins in (1, 2, 8, 16, 32):
        yield population(f"{figures[1]} N", 200, middle, bins)
    budgets = tuple(budget for budget in sweep if budget != usual)
    if budgets:
        yield population(f"{figures[1]} {kind}", 200, middle, 4, budgets[1::3] if quick else budgets)


def _real(quick: bool, directory: Path, budgets: tuple[dict[str, float], ...]) -> Iterator[Population]:
    def population(name: str, group: str, load: Callable[[], Rows]) -> Population:
        return Population(name=name, group=group, budgets=budgets, load=load)

    for name in ("digits", "breast_cancer", "wine"):
        yield population(name, "scikit-learn", getattr(data, name))
    for name in ("credit_default", "communities", "nhanes", "adult"):
        yield population(name, "tables", partial(getattr(data, name), directory))
    for corpus in ("reuters21578", "20newsgroups"):
        for d in (32, 128) if quick else (32, 128, 512):
            for normalized in (True, False):
                load = partial(data.news, directory, corpus, d=d, normalized=normalized)
                yield population(f"{corpus} d={d} {'unit' if normalized else 'raw'}", "news", load)
    if not quick:
        for n in (6_000, 20_000, 60_000):
            yield population(f"mnist n={n}", "mnist", partial(data.mnist, directory, rows=n))
        for digit in range(10):
            yield population(f"mnist digit {digit}", "mnist", partial(data.mnist, directory, digit=digit))


def zipf_rows(n: int, d: int, bins: int) -> Rows:
    return synthetic_rows(n, d, bins, np.random.default_rng([n, d, bins]))


def _unit_maximum(load: Callable[[], Rows]) -> Rows:
    """Rows divided by the largest norm, as in the papers' experiments; the norm counts as public there."""
    rows = load()
    return rows / np.linalg.norm(rows, axis=1).max()


def sparse_rows(n: int, p: int, share: float) -> tuple[Rows, np.ndarray]:
    """Wang et al.: N(0, U) with U = (sparse symmetric + 50 I) / 200, rows cut to norm 1; and U on that scale.

    The nonzero entries are standard normal.  Rows have squared norm about p / 4, so that U is divided by p too.
    """
    generator = np.random.default_rng([n, p, int(100 * share)])
    upper = np.triu(generator.standard_normal((p, p)) * (generator.uniform(size=(p, p)) < share))
    truth = (upper + np.triu(upper, 1).T + 50 * np.eye(p)) / (200 * p)
    return generator.standard_normal((n, p)) @ np.linalg.cholesky(truth).T, truth


SHAPES: dict[str, Callable[[int], np.ndarray]] = {
    "identity": lambda d: np.ones(d),
    "power law": lambda d: np.arange(1.0, d + 1) ** -1.0,
    "spiked": lambda d: np.where(np.arange(d) < 3, 1.0, 0.01),
    "heavy tails": lambda d: np.arange(1.0, d + 1) ** -0.5,
}


def shaped_rows(n: int, d: int, shape: str) -> Rows:
    """Rows with the stated spectrum, cut to norm 1; ``heavy tails`` are t with 3 degrees of freedom."""
    generator = np.random.default_rng([n, d, len(shape)])
    scales = np.sqrt(SHAPES[shape](d))
    rows = generator.standard_normal((n, d)) * (scales / (2 * np.linalg.norm(scales)))
    if shape == "heavy tails":
        rows /= 4 * np.sqrt(generator.chisquare(3, size=(n, 1)) / 3)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
