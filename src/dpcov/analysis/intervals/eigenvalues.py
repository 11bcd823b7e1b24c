"""Give intervals for eigenvalues by simulation of sampling and noise, the same every time.

For each eigenvalue, candidates are put in its place, noise and sampling are simulated (a parametric
bootstrap, Ferrando, Wang and Sheldon 2022), and the candidates are kept for which the eigenvalue in
the release is within reach of the simulated ones (docs/inference.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Literal, NamedTuple

import numpy as np

from dpcov.analysis.intervals.law import MomentLaw
from dpcov.analysis.intervals.table import Interval
from dpcov.published.estimate.scaled_down import error_at
from dpcov.published.file.columns import half_ranges_of
from dpcov.published.linalg.symmetric import Array, Places

Scaling = Literal["original", "encoded", "correlation"]

# Of simulated deviations: eigenvectors and other eigenvalues are estimated too (measured).
INFLATION = 1.1
N_UNBIASING = 2
# Four deviations of a normal law, which hundreds of draws do not reach, over the distance from the
# middle that half of them have.
_FAR = 4 / 0.67449
# Further candidates between the last one within reach and the first beyond.
N_REFINED = 2
# Numbers of simulated matrices that are in memory at once.
_AT_ONCE = 16_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Spectrum:
    """A noisy covariance, with simulated noise and sampling in the basis of its eigenvectors."""

    # In scaled units, (p, p), perhaps indefinite; and simulated noise on it, (draws, p, p).
    covariance: Array
    noise: Array
    # Symmetric normal matrices to put a root of the covariance around, divided by sqrt(n).
    sampling: Array
    # Factor of each column for tails heavier than the normal law's, (p,).
    spread: Array
    # Whether eigenvalues are those of the correlations.
    normalized: bool
    # Bounds B of the centered columns, and 1/n, or 0 where tails are guessed: along a unit vector v
    # the square of a row has at most the variance lambda (L - lambda), L = (sum |v| B)**2.
    worst: tuple[Array, float]

    @cached_property
    def system(self) -> tuple[Array, Array]:
        """Eigenvalues of the release, decreasing, and eigenvectors."""
        values, vectors = np.linalg.eigh(self._units(self.covariance))
        return values[::-1], vectors[:, ::-1]

    def simulated(self, values: Array, *, sampling: bool = True) -> Array:
        """Noisy eigenvalues, (draws, p) decreasing, with the release's eigenvectors."""
        root = self.system[1] * np.sqrt(values)
        made = self.noise + root @ root.T
        if sampling:
            made += self._sampled(root)
        return _near_the_middle(np.asarray(np.linalg.eigvalsh(self._units(made))[:, ::-1]))

    @property
    def sampled(self) -> Array:
        """What sampling adds to the covariance, (draws, p, p)."""
        values, vectors = self.system
        return self._sampled(vectors * np.sqrt(np.maximum(values, 0.0)))

    def _sampled(self, root: Array) -> Array:
        if not self.sampling.any():
            return np.zeros_like(self.noise)
        around = self.spread[:, None] * root
        return np.asarray(around @ self.sampling @ around.T)

    def meant(self, values: Array) -> Array:
        """Eigenvalues without noise and sampling."""
        if not self.normalized:
            return values
        # The diagonal of correlations stays 1, which changes their eigenvalues.
        root = self.system[1] * np.sqrt(values)
        return np.asarray(np.linalg.eigvalsh(self._units(root @ root.T))[::-1])

    def _units(self, matrices: Array) -> Array:
        if not self.normalized:
            return matrices
        variances = np.diagonal(matrices, axis1=-2, axis2=-1)
        least = max(1e-3 * float(np.abs(variances).max()), 1e-300)
        deviations = np.sqrt(np.maximum(variances, least))
        return np.asarray(matrices / deviations[..., :, None] / deviations[..., None, :])

    @cached_property
    def unbiased(self) -> Array:
        """Eigenvalues whose noisy versions are on average those of the release."""
        # Noise pushes eigenvalues apart, so a noisy one is biased.
        observed = self.system[0]
        values = np.maximum(observed, 0.0)
        for _ in range(N_UNBIASING):
            shift = self.simulated(values).mean(axis=0) - observed
            values = np.sort(np.maximum(values - shift, 0.0))[::-1]
        return np.asarray(values)

    @cached_property
    def around(self) -> Array:
        """Those simulated with ``unbiased`` ones."""
        return self.simulated(self.unbiased)

    @cached_property
    def of_noise(self) -> Array:
        """The same without sampling."""
        return self.simulated(self.unbiased, sampling=False)

    @cached_property
    def along(self) -> Array:
        """Deviations of variances along the release's eigenvectors, each on its own, (p,)."""
        vectors = self.system[1]
        drawn = (self.noise + self.sampled) @ vectors
        return np.asarray(INFLATION * np.sum(vectors * drawn, axis=1).std(axis=0, ddof=1))

    @cached_property
    def edge(self) -> float:
        """Largest eigenvalue of the noise alone, on average."""
        return float(np.linalg.eigvalsh(self.noise)[:, -1].mean())

    def line(self, k: int, z: float) -> Interval:
        """Interval for the k-th largest."""
        spread = _spread(self.around[:, k], self._extra(k))
        lower, upper = (self._end(k, side, z, spread) for side in (-1, 1))
        privacy = INFLATION * self.of_noise[:, k].std(ddof=1)
        estimate = float(self.meant(self.unbiased)[k])
        sampling = sqrt(max(0.0, spread**2 - privacy**2))
        # The estimate without bias lies within, wherever the simulations have their mean.  The unit
        # diagonal of correlations holds back candidates of a column that nothing relates.
        least = z * spread if self.normalized else 0.0
        ends = min(lower, max(estimate - least, 0.0)), max(upper, estimate + least)
        if not self.normalized:
            # Others may take its place, or it theirs, where some variances have far more noise.
            lowest, largest = (np.sort(self.unbiased + s * z * self.along)[-1 - k] for s in (-1, 1))
            ends = min(ends[0], max(lowest, 0.0)), max(ends[1], largest)
        return Interval(f"eigenvalue {k + 1}", *ends, estimate, sampling, float(privacy))

    def _extra(self, k: int) -> float:
        """Variance that the worst law within the bounds adds to the k-th largest."""
        value, (bounds, part) = float(self.unbiased[k]), self.worst
        largest = float(np.abs(self.system[1][:, k]) @ bounds) ** 2
        return max(0.0, value * (largest - value)) * part

    def _end(self, k: int, side: int, z: float, spread: float) -> float:
        """Last candidate for the k-th largest that is within reach, above (1) or below (-1)."""
        near, far = self._around_end(k, side, z, spread)
        if far.beyond <= z:
            # Where no candidate is rejected, the last one stands.  Noise that carries an
            # eigenvalue beyond all candidates leaves none of them.
            return max(0.0, far.meant + side * z * spread * (far.beyond < -z))
        if near is far:
            # Nor the estimate itself.
            return max(0.0, near.meant + side * z * spread)
        for _ in range(N_REFINED):
            share = (z - near.beyond) / (far.beyond - near.beyond)
            tried = self._tried(k, near.value + share * (far.value - near.value), side)
            near, far = (tried, far) if tried.beyond <= z else (near, tried)
        share = (z - near.beyond) / (far.beyond - near.beyond)
        return near.meant + share * (far.meant - near.meant)

    def _around_end(
        self, k: int, side: int, z: float, spread: float
    ) -> tuple["_Candidate", "_Candidate"]:
        """Last candidate within reach and first beyond; the same where there is no other."""
        base = float(self.unbiased[k])
        reach = ((z + 2) * spread + self.edge) * (2 if self.normalized else 1)
        # Steps of its own size, which double: the noise of columns in other units is far from it.
        step, last = max(z * spread, 1e-9 * reach), max(0.0, base + side * reach)
        near = far = self._tried(k, base, side)
        while far.beyond <= z and far.value != last:
            value = min(base + step, last) if side > 0 else max(base - step, last)
            near, far, step = far, self._tried(k, value, side), 2 * step
        return near, far

    def _tried(self, k: int, value: float, side: int) -> "_Candidate":
        base, observed = self.unbiased, float(self.system[0][k])
        # The spectrum with another k-th eigenvalue, still decreasing.
        values = np.r_[np.maximum(base[:k], value), value, np.minimum(base[k + 1 :], value)]
        # Simulations share their random numbers, so that scores are smooth.
        found = (self.around if value == base[k] else self.simulated(values))[:, k]
        distance = float(observed - found.mean())
        score = distance / max(_spread(found, self._extra(k), np.sign(distance)), 1e-300)
        return _Candidate(value, float(self.meant(values)[k]), -side * score)


class _Candidate(NamedTuple):
    """A value in the place of an eigenvalue, what it means, and how far beyond the release's."""

    value: float
    meant: float
    # In deviations of the simulations; below zero on the other side.
    beyond: float


def _near_the_middle(found: Array) -> Array:
    """Simulations, (draws, p), with what is far from all others of a column moved toward them."""
    # Where noise makes a variance negative that is far from the others, all change their places.
    middle = np.median(found, axis=0)
    far = _FAR * np.median(np.abs(found - middle), axis=0)
    return np.asarray(np.clip(found, middle - far, middle + far))


def _spread(found: Array, extra: float, side: float | None = None) -> float:
    """Standard deviation of simulations, (draws,)."""
    variance = float(found.var(ddof=1))
    if side is not None:
        # Near the noise edge the law is skewed: the side asked for has its own, if that is larger.
        away = np.maximum(side * (found - found.mean()), 0.0)
        variance = max(variance, 2 * float(np.mean(away**2)))
    return sqrt(INFLATION**2 * variance + extra)


def scale_of(law: MomentLaw, places: Places, scaling: Scaling) -> Array:
    """What to multiply encoded columns by; infinite where a variance may be nothing but noise."""
    if scaling == "encoded":
        return np.ones(len(places))
    if scaling == "original":
        return half_ranges_of(law.columns)[places + 1]
    variances = np.diagonal(law.covariance)[places + 1]
    rows = np.eye(len(law.moment))[np.append(0, places + 1)]
    noise = law.around_means.noise_of_pairs(rows)(0)[2, 2, 1:]
    hidden = variances <= 3 * np.sqrt(noise) / law.count
    return np.asarray(np.where(hidden, np.inf, 1 / np.sqrt(np.where(hidden, 1.0, variances))))


def covariance_of(law: MomentLaw, places: Places, scale: Array) -> Array:
    """That of the release for the chosen columns, each times ``scale``, (p, p)."""
    return law.covariance[np.ix_(places + 1, places + 1)] * np.outer(scale, scale)


def spectrum_of(
    law: MomentLaw, places: Places, scale: Array, *, normalized: bool, draws: int, seed: int = 0
) -> Spectrum:
    """Simulate for the chosen columns, each times ``scale``; the same every time."""
    rng = np.random.default_rng(seed)
    chosen = places + 1
    rows = law.centered(np.append(0, chosen)) * np.append(1.0, scale)[:, None] / sqrt(law.count)
    covariance = covariance_of(law, places, scale)
    law = law.of_losses(chosen).of_pairs(chosen)
    # A common factor changes no correlation.
    drawn = law.around_means.draw_noise(draws, rng, rows, in_all=not normalized)
    # All covariances are divided by one number of rows.
    noise = drawn[:, 1:, 1:] - drawn[:, :1, :1] * covariance
    if normalized:
        # What scaling rows down did to each, beside what it did to all on average.
        apart = rng.standard_normal(noise.shape) / sqrt(2)
        noise += _by_losses(law, chosen, covariance) * (apart + apart.transpose(0, 2, 1))
    normals = rng.standard_normal((draws, len(chosen), len(chosen))) * sqrt(law.sampling_factor / 2)
    kurtoses = np.array([law.shape(place).kurtosis for place in chosen])
    bounds = scale * [law.reach(place) for place in chosen]
    present = np.diagonal(law.present(chosen))
    worst = law.sampling_factor / float(present.min()) if law.tails == "bounded" else 0.0
    return Spectrum(
        covariance=covariance,
        noise=noise * sqrt(law.reaches(0.95)[1]),
        sampling=normals + normals.transpose(0, 2, 1),
        # Fourth root of the variance of u², relative to the normal law's 2 variance².
        spread=((3 * kurtoses - 1) / 2) ** 0.25 / np.sqrt(present),
        normalized=normalized,
        worst=(bounds, worst),
    )


def spectra_of(law: MomentLaw, places: Places, scale: Array, draws: int) -> Iterator[Spectrum]:
    """The same in blocks, one after the other, as so many large matrices take much memory."""
    most = max(1, _AT_ONCE // len(places) ** 2)
    for seed, start in enumerate(range(0, draws, most)):
        own = min(most, draws - start)
        yield spectrum_of(law, places, scale, normalized=False, draws=own, seed=seed)


def _by_losses(law: MomentLaw, chosen: Places, covariance: Array) -> Array:
    """Deviations of covariances by what scaling rows down did to each, (p, p), as correlations."""
    lost = law.scaled.lost_parts[chosen]
    spreads = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    products = np.outer(spreads, spreads)
    known = np.divide(covariance, products, out=np.zeros_like(products), where=products > 0)
    errors = error_at(known, lost[:, None], lost, law.n_rows * law.present(chosen)) * products
    np.fill_diagonal(errors, 0.0)
    return np.asarray(errors)
