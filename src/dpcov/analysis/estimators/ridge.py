"""Fit ridge regressions to a release, with the penalty chosen from it.

The penalty is in encoded units: every column, target included, is divided by its public scale, half
the width of its bounds or what a survey found, and the objective is a mean over rows.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dpcov.analysis.estimators import ridge_path
from dpcov.analysis.estimators.linear_model import LinearModel
from dpcov.analysis.estimators.ridge_path import Probe, RidgeProblem
from dpcov.analysis.features import Columns
from dpcov.analysis.problems import UNKNOWN_PENALTY, UnknownNoiseError, check_penalty, warn_noise
from dpcov.published.estimate.unit import STEP
from dpcov.published.file.columns import half_ranges_of
from dpcov.published.linalg.symmetric import Array
from dpcov.published.reading.encoded import noise_of
from dpcov.published.reading.rows import on_one_thread
from dpcov.published.words.design import known_design


@dataclass(eq=False, repr=False)
class PrivateRidge(LinearModel):
    """Ridge regression whose penalty is chosen from the release itself.

    Minimizes the mean over rows of (y − x'w − b)² + alpha · |w|², in encoded units: alpha is that
    of ``sklearn.linear_model.Ridge`` on columns divided by their half ranges, over ``n_rows``.

    Parameters
    ----------
    alpha : float or "auto"
        ``"auto"`` takes the penalty with the lowest estimated risk on new rows: the larger of
        ``risk_path_`` and what the matrix that the model is fitted to says, with one deviation of
        the noise on it (docs/analysis.md).

    Attributes
    ----------
    alpha_ : float or (n_targets,) float64
        The penalty in use.
    alphas_, risk_path_ : (n_alphas,) and (n_targets, n_alphas) float64
        The path, ascending, from the noise and the spectrum; and along it the estimated mean
        squared error on new rows, in original units, NaN where the noise has no law: that of the
        noisy matrix, plus the cross term by which a model follows the noise, which the published
        law of the noise tells without any data.
    """

    alpha: float | Literal["auto"] = "auto"
    _r2_words: ClassVar[str] = "R², new rows"

    def _check(self, columns: Columns, unasked: str | None) -> None:
        super()._check(columns, unasked)
        check_penalty(self.alpha)

    def _solve(self, problems: list[RidgeProblem]) -> list[Array]:
        noise = noise_of(self.release_)
        is_normal = noise is not None and noise.laplace_part == 0.0
        is_mapped = is_normal and self.release_.frame.is_mapped
        self.alphas_ = ridge_path.default_alphas(problems[0], self.noise_edge_, is_mapped=is_mapped)
        half_ranges = half_ranges_of(self._goals)
        is_auto, among = self.alpha == "auto", len(self.alphas_)
        tried = self.alphas_ if is_auto else np.append(self.alphas_, float(self.alpha))
        risks = self._risks(problems, tried)
        self.risk_path_ = risks[:, :among] * half_ranges[:, None] ** 2
        # What is below the matrix's own word is low by chance.
        likely = np.maximum(risks, self._own_risks(problems, tried))
        chosen = np.full(len(problems), among)
        if is_auto:
            # The largest of several that serve as well, or of all where rows are worth none.
            chosen = among - 1 - (likely + self._risk_noise(problems))[:, ::-1].argmin(axis=1)
        self._penalties = tried[chosen].tolist()
        self._new_squares: list[float] = likely[np.arange(len(problems)), chosen].tolist()
        self.alpha_: Any = self._flattened(self._penalties)
        if problems[0].scaled(self._units.evening).spectrum[0][-1] <= self.noise_edge_:
            warn_noise(
                "All directions of the features, and so the coefficients, may be noise alone."
            )
        return [p.weights(alpha) for p, alpha in zip(problems, self._penalties, strict=True)]

    def _mean_squares(self) -> list[float]:
        # On new rows, the noise that the model follows counted.
        return self._new_squares

    def _own_risks(self, problems: list[RidgeProblem], alphas: Array) -> Array:
        """What the moments say of models fitted to them, (n_targets, n_alphas): rarely too much."""
        worth = self._worth
        return np.array([ridge_path.risks(p, p.moment, alphas, worth) for p in problems])

    @property
    def _worth(self) -> float:
        """Independent rows of one weight that the rows are worth."""
        design = known_design(self.release_)
        return self.release_.n_rows / (1.0 if design is None else design.effect)

    def _risks(self, problems: list[RidgeProblem], alphas: Array) -> Array:
        """Unbiased, (n_targets, n_alphas)."""
        noise = noise_of(self.release_)
        if noise is None:
            if self.alpha == "auto":
                raise UnknownNoiseError(UNKNOWN_PENALTY)
            return np.full((len(problems), len(alphas)), np.nan)
        read, worth = self._used, self._worth
        raw = self.release_.present_moment("none", self.missing, read)
        probes = list(self.release_.noise_probes(self.post, self.missing, read))
        found = []
        for p in problems:
            around = [Probe(noise, p.at(after), p.at(before)) for noise, after, before in probes]
            cross = ridge_path.cross_terms(around, alphas, STEP)
            found.append(ridge_path.risks(p, raw, alphas, worth, cross))
        return np.array(found)

    def _risk_noise(self, problems: list[RidgeProblem]) -> Array:
        # Of u'Wu, isotropic where the noise was added: sqrt(2 v) |u|^2.
        noise, maps = noise_of(self.release_), self.release_.moment_maps
        assert noise is not None
        u = np.array([p.error_directions(p.path(self.alphas_)) for p in problems])
        found = [
            2 * law.entries.off_diagonal * np.sum((u @ own) ** 2, axis=2) ** 2
            for law, own in zip(noise.alone(), maps, strict=True)
        ]
        return np.asarray(np.sqrt(sum(found)))

    @on_one_thread
    def coef_path(self) -> Array:
        """Coefficients in original units for ``alphas_``, (n_targets, n_alphas, p) float64."""
        self._require_fitted()
        paths = [p.path(self.alphas_) for p in self._problems]
        return np.array([[self._original(k, w)[0] for w in path] for k, path in enumerate(paths)])
