"""Errors of every contestant on one population, all drawing from the same exact moments."""

import time
import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import dpcov
from benchmarks.accuracy.contestants import Contestant, Registered, true_second_moment
from benchmarks.accuracy.populations import Population
from benchmarks.data import MissingTable
from dpcov.artifact import Release
from dpcov.data.moments import Moments, MomentsSpec
from dpcov.errors import DpcovError
from dpcov.mechanisms.base import Problem


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Mean error of one contestant at one budget; ``skipped`` says why there is none.

    ``relative`` is the error over the norm of the truth, ``oracle`` the mean error of the best eigenvalues on the
    released eigenvectors, in the same units as ``error``.
    """

    group: str
    population: str
    d: int
    n: int
    budget: str
    contestant: str
    role: str
    reading: str = ""
    error: float = float("nan")
    standard_error: float = float("nan")
    relative: float = float("nan")
    oracle: float = float("nan")
    seconds: float = float("nan")
    skipped: str = ""


def measure(
    population: Population, contestants: Sequence[Contestant], repetitions: int
) -> tuple[list[Measurement], str]:
    """Measure all contestants; returns the measurements, or a line saying why the population was skipped."""
    try:
        loaded = population.load()
    except MissingTable as missing:
        return [], f"skipped {population.name}: {missing}"
    rows, truth = loaded if isinstance(loaded, tuple) else (loaded, None)
    table = _Table(rows, truth)
    started = time.perf_counter()
    found = [
        _measure_one(population, table, contestant, budget, repetitions)
        for budget in population.budgets
        for contestant in contestants
    ]
    return found, f"{population.group}: {population.name} ({time.perf_counter() - started:.0f} s)"


class _Table:
    """Rows of a population with their moments, gathered once for every kind that is asked for."""

    def __init__(self, rows: np.ndarray, truth: np.ndarray | None) -> None:
        self.n, self.d = rows.shape
        self._rows = rows
        self._moments: dict[MomentsSpec, Moments] = {}
        self.truth = true_second_moment(self.moments(MomentsSpec())) if truth is None else truth

    def moments(self, spec: MomentsSpec) -> Moments:
        if spec not in self._moments:
            fields = {name: getattr(spec, name) for name in spec.__dataclass_fields__}
            self._moments[spec] = dpcov.moments(self._rows, norm_bound=1.0, **fields)
        return self._moments[spec]


def _measure_one(
    population: Population,
    table: _Table,
    contestant: Contestant,
    numbers: dict[str, float],
    repetitions: int,
) -> Measurement:
    budget = dpcov.Budget(**numbers)
    problem = Problem(n_features=table.d, neighbors="replace-one", n_rows=table.n)
    described = {
        "group": population.group,
        "population": population.name,
        "d": table.d,
        "n": table.n,
        "budget": " ".join(f"{name}={value:.4g}" for name, value in numbers.items()),
        "contestant": contestant.label,
        "role": contestant.role,
    }
    if table.d > contestant.largest_d:
        return Measurement(**described, skipped=f"slow above d = {contestant.largest_d}")
    errors: dict[str, list[float]] = defaultdict(list)
    floors = []
    try:
        moments = table.moments(contestant.spec(problem, budget))
        started = time.perf_counter()
        for repetition in range(repetitions):
            seed = zlib.crc32(f"{described} {repetition}".encode())
            for reading, estimate in contestant.estimates(moments, budget, seed).items():
                errors[reading].append(_norm(estimate - table.truth, population.norm))
            if contestant.role == "ours" and isinstance(contestant, Registered):
                best = oracles(contestant.release(moments, budget, seed), moments)
                floors.append(min(_norm(floor - table.truth, population.norm) for floor in best))
    except DpcovError as error:
        return Measurement(**described, skipped=str(error))
    reading = min(errors, key=lambda name: float(np.mean(errors[name])))
    chosen = np.array(errors[reading])
    return Measurement(
        **described,
        reading=reading,
        error=float(chosen.mean()),
        standard_error=float(chosen.std() / np.sqrt(len(chosen))),
        relative=float(chosen.mean() / _norm(table.truth, population.norm)),
        oracle=float(np.mean(floors)) if floors else float("nan"),
        seconds=(time.perf_counter() - started) / repetitions,
    )


def _norm(matrix: np.ndarray, kind: str) -> float:
    return float(np.linalg.norm(matrix, 2 if kind == "spectral" else "fro"))


def oracles(release: Release, moments: Moments) -> list[np.ndarray]:
    """Estimates that keep released eigenvectors and know the true eigenvalues along them; the best one is the floor.

    The eigenvectors of the estimate itself, and where strata were released, those of every group of shells that was
    drawn, dropped shells counting as zero.
    """
    own = _along(release.second_moment(), true_second_moment(moments))
    if release.statistics.layout != "strata":
        return [own]
    scale = 1.0 / (4.0**moments.spec.bits * moments.n_rows)
    shells = [stratum.sscp.to_float() * (scale * 4.0**-index) for index, stratum in enumerate(moments.strata)]
    arrays = release.statistics.arrays
    groups = zip(arrays["sscp"], arrays["first_shell"], arrays["last_shell"], strict=True)
    parts = [_along(noisy, sum(shells[int(first) : int(last) + 1])) for noisy, first, last in groups]
    return [own, np.sum(parts, axis=0)] if parts else [own]


def _along(noisy: np.ndarray, truth: np.ndarray) -> np.ndarray:
    vectors = np.linalg.eigh(noisy.astype(np.float64))[1]
    return (vectors * np.einsum("ij,ij->j", vectors, truth @ vectors)) @ vectors.T
