"""The release: noisy statistics, their noise law, the guarantee and where it all came from."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from dpcov.errors import DpcovError, UsageError
from dpcov.files import write_file
from dpcov.markup import CELL, Child, card, details, el, facts, listing, name_of, names_of
from dpcov.privacy.options import plain
from dpcov.published.estimate.present import MissingAs
from dpcov.published.file.archive import pack, unpack
from dpcov.published.file.statistics import Post
from dpcov.published.nested import nested_facts
from dpcov.published.pooled import PooledGroups, pool_groups, pooled_facts, told_groups
from dpcov.published.reading.base import BaseRelease
from dpcov.published.reading.combined import combined_facts
from dpcov.published.reading.labelled import labelled
from dpcov.published.reading.rows import on_one_thread
from dpcov.published.synthetic import sample
from dpcov.published.words.diagnosis import diagnose
from dpcov.published.words.numbers import GroupNumbers, group_numbers
from dpcov.published.words.summary import LIGHTS, summarize, told_columns
from dpcov.published.words.verdicts import Diagnosis
from dpcov.published.words.words import promise_in_words, rows_in_words


class Release(BaseRelease):
    """A published private second moment matrix, made by :func:`dpcov.release`.

    ``manifest`` is its public record, ``guarantee`` what is promised to each person in the table.
    """

    def __repr__(self) -> str:
        told = f"{self.guarantee.promise}, {self.fingerprint[:12]}"
        return f"Release({told}: {self.diagnose().headline.rstrip('.')})"

    def _repr_html_(self) -> str:
        try:
            groups = self.pooled
        # No groups, a law of noise that is not published, or rows that it hides.
        except DpcovError:
            groups = None
        return release_card(self, self.diagnose(), groups)

    def to_bytes(self) -> bytes:
        """Content of the release file."""
        return pack(self.manifest, dict(self.statistics.arrays))

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the release file, whole or not at all."""
        write_file(path, self.to_bytes(), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a release file, refusing damaged, altered or unknown ones."""
        return cls(*unpack(path))

    def combine(self, *others: "Release") -> Self:
        """Average with other releases of the same table: one release with less noise.

        The order does not matter, and combined releases may be combined.  The guarantee is the
        joint one of all; nothing is spent.  Make the second release with the first one's geometry
        (``geometry=first``): then none of its budget goes to finding one again.

        Raises UsageError where the tables, the schemas, the units of privacy or, without an
        intercept, the centers are not the same, or where a release is among them twice.
        """
        _require_releases(others)
        return type(self)(*combined_facts([self, *others]))

    def unite(self, *others: "Release") -> Self:
        """Put releases of disjoint tables together: that of all rows of several sites or years.

        Nobody may be in two of the tables; then the largest of the guarantees holds for everybody.
        Releases that one account of a ledger paid for may be of the same people: theirs add up.
        One schema is needed.  Errors are those of :meth:`combine`.
        """
        _require_releases(others)
        return type(self)(*combined_facts([self, *others], disjoint=True))

    def nest(
        self, parents: "Release", inside: Mapping[str, str]
    ) -> tuple[dict[str, Self], dict[str, Self]]:
        """Let groups inside groups add up: this release's are regions, the other's are states.

        Both are of one table in one geometry (``geometry=first``).  Numbers of rows, sums
        and products of regions are moved, by least squares with the known noise, until they are
        those of their state; both get less noise.

        Parameters
        ----------
        parents : Release
            With by=COLUMN.
        inside : mapping of str to str
            In which of its groups each of this release's lies, if not in the one of its own name,
            as that of unlisted values; all that lie in a group are all of it.

        Returns
        -------
        (dict of str to Release, dict of str to Release)
            Every group of this release, and of ``parents``, with the guarantee of both releases.

        Raises UsageError where the releases or the groups do not go together.
        """
        _require_releases([parents])
        if not isinstance(inside, Mapping):
            raise UsageError('Give the group that each lies in, such as {"harbor": "north"}.')
        found = nested_facts(self, parents, inside)
        made = [{name: type(self)(*facts) for name, facts in level.items()} for level in found]
        return made[0], made[1]

    @cached_property
    @on_one_thread
    def pooled(self) -> PooledGroups:
        """Estimates of all groups together: small ones borrow strength from the others."""
        return pool_groups(self)

    def group(self, name: str, *, pooled: bool = False) -> Self:
        """Read the part of one of :attr:`group_names` as a release of its own.

        ``pooled``: estimated together with the other groups (:attr:`pooled`), as a finished matrix.
        """
        alone = super().group(name)
        if not plain("pooled", pooled, bool):
            return alone
        return type(self)(*pooled_facts(self, name, self.pooled))

    def mean(self, *, missing: MissingAs = "pairwise", indicators: bool = False) -> Any:
        """Estimated means of the features, in original units, within the public bounds.

        Over the rows in which a value is present, where the schema marks missing ones; with
        ``missing="at-random"`` those of all rows, as features that most rows have tell
        (docs/missing.md).  With ``indicators`` the shares of the missing too, as
        ``encoded_features`` has them.

        A pandas series with the names of the features; without pandas a polars series, and without
        either an array, both in the order of ``feature_names``.  ``to_numpy()`` works on all.
        """
        values = self.mean_vector(missing=missing, indicators=indicators)
        return labelled(values, self._names(indicators))

    def covariance(
        self, post: Post | None = None, *, missing: MissingAs = "pairwise", indicators: bool = False
    ) -> Any:
        """Estimated covariance (centered, divided by n) of the features, in original units.

        Every pair is over the rows in which both are present, where the schema marks missing
        values; ``missing="at-random"`` and ``indicators`` are as in :meth:`mean`.  Covariances with
        indicators are as noisy as they are: only those of features are made positive semidefinite.

        A pandas data frame with the names of the features; without pandas one of polars, and
        without either an array.  ``to_numpy()`` works on all.  ``post`` is as in
        :meth:`second_moment`.
        """
        values = self.covariance_matrix(post, missing=missing, indicators=indicators)
        return labelled(values, self._names(indicators))

    def correlation(
        self, post: Post | None = None, *, missing: MissingAs = "pairwise", indicators: bool = False
    ) -> Any:
        """Estimated correlations of the features, as :meth:`covariance` returns them.

        Where noise hides a variance, its correlations are near zero, or NaN if noise is unknown.
        """
        values = self.correlation_matrix(post, missing=missing, indicators=indicators)
        return labelled(values, self._names(indicators))

    def _names(self, indicators: bool) -> tuple[str, ...]:
        every = tuple(column.name for column in self.encoded_features)
        return every if indicators else self.feature_names

    def plot(self, axes: Any = None) -> Any:
        """Draw the correlations on matplotlib axes (new by default), and return the axes.

        Those that noise alone could have made, at any pair in one of twenty releases, are blank,
        with a dot.  A release with groups is drawn side by side, groups estimated together
        (:attr:`pooled`), unless ``axes`` are given: all rows first, whose axes are returned, and up
        to 24 groups that differ most from them.  ``group(name).plot()`` draws one of them.
        Raises UsageError without matplotlib, and ReleaseError where the noise hides too much.
        """
        from dpcov.published.plots import plot_correlations, plot_groups

        if axes is None and len(self.group_names) > 1 and self.has_intercept:
            return plot_groups(self, self.pooled)
        return plot_correlations(self, axes)

    def sample(self, n_rows: int, *, seed: int | None = None) -> pa.Table:
        """Draw synthetic rows; see :func:`dpcov.published.synthetic.sample`."""
        return sample(self, n_rows, seed=seed)

    def diagnose(self) -> Diagnosis:
        """Verdict on every column: good, weak, lost in the noise or suspicious, and why.

        >>> import numpy as np, dpcov
        >>> rows = np.random.default_rng(0).normal(170, 10, size=(5000, 2))
        >>> wide = dpcov.Numeric(lower=0, upper=300)
        >>> schema = dpcov.Schema(columns={"x0": wide, "x1": wide})
        >>> made = dpcov.release(rows, schema=schema, budget=dpcov.Budget(rho="0.5"))
        >>> made.diagnose().columns[0].verdict
        'good'
        """
        return self._diagnosis

    @cached_property
    @on_one_thread
    def numbers(self) -> GroupNumbers:
        """What pages and verdicts are made of, computed once."""
        return group_numbers(self)

    @cached_property
    @on_one_thread
    def _diagnosis(self) -> Diagnosis:
        return diagnose(self, self.numbers)

    def summary(self, *, details: bool = False) -> str:
        """Plain-language account of what was released, for a data-protection officer."""
        return summarize(self, self.diagnose(), details=plain("details", details, bool))


def _require_releases(given: Iterable[object]) -> None:
    if not all(isinstance(each, Release) for each in given):
        raise UsageError("Give releases, as dpcov.load reads them from files.")


_NAMES = 6


def release_card(release: BaseRelease, found: Diagnosis, made: PooledGroups | None) -> str:
    """What is promised to whom, and what can be read from every column."""
    manifest, promise = release.manifest, release.guarantee.promise
    groups = release.group_names
    more = f" and {len(groups) - _NAMES} more" if len(groups) > _NAMES else ""
    told: list[tuple[str, Child]] = [
        ("Guarantee", f"{promise}, {release.guarantee.neighbors} neighbors"),
        ("Rows", rows_in_words(release)),
        ("Mechanism", manifest.mechanisms),
        ("Groups", [names_of(groups[:_NAMES]), more] if groups else None),
        ("Fingerprint", el("code", release.fingerprint[:16], title=release.fingerprint)),
    ]
    head, numbers = told_columns(found)
    rows = [
        (name_of(column.in_unit, CELL), LIGHTS[column.verdict], *own)
        for column, own in zip(found.columns, numbers, strict=True)
    ]
    findings = [
        el("li", names_of(names[:_NAMES]), f": {column.cause} {column.advice}")
        for names, column in found.by_finding()
    ]
    caption = "± holds 95 of 100 errors that noise and scaling rows down make"
    return card(
        "Release",
        manifest.title or "untitled table",
        [el("p", el("strong", f"Warning: {warning}")) for warning in manifest.warnings],
        el("p", found.headline),
        facts(told),
        listing(("Column", "Verdict", *head), rows, caption, text=(1,)),
        _side_by_side(release, made) if made else None,
        details("Why, and what would help", el("ul", findings)) if findings else None,
        details("What the guarantee means for one person", el("p", promise_in_words(promise))),
    )


def _side_by_side(release: BaseRelease, made: PooledGroups) -> Child:
    columns = release.features[:_NAMES]
    head = ["Group", "Rows", *(name_of(column.name, CELL) for column in columns)]
    rows = [
        (name_of(name, CELL), *told) for name, *told in told_groups(release, made, len(columns))
    ]
    caption = "Means, groups estimated together; ± holds 95 of 100 errors"
    return details("Groups side by side", listing(head, rows, caption))
