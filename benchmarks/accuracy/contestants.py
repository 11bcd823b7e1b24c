"""Who competes: mechanisms of the registry with the constants and the reading that suit them best."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

import dpcov
from dpcov.artifact import Release
from dpcov.auto import resolve
from dpcov.data.moments import Moments, MomentsSpec
from dpcov.linalg.project import clip_eigenvalues
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.registry import make_mechanism
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget

Matrix = NDArray[np.float64]
Role = Literal["ours", "rival", "plain"]
"""``rival``: one of those whose best is the ratio's denominator.  ``plain``: reported beside it."""


class Contestant(Protocol):
    label: str
    role: Role
    largest_d: int

    def spec(self, problem: Problem, budget: Budget) -> MomentsSpec:
        """Which moments are needed; raises a dpcov error where the contestant does not apply."""

    def estimates(self, moments: Moments, budget: Budget, seed: int) -> dict[str, Matrix]:
        """One release, read in every way that competes; by name of the reading."""


@dataclass(frozen=True, kw_only=True)
class Registered:
    """A mechanism of the registry, or ``auto``, with options; the best of ``posts`` on average counts."""

    label: str
    mechanism: str
    role: Role = "rival"
    options: Mapping[str, Any] = field(default_factory=dict)
    posts: tuple[str, ...] = ("default",)
    largest_d: int = 10_000

    def spec(self, problem: Problem, budget: Budget) -> MomentsSpec:
        if self.mechanism == "auto":
            mechanism = resolve("auto", self.options, problem, budget).make()
        else:
            mechanism = make_mechanism(self.mechanism, self.options)
        mechanism.calibrate(problem, budget)
        return mechanism.moments_spec(problem)

    def release(self, moments: Moments, budget: Budget, seed: int) -> Release:
        return dpcov.second_moment(
            moments,
            budget=budget,
            mechanism=self.mechanism,
            entropy=SeededEntropy(seed),
            **self.options,
        )

    def estimates(self, moments: Moments, budget: Budget, seed: int) -> dict[str, Matrix]:
        made = self.release(moments, budget, seed)
        return {post: made.second_moment(None if post == "default" else post) for post in self.posts}


@dataclass(frozen=True, kw_only=True)
class UpperTriangleGaussian:
    """GaussCov as published: one variance for the whole upper triangle, eigenvalues clipped to [0, 1]."""

    label: str = "gaussian (paper)"
    role: Role = "rival"
    largest_d: int = 10_000

    def spec(self, problem: Problem, budget: Budget) -> MomentsSpec:
        budget.zcdp_rho()
        return MomentsSpec()

    def estimates(self, moments: Moments, budget: Budget, seed: int) -> dict[str, Matrix]:
        generator, truth = np.random.default_rng(seed), true_second_moment(moments)
        upper = np.triu(generator.standard_normal(truth.shape))
        noise = (upper + np.triu(upper, 1).T) / (moments.n_rows * float(budget.zcdp_rho()) ** 0.5)
        return {"clip": clip_eigenvalues(truth + noise, 0.0, 1.0)}


AUTO = Registered(label="auto", mechanism="auto", role="ours")
ISOTROPIC = Registered(
    label="gaussian (isotropic)", mechanism="gaussian", role="plain", posts=("clip", "psd", "projection")
)
SEPARATE = (
    Registered(label="separate", mechanism="separate"),
    Registered(
        label="separate (published)",
        mechanism="separate",
        options={"eigenvalues": "clip", "noise": "entrywise"},
    ),
)
ADAPTIVE = tuple(
    Registered(
        label=f"adaptive ({constants}{', radius' if radius else ''})",
        mechanism="adaptive",
        options={"constants": constants, "radius": radius},
    )
    for constants in ("theory", "tuned")
    for radius in (False, True)
)
ZCDP: tuple[Contestant, ...] = (
    AUTO,
    ISOTROPIC,
    Registered(label="zero", mechanism="zero"),
    UpperTriangleGaussian(),
    *SEPARATE,
    *ADAPTIVE,
    Registered(label="projection", mechanism="projection"),
    Registered(label="eigenvectors", mechanism="eigenvectors", largest_d=64),
)
PURE: tuple[Contestant, ...] = (
    AUTO,
    Registered(label="zero", mechanism="zero"),
    Registered(label="laplace", mechanism="laplace", posts=("clip", "psd", "projection")),
    Registered(label="laplace (paper)", mechanism="laplace", options={"sensitivity": "paper"}, posts=("clip",)),
    *SEPARATE,
    *ADAPTIVE,
    Registered(label="eigenvectors AD", mechanism="eigenvectors", options={"allocation": "adaptive"}, largest_d=64),
    Registered(label="eigenvectors IT-U", mechanism="eigenvectors", options={"allocation": "uniform"}, largest_d=64),
    Registered(label="nuclear", mechanism="nuclear"),
    Registered(label="nuclear (symmetric)", mechanism="nuclear", role="plain", options={"noise": "nuclear"}),
    Registered(label="nuclear-projection", mechanism="nuclear-projection"),
    Registered(label="kapralov-talwar", mechanism="kapralov-talwar", largest_d=200),
)  # fmt: skip
SPARSE: tuple[Contestant, ...] = (
    AUTO,
    *(
        Registered(label=f"thresholding {gamma:g}", mechanism="thresholding", options={"gamma": gamma})
        for gamma in (0.0, 0.01, 0.03, 0.1, 0.3)
    ),
    Registered(label="thresholding by risk", mechanism="thresholding", role="plain"),
)
ROBUSTNESS: tuple[Contestant, ...] = (AUTO, Registered(
    label="gaussian (isotropic)", mechanism="gaussian", posts=("none", "clip", "psd", "projection")
), Registered(label="zero", mechanism="zero", role="plain"))  # fmt: skip


def true_second_moment(moments: Moments) -> Matrix:
    """The exact second moment of rows in the unit ball; sensitive, for measuring errors only."""
    radius, shells = moments.spec.clip, moments.spec.shells
    total = sum(
        stratum.sscp.to_float() * 4.0 ** -(index % shells) for index, stratum in enumerate(moments.strata)
    )
    return np.asarray(total) * radius**2 / 4.0**moments.spec.bits / moments.n_rows
