"""What is public of a table whose geometry is looked for: its columns, and how rows are encoded.

Proof : surveyed.md ("Decided before any row is read").
"""

from collections.abc import Sequence
from math import sqrt

import msgspec
import numpy as np

from dpcov.data.encode import Encoder
from dpcov.data.geometry import Geometry, longest_row
from dpcov.data.schema.declared import Boolean, Categorical
from dpcov.data.schema.schema import Schema
from dpcov.mechanisms.geometry.survey import SurveyColumn, scales_of
from dpcov.mechanisms.geometry.survey_counts import Spread
from dpcov.mechanisms.geometry.whitening import centering_map
from dpcov.published.file.columns import EncodedColumn, count_values, numbers

# What every level adds to the squared intercept, in units of features: what is read of levels, and
# all means, follow from its products (measured in surveyed.md).
_PER_LEVEL = 1 / 16

# And every feature of rows with weights, which are mostly far below their upper bound: all that is
# read is divided by what the intercept says of their sum (measured in surveyed.md).
_PER_WEIGHTED = 1 / 8

# Given where no row is scaled down.
ANY_BOUND = 2.0


class TableFacts:
    """``columns`` are in the order of the encoding's ``column_values``.

    ``declared`` are the encoded ones in the geometry of their bounds; ``keeps_intercept``: rows of
    any geometry carry their intercept whole.
    """

    def __init__(
        self,
        columns: Sequence[SurveyColumn],
        declared: Sequence[EncodedColumn],
        keeps_intercept: bool = False,
    ) -> None:
        self.columns, self.declared = tuple(columns), tuple(declared)
        self.keeps_intercept = keeps_intercept

    @classmethod
    def of(cls, schema: Schema, encoder: Encoder) -> "TableFacts":
        """Of a table that an encoder of the schema encodes."""
        columns = []
        # Zero in the unit of the bounds, where it lies within them.
        anchors = {
            each.source: max(-1.0, min(1.0, -each.center / each.half_range))
            for each in encoder.columns
            if each.kind == "numeric"
        }
        for name in encoder.value_columns:
            kind = schema.columns[name]
            levels = len(kind.levels) if isinstance(kind, Categorical) else 0
            anchor = anchors.get(name, 0.0)
            columns.append(SurveyColumn(name, levels, isinstance(kind, Boolean), anchor))
        return cls(columns, encoder.columns, schema.intercept and schema.weights is None)

    @property
    def has_intercept(self) -> bool:
        """Whether there is one; it comes first."""
        return self.declared[0].kind == "intercept"

    @property
    def n_features(self) -> int:
        """Encoded columns but for the intercept and indicators of missing values."""
        return count_values(self.declared)

    @property
    def n_levels(self) -> int:
        """How many of these are levels of categories."""
        return sum(column.kind == "category" for column in self.declared)

    @property
    def tells_losses(self) -> bool:
        """Whether columns of numbers tell what they lost; levels tell by themselves."""
        return bool(numbers(self.declared)) and self.has_intercept

    @property
    def unit(self) -> float:
        """What features are divided by at last, beside their intercept."""
        if not self.has_intercept:
            return 1.0
        if self.keeps_intercept:
            return sqrt(1 + _PER_LEVEL * self.n_levels)
        return sqrt(1 + _PER_WEIGHTED * self.n_features)

    def scales_down(self, geometry: Geometry) -> bool:
        """Whether any row can be longer than the norm bound: public, by the bounds of columns."""
        columns = geometry.apply(self.declared)
        # It is rounded up.
        longest = longest_row(columns) * (1 - 1e-9)
        return geometry.linear is not None or geometry.bound(columns) < longest

    def stated(self, geometry: Geometry) -> Geometry:
        """The geometry, of which nothing is lost where no row is scaled down."""
        if self.scales_down(geometry):
            return geometry
        return msgspec.structs.replace(geometry, lost=0.0)

    def surveyed(self, spreads: Sequence[list[Spread]], *, centers_levels: bool) -> Geometry:
        """Centers and scales of a survey; with levels around their shares, as numbers are."""
        names = (column.name for column in self.columns)
        found = dict(zip(names, spreads, strict=True))
        geometry = Geometry(columns=scales_of(self.declared, found))
        if not (centers_levels and self.keeps_intercept and self.n_levels):
            return geometry
        levels = {name: iter(of_levels) for name, of_levels in found.items()}
        middles = [
            next(levels[each.source]).center / each.half_range if each.kind == "category" else 0.0
            for each in geometry.apply(self.declared)
            if each.kind != "intercept"
        ]
        linear = centering_map(np.array(middles))
        return msgspec.structs.replace(geometry, linear=linear, norm_bound=ANY_BOUND)
