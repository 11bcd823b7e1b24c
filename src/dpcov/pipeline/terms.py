"""Decide everything about a release that public numbers decide.

Contract: nothing here has seen a row, and what cannot be honored is refused.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcov.data.checkpoint import Checkpoint
from dpcov.data.encode import Encoder
from dpcov.data.engines.base import Encoding
from dpcov.data.exact.linear import LinearMap
from dpcov.data.gather import Gathering
from dpcov.data.geometry import Geometry
from dpcov.data.groups import split_schema
from dpcov.data.questions import Ask
from dpcov.data.schema.declared import Ignored
from dpcov.data.schema.schema import Schema
from dpcov.errors import ReleaseWarning, UsageError, warn_caller
from dpcov.mechanisms.auto import Choice, resolve
from dpcov.mechanisms.base import Calibration, Mechanism, Problem
from dpcov.mechanisms.geometry.in_geometry import InGeometry
from dpcov.mechanisms.geometry.surveyed import Surveyed
from dpcov.privacy.budget import Budget, check_budget
from dpcov.privacy.guarantee import Neighbors, check_neighbors
from dpcov.privacy.meaning import check_delta
from dpcov.privacy.options import plain
from dpcov.published.file.columns import EncodedColumn, of_kind
from dpcov.published.file.manifest import GEOMETRY_WAS_GIVEN
from dpcov.published.reading.combined_unit import reference_of
from dpcov.published.release import Release

_INSIST = ", or insist with accept_large_delta=True (--accept-large-delta)"

BOUNDS_ARE_KEPT = (
    "The schema has a norm_bound, so a release keeps the centers and scales of its bounds. Leave "
    "norm_bound out of the schema to have them found."
)


@dataclass(frozen=True, kw_only=True)
class ReleaseTerms:
    """Everything public that was decided before any row is read."""

    mechanism: Mechanism[Any]
    choice: Choice
    budget: Budget
    # With the number of rows only where it was stated.
    problem: Problem
    columns: tuple[EncodedColumn, ...]
    norm_bound: float
    intercept_is_public: bool
    title: str = ""
    schema_toml: str | None = None
    groups: tuple[str, ...] = ()
    accept_large_delta: bool = False
    # A public geometry, and the same where saved moments are in it, which the release states then.
    known: Geometry | None = None
    stated: Geometry | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the release says about these decisions."""
        return (*self.choice.notes, *[GEOMETRY_WAS_GIVEN] * (self.known is not None))

    def calibrate(self, problem: Problem) -> Calibration:
        """Choose the noise from public numbers, and refuse a promise that protects nobody."""
        calibration: Calibration = self.mechanism.calibrate(problem, self.budget)
        if not self.accept_large_delta:
            check_delta(calibration.promise, problem.neighbors, problem.n_rows, _INSIST)
        return calibration

    def require_one_question(self) -> None:
        """Refuse a mechanism that saved moments cannot answer."""
        if self.mechanism.asks_again:
            raise UsageError(
                f"The {self.mechanism.name} mechanism asks the table several times, and saved "
                "moments answer one question. Give the table itself, or choose another mechanism."
            )

    def ask(self, where: Gathering, data: Any, encoding: Encoding) -> Ask:
        """What the mechanism asks its questions of; what cannot be gathered is refused now."""
        if isinstance(data, Checkpoint):
            self.require_one_question()
        # A survey, which is the first question, pays before the others.
        where.check(data, encoding, self.mechanism.largest_questions(self.problem))
        n_is_public, again = self.problem.neighbors == "replace-one", self.mechanism.asks_again
        return where.ask(data, encoding, again=again, n_is_public=n_is_public)


def plan_table(
    declared: Schema,
    budget: Budget,
    mechanism: str | Mechanism[Any],
    neighbors: Neighbors,
    n_rows: int | None,
    by: str | None,
    options: Mapping[str, Any],
    geometry: Geometry | Release | str | Path,
    accept_large_delta: bool = False,
    one_question: bool = False,
) -> tuple[ReleaseTerms, Encoder]:
    """Decide everything about the release of a table that public numbers decide.

    ``one_question``: whether the table is saved moments, of which no length of rows can be asked.
    """
    neighbors = check_neighbors(neighbors)
    if n_rows is not None and neighbors == "add-remove-one":
        raise UsageError(
            "Under add-remove-one neighbors the number of rows is private; do not state it."
        )
    ignored = {name for name, kind in declared.columns.items() if isinstance(kind, Ignored)}
    known = read_geometry(geometry, ignored)
    if one_question and geometry == "private":
        raise UsageError(
            "Saved moments answer one question, so no geometry can be found in them. Leave out "
            "geometry (--geometry), or find one first (dpcov survey) and gather them in it."
        )
    by = plain("by", by, str | None)
    schema, grouping = (declared, None) if by is None else split_schema(declared, by)
    if known is not None:
        known = known.in_order_of(schema.encoded_columns)
    if known is not None and schema.norm_bound is not None:
        raise UsageError(
            "A norm bound belongs to the schema's own geometry. Leave norm_bound out of the "
            "schema, or use geometry='schema' (--geometry schema)."
        )
    if geometry == "private" and schema.norm_bound is not None:
        warn_caller(BOUNDS_ARE_KEPT, ReleaseWarning)
    # Questions say in which geometry they are asked, where rows can be asked several.
    measured = None if one_question else known
    stated = known if one_question else None
    encoder = Encoder(schema, stated, grouping)
    groups = () if grouping is None else grouping.names
    problem = Problem(
        n_features=encoder.n_features,
        neighbors=neighbors,
        n_rows=n_rows,
        rows_per_person=schema.rows_per_person,
        n_groups=max(1, len(groups)),
        n_indicators=int(of_kind(encoder.columns, "missing").sum()),
    )
    # Whoever gave a norm bound knows how long rows are.
    surveyed = geometry == "private" and schema.norm_bound is None
    surveyed |= measured is not None
    shortest_row = 1.0 / encoder.norm_bound if encoder.keeps_intercept and not surveyed else 0.0
    choice = resolve(mechanism, options, problem, budget, shortest_row=shortest_row)
    chosen = choice.make()
    if surveyed:
        chosen = Surveyed.of(chosen, schema, encoder)
        chosen = chosen if measured is None else InGeometry(chosen, measured)
    terms = ReleaseTerms(
        mechanism=chosen,
        choice=choice,
        budget=budget,
        problem=problem,
        columns=encoder.columns,
        norm_bound=encoder.norm_bound,
        intercept_is_public=encoder.keeps_intercept,
        title=schema.title,
        schema_toml=declared.meaning,
        groups=groups,
        accept_large_delta=plain("accept_large_delta", accept_large_delta, bool),
        known=known,
        stated=stated,
    )
    return terms, encoder


def mechanism_for(
    mechanism: str | Mechanism[Any], budget: Budget, neighbors: Neighbors, n_features: int
) -> Mechanism[Any]:
    """The mechanism that a release of so many encoded columns will have."""
    check_budget(budget)
    problem = Problem(n_features=n_features, neighbors=check_neighbors(neighbors))
    return resolve(mechanism, {}, problem, budget).make()


def read_geometry(
    geometry: Geometry | Release | str | Path, ignored: Collection[str] = ()
) -> Geometry | None:
    """A public geometry, which says whether it was found with a seed; None if none is known.

    That of a release is without these columns of the table.
    """
    if not isinstance(geometry, Geometry | Release | str | Path):
        raise UsageError(
            "geometry must be 'schema', 'private', the path of a file, a Geometry or a Release."
        )
    if isinstance(geometry, Geometry):
        return geometry
    if geometry in ("schema", "private"):
        return None
    if not isinstance(geometry, Release) and Path(geometry).suffix != ".dpcov":
        return Geometry.from_toml(geometry)
    release = geometry if isinstance(geometry, Release) else Release.load(geometry)
    manifest, seeded = release.manifest, not release.is_private
    lost, linear = manifest.statistics.lost, _map_of(release)
    found = Geometry.of(manifest.columns, manifest.norm_bound, linear, lost, seeded)
    return found.without([each.name for each in manifest.columns if each.source in ignored])


def _map_of(release: Release) -> LinearMap | None:
    # Of releases that were combined, that of the one whose geometry they have.
    found = reference_of(release.members) if release.members else release
    exponent = found.statistics.linear_exponent
    if exponent is None:
        return None
    numbers = found.statistics.arrays["linear"].tolist()
    return LinearMap(tuple(map(tuple, numbers)), exponent)
