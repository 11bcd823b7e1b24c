"""Time the lattice samplers beside OpenDP's, on one core, in one run.

Run: ``python -m benchmarks.speed.noise``.
"""

import os
from fractions import Fraction

import numpy as np

from benchmarks.speed.timing import interleaved
from dpcov.noise.entropy import SystemEntropy
from dpcov.noise.lattice import discrete_laplace, rounded_gaussian

STDS = [Fraction(1, 2), Fraction(1), Fraction(3), Fraction(2**20), Fraction(2**40)]
OURS_SIZE = 1 << 21
THEIRS_SIZE = 1 << 14


def rate(draw, size):
    """Return the best number of draws per second of three repeats."""
    draw(16)
    return size / interleaved(lambda: draw(size), rounds=3)[0]


def opendp_sampler(name, std):
    """Return a function that draws from OpenDP's exact sampler."""
    import opendp.prelude as opendp

    opendp.enable_features("contrib")
    domain = opendp.vector_domain(opendp.atom_domain(T="i64"))
    if name == "discrete Laplace":
        measurement = opendp.m.make_laplace(domain, opendp.l1_distance(T="i64"), scale=float(std))
    else:
        measurement = opendp.m.make_gaussian(domain, opendp.l2_distance(T="f64"), scale=float(std))
    return lambda size: np.array(measurement([0] * size))


def samplers(std, entropy):
    """Yield the name of each law with a function that draws from it."""
    yield "rounded Gaussian", lambda size: rounded_gaussian(std**2, size, entropy)
    yield "discrete Laplace", lambda size: discrete_laplace(std, size, entropy)


def main():
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(
        "Draws per second on one core.  The rounded Gaussian is compared with OpenDP's discrete "
        "Gaussian."
    )
    print(f"{'law':<18} {'std or scale':>13} {'dpcov':>13} {'OpenDP':>10} {'ratio':>7}")
    entropy = SystemEntropy()
    for std in STDS:
        for name, draw in samplers(std, entropy):
            ours, theirs = rate(draw, OURS_SIZE), rate(opendp_sampler(name, std), THEIRS_SIZE)
            print(
                f"{name:<18} {float(std):>13g} {ours:>13,.0f} {theirs:>10,.0f} "
                f"{ours / theirs:>7.0f}"
            )


if __name__ == "__main__":
    main()
