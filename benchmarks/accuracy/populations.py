"""The tables and budgets of every part of the comparison."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import data
from benchmarks.accuracy.rows import (
    SHAPES,
    Blocks,
    shaped_rows,
    sparse_rows,
    unit_maximum,
    zipf_rows,
)

Rows = np.ndarray
Budgets = tuple[dict[str, float], ...]
REAL_RHOS = (0.05, 0.1, 0.5, 1.0)
REAL_EPSILONS = (1.0, 2.0, 4.0, 8.0)
AMIN_EPSILONS = (0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
LARGEST_SYNTHETIC = 2 * 10**8
"""Numbers in a synthetic table that has to be held in memory."""


@dataclass(frozen=True, kw_only=True)
class Population:
    """A table of rows in the unit ball, and the budgets at which it is released.

    Parameters
    ----------
    name, group : str
        The name says which rows: results are stored by it.  The group is a figure or a source of
        data; results are summarized by group.
    load : callable
        Returns the rows, or blocks of them.
    norm : {"frobenius", "spectral"}
    factor : int
        How many times more repetitions than usual: where releases are cheap and their errors
        scatter.
    """

    name: str
    group: str
    budgets: Budgets
    load: Callable[[], Rows | Blocks]
    norm: str = "frobenius"
    factor: int = 1

    def blocks(self) -> Blocks:
        loaded = self.load()
        return loaded if isinstance(loaded, Blocks) else Blocks.of(loaded)


def zcdp(quick: bool, directory: Path) -> Iterator[Population]:
    """Real tables, and figures 2 and 3 of Dong et al., under zCDP."""
    yield from _real(quick, directory, _rhos((0.05, 1.0) if quick else REAL_RHOS))
    yield from _unit_rows("Dong 2", quick, {"rho": 0.1}, (1_000, 4_000, 16_000))
    yield from _zipf("Dong 3", quick, {"rho": 0.1}, 50_000)
    ns = (1_000, 2_000, 5_000, 10_000, 20_000, 100_000, 200_000, 400_000, 800_000)
    yield from _zipf_sizes("Dong 3", (1_000, 10_000) if quick else ns, {"rho": 0.1})
    sweep = _rhos((1e-3, 0.3) if quick else (1e-4, 1e-3, 0.01, 0.03, 0.3, 1.0))
    yield _zipf_population("Dong 3 rho", 200, 50_000, 4, sweep)


def pure(quick: bool, directory: Path) -> Iterator[Population]:
    """Real tables, figure 1 of Amin et al., and figures 7 and 8 of Dong et al., under pure
    epsilon."""
    usual = {"epsilon": 0.2**0.5}
    yield from _real(quick, directory, _epsilons((1.0, 4.0) if quick else REAL_EPSILONS))
    yield from _amin(quick, directory)
    yield from _unit_rows("Dong 7", quick, usual, (1_000, 4_000, 16_000, 160_000, 500_000))
    yield from _zipf("Dong 8", quick, usual, 50_000)
    ns = (1_000, 4_000, 10_000, 20_000, 100_000, 200_000)
    yield from _zipf_sizes("Dong 8", (1_000, 10_000) if quick else ns, usual)
    sweep = _epsilons((0.1, 0.8, 6.4) if quick else (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4))
    yield _zipf_population("Dong 8 epsilon", 200, 50_000, 4, sweep)
    if not quick:
        yield from _zipf("Dong 8 large", quick, usual, 500_000)


def sparse(quick: bool, directory: Path) -> Iterator[Population]:
    """Figure 1 of Wang et al.: sparse truth, error against the population in the spectral norm."""
    ns = (2_000, 20_000) if quick else (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
    settings = [(100, 1.0, share) for share in (0.1, 0.2, 0.3, 0.5)]
    settings += [(p, 1.0, 0.2) for p in (50, 200, 500)] + [
        (200, epsilon, 0.2) for epsilon in (0.1, 0.5, 2.0)
    ]
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
    """Shapes of spectra and tails over wide ranges of d and n, against the plain Gaussian
    mechanism."""
    ds = (1, 2, 3, 5, 10, 30, 100) if quick else (1, 2, 3, 5, 10, 30, 100, 300, 1000)
    ns = (100, 10_000) if quick else (100, 1_000, 10_000, 100_000, 1_000_000)
    # The largest tables come last: they take as long as all others together.
    for n, d in sorted(((n, d) for n in ns for d in ds), key=lambda size: size[0] * size[1] ** 2):
        for shape in SHAPES:
            yield Population(
                name=f"{shape} d={d} n={n}",
                group=shape,
                budgets=_rhos((0.01, 1.0)),
                load=partial(shaped_rows, n, d, shape),
                factor=10 if d <= 5 else 5 if d <= 10 else 1,
            )


def _rhos(values: tuple[float, ...]) -> Budgets:
    return tuple({"rho": value} for value in values)


def _epsilons(values: tuple[float, ...]) -> Budgets:
    return tuple({"epsilon": value} for value in values)


def _zipf_population(group: str, d: int, n: int, bins: int, budgets: Budgets) -> Population:
    return Population(
        name=f"d={d} n={n} N={bins}",
        group=group,
        budgets=budgets,
        load=partial(zipf_rows, n, d, bins),
    )


def _columns(quick: bool, n: int) -> tuple[int, ...]:
    ds = (10, 50, 200) if quick else (10, 20, 30, 50, 70, 100, 200, 400, 800)
    return tuple(d for d in ds if d * n <= LARGEST_SYNTHETIC)


def _unit_rows(
    group: str, quick: bool, usual: dict[str, float], ns: tuple[int, ...]
) -> Iterator[Population]:
    """Unit rows over n and d."""
    for n in (1_000, 16_000) if quick else ns:
        for d in _columns(quick, n):
            yield _zipf_population(group, d, n, 1, (usual,))


def _zipf(figure: str, quick: bool, usual: dict[str, float], n: int) -> Iterator[Population]:
    """Columns and the number of radii varied around d = 200, N = 4."""
    for d in _columns(quick, n):
        yield _zipf_population(f"{figure} d", d, n, 4, (usual,))
    for bins in (1, 2, 8, 16, 32):
        yield _zipf_population(f"{figure} N", 200, n, bins, (usual,))


def _zipf_sizes(figure: str, ns: tuple[int, ...], usual: dict[str, float]) -> Iterator[Population]:
    for n in ns:
        yield _zipf_population(f"{figure} n", 200, n, 4, (usual,))


def _amin(quick: bool, directory: Path) -> Iterator[Population]:
    """Raw columns divided by the largest norm, as the paper does, and columns brought to a common
    scale first."""
    budgets = _epsilons((0.1, 1.0, 4.0) if quick else AMIN_EPSILONS)
    tables = (
        ("wine", data.raw_wine, data.wine),
        ("airfoil", partial(data.raw_airfoil, directory), partial(data.airfoil, directory)),
        ("adult", partial(data.raw_adult, directory), partial(data.adult, directory)),
    )
    for name, raw, bounded in tables[:2] if quick else tables:
        for kind, group, load in (("raw", "Amin 1", raw), ("scaled", "Amin 1 scaled", bounded)):
            yield Population(
                name=f"{name} {kind}, largest norm 1",
                group=group,
                budgets=budgets,
                load=partial(unit_maximum, load),
                factor=5 if name != "adult" else 1,
            )


def _real(quick: bool, directory: Path, budgets: Budgets) -> Iterator[Population]:
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
                yield population(f"{corpus} d={d} {'unit' if normalized else 'raw'}", corpus, load)
    if not quick:
        for n in (6_000, 20_000, 60_000):
            yield population(f"mnist n={n}", "mnist", partial(data.mnist, directory, rows=n))
        for digit in range(10):
            yield population(
                f"mnist digit {digit}", "mnist digits", partial(data.mnist, directory, digit=digit)
            )
