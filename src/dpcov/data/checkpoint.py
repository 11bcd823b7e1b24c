"""Save moments under a key, resume them, and merge them with those of other files and sites.

Contract: what is saved is encrypted and has a length that depends on public numbers only; every
part of a table is counted once; moments of different schemas are never added.
"""

import os
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dpcov.data.encode import Encoder
from dpcov.data.engines.base import Encoding
from dpcov.data.exact.moments import Moments, MomentsSpec
from dpcov.data.exact.sums import ExactSum
from dpcov.data.geometry import Geometry
from dpcov.data.groups import split_schema
from dpcov.data.questions import MomentsQuestion, Question
from dpcov.data.schema.schema import Schema
from dpcov.data.vault import Key, lock_file, unlock_file
from dpcov.errors import DataError, UsageError, require_kind
from dpcov.published.digits import plural
from dpcov.published.file.stated import learned, schemas_differ

# The heading is decoded as a whole.
_MAX_PARTS = 100_000


@learned
class _Heading(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What stands before the numbers, encrypted like them."""

    schema_toml: str
    by: str | None
    n_features: int
    norm_bound: float
    spec: MomentsSpec
    n_rows: tuple[int, ...]
    parts: dict[str, str]
    geometry: Geometry | None = None
    written: dict[str, int] = {}


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """**Sensitive** moments of one or several parts of a table, and where they came from.

    `schema_toml` is the schema as declared, `by` the grouping column, `geometry` None for that of
    the bounds; `parts` maps the random number of every part that was counted to the custodian's
    name for it, and `written` that of a file to when it was last written, in nanoseconds.
    """

    moments: Moments
    schema_toml: str
    by: str | None = None
    parts: dict[str, str] = field(default_factory=dict)
    geometry: Geometry | None = None
    written: dict[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Checkpoint({plural(len(self.parts), 'part')}, <sensitive>)"

    @classmethod
    def of_part(
        cls, moments: Moments, name: str, written: int | None = None, **facts: Any
    ) -> "Checkpoint":
        """Make a checkpoint of one part; ``facts`` are the other fields."""
        # A random number tells parts apart where the custodian's names repeat.
        number = os.urandom(16).hex()
        times = {} if written is None else {number: written}
        return cls(moments=moments, parts={number: name}, written=times, **facts)

    def merge(self, other: "Checkpoint") -> "Checkpoint":
        """Add the rows of a checkpoint of the same schema and groups; changes neither."""
        require_kind("other", other, Checkpoint)
        mine, theirs = (c.geometry and c.geometry.meaning for c in (self, other))
        told = ""
        if self.schema_toml != other.schema_toml:
            told = schemas_differ(self.schema_toml, other.schema_toml)
        elif self.by != other.by:
            told = "Their groups differ"
        elif mine != theirs:
            told = "Their geometries differ"
        if told:
            raise DataError(f"{told}, so they cannot be added. Gather all of them with the same.")
        if set(self.parts) & set(other.parts):
            raise DataError(
                "A part is in both files, so its rows would count twice. Leave one file out."
            )
        # Gathered again a part has another number, and the custodian's name for it.
        for name in sorted({*self.parts.values()} & {*other.parts.values()} - {""}):
            raise DataError(
                f"A part called {Path(name).name} was gathered into both files, so its rows would "
                "count twice. Leave one file out; if these are two tables, gather one anew under "
                "another name, which costs nothing."
            )
        if len(self.parts) + len(other.parts) > _MAX_PARTS:
            raise DataError(f"A checkpoint holds at most {_MAX_PARTS} parts. Gather larger ones.")
        total = deepcopy(self.moments)
        total.merge(other.moments)
        parts, written = self.parts | other.parts, self.written | other.written
        return replace(self, moments=total, parts=parts, written=written)

    def take(self, encoding: Encoding, question: Question) -> Moments:
        """Return the moments if they are what a release asks for; refuse others."""
        schema, by = Schema.loads(self.schema_toml), self.by
        rest = schema if by is None else split_schema(schema, by)[0]
        # What decides how a row is encoded, and into which group it falls.  As texts, since equal
        # schemas may differ in the order of their columns.
        wanted = rest.dumps(), by, self.geometry and self.geometry.meaning
        if not isinstance(encoding, Encoder) or wanted != (
            encoding.schema.meaning,
            encoding.grouping and encoding.grouping.reader.name,
            encoding.geometry and encoding.geometry.meaning,
        ):
            raise UsageError(
                "These moments were gathered with another schema, other groups or another "
                "geometry. Use those they were gathered with."
            )
        if question != MomentsQuestion(spec=self.moments.spec):
            raise UsageError(
                "These moments were gathered for another release. Gather them again with the "
                "mechanism, options, budget and neighbors of this one."
            )
        return self.moments

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
            geometry=self.geometry,
            written=self.written,
        )
        text = msgspec.json.encode(heading)
        padded = text.ljust(_heading_room(text, heading))
        return b"".join((len(text).to_bytes(8, "little"), padded, *map(_packed, _sums(moments))))


def _heading_room(text: bytes, heading: _Heading) -> int:
    # Padded as if each row count had 20 digits: their lengths would tell of the rows.
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
    words = np.frombuffer(content, dtype="<i8", offset=start).reshape(matrices, 2, -1)
    for total, (high, low) in zip(_sums(moments), words, strict=True):
        total.add_words(_symmetric(high, heading.n_features), _symmetric(low, heading.n_features))
    names = ("schema_toml", "by", "parts", "geometry", "written")
    return Checkpoint(moments=moments, **{name: getattr(heading, name) for name in names})


def _sums(moments: Moments) -> list[ExactSum]:
    # All sums of all strata in a fixed order.
    pairs = ((stratum.sscp, stratum.normalized) for stratum in moments.strata)
    return [total for pair in pairs for total in pair if total is not None]


def _packed(total: ExactSum) -> bytes:
    # Upper triangle in two words, whether the second is needed or not.
    high, low = total.words()
    upper = np.triu_indices(len(high))
    return np.concatenate([high[upper], low[upper]]).astype("<i8").tobytes()


def _symmetric(upper: np.ndarray, dimension: int) -> np.ndarray:
    matrix = np.zeros((dimension, dimension), dtype=np.int64)
    rows, columns = np.triu_indices(dimension)
    matrix[rows, columns] = matrix[columns, rows] = upper
    return matrix
