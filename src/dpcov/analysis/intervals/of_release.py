"""Read the law of moments from a release: over the values that are present, or of all rows.

Intervals of numbers that missing="at-random" gives simulate the release's noise and read every
simulated release in that way (docs/missing.md).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import inf, sqrt
from typing import Annotated, Any, Self

import numpy as np

from dpcov.analysis.features import require_release
from dpcov.analysis.intervals.law import MomentLaw, Tails
from dpcov.analysis.intervals.noises import Noise, ScaledDown
from dpcov.analysis.intervals.shapes import of_pair
from dpcov.analysis.problems import InputError, UnknownNoiseError, checked
from dpcov.privacy.options import Between
from dpcov.published.estimate.entry_noise import MomentNoise
from dpcov.published.estimate.present import UNPREDICTED, MissingAs, PresentMoments
from dpcov.published.file.columns import EncodedColumn
from dpcov.published.linalg.symmetric import Array, Places
from dpcov.published.release import Release
from dpcov.published.words.design import design_of, told_of_scaling

# Simulated releases: variances are known to a tenth.
_DRAWS = 200
_ROWS_ALONE = "Sampling is left out: intervals are about the rows of the table, not a population."


@dataclass(frozen=True, kw_only=True, eq=False)
class FilledLaw(MomentLaw):
    """The law of what all rows would have, were no value missing; its noise is simulated.

    It is known of the ``chosen`` columns alone, (q,), ascending, with the intercept.  ``raw`` is
    that of encoded rows, whose missing values are zeros; ``fill`` makes of a raw moment that of all
    rows, both (d, d), or of single columns only, where it is told so.
    """

    chosen: Places
    raw: MomentLaw
    fill: Callable[[Array, bool], Array]

    def on(self, raw: MomentLaw) -> Self:
        """The same of another law of encoded rows."""
        return replace(self, raw=raw, moment=self.fill(raw.moment, True))

    @cached_property
    def restored(self) -> Self:
        """As in a law of moments that are read as they are."""
        return self.on(self.raw.restored)

    @cached_property
    def unbiased(self) -> Self:
        """As in a law of moments that are read as they are."""
        return self.on(self.raw.unbiased)

    def of_losses(self, chosen: Places) -> Self:
        """As in a law of moments that are read as they are."""
        return replace(super().of_losses(chosen), raw=self.raw.of_losses(chosen))

    def rarity(self, places: Places) -> Array:
        """Ones: simulated noise is divided by the rows that have both columns."""
        return np.ones((len(places), len(places)))

    @cached_property
    def around_means(self) -> Self:
        """The same: simulated noise on means multiplies by itself."""
        return self

    def privacy_forms(self, rows: Array) -> Callable[[Array], Array]:
        """As in a law of moments that are read as they are; of chosen columns."""
        drawn = rows[:, self.chosen] @ self._drawn @ rows[:, self.chosen].T

        def form(a: Array) -> Array:
            along = drawn @ a
            return np.asarray(along.T @ along / len(along))

        return form

    def noise_of_pairs(self, rows: Array) -> Callable[[int], Array]:
        """As in a law of moments that are read as they are."""
        rows = rows[:, self.chosen]

        @cache
        def products(pairs: bool) -> Array:
            return np.asarray(rows @ (self._drawn if pairs else self._drawn_alone) @ rows.T)

        def covariances(i: int) -> Array:
            # Beside the intercept no pairs are needed, which take most of the time.
            found = products(bool(rows[i, 1:].any()))
            squares = np.diagonal(found, axis1=1, axis2=2)
            three = of_pair(squares[:, i, None], found[:, i], squares)
            return np.asarray(np.einsum("amj,bmj->abj", three, three) / len(found))

        return covariances

    def draw_noise(
        self,
        draws: int,
        rng: np.random.Generator,
        rows: Array | None = None,
        *,
        in_all: bool = True,
    ) -> Array:
        """F W F' for what simulated noise makes of the moments of chosen columns, W.

        ``rows`` F, (q, d), by default one for each chosen column; (draws, q, q).
        """
        drawn = self._read(draws, rng, in_all=in_all, pairs=True)
        return drawn if rows is None else rows[:, self.chosen] @ drawn @ rows[:, self.chosen].T

    @cached_property
    def _drawn(self) -> Array:
        return self._read(_DRAWS, np.random.default_rng(0), in_all=False, pairs=True)

    @cached_property
    def _drawn_alone(self) -> Array:
        return self._read(_DRAWS, np.random.default_rng(0), in_all=False, pairs=False)

    def _read(self, draws: int, rng: np.random.Generator, *, in_all: bool, pairs: bool) -> Array:
        """Simulated noise on the moments of the chosen columns, (draws, q, q)."""
        # One after the other: together they would take much memory.
        noises = (self.raw.draw_noise(1, rng, in_all=in_all)[0] for _ in range(draws))
        found = [self._of_chosen(self.fill(self.raw.moment + each, pairs)) for each in noises]
        return np.array(found) - self._of_chosen(self.moment)

    def _of_chosen(self, matrix: Array) -> Array:
        return matrix[np.ix_(self.chosen, self.chosen)]


def moment_law(
    release: Release,
    places: Places | None = None,
    level: float = 0.95,
    sampling: bool = True,
    design_effect: float | None = None,
    missing: MissingAs = "pairwise",
    tails: Tails = "moments",
) -> MomentLaw:
    """Read a release; UnknownNoiseError where it has no law of its noise, or no matrix at all.

    Of values that are missing at random it is that of the features at ``places``, by default all.
    """
    require_release(release)
    if not 0.5 <= checked("level", level, float) < 1:
        raise InputError("level must be at least 0.5 and below 1, such as 0.95.")
    checked("sampling", sampling, bool)
    checked("design_effect", design_effect, Annotated[float, Between(0, open=True)] | None)
    checked("tails", tails, Tails)
    checked("missing", missing, MissingAs)
    noise, start = _known_noise(release), int(release.has_intercept)
    if sampling and design_effect is None:
        design = design_of(release)
        design_effect = design.largest_effect if tails == "bounded" else design.effect
        notes = design.sentences(design_effect)
    else:
        notes = told_of_scaling(release)
    if not sampling:
        notes = (*notes, _ROWS_ALONE)
    raw = MomentLaw(
        moment=release.second_moment("none"),
        n_rows=release.unit.n_rows,
        columns=(*release.manifest.columns[:start], *_as_read(release)),
        noises=_noises(release, noise),
        scaled=_scaled_down(release, noise),
        hides_presence=np.append(np.zeros(start, np.bool_), release.hides_presence),
        laplace_part=noise.laplace_part,
        intercept_is_public=_intercept_is_public(release),
        sampling=sampling,
        level=level,
        tails=tails,
        ball=release.manifest.norm_bound if release.is_array else inf,
        design_effect=design_effect or 1.0,
        notes=notes,
    )
    if missing == "pairwise":
        return _over_present(release, raw)
    every = np.arange(len(release.encoded_features))
    return _of_all_rows(release, raw, every if places is None else places)


def _known_noise(release: Release) -> MomentNoise:
    noise = release.noise_law
    if noise is None and release.manifest.is_pooled:
        raise UnknownNoiseError(
            "A group that is estimated together with others does not say how its noise is "
            "distributed. Use release.group(name), or release.pooled, which has mean_std, "
            "covariance_std and correlation_std."
        )
    if noise is None:
        raise UnknownNoiseError(
            "This release does not say how its noise is distributed, so no interval can be given. "
            "Release again with a mechanism that does: gaussian, stratified, laplace or nuclear."
        )
    if release.unit.parts_may_be_empty and not release.unit.parts:
        raise UnknownNoiseError(
            "Noise hides everything in this release and no matrix was released, so no "
            "interval can be given. Use more rows or a larger budget."
        )
    return noise


def _intercept_is_public(release: Release) -> bool:
    return release.has_intercept and release.manifest.intercept_is_public


def _as_read(release: Release) -> Iterator[EncodedColumn]:
    # Yes or no with a third value, for missing ones, is a number between its bounds.
    bound = release.manifest.norm_bound
    ends: dict[str, Any] = {"lower": -bound, "upper": bound} if release.is_array else {}
    for column, two in zip(release.restored_features, release.two_valued, strict=True):
        three = column.kind == "boolean" and not two
        yield replace(column, kind="numeric" if three else column.kind, **ends)


def _noises(release: Release, noise: MomentNoise) -> tuple[Noise, ...]:
    """On moments of encoded rows."""
    d, is_public = len(release.manifest.columns), _intercept_is_public(release)
    return tuple(
        Noise(
            off_diagonal=each.entries.off_diagonal + each.bias,
            diagonal=_diagonal(each, d, is_public),
            between=each.entries.between_diagonals,
            start=int(is_public),
            back=back,
        )
        for each, back in zip(noise.alone(), release.row_maps, strict=True)
    )


def _scaled_down(release: Release, noise: MomentNoise) -> ScaledDown:
    """What scaling rows down took; of the intercept it took nothing."""
    factors, stretch, losses = release.row_factors, release.stretch, release.statistics.losses
    start = int(release.has_intercept)
    shorter = None
    if factors is not None:
        shorter = np.column_stack([(0.0, 1.0), (factors.shift, factors.of_means)])
    return ScaledDown(
        lost=release.statistics.lost,
        bias=noise.bias,
        longest=sqrt(max(release.manifest.norm_bound**2 - start, 1e-300)),
        most_lost=0.0 if losses is None else losses.most,
        ends=release.ends,
        shorter=shorter,
        stretch_stds=None if stretch is None else np.append(0.0, stretch.unsure),
        lost_parts=np.append(np.zeros(start), release.lost_parts),
        mean_errors=release.mean_errors,
        untold=np.append(np.zeros(start, np.bool_), release.untold),
    )


def _over_present(release: Release, raw: MomentLaw) -> MomentLaw:
    """The law over the values that are present, pair by pair; ``raw`` where none is missing."""
    count = raw.moment[0, 0]
    if release.presence is None or not count > 0:
        return raw
    found = release.presence.moments(raw.moment / count)
    noises = tuple(
        replace(noise, back=back)
        for noise, back in zip(raw.noises, release.moment_maps, strict=True)
    )
    return replace(raw, moment=found.moment() * count, noises=noises, shares=found.shares)


def _of_all_rows(release: Release, raw: MomentLaw, places: Places) -> MomentLaw:
    """The law of what all rows would have if values are missing at random."""
    pairwise, presence = _over_present(release, raw), release.presence
    if pairwise is raw or presence is None:
        return raw
    if release.is_unpredicted:
        return replace(pairwise, notes=(*pairwise.notes, UNPREDICTED))

    def read(moment: Array, pairs: bool) -> PresentMoments:
        found = presence.moments(moment / moment[0, 0])
        return release.filled(found, "at-random", wanted=places, pairs=pairs)

    def fill(moment: Array, pairs: bool) -> Array:
        return np.asarray(read(moment, pairs).moment() * moment[0, 0])

    # Its fields are those of the law over what is present, and those few of its own.
    facts = {name: getattr(pairwise, name) for name in MomentLaw.__dataclass_fields__}
    facts |= {"shares": read(raw.moment, True).shares, "moment": fill(raw.moment, True)}
    chosen = np.append(0, np.unique(places) + 1)
    return FilledLaw(**facts, chosen=chosen, raw=raw, fill=fill)


def _diagonal(noise: MomentNoise, d: int, intercept_is_known: bool) -> Array:
    # They are 2v for isotropic Gaussian noise; a noisy trace that was merged into it, or another
    # law, gives any two diagonal entries the same covariance.
    diagonal = np.full(d, noise.entries.diagonal + 2 * noise.bias)
    diagonal[:intercept_is_known] = noise.count_variance
    return diagonal
