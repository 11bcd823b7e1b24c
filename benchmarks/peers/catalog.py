"""Who takes part: peers, their methods with what each promises, and the samplers whose law is
checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import log, sqrt
from pathlib import Path
from typing import Any, Literal

from benchmarks.peers import laws
from benchmarks.peers.laws import Law
from dpcov.privacy.calibrate import gaussian_noise_multiplier

Kind = Literal["second moment", "components", "covariance"]

EPSILON = 1.0
DELTA = 1e-6
OURS = "dpcov"
_HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A library with a worker; this project's own needs no environment."""

    name: str
    worker: str

    @property
    def requirements(self) -> Path | None:
        return None if self.name == OURS else _HERE / f"requirements-{self.name}.txt"

    @property
    def script(self) -> Path:
        return _HERE / "workers" / self.worker


@dataclass(frozen=True, kw_only=True)
class Method:
    """One line of the comparison.

    Parameters
    ----------
    peer, call : str
        The library, and the name its worker knows.
    label : str
        Unique.
    kind : Kind
        What it estimates.
    promise : str
        What its documentation promises, with our reading of the code.
    delta : bool
        Whether it gets DELTA beside EPSILON.
    """

    peer: str
    call: str
    label: str
    kind: Kind
    promise: str
    delta: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """A sampler and the law that it claims."""

    peer: str
    call: str
    label: str
    law: Callable[[], Law]
    size: int = 100_000
    quick_size: int = 20_000
    arguments: Mapping[str, Any] = field(default_factory=dict)
    suspect: Callable[[], Law] | None = None


PEERS = (
    Peer(name=OURS, worker="use_dpcov.py"),
    Peer(name="diffprivlib", worker="use_diffprivlib.py"),
    Peer(name="opendp", worker="use_opendp.py"),
    Peer(name="smartnoise", worker="use_smartnoise.py"),
)

_EXACT = "pure epsilon, one row replaced; idealized (continuous noise)"
_FLOATING = "pure epsilon, one row replaced; floating point"

METHODS = (
    Method(
        peer=OURS, call="second_moment", label="dpcov auto", kind="second moment", promise=_EXACT
    ),
    Method(
        peer=OURS,
        call="second_moment",
        label="dpcov eigenvectors",
        kind="second moment",
        promise=f"{_EXACT}; Amin et al.",
        options={"mechanism": "eigenvectors"},
    ),
    Method(
        peer="diffprivlib",
        call="covariance_eig",
        label="diffprivlib covariance_eig",
        kind="second moment",
        promise=f"{_FLOATING}; Amin et al., but its sampler breaks the law that the proof needs",
    ),
    Method(
        peer="opendp",
        call="eigendecomposition",
        label="OpenDP eigendecomposition",
        kind="second moment",
        promise=f"{_FLOATING} (idealized-numerics); Amin et al., but its sampler breaks the law "
        f"that the proof needs",
    ),
    Method(
        peer=OURS,
        call="components",
        label="dpcov auto, components",
        kind="components",
        promise=_EXACT,
    ),
    Method(
        peer=OURS,
        call="components",
        label="dpcov auto, components, delta",
        kind="components",
        delta=True,
        promise="epsilon and delta, one row replaced; exact",
    ),
    Method(
        peer="diffprivlib",
        call="PCA",
        label="diffprivlib PCA",
        kind="components",
        promise=f"{_FLOATING}; rows declared as centered; sampler as above",
    ),
    Method(
        peer="opendp",
        call="PCA",
        label="OpenDP PCA",
        kind="components",
        promise=f"{_FLOATING} (idealized-numerics); origin known; sampler as above",
    ),
    Method(
        peer="opendp",
        call="PCA estimator",
        label="OpenDP PCA estimator",
        kind="components",
        promise="as OpenDP PCA, with a mean; its epsilon is doubled for a replaced row",
    ),
    Method(
        peer=OURS,
        call="covariance",
        label="dpcov auto, covariance",
        kind="covariance",
        promise=_EXACT,
    ),
    Method(
        peer=OURS,
        call="covariance",
        label="dpcov auto, covariance, delta",
        kind="covariance",
        delta=True,
        promise="epsilon and delta, one row replaced; exact",
    ),
    Method(
        peer="smartnoise",
        call="dp_covariance",
        label="SmartNoise, snapping",
        kind="covariance",
        promise="pure epsilon, one row replaced; floating point protected by snapping (its "
        "default)",
        options={"mechanism": "Automatic"},
    ),
    Method(
        peer="smartnoise",
        call="dp_covariance",
        label="SmartNoise, Laplace",
        kind="covariance",
        promise=_FLOATING,
        options={"mechanism": "Laplace"},
    ),
    Method(
        peer="smartnoise",
        call="dp_covariance",
        label="SmartNoise, analytic Gaussian",
        kind="covariance",
        delta=True,
        options={"mechanism": "AnalyticGaussian"},
        promise="epsilon and delta, one row replaced; floating point; spends more delta than it "
        "is asked for",
    ),
)

CONCENTRATION = 5.0
_CIRCLE = {
    "law": lambda: laws.bingham(CONCENTRATION),
    "suspect": lambda: laws.inverted_bingham(CONCENTRATION),
}
_SMARTNOISE_ROWS, _SMARTNOISE_COLUMNS = 500, 4


def _smartnoise(noise: Callable[[float], Law], d: int) -> Callable[[], Law]:
    """Sensitivity 2 / n and an equal share of epsilon for each of the d (d + 1) / 2 entries, as its
    code says."""
    shares = d * (d + 1) / 2
    return lambda: noise(2 / _SMARTNOISE_ROWS * shares / EPSILON)


SAMPLERS = (
    Sampler(
        peer=OURS,
        call="sample_binghams",
        label="dpcov sample_binghams",
        arguments={"concentration": CONCENTRATION},
        **_CIRCLE,
    ),
    Sampler(
        peer=OURS,
        call="gaussian, off the diagonal",
        label="dpcov gaussian, off the diagonal",
        arguments={"rho": 0.5, "d": 50},
        law=lambda: laws.gaussian(sqrt(2) * sqrt(0.5)),
    ),
    Sampler(
        peer=OURS,
        call="gaussian, diagonal",
        label="dpcov gaussian, diagonal",
        size=20_000,
        quick_size=5_000,
        arguments={"rho": 0.5, "d": 50},
        law=lambda: laws.gaussian(sqrt(2)),
    ),
    Sampler(
        peer="diffprivlib",
        call="Bingham",
        label="diffprivlib Bingham",
        size=20_000,
        quick_size=4_000,
        arguments={"concentration": CONCENTRATION},
        **_CIRCLE,
    ),
    Sampler(
        peer="diffprivlib",
        call="Laplace",
        label="diffprivlib Laplace",
        arguments={"scale": 2.0},
        law=lambda: laws.laplace(2.0),
    ),
    Sampler(
        peer="diffprivlib",
        call="LaplaceBoundedDomain",
        label="diffprivlib LaplaceBoundedDomain",
        arguments={"epsilon": 1.0, "sensitivity": 2.0, "value": 0.5},
        law=lambda: laws.bounded_laplace(1.0, 2.0, 0.5),
    ),
    Sampler(
        peer="diffprivlib",
        call="GaussianAnalytic",
        label="diffprivlib GaussianAnalytic",
        arguments={"epsilon": 1.0, "delta": 1e-6},
        law=lambda: laws.gaussian(float(gaussian_noise_multiplier(Fraction(1), Fraction("1e-6")))),
    ),
    Sampler(
        peer="opendp",
        call="eigenvector",
        label="OpenDP eigenvector",
        size=10_000,
        quick_size=2_000,
        arguments={"concentration": CONCENTRATION},
        **_CIRCLE,
    ),
    Sampler(
        peer="opendp",
        call="make_laplace",
        label="OpenDP make_laplace",
        arguments={"scale": 2.0},
        law=lambda: laws.laplace(2.0),
    ),
    Sampler(
        peer="opendp",
        call="make_gaussian",
        label="OpenDP make_gaussian",
        arguments={"scale": 2.0},
        law=lambda: laws.gaussian(2.0),
    ),
    Sampler(
        peer="smartnoise",
        call="noise of dp_covariance",
        label="SmartNoise dp_covariance, Laplace",
        size=20_000,
        quick_size=2_000,
        law=_smartnoise(laws.laplace, _SMARTNOISE_COLUMNS),
        arguments={
            "epsilon": EPSILON,
            "mechanism": "Laplace",
            "n": _SMARTNOISE_ROWS,
            "d": _SMARTNOISE_COLUMNS,
        },
    ),
    Sampler(
        peer="smartnoise",
        call="noise of dp_covariance",
        label="SmartNoise dp_covariance, Gaussian, one column",
        size=5_000,
        quick_size=500,
        law=_smartnoise(lambda s: laws.gaussian(s * sqrt(2 * log(1.25 / DELTA))), 1),
        arguments={
            "epsilon": EPSILON,
            "delta": DELTA,
            "mechanism": "Gaussian",
            "n": _SMARTNOISE_ROWS,
            "d": 1,
        },
    ),
)
