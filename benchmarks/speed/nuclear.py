"""Compare the nuclear-norm noise laws: size relative to the noise of d'Orsi and Novikov, and
seconds per draw.

Run: ``python benchmarks/speed/nuclear.py [sizes|schatten|times|releases]``.
Sizes are those at one epsilon under replace-one.
"""

import sys
import time
from functools import partial
from typing import get_args

import numpy as np

import dpcov
from dpcov.data.exact.moments import Moments
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.stratified_nuclear import StratifiedNuclear
from dpcov.noise import log_gas
from dpcov.noise.entropy import SeededEntropy
from dpcov.noise.nuclear import (
    LARGEST_GAUGE_DIMENSION,
    SymmetricLaw,
    nuclear_noise,
    nuclear_singular_values,
    symmetric_nuclear_noise,
    symmetric_nuclear_spectrum,
)

SCALE = 2.0
DRAWS = {10: 400, 30: 100, 100: 20, 300: 5}
GAUGE_DRAWS = {1: 2000, 2: 1000, 3: 600, 10: 60, 30: 8}
SCHATTEN = (1, 2, 4, np.inf)
TIMED = (10, 100, 200, 400, 1000)


def frobenius(spectra):
    return np.sqrt(np.mean(np.sum(spectra**2, axis=1)))


def spectral(spectra):
    return np.mean(np.abs(spectra).max(axis=1))


def sizes():
    print("   d  law       Frobenius  spectral  Frobenius * epsilon / d^1.5")
    for dimension in sorted(DRAWS | GAUGE_DRAWS):
        repeats = DRAWS.get(dimension, GAUGE_DRAWS.get(dimension))
        entropy = SeededEntropy(dimension)
        paper = np.array(
            [nuclear_singular_values(dimension, SCALE, entropy) for _ in range(repeats)]
        )
        print(row(dimension, "paper", paper, paper))
        for law in get_args(SymmetricLaw):
            count = GAUGE_DRAWS.get(dimension, 0) if law == "gauge" else repeats
            if count:
                drawn = [
                    symmetric_nuclear_noise(dimension, SCALE, entropy, law) for _ in range(count)
                ]
                print(row(dimension, law, np.linalg.eigvalsh(drawn), paper), flush=True)


def row(dimension, law, spectra, paper):
    ratios = frobenius(spectra) / frobenius(paper), spectral(spectra) / spectral(paper)
    return (
        f"{dimension:4}  {law:8}  {ratios[0]:9.3f}  {ratios[1]:8.3f}  "
        f"{frobenius(spectra) / dimension**1.5:9.3f}"
    )


def schatten():
    print(
        "   d  p    mean over the paper's  mean * epsilon / d^(1 + 1/p); Theorem 1 of the paper "
        "has 3"
    )
    for dimension in (10, 30, 100):
        entropy = SeededEntropy(dimension)
        samplers = (symmetric_nuclear_spectrum, nuclear_singular_values)
        ours, paper = (
            np.array([draw(dimension, SCALE, entropy) for _ in range(DRAWS[dimension])])
            for draw in samplers
        )
        for p in SCHATTEN:
            sizes = [np.linalg.norm(spectra, p, axis=1).mean() for spectra in (ours, paper)]
            constant = sizes[0] / dimension ** (1 + 1 / p)
            print(
                f"{dimension:4}  {p:<3}  {sizes[0] / sizes[1]:21.3f}  {constant:9.3f}", flush=True
            )


def times():
    print("   d  law       first draw  next draw (CPU seconds, matrix included)")
    for dimension in TIMED:
        entropy = SeededEntropy(dimension)
        given = dimension, SCALE, entropy
        samplers = {
            law: partial(symmetric_nuclear_noise, *given, law) for law in get_args(SymmetricLaw)
        }
        samplers["paper"] = partial(nuclear_noise, *given)
        for law, draw in samplers.items():
            if law == "gauge" and dimension > min(100, LARGEST_GAUGE_DIMENSION):
                continue
            log_gas.prepare.cache_clear()
            print(
                f"{dimension:4}  {law:8}  {seconds(draw):10.3f}  {seconds(draw):9.3f}", flush=True
            )


def releases():
    """Whole releases of rows that fill the outer shells, in seconds of one core."""
    print("   d  matrices  noise  shrinkage (CPU seconds, the first release at a dimension)")
    for dimension, shells in ((200, 1), (200, 9), (1000, 1), (1000, 4), (1000, 8)):
        problem = Problem(n_features=dimension, neighbors="replace-one", n_rows=10**7)
        moments = Moments(dimension, StratifiedNuclear().moments_spec(problem))
        for stratum in moments.strata[:shells]:
            stratum.n_rows = 10**7 // shells
            # Visible in every shell, clear in none: nothing is joined.
            stratum.sscp.add(np.eye(dimension) * float(4**20 * 500), 4**30)
        log_gas.prepare.cache_clear()
        started = time.process_time()
        release = dpcov.second_moment(
            moments,
            budget=dpcov.Budget(epsilon=1),
            mechanism="stratified-nuclear",
            entropy=SeededEntropy(1),
        )
        drawn = time.process_time()
        release.second_moment()
        count = len(release.statistics.arrays["sscp"])
        print(
            f"{dimension:4}  {count:8}  {drawn - started:5.1f}  {time.process_time() - drawn:9.1f}",
            flush=True,
        )


def seconds(draw):
    start = time.process_time()
    draw()
    return time.process_time() - start


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["sizes", "schatten", "times", "releases"]
    for name in wanted:
        {"sizes": sizes, "schatten": schatten, "times": times, "releases": releases}[name]()
