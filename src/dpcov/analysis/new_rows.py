"""Read new rows as a release read its table: by the schema that it carries, with the same readers.

They are the analyst's own rows.  It loads what handles rows: imported only when there are some.
"""

from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from typing import Any

import narwhals as nw
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from dpcov.analysis.problems import InputError
from dpcov.data import values
from dpcov.data.groups import Grouping, labels_and_codes
from dpcov.data.readers import Reader, reader_of
from dpcov.data.schema.declared import Boolean, Categorical, Declared, Numeric
from dpcov.data.schema.given import Codes
from dpcov.data.schema.schema import Schema
from dpcov.data.sources.base import column_of_cells
from dpcov.data.sources.frames import FrameSource
from dpcov.errors import DataError, SchemaError
from dpcov.published.file.columns import OTHER, EncodedColumn, given_names
from dpcov.published.linalg.symmetric import Array
from dpcov.published.release import Release


def read_frame(
    release: Release,
    columns: Sequence[EncodedColumn],
    frame: nw.DataFrame[Any],
    complete: Container[str],
) -> Array:
    """Return features of rows in original units, (n_rows, n_features), NaN where missing.

    Levels that are not listed count as none, and are refused where the listed ones are ``complete``
    and the release hence knows nothing of others.
    """
    given = given_names(columns)
    schema = _schema_of(release, given)
    cells = {source: _cells(frame, schema, name) for source, name in given.items()}
    for source, read in cells.items():
        if source in complete and np.any(read == values.UNKNOWN):
            raise InputError(
                f"The column {source!r} holds a category that the release does not list. Correct "
                "it, or leave the cell empty, which counts as missing."
            )
    for group in _together(release):
        own = [source for source in group if source in cells]
        missing = np.any([np.isnan(cells[source]) for source in own], axis=0)
        cells |= {source: np.where(missing, np.nan, cells[source]) for source in own}
    found = []
    for column in columns:
        read, declared = cells[column.source], schema.columns[given[column.source]]
        missing = np.isnan(read)
        if column.kind == "missing":
            read = missing.astype(np.float64)
        elif isinstance(declared, Categorical):
            place = declared.names.index(column.level)
            read = np.where(missing, np.nan, read == place)
        found.append(read)
    return np.column_stack(found)


def with_functions(
    release: Release, columns: Iterable[EncodedColumn], frame: nw.DataFrame[Any]
) -> nw.DataFrame[Any]:
    """Return the frame with public functions of columns, such as ``log1p(cost)`` of ``cost``.

    A column that it has itself, and not the function's values, is read as the release read it.
    """
    stated = _stated_of(release)
    for source, name in given_names(columns).items():
        if name in frame.columns or source not in frame.columns:
            continue
        if stated is None:
            function = name.removesuffix(f"({source})")
            raise InputError(
                f"The data frame has no column {name!r}. Give {function} of {source!r} there: "
                "features are the values of the public function."
            )
        read = _read(frame.select(source), reader_of(stated, source))
        made = nw.new_series(source, read, nw.Float64(), backend=frame.implementation)
        frame = frame.with_columns(made).rename({source: name})
    return frame


def read_matrix(release: Release, columns: Sequence[EncodedColumn], matrix: Array) -> Array:
    """Return features whose levels are coded already, NaN where a number is missing or a code."""
    given = given_names(columns)
    schema, found = _schema_of(release, given), matrix.copy()
    for place, column in enumerate(columns):
        if column.kind in ("numeric", "boolean"):
            name = given[column.source]
            found[:, place] = reader_of(schema, name).read(matrix[:, place], name)
    for group in _together(release):
        own = np.array([each.kind != "missing" and each.source in group for each in columns])
        found[np.ix_(np.isnan(found[:, own]).any(axis=1), own)] = np.nan
    return found


def read_labels(
    release: Release, labels: Iterable[object], column: str | None = None
) -> NDArray[np.str_]:
    """Return what the release calls every label of a column, by default that of its groups.

    They are read as it read its own; what it does not list is none of its names.
    """
    cells = column_of_cells(labels, "y", "text")
    if column is None:
        grouping = _grouping_of(release)
        return np.array(grouping.names)[grouping.codes_of(cells)]
    stated = _stated_of(release) or _plain(release.restored_features)
    names, read = labels_and_codes(*_levels(stated, column))
    # A level may be called as those are that no list has.
    found, unlisted = read(cells, "y"), max(names, key=len) + "?"
    return np.where(found < 0, unlisted, np.array(names)[np.maximum(found, 0).astype(np.intp)])


def _levels(stated: Schema, column: str) -> tuple[Categorical | Boolean, Codes]:
    declared, codes = stated.columns[column], stated.codes_of(column)
    named = _with_names(declared, codes) if isinstance(declared, Categorical) else Boolean()
    return named, codes


def _grouping_of(release: Release) -> Grouping:
    """The column of groups; a release does not name it, so its levels tell which it is."""
    stated = _stated(release.manifest.schema_toml or "") or Schema(columns={})
    used = {column.source for column in release.restored_features}
    for name, declared in stated.columns.items():
        if name in used or not isinstance(declared, Boolean | Categorical):
            continue
        grouping = Grouping(name, *_levels(stated, name))
        if grouping.names == release.group_names:
            return grouping
    return Grouping("y", [name for name in release.group_names if name != OTHER])


def _together(release: Release) -> list[tuple[str, ...]]:
    """Columns of which all count as missing where one is."""
    return [column.together for column in release.restored_features if column.together]


def _cells(frame: nw.DataFrame[Any], schema: Schema, name: str) -> Array:
    """Numbers, or codes of levels, of a column; NaN where missing."""
    if name not in frame.columns:
        raise InputError(f"The data frame has no column {name!r}. Add it, or rename one.")
    read = _read(frame.select(name), reader_of(schema, name))
    is_category = isinstance(schema.columns[name], Categorical)
    return np.where(read == values.MISSING, np.nan, read) if is_category else read


def _read(frame: nw.DataFrame[Any], reader: Reader) -> Array:
    cells = frame[reader.name]
    if not len(cells):
        return np.empty(0)
    try:
        if cells.dtype in (nw.Object, nw.Unknown):
            # Such as pandas' sparse columns: Arrow knows no type for them.
            column = column_of_cells(cells.to_list(), reader.name, reader.wanted)
            return reader.read(column, reader.name).astype(np.float64)
        blocks = FrameSource(frame, "X").blocks(len(frame), wanted={reader.name: reader.wanted})
        return np.concatenate([reader.of(block) for block in blocks]).astype(np.float64)
    except DataError:
        # What the original advises is for the schema of a table that is not released yet.
        raise InputError(
            f"The column {reader.name!r} holds something that is no number, truth value or text "
            "as the release reads them there. Correct it, or leave the cell empty."
        ) from None


def _schema_of(release: Release, given: dict[str, str]) -> Schema:
    """How the given columns are read, by the names that they have in new rows."""
    stated = _stated_of(release) or _plain(release.restored_features)
    # Rows that come with a release hold a public function's values, which have no codes.
    value = Numeric(missing_codes=(), decimal=".", thousands="")
    columns: dict[str, Declared] = {}
    for source, name in given.items():
        declared = stated.columns[source] if name == source else value
        if isinstance(declared, Categorical):
            declared = _with_names(declared, stated.codes_of(source))
        columns[name] = declared
    return replace(stated, columns=columns)


def _stated_of(release: Release) -> Schema | None:
    """The schema that a release carries; None where it does not describe the features."""
    stated = _stated(release.manifest.schema_toml or "")
    # Anybody may have written the file; and a release of arrays has no schema.
    names = set() if stated is None else {column.name for column in stated.encoded_columns}
    fits = names.issuperset(column.name for column in release.restored_features)
    return stated if fits else None


@lru_cache(maxsize=16)
def _stated(text: str) -> Schema | None:
    try:
        return Schema.loads(text, complete=True)
    except SchemaError:
        return None


def _plain(features: Sequence[EncodedColumn]) -> Schema:
    """What the columns themselves tell of how they are read."""
    columns: dict[str, Declared] = {}
    levels: dict[str, tuple[str, ...]] = {}
    for column in features:
        source = column.source
        if column.kind == "category":
            levels[source] = (*levels.get(source, ()), column.level)
            columns[source] = Categorical(categories=levels[source])
        elif column.kind != "missing":
            columns[source] = Boolean() if column.kind == "boolean" else Numeric()
    return Schema(columns=columns)


def _with_names(declared: Categorical, codes: Codes) -> Categorical:
    """Count what the release calls a level, too, as rows do that come with it or are drawn."""
    fold = str.casefold if declared.ignore_case else str
    written = (declared.categories, *declared.groups.values(), map(str, codes))
    taken = {fold(text) for texts in written for text in texts}
    groups = {
        level: (*declared.groups.get(level, ()), *([] if fold(name) in taken else [name]))
        for level, name in zip(declared.levels, declared.names, strict=True)
    }
    return replace(declared, groups=groups)
