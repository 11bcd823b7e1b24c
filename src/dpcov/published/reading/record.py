"""What a release states, and how it is read as one noisy second moment.

Contract: everything here is public.  Numbers that contradict each other are refused.
"""

from collections.abc import Sequence
from functools import cached_property
from math import sqrt
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpcov.errors import ReleaseError
from dpcov.privacy.guarantee import NOTHING, Guarantee, costs_nothing
from dpcov.published.estimate.frame import Frame
from dpcov.published.estimate.unit import SECOND_MOMENT, UnitEstimate, unit_estimate
from dpcov.published.file.archive import Arrays, fingerprint
from dpcov.published.file.checks import arrays_make_sense
from dpcov.published.file.columns import TWO_VALUED, EncodedColumn, centers_of, half_ranges_of
from dpcov.published.file.manifest import Manifest, read_guarantee
from dpcov.published.file.stated import said_to_be_complete
from dpcov.published.file.statistics import NoisyStatistics
from dpcov.published.linalg.symmetric import Array, Places


class ReleaseRecord:
    """What a release states: statistics, guarantee, columns, groups; and the law of its noise.

    ``members`` are the releases that a combined one was made of, oldest first.
    """

    members: tuple[Self, ...] = ()

    def __init__(self, manifest: Manifest, arrays: Arrays) -> None:
        # The fingerprint names these numbers; whoever changed one would read and save another.
        for array in arrays.values():
            array.flags.writeable = False
        self.manifest = manifest
        self.guarantee: Guarantee = read_guarantee(manifest.guarantee)
        n_groups, stated = max(1, len(manifest.groups)), msgspec.structs.asdict(manifest.statistics)
        self.statistics = NoisyStatistics(arrays=arrays, n_groups=n_groups, **stated)
        if not arrays_make_sense(manifest, self.statistics):
            raise ReleaseError(
                "The numbers of the release contradict each other; get a fresh copy."
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReleaseRecord) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the manifest, which covers every array: publish it beside the file."""
        return fingerprint(self.manifest)

    @property
    def has_intercept(self) -> bool:
        """Whether means, and so a centered covariance, can be computed."""
        return self.manifest.has_intercept

    @property
    def is_array(self) -> bool:
        """Whether rows were a plain array's: nothing but their length has a bound."""
        return self.manifest.schema_toml is None and not self.has_intercept

    def bounds_of(self, columns: Sequence[EncodedColumn]) -> Array:
        """Smallest and largest original values of features, (p, 2)."""
        if self.is_array:
            return np.full((len(columns), 2), self.manifest.norm_bound) * [-1.0, 1.0]
        return np.array([column.bounds for column in columns])

    @cached_property
    def encoded_features(self) -> tuple[EncodedColumn, ...]:
        """The encoded columns without the intercept, indicators of missing values included."""
        return tuple(column for column in self.manifest.columns if column.kind != "intercept")

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, without the intercept and indicators of missing values."""
        return tuple(self.encoded_features[place].name for place in self.shown)

    @property
    def marked_sources(self) -> set[str]:
        """Columns of the table that have an indicator of their missing values."""
        found = (each.missing_of for each in self.encoded_features if each.kind == "missing")
        return set().union(*found)

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the public groups that have a matrix each; empty without groups."""
        return self.manifest.groups

    @property
    def is_private(self) -> bool:
        """False when the randomness was seeded for research: such a release protects nobody."""
        return not any("not private" in warning for warning in self.manifest.warnings)

    @property
    def n_rows(self) -> float:
        """Public number of rows, or its private estimate under add-remove-one."""
        return self.unit.n_rows

    @cached_property
    def unit(self) -> UnitEstimate:
        """The second moment before post-processing, and the law of its noise."""
        return unit_estimate(self.statistics, self.manifest.n_rows)

    @cached_property
    def frame(self) -> Frame:
        """From the coordinates in which noise was added to encoded ones."""
        return Frame.of(self.statistics, len(self.manifest.columns))

    @property
    def public_intercept(self) -> float | None:
        """Second moment of the intercept in the unit ball, where every row carries it whole."""
        return self.manifest.norm_bound**-2.0 if self.manifest.intercept_is_public else None

    @cached_property
    def shown(self) -> Places:
        """Places of the features among all encoded ones."""
        kept = [c.kind != "missing" or not self.has_intercept for c in self.encoded_features]
        return np.flatnonzero(kept)

    def require_means(self) -> None:
        """Refuse a release that holds none, whatever the noise."""
        if not self.has_intercept:
            raise ReleaseError(
                f"This release has no intercept, so means are unknown. Use {SECOND_MOMENT}, or "
                "release a table again with intercept = true in its schema."
            )
        if costs_nothing(self.guarantee.promise):
            raise ReleaseError(NOTHING)

    @cached_property
    def two_valued(self) -> NDArray[np.bool_]:
        """Which encoded features have two values alone where they are present, (p,).

        A missing yes or no that nothing marks counts as the middle, unless the schema excludes it.
        """
        columns = self.encoded_features
        marked = self.marked_sources | said_to_be_complete(self.manifest.schema_toml or "")
        two = [
            c.kind in TWO_VALUED and (c.kind != "boolean" or c.source in marked) for c in columns
        ]
        return np.array(two, dtype=bool)

    @cached_property
    def ends(self) -> Array:
        """Lowest and largest encoded values of rows as they were scaled down, (d, 2)."""
        own = self.manifest.columns
        centers, units = centers_of(own), half_ranges_of(own)
        found = []
        for member in self.members or (self,):
            columns, start = member.manifest.columns, int(self.has_intercept)
            back, squared = member.frame.back, max(member.manifest.norm_bound**2 - start, 0.0)
            reach = sqrt(squared) * np.linalg.norm(back[:, start:], axis=1)
            middle = back[:, 0] if start else np.zeros(len(columns))
            # Every release that is combined has a geometry of its own.
            ends = np.array([middle - reach, middle + reach])
            original = centers_of(columns) + half_ranges_of(columns) * ends
            found.append((original - centers) / units)
        return np.column_stack([np.min(found, axis=0)[0], np.max(found, axis=0)[1]])
