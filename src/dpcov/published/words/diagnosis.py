"""Say of every column what can be read from a release, why not more, and what would help.

Contract: reads a release only.  What is called suspicious is so whatever the noise was, but in one
of a thousand releases.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import few_of
from dpcov.privacy.guarantee import NOTHING
from dpcov.published.digits import percent, two_digits
from dpcov.published.estimate.entry_noise import (
    DEVIATIONS,
    MomentNoise,
    noise_quantile,
    total_noise,
)
from dpcov.published.file.columns import EncodedColumn
from dpcov.published.linalg.symmetric import Array
from dpcov.published.reading.base import BaseRelease
from dpcov.published.reading.combined_unit import noise_parts, weights_of
from dpcov.published.reading.encoded import noise_of
from dpcov.published.words.design import remarks_on, weights_column
from dpcov.published.words.numbers import (
    UNTOLD,
    WITHIN,
    Estimates,
    GroupNumbers,
    group_numbers,
    told_of_rare_pairs,
)
from dpcov.published.words.verdicts import ColumnVerdict, Diagnosis, Verdict

# Chance that a release of a table without any mistake has a suspicious column.
FALSE_ALARMS = 0.001
# Correlations of a good column are within this, and those of one that can be used at all.
GOOD, USABLE = 0.1, 0.5
# Of the width of the bounds: where all values lie close to a bound, spread and distance from it.
NO_SPREAD, AT_BOUND = 1 / 10, 1 / 40
# The same where the noise is small enough to show a spread: a unit is off by a hundred or more.
TINY, TINY_AT = 1 / 500, 1 / 50
# Part of the rows that may have no label of a list, and part of the lengths that were scaled down
# that is counted for it: their rows are shorter, and so are their levels.
UNLISTED, SHORTER = 0.02, 0.25
MOSTLY = 0.5
# A smallest spread of more than this part of the bounds is a matter of rows, not of bounds.
COARSE = 1 / 10
# Mean squared length of rows over the squared norm bound from which they seem to be scaled down.
AT_NORM_BOUND = 0.95
# Part of its variance that a column with a long tail lost at least, and as many times what all
# columns lost: of 180 such columns of public tables, nine tenths have a kurtosis above 9.
LONG_TAIL, MORE_THAN_OTHERS = 0.4, 2.0
# Part of the noise that is left without a table, from which on that is worth a sentence.
LESS_NOISE = 0.9
# A level with fewer of the rows is called rare.
RARE = 0.05


class _Said(NamedTuple):
    """A verdict, why, and what would help."""

    verdict: Verdict
    cause: str = ""
    advice: str = ""


_UNPUBLISHED = "The mechanism does not publish its noise."
_TOGETHER = _Said(
    "unknown",
    "It is of a group that was estimated together with others, whose noise has no known law.",
    "The errors are in release.pooled of the release that it is of.",
)
_LOG = 'Where it has a long tail, as incomes do, transform = "log1p" keeps more of it.'
_OWN = "In a geometry of its own (--geometry private) more of it may be left. "
_MERGE = "Merge it with another level."
_UNIT = (
    "Compare the unit of the data with that of the bounds. If they agree, the bounds are far too "
    "wide"
)
_FEW = ', or few rows come near them: then transform = "log1p" keeps more of the column.'


def diagnose(release: BaseRelease, numbers: GroupNumbers | None = None) -> Diagnosis:
    """Judge every column of a release; ``numbers`` are its own where they are known."""
    numbers = numbers or group_numbers(release)
    found, remarks = _diagnosed(release, numbers), remarks_on(release)
    usable = release.shown[[column.usable for column in found.columns]]
    if len(usable):
        together = told_of_rare_pairs(release, usable)
        remarks = (*remarks, *_as_long_as_the_bound(release), *[together] * bool(together))
    remarks = (*_without_a_fit(release, numbers.estimates), *_noisier_together(release), *remarks)
    return replace(found, remarks=remarks, knows_means=release.has_intercept)


def _without_a_fit(release: BaseRelease, made: Estimates | None) -> tuple[str, ...]:
    # One that is found in the rows themselves fits as well as any.
    lost = release.manifest.statistics.lost
    moved = [] if made is None else _moved(release, made)
    if not release.manifest.geometry_was_given or (lost <= MOSTLY and not moved):
        return ()
    where = f"The mean of {few_of(moved, 3)} lies far from its center there. " if moved else ""
    return (
        f"Scaling rows down took about {percent(lost)} of the variance: the table does not fit the "
        f"geometry that it was given. {where}A column that moves with the years, such as a date, "
        "is a common cause. A release that finds its own geometry (--geometry private) reads "
        "better.",
    )


def _moved(release: BaseRelease, made: Estimates) -> list[str]:
    """Numbers whose mean is further from the geometry's center than its scale, beyond noise."""
    if made.means is None or made.mean_noise is None:
        return []
    distances = np.abs(made.means - release.centers) - WITHIN * made.mean_noise
    far = distances > release.half_ranges
    # Levels are encoded around zero: their shares are no distance.
    return [
        column.name
        for column, is_far in zip(release.features, far, strict=True)
        if is_far and column.kind == "numeric"
    ]


def _noisier_together(release: BaseRelease) -> tuple[str, ...]:
    """United tables that bring more noise than their rows are worth."""
    if not release.manifest.disjoint or not release.members:
        return ()
    rows, noise = weights_of(release.members, disjoint=True), noise_parts(release.members)
    return tuple(
        f"Release {member.fingerprint[:12]} brings {percent(max(0.0, row))} of the rows and "
        f"{percent(part)} of the noise. United without it, errors of noise would be "
        f"{percent(left)} of what they are. Leave it out if its people need not be in the result."
        for member, row, part in zip(release.members, rows, noise, strict=True)
        if row < 1 and (left := sqrt(max(0.0, 1 - part)) / (1 - row)) <= LESS_NOISE
    )


def _as_long_as_the_bound(release: BaseRelease) -> tuple[str, ...]:
    # A schema's bounds say how long rows are; of an array only its owner does.
    manifest = release.manifest
    if not release.is_array or np.trace(release.unit.matrix) < AT_NORM_BOUND:
        return ()
    return (
        f"Nearly all rows are as long as norm_bound, {manifest.norm_bound:g}: right if they were "
        "normalized. Otherwise they were scaled down to it, and norm_bound is too small.",
    )


def _diagnosed(release: BaseRelease, numbers: GroupNumbers) -> Diagnosis:
    made, columns, law = numbers.estimates, release.features, noise_of(release)
    if made is None:
        lost: Verdict = "unknown" if numbers.problem == NOTHING else "lost"
        return _alike(columns, _Said(lost, numbers.problem))
    if law is None or made.within is None:
        is_pooled = release.manifest.is_pooled
        return _alike(columns, _TOGETHER if is_pooled else _Said("unknown", _UNPUBLISHED))
    doctor = _Doctor(release, made, made.within, law)
    verdicts = tuple(doctor.verdict(place, said) for place, said in enumerate(doctor.all()))
    usable = np.array([verdict.usable for verdict in verdicts])
    pairs = doctor.between[np.ix_(usable, usable)]
    pairs = pairs[np.isfinite(pairs)]
    return Diagnosis(
        columns=verdicts,
        typical=float(np.median(pairs)) if pairs.size else np.nan,
        worst=float(pairs.max()) if pairs.size else np.nan,
    )


def _alike(columns: Sequence[EncodedColumn], said: _Said) -> Diagnosis:
    verdicts = (ColumnVerdict(c.name, c.source, *said, *[nan] * 6) for c in columns)
    return Diagnosis(columns=tuple(verdicts), typical=nan, worst=nan)


class _Doctor:
    """Judges the columns of a release whose noise is known."""

    def __init__(
        self, release: BaseRelease, made: Estimates, within: Array, law: MomentNoise
    ) -> None:
        self.release, self.made, self.law, self.columns = release, made, law, release.features
        # Pairs within one column of the table say nothing: its levels exclude each other.
        sources = np.array([column.source for column in self.columns])
        self.between = np.where(sources[:, None] == sources, nan, within)
        variances = made.deviations**2
        helps = ["fewer columns"] * (len(set(sources)) > 1) + ["more rows"]
        helps += ["rows without weights"] * (weights_column(release) is not None)
        self.more = f"{', '.join(helps).capitalize()} or a larger budget would help."
        self.shows = (variances >= made.hidden_variances) & (variances > 0)
        beside_all = self._typical(self.shows)
        beside_usable = self._typical(self.shows & (beside_all <= USABLE))
        # Where no other can be used, no column is alone: the noise hides what goes together.
        self.within = np.where(np.isnan(beside_usable), beside_all, beside_usable)
        # Two checks of a column at most.
        chance = FALSE_ALARMS / max(1, 2 * len(self.columns))
        self.z = noise_quantile(chance, law.laplace_part)
        self.missing, self.lost = release.missing(), release.lost_parts[release.shown]
        self.untold = release.untold[release.shown]
        self.keeps_more = (_OWN if release.manifest.geometry_was_given else "") + _LOG

    def _typical(self, usable: NDArray[np.bool_]) -> Array:
        # Median over the other columns that can be used; one column alone has no correlations.
        found = np.full(len(self.between), nan)
        for place, row in enumerate(self.between):
            known = row[usable & np.isfinite(row)]
            found[place] = np.median(known) if known.size else nan
        return found

    def verdict(self, place: int, said: _Said) -> ColumnVerdict:
        """All that is known of a column."""
        made, column = self.made, self.columns[place]
        known = (made.means, made.mean_noise, made.deviations, made.deviation_noise)
        found = [nan if each is None else float(each[place]) for each in known]
        found += [sqrt(made.hidden_variances[place]), float(self.within[place])]
        found += self.missing.get(column.source, (nan, nan))
        return ColumnVerdict(column.name, column.source, *said, *found, unit=column.unit)

    def all(self) -> list[_Said]:
        """A verdict on every column."""
        said = [self._ordinary(place) for place in range(len(self.columns))]
        if self.made.means is None:
            return said
        places: dict[str, list[int]] = {}
        for place, column in enumerate(self.columns):
            places.setdefault(column.source, []).append(place)
            if column.kind == "numeric":
                said[place] = self._number(place, self.made.means) or self._tail(place, said[place])
        for own in places.values():
            if found := self._source(own, self.made.means):
                for place in own:
                    said[place] = found
        return said

    def _ordinary(self, place: int) -> _Said:
        """The verdict that the size of the noise alone gives."""
        within, shows, noise = self.within[place], self.shows[place], self.made.deviation_noise
        # The only column of its kind is judged by its spread alone.
        is_alone = np.isnan(within) and noise is not None
        if shows and (within <= GOOD or is_alone):
            doubt = 0.0 if noise is None else WITHIN * noise[place] / self.made.deviations[place]
            if doubt <= (GOOD if is_alone else USABLE):
                return _Said("good")
            return _Said("weak", "Its spread is uncertain.", self.more)
        return self._weak(place) if shows and within <= USABLE else self._lost(place)

    def _weak(self, place: int) -> _Said:
        share = self._share(place)
        if self.columns[place].kind == "category" and self._is_rare(place):
            return _Said("weak", f"{_rare(share)} this level.", _MERGE)
        return _Said("weak", "The noise is large beside its spread.", self.more)

    def _is_rare(self, place: int) -> bool:
        # Noise does not make a common one look rare.
        noise = 0.0 if self.made.mean_noise is None else float(self.made.mean_noise[place])
        return self._share(place) + WITHIN * noise < RARE

    def _share(self, place: int) -> float:
        # Of the rarer one of two values.
        mean = nan if self.made.means is None else float(self.made.means[place])
        return min(mean, 1 - mean) if self.columns[place].kind == "boolean" else mean

    def _lost(self, place: int) -> _Said:
        column, smallest = self.columns[place], sqrt(self.made.hidden_variances[place])
        lower, upper = self.release.bounds_of([column])[0]
        if column.kind != "numeric" and self._is_rare(place):
            is_level = column.kind == "category"
            what = "this level" if is_level else "one of its two values"
            said = f"{_rare(self._share(place))} {what}."
            return _Said("lost", said, _MERGE if is_level else self.more)
        if smallest > COARSE * (upper - lower) or self.shows[place]:
            few = "The noise hides it: there are too few rows for this budget."
            return _Said("lost", few, self.more)
        hidden = f"The noise hides spreads below {two_digits(smallest)}"
        if column.lower is not None:
            advice = f"Check that it is read as numbers. {self.more}"
            return _Said("lost", f"{hidden}: its values differ by less, or are missing.", advice)
        if self.release.is_array:
            advice = f"Multiply it by a public number that makes it as large as others. {self.more}"
            return _Said("lost", f"{hidden}: it is small beside norm_bound.", advice)
        return _Said(
            "lost",
            f"{hidden}: the bounds are too wide for this noise.",
            "Narrow the bounds. With more rows or budget a release finds scales by itself, unless "
            "the schema has a norm_bound.",
        )

    def _tail(self, place: int, said: _Said) -> _Said:
        """The verdict, and how much was scaled down of a column that lost far more than others."""
        lost, column = float(self.lost[place]), self.columns[place]
        least = max(LONG_TAIL, MORE_THAN_OTHERS * self.release.statistics.lost)
        # Noise that hides correlations has the last word.
        is_noisy = said.verdict == "lost" or self.within[place] > GOOD
        if is_noisy or lost < least or column.name != column.source:
            return said
        return _Said(
            said.verdict,
            f"Scaling down took about {percent(lost)} of its variance.",
            self.keeps_more,
        )

    def _number(self, place: int, means: Array) -> _Said | None:
        """What looks wrong about a number."""
        made, column = self.made, self.columns[place]
        lower, upper = column.bounds
        if self.untold[place]:
            hidden = self._ordinary(place).verdict == "lost"
            cause = f"{UNTOLD}: its mean and variance may be anything within the bounds."
            return _Said("lost" if hidden else "weak", cause, self.keeps_more)
        width, mean = upper - lower, float(means[place])
        std = 0.0 if made.mean_noise is None else float(made.mean_noise[place])
        # The spread is below this, but for one release in a thousand.
        doubt = self.z / DEVIATIONS * float(made.hidden_variances[place])
        most = sqrt(max(0.0, float(made.variances[place])) + doubt)
        distance, side, bound = min((mean - lower, "lower", lower), (upper - mean, "upper", upper))
        distance += self.z * std
        # Where the logarithm stretches what is there, and the schema may ask for it.
        stretches = side == "lower" and lower > -1 and column.name == column.source
        advice = _UNIT + (_FEW if stretches else ".")
        if self.shows[place]:
            if most > TINY * width or distance > TINY_AT * width:
                return None
            part = percent(6 * most / width)
            cause = f"Its values fill less than {part} of the bounds, at the {side} end."
            return _Said("suspicious", cause, advice)
        if most > NO_SPREAD * width:
            return None
        if distance <= AT_BOUND * width:
            cause = (
                f"Its mean lies at the {side} bound, {bound:.10g}, and hardly any spread shows: "
                "nearly all values seem to lie there, or beyond it."
            )
            return _Said("suspicious", cause, advice)
        return None

    def _source(self, places: list[int], means: Array) -> _Said | None:
        """What looks wrong about all that is made of one column of the table."""
        levels = [place for place in places if self.columns[place].kind == "category"]
        share, noise = self.missing.get(self.columns[places[0]].source, (nan, nan))
        if share - self.z * noise > MOSTLY:
            cause = "More than half of its values are missing."
            advice = "Check how missing values are written, or leave the column out."
            return _Said("suspicious", cause, advice)
        if not levels:
            return None
        share, doubt = self._sum(places, means)
        if 1 - share <= UNLISTED + doubt:
            return None
        empty = [place for place in levels if not self.shows[place]]
        if len(empty) == len(levels):
            cause = "None of its labels shows in the table."
            return _Said("suspicious", cause, "Compare the labels of the schema with the data's.")
        labels = ", ".join(self.columns[place].level for place in empty[:3])
        cause = f"Its labels hold {percent(share)} of the rows"
        return _Said(
            "suspicious",
            f"{cause}; hardly any row has {labels}." if empty else f"{cause}.",
            "Look for labels that the schema lacks or spells differently, and for missing values.",
        )

    def _sum(self, places: list[int], means: Array) -> tuple[float, float]:
        """Part of the rows that have a listed label, and what may be wrong about it."""
        release, weights = self.release, np.zeros(len(self.columns))
        weights[places] = release.half_ranges[places]
        encoded = (means - release.centers) / release.half_ranges
        std = total_noise(float(weights @ encoded), weights, self.law)
        # Rows under a map are shortened toward its middle, where levels add up as they do.
        lost = 0.0 if release.frame.is_mapped else release.manifest.statistics.lost
        return float(means[places].sum()), self.z * std + SHORTER * lost


def _rare(share: float) -> str:
    # As far as the noise lets see.  How few is its mean; levels alike are told of together.
    return "Hardly any row has" if share < 0.001 else f"Fewer than {percent(RARE)} of rows have"
