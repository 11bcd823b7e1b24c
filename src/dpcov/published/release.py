"""The release: noisy statistics, their noise law, the guarantee and where it all came from."""

from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from dpcov.files import write_file
from dpcov.published.base import BaseRelease, on_one_thread
from dpcov.published.card import release_card
from dpcov.published.diagnosis import Diagnosis, diagnose
from dpcov.published.estimate.present import MissingAs
from dpcov.published.file import pack, unpack
from dpcov.published.labelled import labelled
from dpcov.published.statistics import Post
from dpcov.published.summary import summarize
from dpcov.published.synthetic import sample


class Release(BaseRelease):
    """A published private second moment matrix, made by :func:`dpcov.release`.

    ``manifest`` is its public record, ``guarantee`` what is promised to each person in the table.
    """

    def __repr__(self) -> str:
        told = f"{self.guarantee.promise}, {self.fingerprint[:12]}"
        return f"Release({told}: {self.diagnose().headline.rstrip('.')})"

    def _repr_html_(self) -> str:
        return release_card(self, self.diagnose())

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

    def mean(self, *, missing: MissingAs = "pairwise", indicators: bool = False) -> Any:
        """Estimated means of the features, in original units, within the public bounds.

        Over the rows in which a value is present, where the schema marks missing ones; with
        ``missing="at-random"`` those of all rows, as features that are nearly always present tell
        (docs/missing.md).  With ``indicators`` the shares of the missing too, as
        ``encoded_features`` has them.

        A pandas series with the names of the features; an array where pandas is not installed.
        ``to_numpy()`` works on both.
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

        A pandas data frame with the names of the features; an array where pandas is not installed.
        ``to_numpy()`` works on both.  ``post`` is as in :meth:`second_moment`.
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
        with a dot.  Of a release with groups: all rows; ``group(name).plot()`` draws one of them.
        Raises UsageError without matplotlib, and ReleaseError where the noise hides too much.
        """
        from dpcov.published.plots import plot_correlations

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
    def _diagnosis(self) -> Diagnosis:
        return diagnose(self)

    def summary(self, *, details: bool = False) -> str:
        """Plain-language account of what was released, for a data-protection officer."""
        return summarize(self, self.diagnose(), details=details)
