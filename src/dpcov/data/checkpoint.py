"""Moments that outlive a process: saved under a key, resumed, and merged with those of other files and sites.

Contract: what is saved is encrypted and has a length that depends on public numbers only; every part of a
table is counted once; moments of different schemas are never added.  **Sensitive** throughout.
"""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np

from dpcov.data.engines import Encoding, TableEncoding
from dpcov.data.exact import ExactSum
from dpcov.data.groups import split_schema
from dpcov.data.moments import Moments, MomentsSpec
from dpcov.data.questions import Ask, MomentsQuestion
from dpcov.data.schema.schema import Schema
from dpcov.data.vault import Key, lock_file, unlock_file
from dpcov.errors import DataError, UsageError

_MAX_PARTS = 100_000


class _Heading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stands before the numbers, encrypted like them; padded, because row counts vary in length."""

    schema_toml: str
    by: str | None
    n_features: int
    norm_bound: float
    spec: MomentsSpec
    n_rows: tuple[int, ...]
    parts: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Moments of one or several parts of a table, and where they came from.

    Parameters
    ----------
    moments : Moments
    schema_toml : str
        The schema as declared.
    by : str or None
        The grouping column.
    parts : mapping of str to str
        Random number of every part that was counted, to the custodian's name for it.
    """

    moments: Moments
    schema_toml: str
    by: str | None = None
    parts: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Checkpoint({len(self.parts)} parts, <sensitive>)"

    @classmethod
    def of_part(cls, moments: Moments, schema_toml: str, by: str | None, name: str) -> "Checkpoint":
        """Make a checkpoint of one part."""
        return cls(
            moments=moments, schema_toml=schema_toml, by=by, parts={os.urandom(16).hex(): name}
        )

    def holds(self, name: str) -> bool:
        """Whether a part of this name has been counted."""
        return name in self.parts.values()

    def merge(self, other: "Checkpoint") -> "Checkpoint":
        """Add another checkpoint's rows; neither of the two is changed.

        Raises
        ------
        DataError
            Different schemas, groups or ways of gathering, or a part that both have counted.
        """
        if (self.schema_toml, self.by) != (other.schema_toml, other.by):
            raise DataError(
                "These moments were gathered with different schemas or groups, so they cannot be added."
            )
        if set(self.parts) & set(other.parts):
            raise DataError(
                "A part is in both files; adding them would count its rows twice. Leave one file out."
            )
        if len(self.parts) + len(other.parts) > _MAX_PARTS:
            raise DataError(f"A checkpoint holds at most {_MAX_PARTS} parts. Gather larger ones.")
        total = Moments(
            self.moments.n_features, self.moments.spec, norm_bound=self.moments.norm_bound
        )
        total.merge(self.moments)
        total.merge(other.moments)
        return replace(self, moments=total, parts={**self.parts, **other.parts})

    def take(self, encoding: Encoding, question: MomentsQuestion) -> Moments:
        """Return the moments if they are what a release asks for.

        Raises
        ------
        UsageError
            They were gathered with another schema, or for another mechanism.
        """
        if not isinstance(encoding, TableEncoding) or _facts(encoding) != _facts(self._encoding()):
            raise UsageError(
                "These moments were gathered with another schema or other groups. Use those they were gathered with."
            )
        return Ask.saved(self.moments)(question)

    def _encoding(self) -> TableEncoding:
        declared = Schema.loads(self.schema_toml)
        schema, grouping = (declared, None) if self.by is None else split_schema(declared, self.by)
        return TableEncoding(schema=schema, grouping=grouping)

    def save(self, path: str | Path, key: Key, *, overwrite: bool = False) -> None:
        """Write the encrypted file, whole or not at all."""
        lock_file(path, self._to_bytes(), key, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path, key: Key) -> "Checkpoint":
        """Read an encrypted file; raises DataError if it is not whole or the key is another one."""
        content = unlock_file(path, key)
        try:
            return _from_bytes(content)
        except (msgspec.MsgspecError, ValueError, IndexError, RecursionError):
            raise DataError(
                "These moments were saved by another version of dpcov. Upgrade dpcov."
            ) from None

    def _to_bytes(self) -> bytes:
        moments = self.moments
        heading = _Heading(
            schema_toml=self.schema_toml,
            by=self.by,
            n_features=moments.n_features,
            norm_bound=moments.norm_bound,
            spec=moments.spec,
            n_rows=tuple(stratum.n_rows for stratum in moments.strata),
            parts=self.parts,
        )
        text = msgspec.json.encode(heading)
        room = _heading_room(text, heading)
        return (
            len(text).to_bytes(8, "little")
            + text.ljust(room)
            + b"".join(_packed(sum_) for sum_ in _sums(moments))
        )


def _facts(encoding: TableEncoding) -> tuple[str, str | None]:
    """What decides how a row is encoded, and into which group it falls."""
    return encoding.schema.dumps(), None if encoding.grouping is None else encoding.grouping.column


def _heading_room(text: bytes, heading: _Heading) -> int:
    """Length of the padded heading: the row counts as if each had 20 digits."""
    return len(text) + sum(20 - len(str(count)) for count in heading.n_rows)


def _from_bytes(content: bytes) -> Checkpoint:
    length = int.from_bytes(content[:8], "little")
    text = content[8 : 8 + length]
    heading = msgspec.json.decode(text, type=_Heading)
    start = 8 + _heading_room(text, heading)
    step = 8 * heading.n_features * (heading.n_features + 1)
    # Before anything of the stated size is made: the numbers are as many as the heading says.
    matrices = heading.spec.n_strata * (2 if heading.spec.normalized else 1)
    if heading.n_features < 1 or len(content) - start != matrices * step:
        raise ValueError
    moments = Moments(heading.n_features, heading.spec, norm_bound=heading.norm_bound)
    for stratum, count in zip(moments.strata, heading.n_rows, strict=True):
        stratum.n_rows = count
    for place, total in enumerate(_sums(moments)):
        _unpack(
            total, content[start + place * step : start + (place + 1) * step], heading.n_features
        )
    return Checkpoint(
        moments=moments, schema_toml=heading.schema_toml, by=heading.by, parts=heading.parts
    )


def _sums(moments: Moments) -> list[ExactSum]:
    """All sums of all strata in a fixed order."""
    pairs = ((stratum.sscp, stratum.normalized) for stratum in moments.strata)
    return [total for pair in pairs for total in pair if total is not None]


def _packed(total: ExactSum) -> bytes:
    """Upper triangle in two words, whether the second is needed or not."""
    high, low = total.words()
    upper = np.triu_indices(len(high))
    return np.concatenate([high[upper], low[upper]]).astype("<i8").tobytes()


def _unpack(total: ExactSum, content: bytes, dimension: int) -> None:
    high, low = np.split(np.frombuffer(content, dtype="<i8"), 2)
    total.add_words(_symmetric(high, dimension), _symmetric(low, dimension))


def _symmetric(upper: np.ndarray, dimension: int) -> np.ndarray:
    matrix = np.zeros((dimension, dimension), dtype=np.int64)
    rows, columns = np.triu_indices(dimension)
    matrix[rows, columns] = upper
    matrix[columns, rows] = upper
    return matrix
