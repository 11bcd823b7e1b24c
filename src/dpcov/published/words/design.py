"""How many independent rows of equal weight the rows of a release are worth: the design effect.

Contract: released numbers only.  Too large rather than too small (docs/weights.md).
"""

from dataclasses import dataclass
from math import ceil, hypot, isfinite, isnan, nan, sqrt

import msgspec
import numpy as np

from dpcov.errors import ReleaseError
from dpcov.published.estimate.entry_noise import DEVIATIONS, mean_noise
from dpcov.published.estimate.unit import centered
from dpcov.published.file.stated import learned, stated
from dpcov.published.reading.base import BaseRelease
from dpcov.published.reading.encoded import noise_of
from dpcov.published.words.numbers import WITHIN

# From here on a design effect is worth a sentence.
NOTICED = 1.005
SCALED_DOWN = (
    "Long rows were scaled down, and intervals do not count what that took. A larger norm_bound, "
    "or clip, takes less."
)
# Mean weights, over the largest, that look like a mistake; and the design effect of equal ones.
MOSTLY_LARGEST, MOSTLY_SMALL, ALIKE = 0.975, 0.05, 1.01


class Weighting(msgspec.Struct, frozen=True):
    """The column of the weights and their public upper bound."""

    column: str
    upper: float


@learned
class _Stated(msgspec.Struct, frozen=True):
    weights: Weighting | None = None


def weighting_of(release: BaseRelease) -> Weighting | None:
    """What the schema of a release says of weights; None without any."""
    schema = release.manifest.schema_toml or ""
    found = stated(schema, _Stated).weights if "weights" in schema else None
    return found if found is not None and found.upper > 0 else None


def weights_column(release: BaseRelease) -> str | None:
    """The column of the weights, which is a feature only where it is named."""
    weighting = weighting_of(release)
    return None if weighting is None else weighting.column


@dataclass(frozen=True, kw_only=True)
class Design:
    """Weights pi = w / upper of the rows, as far as released: their mean, and bounds of sum pi²."""

    # Rows of the table, public or noisy.
    n_rows: float
    # Mean of pi; 1 where rows are not weighted.
    share: float
    # Mean of pi when rows are drawn by weight, sum pi² / sum pi; None where it is not released.
    own: float | None
    rows_per_person: int
    weighting: Weighting | None
    # Standard deviations of the noise on the weighted count, NaN where not known, and on that of
    # rows, both relative to them.
    noise: float = 0.0
    rows_noise: float = 0.0

    @property
    def largest_effect(self) -> float:
        """Design effect whatever the weights are related to: pi² <= pi, rows of a person alike."""
        return self.rows_per_person / self.share

    @property
    def effect(self) -> float:
        """That of Kish for weights that are not related to the values, times rows per person."""
        return max(1.0, (self.own or 1.0) / self.share) * self.rows_per_person

    @property
    def worth(self) -> float:
        """What rows count as for sampling errors."""
        return self.n_rows / self.effect

    @property
    def sum_of_weights(self) -> float | None:
        """Weighted count, in the unit of the weights; None without any."""
        return None if self.weighting is None else self.n_rows * self.share * self.weighting.upper

    @property
    def scales_down(self) -> bool:
        """Whether rows are not whole although they have no weights."""
        clear = 1 - self.share > DEVIATIONS * hypot(self.noise, self.rows_noise)
        return self.weighting is None and clear and 1 / self.share > NOTICED

    def sentences(self, effect: float | None = None) -> tuple[str, ...]:
        """What a reader should know of it and of the design effect in use; mostly nothing."""
        effect = effect or self.effect
        # Else noise alone makes the effect another one than 1.
        has_cause = self.weighting or self.rows_per_person > 1 or self.scales_down
        if not isfinite(self.n_rows) or not has_cause:
            return ()
        worth, told = f"{self.n_rows / effect:,.0f}", []
        if self.weighting is not None:
            upper = f"{self.weighting.upper:g}"
            told.append(
                f"Rows are weighted by {self.weighting.column}, 0 to {upper}; the weights of "
                f"{self.n_rows:,.0f} rows sum to {self._sum_within()}."
            )
        if self.scales_down:
            told.append(SCALED_DOWN)
        told.append(
            f"For sampling errors rows count as {worth}: the design effect is {effect:.3g}."
        )
        if self.weighting is not None and self.own is None:
            advice = f"; list their column as numeric, from 0 to {upper}, for that of Kish."
            why = ": how large the noise is, is not known." if isnan(self.noise) else advice
            told.append(f"It is the largest that the weights allow{why}")
        if self.rows_per_person > 1:
            told.append(
                f"It takes a person's rows for alike, up to {self.rows_per_person}; give "
                "design_effect where a smaller one is known."
            )
        return tuple(told)

    def _sum_within(self) -> str:
        """Weighted count, ± what holds 95 of 100 errors of the noise."""
        found = self.sum_of_weights or 0.0
        if isnan(half := WITHIN * self.noise * found):
            return f"about {found:,.0f}"
        return f"about {found:,.0f} ± {ceil(half):,}" if half > 0 else f"{found:,.0f}"


def design_of(release: BaseRelease) -> Design:
    """Read it from a release; ReleaseError where the noise hides the weighted count."""
    share, weighting = 1.0, weighting_of(release)
    if release.has_intercept and release.public_intercept is None:
        share = min(1.0, centered(release.unit, None)[0] * release.manifest.norm_bound**2)
    return Design(
        n_rows=release.n_rows,
        share=share,
        own=None if weighting is None else _own(release, weighting),
        rows_per_person=release.guarantee.rows_per_person,
        weighting=weighting,
        noise=_count_noise(release) if share < 1 or weighting else 0.0,
        rows_noise=sqrt(release.unit.count_variance),
    )


def known_design(release: BaseRelease) -> Design | None:
    """The same; None where the noise hides the weighted count."""
    try:
        return design_of(release)
    except ReleaseError:
        return None


def rows_worth(release: BaseRelease) -> float:
    """What its rows count as for sampling errors; NaN where the noise hides it."""
    # A finished matrix does not hold what the weights sum to.
    if release.manifest.is_pooled and weighting_of(release) is not None:
        return nan
    found = known_design(release)
    return nan if found is None else found.worth


def told_of_scaling(release: BaseRelease) -> tuple[str, ...]:
    """Whether a norm bound or clip scaled rows down, a sentence; none where the noise hides it."""
    found = known_design(release)
    return (SCALED_DOWN,) if found is not None and found.scales_down else ()


def told_of(release: BaseRelease) -> tuple[str, ...]:
    """Sentences on the design; none where the noise hides it."""
    weighting = weighting_of(release)
    if weighting is not None and release.manifest.is_pooled:
        # A finished matrix does not hold what the weights sum to.
        return (f"Rows are weighted by {weighting.column}, 0 to {weighting.upper:g}.",)
    found = known_design(release)
    return () if found is None else found.sentences()


def remarks_on(release: BaseRelease) -> tuple[str, ...]:
    """What looks wrong about the weights, and what would help; mostly nothing."""
    weighting = weighting_of(release)
    if weighting is None or release.manifest.is_pooled:
        return ()
    name, upper = weighting.column, f"{weighting.upper:g}"
    found = known_design(release)
    if found is None:
        return (
            f"The weights in {name} sum to nothing that shows: rows are too few for this budget, "
            f"the column holds no numbers above 0, or its upper, {upper}, is far too large.",
        )
    if found.share >= MOSTLY_LARGEST:
        return (
            f"Nearly all weights in {name} are at their upper, {upper}: raise it if weights are "
            "larger, or leave the weights out if all are alike.",
        )
    if found.own is not None and found.own / found.share <= ALIKE:
        return (f"The weights in {name} hardly differ: without them there is less noise.",)
    if found.share < MOSTLY_SMALL:
        return (
            f"The weights in {name} are {found.share:.2g} of their upper, {upper}, on average: "
            "with a smaller upper, to which larger weights are moved, there is less noise.",
        )
    return ()


def _count_noise(release: BaseRelease) -> float:
    if (law := noise_of(release)) is None:
        return nan
    return sqrt(sum(each.entries.diagonal for each in law.alone())) / law.intercept


def _own(release: BaseRelease, weighting: Weighting) -> float | None:
    """The weighted mean of the weights, relative to the largest.

    As large as it has to be for noise to make the design effect no smaller.
    """
    features, law = release.features, noise_of(release)
    places = [i for i, column in enumerate(features) if column.name == weighting.column]
    if not places or law is None:
        return None
    column, mean = features[places[0]], release.mean_vector()[places]
    # The design effect goes with S / W^2 for S = sum w^2 and W = sum w.  Its noise is that of
    # S - 2 m W for m = S / W, where the noise of m is that of S - m W.
    encoded = (2 * mean - column.center) / column.half_range
    noise = mean_noise(encoded, law.on(np.array(places))) * column.half_range
    return float(np.clip((mean + DEVIATIONS * noise)[0] / weighting.upper, 0.0, 1.0))
