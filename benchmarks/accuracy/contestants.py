"""Who competes: mechanisms of the registry with the constants and the reading that suit them
best."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import dpcov
from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.mechanisms.auto import Choice, resolve
from dpcov.mechanisms.base import Problem
from dpcov.noise.entropy import SeededEntropy
from dpcov.privacy.budget import Budget
from dpcov.published.release import Release

Matrix = NDArray[np.float64]
Role = Literal["ours", "rival", "improved", "reference"]
"""``rival``: a mechanism as its paper has it, with its best constants; their best is the ratio's
denominator. ``improved``: the same ideas with this package's own noise and post-processing,
reported beside it. ``reference``: drawn, but under another promise, so never compared with."""


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A mechanism of the registry, or ``auto``, with options; the best of ``posts`` on average
    counts.

    Parameters
    ----------
    label, mechanism : str
    role : Role
    options : mapping
        Settings of the mechanism.
    posts : tuple of str
        In which ways its release is read.
    delta : float or None
        Allow this delta beside the budget's epsilon.
    only : str
        Takes part only in groups of populations whose name starts with this.
    largest_d : int
        Above this number of columns a release takes minutes.
    """

    label: str
    mechanism: str
    role: Role = "rival"
    options: Mapping[str, Any] = field(default_factory=dict)
    posts: tuple[str, ...] = ("default",)
    delta: float | None = None
    only: str = ""
    largest_d: int = 10_000

    def budget(self, numbers: Mapping[str, float]) -> Budget:
        """The population's budget with this contestant's delta."""
        extra = {} if self.delta is None else {"delta": self.delta}
        return Budget(**numbers, **extra)

    def choice(self, problem: Problem, budget: Budget) -> Choice:
        """The mechanism with its options; ``auto`` chooses from public numbers, n among them."""
        return resolve(self.mechanism, self.options, problem, budget)

    def spec(self, problem: Problem, budget: Budget) -> MomentsSpec:
        """Which moments are needed; raises a dpcov error where the contestant does not apply."""
        mechanism = self.choice(problem, budget).make()
        mechanism.calibrate(problem, budget)
        return mechanism.moments_spec(problem)

    def release(self, moments: Moments, problem: Problem, budget: Budget, seed: int) -> Release:
        choice = self.choice(problem, budget)
        return dpcov.second_moment(
            moments,
            budget=budget,
            mechanism=choice.mechanism,
            entropy=SeededEntropy(seed),
            accept_large_delta=True,  # Wang et al. take 1/n
            **choice.options,
        )

    def readings(self, made: Release, problem: Problem, budget: Budget) -> dict[str, Matrix]:
        """One release, read in every way that competes."""
        usual = self.choice(problem, budget).post
        return {
            post: made.second_moment(usual if post == "default" else post)  # type: ignore[arg-type]
            for post in self.posts
        }


AUTO = Contestant(label="auto", mechanism="auto", role="ours")
ISOTROPIC = Contestant(
    label="gaussian (isotropic)",
    mechanism="gaussian",
    role="improved",
    posts=("clip", "psd", "projection"),
)
PUBLISHED_GAUSSIAN = Contestant(
    label="gaussian", mechanism="gaussian", options={"noise": "upper-triangle"}, posts=("clip",)
)
ENTRYWISE = {"eigenvalues": "clip", "noise": "entrywise"}


def adaptives(role: Role, options: Mapping[str, Any]) -> tuple[Contestant, ...]:
    """Both constants, with and without the search for a radius."""
    return tuple(
        Contestant(
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


def gaussian_references(only: str) -> tuple[Contestant, ...]:
    """The (epsilon, delta) curves of Amin et al., figure 1 (b)."""
    return tuple(
        Contestant(
            label=f"G-{power}",
            mechanism="gaussian",
            role="reference",
            options={"noise": "upper-triangle"},
            posts=("clip",),
            delta=10.0**-power,
            only=only,
        )
        for power in (16, 10, 3)
    )


SHARED: tuple[Contestant, ...] = (
    AUTO,
    Contestant(label="zero", mechanism="zero"),
    Contestant(label="separate", mechanism="separate", options=ENTRYWISE),
    Contestant(label="separate improved", mechanism="separate", role="improved"),
    *adaptives("rival", ENTRYWISE),
    *adaptives("improved", {}),
)
"""Those that honor every kind of budget."""

ZCDP: tuple[Contestant, ...] = (
    *SHARED,
    PUBLISHED_GAUSSIAN,
    ISOTROPIC,
    Contestant(
        label="projection",
        mechanism="gaussian",
        options={"noise": "upper-triangle"},
        posts=("projection",),
    ),
    Contestant(label="projection improved", mechanism="projection", role="improved"),
    Contestant(label="eigenvectors", mechanism="eigenvectors"),
)
PURE: tuple[Contestant, ...] = (
    *SHARED,
    Contestant(label="laplace", mechanism="laplace", posts=("clip", "psd")),
    Contestant(
        label="laplace (paper)",
        mechanism="laplace",
        options={"sensitivity": "paper"},
        posts=("clip",),
    ),
    Contestant(label="projection improved", mechanism="projection", role="improved"),
    Contestant(
        label="eigenvectors AD", mechanism="eigenvectors", options={"allocation": "adaptive"}
    ),
    Contestant(
        label="eigenvectors IT-U", mechanism="eigenvectors", options={"allocation": "uniform"}
    ),
    Contestant(label="nuclear", mechanism="nuclear"),
    Contestant(
        label="nuclear improved", mechanism="nuclear", role="improved", options={"noise": "nuclear"}
    ),
    Contestant(label="nuclear-projection", mechanism="nuclear-projection"),
    Contestant(label="kapralov-talwar", mechanism="kapralov-talwar"),
    *gaussian_references("Amin"),
)
SPARSE: tuple[Contestant, ...] = (
    AUTO,
    *(
        Contestant(
            label=f"thresholding {gamma:g}", mechanism="thresholding", options={"gamma": gamma}
        )
        for gamma in (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
    ),
    Contestant(label="thresholding by risk", mechanism="thresholding", role="improved"),
)
ROBUSTNESS: tuple[Contestant, ...] = (
    AUTO,
    Contestant(label="gaussian (isotropic)", mechanism="gaussian", posts=("none", "clip", "psd")),
    Contestant(label="zero", mechanism="zero", role="improved"),
)
