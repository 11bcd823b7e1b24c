"""The release: noisy statistics, their noise law, the guarantee and where it all came from."""

from pathlib import Path
from typing import Self

import pyarrow as pa

from dpcov.files import write_file
from dpcov.published.base import BaseRelease
from dpcov.published.file import pack, unpack
from dpcov.published.summary import summarize
from dpcov.published.synthetic import sample


class Release(BaseRelease):
    """A published private second moment matrix, made by :func:`dpcov.release`.

    ``manifest`` is its public record, ``guarantee`` what is promised to each person in the table.
    """

    def __repr__(self) -> str:
        return (
            f"Release({self.manifest.mechanism.name}, {len(self.feature_names)} features, "
            f"{self.guarantee.promise}, {self.fingerprint[:12]})"
        )

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

    def sample(self, n_rows: int, *, seed: int | None = None) -> pa.Table:
        """Draw synthetic rows; see :func:`dpcov.published.synthetic.sample`."""
        return sample(self, n_rows, seed=seed)

    def summary(self) -> str:
        """Plain-language account of what was released, for a data-protection officer."""
        return summarize(self)
