"""A private trace with an upper bound that holds with a stated probability.

Privacy
-------
Guarantee : that of the noise, made for a statistic of sensitivity :func:`~.sensitivity.scalar`: each row adds a number
    in [0, 1], its squared norm.  Numerics : idealized.  Proof : blocks.md, Lemma 1.

References
----------
Dong, Liang, Yi (2022), Algorithm 2, line 4.
"""

from dataclasses import dataclass

from dpcov.mechanisms.blocks.additive_noise import AdditiveNoise
from dpcov.noise.entropy import Entropy


@dataclass(frozen=True, kw_only=True)
class PrivateTrace:
    """A noisy trace.

    Parameters
    ----------
    estimate : float
        Unbiased.
    upper : float
        At least the trace with probability at least 1 - beta; never negative.
    """

    estimate: float
    upper: float


def private_trace(
    trace: float, noise: AdditiveNoise, *, beta: float, largest: float, entropy: Entropy
) -> PrivateTrace:
    """Release the trace of an sscp.

    Parameters
    ----------
    trace : float
        **Sensitive** sum of the rows' squared norms.
    noise : AdditiveNoise
        Made for the trace's sensitivity.
    beta : float
        Probability that the upper bound fails.
    largest : float
        Public bound on the trace.
    entropy : Entropy

    Examples
    --------
    >>> from dpcov.noise.entropy import SystemEntropy
    >>> noise = AdditiveNoise(law="laplace", scale=1.0)
    >>> private_trace(500.0, noise, beta=0.05, largest=1000.0, entropy=SystemEntropy()).upper <= 1000.0
    True
    """
    estimate = trace + float(noise.draw(1, entropy)[0])
    return PrivateTrace(
        estimate=estimate, upper=max(0.0, min(estimate + noise.upper_bound(beta), largest))
    )
