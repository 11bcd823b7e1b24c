"""Time the sequential sampler of eigenvectors: seconds, growth exponent and proposals per draw.

Run: ``python benchmarks/speed/eigenvectors.py [n_features ...]``.
"""

import math
import sys
import time
from unittest import mock

import numpy as np

from dpcov.noise import eigenvectors
from dpcov.noise.entropy import SeededEntropy

N_ROWS = 50_000
RHO = 0.1

SPECTRA = {
    "power law, exponent 4": lambda d: N_ROWS * np.arange(1, d + 1) ** -4.0,
    "power law, exponent 1": lambda d: N_ROWS * np.arange(1, d + 1) ** -1.0,
    "flat": lambda d: np.full(d, N_ROWS / d),
    "every gap far above the noise": lambda d: 1e4 / exponent(d) * np.linspace(0.0, 1.0, d),
}


def exponent(n_features):
    """Half of the epsilon that each direction gets when rho is split evenly and range epsilon costs
    epsilon**2/8."""
    return 0.5 * math.sqrt(8 * RHO / (n_features - 1))


def rotated(eigenvalues):
    size = len(eigenvalues)
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((size, size)))[0]
    matrix = (basis * eigenvalues) @ basis.T
    return (matrix + matrix.T) / 2


def seconds(sscp, repeats=3):
    exponents = np.full(len(sscp) - 1, exponent(len(sscp)))
    best = math.inf
    for seed in range(repeats):
        start = time.perf_counter()
        eigenvectors.sample_eigenvectors(sscp, exponents, SeededEntropy(seed))
        best = min(best, time.perf_counter() - start)
    return best


class Counter:
    """Watch one run: acceptance probabilities of all proposals, and how often the envelope is
    tuned."""

    def __init__(self):
        self.accepted, self.proposed, self.tuned = 0.0, 0, 0

    def acceptance(self, ratio, dimension):
        probabilities = ACCEPTANCE(ratio, dimension)
        self.accepted += probabilities.sum()
        self.proposed += probabilities.size
        return probabilities

    def tuned_envelope(self, compressed, exponent):
        self.tuned += 1
        return TUNED_ENVELOPE(compressed, exponent)


ACCEPTANCE, TUNED_ENVELOPE = eigenvectors.acceptance, eigenvectors._tuned_envelope


def counted(sscp):
    counter = Counter()
    watched = {"acceptance": counter.acceptance, "_tuned_envelope": counter.tuned_envelope}
    with mock.patch.multiple(eigenvectors, **watched):
        seconds(sscp, repeats=1)
    return counter


def main(sizes):
    for name, spectrum in SPECTRA.items():
        print(
            f"\n{name}\n{'d':>6} {'seconds':>9} {'growth':>7} {'proposals/draw':>15} {'tunings':>8}"
        )
        before = None
        for size in sizes:
            sscp = rotated(spectrum(size))
            taken, counter = seconds(sscp), counted(sscp)
            growth = (
                ""
                if before is None
                else f"{math.log(taken / before[1]) / math.log(size / before[0]):.2f}"
            )
            before = (size, taken)
            print(
                f"{size:6d} {taken:9.3f} {growth:>7} {counter.proposed / counter.accepted:15.2f} "
                f"{counter.tuned:8d}"
            )


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [50, 100, 200, 400, 800])
