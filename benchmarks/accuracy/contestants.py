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
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.registry import make_mechanism
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget

Matrix = NDArray[np.float64]
Role = Literal["ours", "rival", "improved"]
"""``rival``: a mechanism as its paper has it, with its best constants; their best is the ratio's denominator.
``improved``: the same ideas with this package's own noise and post-processing, reported beside it."""


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


AUTO = Registered(label="auto", mechanism="auto", role="ours")
ISOTROPIC = Registered(
    label="gaussian (isotropic)", mechanism="gaussian", role="improved", posts=("clip", "psd", "projection")
)
PUBLISHED_GAUSSIAN = Registered(
    label="gaussian", mechanism="gaussian", options={"noise": "upper-triangle"}, posts=("clip",)
)
ENTRYWISE = {"eigenvalues": "clip", "noise": "entrywise"}


def adaptives(role: Role, options: Mapping[str, Any]) -> tuple[Contestant, ...]:
    """Both constants, with and without the search for a radius."""
    return tuple(
        Registered(
            label=" ".join(
                ["adaptive", constants, *["radius"] * radius, *["improved"] * (role == "improved")]
            ),
            mechanism="adaptive",
            role=role,
            options={"constants": constants, "radius": radius, **options},
        )
        for constants in ("theory", "tuned")
        for radius in (False, True)
    )


SHARED: tuple[Contestant, ...] = (
    AUTO,
    Registered(label="zero", mechanism="zero"),
    Registered(label="separate", mechanism="separate", options=ENTRYWISE),
    Registered(label="separate improved", mechanism="separate", role="improved"),
    *adaptives("rival", ENTRYWISE),
    *adaptives("improved", {}),
)
"""Those that honor every kind of budget."""

ZCDP: tuple[Contestant, ...] = (
    *SHARED,
    PUBLISHED_GAUSSIAN,
    ISOTROPIC,
    Registered(
        label="projection", mechanism="gaussian", options={"noise": "upper-triangle"}, posts=("projection",)
    ),
    Registered(label="projection improved", mechanism="projection", role="improved"),
    Registered(label="eigenvectors", mechanism="eigenvectors", largest_d=200),
)
PURE: tuple[Contestant, ...] = (
    *SHARED,
    Registered(label="laplace", mechanism="laplace", posts=("clip", "psd")),
    Registered(label="laplace (paper)", mechanism="laplace", options={"sensitivity": "paper"}, posts=("clip",)),
    Registered(label="projection improved", mechanism="projection", role="improved"),
    Registered(label="eigenvectors AD", mechanism="eigenvectors", options={"allocation": "adaptive"}, largest_d=200),
    Registered(label="eigenvectors IT-U", mechanism="eigenvectors", options={"allocation": "uniform"}, largest_d=200),
    Registered(label="nuclear", mechanism="nuclear"),
    Registered(label="nuclear improved", mechanism="nuclear", role="improved", options={"noise": "nuclear"}),
    Registered(label="nuclear-projection", mechanism="nuclear-projection"),
    Registered(label="kapralov-talwar", mechanism="kapralov-talwar", largest_d=200),
)  # fmt: skip
SPARSE: tuple[Contestant, ...] = (
    AUTO,
    *(
        Registered(label=f"thresholding {gamma:g}", mechanism="thresholding", options={"gamma": gamma})
        for gamma in (0.0, 0.01, 0.03, 0.1, 0.3)
    ),
    Registered(label="thresholding by risk", mechanism="thresholding", role="improved"),
)
ROBUSTNESS: tuple[Contestant, ...] = (AUTO, Registered(
    label="gaussian (isotropic)", mechanism="gaussian", posts=("none", "clip", "psd")
), Registered(label="zero", mechanism="zero", role="improved"))  # fmt: skip


def true_second_moment(moments: Moments) -> Matrix:
    """The exact second moment of rows in the unit ball; sensitive, for measuring errors only."""
    radius, shells = moments.spec.clip, moments.spec.shells
    total = sum(
        stratum.sscp.to_float() * 4.0 ** -(index % shells) for index, stratum in enumerate(moments.strata)
    )
    return np.asarray(total) * radius**2 / 4.0**moments.spec.bits / moments.n_rows
