"""The laws that samplers claim, and the verdict whether their samples follow them.

A sampler that follows its law is accused with probability ALPHA at most (Kolmogorov-Smirnov).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, optimize, stats

Array = NDArray[np.float64]
ALPHA = 1e-9


@dataclass(frozen=True, kw_only=True)
class Law:
    """A continuous law by its distribution function.

    Parameters
    ----------
    text : str
        The law in words.
    cdf : callable
        Distribution function.
    mean_of : tuple of (str, callable, float)
        Name of a statistic, the statistic itself, its expectation; shown beside the measured mean.
    """

    text: str
    cdf: Callable[[Array], Array]
    mean_of: tuple[str, Callable[[Array], Array], float]


@dataclass(frozen=True, kw_only=True)
class LawVerdict:
    """Whether samples follow a law; ``instead`` names a suspected law that they do follow."""

    follows: bool
    p_value: float
    distance: float
    size: int
    measured: float
    claimed: float
    instead: str = ""


def judge(samples: Array, law: Law, suspect: Law | None = None) -> LawVerdict:
    """Compare samples with the law that is claimed, and where they break it with a suspected
    one."""
    found = stats.kstest(samples, law.cdf)
    follows = bool(found.pvalue >= ALPHA)
    explained = (
        suspect is not None and not follows and stats.kstest(samples, suspect.cdf).pvalue >= ALPHA
    )
    _, statistic, claimed = law.mean_of
    return LawVerdict(
        follows=follows,
        p_value=float(found.pvalue),
        distance=float(found.statistic),
        size=len(samples),
        measured=float(statistic(samples).mean()),
        claimed=claimed,
        instead=suspect.text if explained and suspect is not None else "",
    )


def bingham(concentration: float) -> Law:
    """Law of u_1**2 on the circle under density exp(concentration * u_1**2): what the exponential
    mechanism claims."""
    return _on_circle("Bingham", concentration, inverted=False)


def inverted_bingham(concentration: float) -> Law:
    """Law of u_1**2 when the rejection sampler divides by the proposal's factor where it has to
    multiply.

    Proposals have density (u'Wu)**(-d/2), W = I + 2 A / b, and should be kept with probability
    proportional to exp(-u'Au) (u'Wu)**(d/2). Kept with exp(-u'Au) (u'Wu)**(-d/2), they have density
    exp(-u'Au) (u'Wu)**(-d).
    """
    return _on_circle("Bingham with the acceptance inverted", concentration, inverted=True)


@cache
def _on_circle(name: str, concentration: float, *, inverted: bool) -> Law:
    """With u_1 = cos t and A = diag(0, concentration): u'Au = concentration sin(t)**2, d = 2."""
    angle = np.linspace(0.0, np.pi / 2, 200_001)
    sines = np.sin(angle) ** 2
    density = np.exp(-concentration * sines)
    if inverted:
        density *= (1 + 2 * concentration / _width(concentration) * sines) ** -2.0
    mass = integrate.cumulative_trapezoid(density, angle, initial=0.0)
    mean = float(integrate.trapezoid(density * (1 - sines), angle) / mass[-1])

    def cdf(squared: Array) -> Array:
        """P(u_1**2 <= s) = P(t >= arccos(sqrt(s)))."""
        return 1 - np.interp(np.arccos(np.sqrt(np.clip(squared, 0, 1))), angle, mass / mass[-1])

    return Law(text=name, cdf=cdf, mean_of=("mean of u_1^2", lambda values: values, mean))


def _width(concentration: float) -> float:
    """The b that both libraries tune to: 1 / b + 1 / (b + 2 concentration) = 1."""
    half = concentration - 1
    return sqrt(half**2 + 2 * concentration) - half


def laplace(scale: float) -> Law:
    return _noise(
        f"Laplace, scale {scale:.4g}", stats.laplace(scale=scale).cdf, "mean |x|", np.abs, scale
    )


def gaussian(noise_std: float) -> Law:
    return _noise(
        f"Gaussian, standard deviation {noise_std:.4g}",
        stats.norm(scale=noise_std).cdf,
        "mean x^2",
        np.square,
        noise_std**2,
    )


def bounded_laplace(epsilon: float, sensitivity: float, value: float) -> Law:
    """Laplace noise conditioned on a result of at least 0, with the smallest scale that is
    epsilon-DP.

    The densities at q and q' differ by a factor of at most exp(|q - q'| / b) (2 - exp(-|q - q'| /
    b)), attained at 0.
    """
    scale = optimize.brentq(
        lambda b: sensitivity / b + log(2 - exp(-sensitivity / b)) - epsilon,
        sensitivity / epsilon,
        1e3,
    )
    plain = stats.laplace(loc=value, scale=scale)
    below = float(plain.cdf(0.0))

    def cdf(x: Array) -> Array:
        return np.clip((plain.cdf(x) - below) / (1 - below), 0, 1)

    mean = float(
        integrate.quad(lambda x: 1 - float(cdf(np.asarray(x))), 0, 60 * scale, limit=200)[0]
    )
    return _noise(
        f"Laplace on [0, inf) around {value:g}, scale {scale:.4g}", cdf, "mean x", lambda x: x, mean
    )


def _noise(
    text: str,
    cdf: Callable[[Array], Array],
    name: str,
    statistic: Callable[[Array], Array],
    expected: float,
) -> Law:
    return Law(text=text, cdf=cdf, mean_of=(name, statistic, float(expected)))
