"""Check that a release's arrays match its manifest.

Contract: no estimate is computed from arrays that do not fit.  Says nothing about who wrote them.
"""

from collections.abc import Mapping

import numpy as np

from dpcov.published.file.columns import numbers
from dpcov.published.file.manifest import Manifest
from dpcov.published.file.statistics import NoiseLaw, NoisyStatistics, PublishedArray
from dpcov.published.linalg.symmetric import is_invertible

Arrays = Mapping[str, PublishedArray]

_MOST_POWER = 300


def arrays_make_sense(manifest: Manifest, statistics: NoisyStatistics) -> bool:
    """Whether the arrays are the ones of the layout, with the shapes and noise law they need."""
    d = len(manifest.columns)
    if any(column.kind == "intercept" for column in manifest.columns[1:]):
        return False
    if not 0 <= statistics.lost < 1:
        return False
    if statistics.layout == "combined":
        return _members_fit(manifest, statistics.arrays)
    if manifest.combined or not (
        _map_fits(manifest, statistics) and _losses_fit(manifest, statistics)
    ):
        return False
    if statistics.layout == "estimate":
        moment = statistics.arrays.get("second_moment")
        return moment is not None and _is_symmetric(moment, (d, d), np.float64)
    return _sums_fit(manifest, statistics) and _counts_fit(manifest, statistics.arrays)


def _members_fit(manifest: Manifest, arrays: Arrays) -> bool:
    # Every one of them is checked as a release of its own.
    records = {
        f"{i}.{name}": record
        for i, each in enumerate(manifest.combined)
        for name, record in each.members.items()
    }
    nested = any(each.combined for each in manifest.combined)
    whole = records == manifest.members and set(arrays) == set(records)
    return len(manifest.combined) > 1 and whole and not nested


def _sums_fit(manifest: Manifest, statistics: NoisyStatistics) -> bool:
    arrays, noise, d = statistics.arrays, statistics.noise, len(manifest.columns)
    sscp = arrays.get("sscp")
    if sscp is None or noise is None or not _types_fit(arrays, noise):
        return False
    if statistics.layout == "sscp":
        square = _is_symmetric(sscp, (d, d), np.int64)
        return square and _shape_of(arrays, "trace") in (None, (1,))
    return (
        _is_symmetric(sscp, (*sscp.shape[:1], d, d), sscp.dtype)
        and _shells_fit(arrays, len(sscp), statistics.n_groups)
        and _shape_of(arrays, "joint_trace") in (None, (1,))
    )


def _counts_fit(manifest: Manifest, arrays: Arrays) -> bool:
    # A public number of rows needs no noisy one; every group has its own.
    count, private = _shape_of(arrays, "row_count"), manifest.n_rows is None or manifest.groups
    return count == (len(manifest.groups) or 1,) or (count is None and not private)


def _map_fits(manifest: Manifest, statistics: NoisyStatistics) -> bool:
    # A linear map that can be undone, of sizes that do not overflow.
    linear, exponent = statistics.arrays.get("linear"), statistics.linear_exponent
    if linear is None or exponent is None:
        return linear is None and exponent is None
    d = len(manifest.columns)
    p = d - manifest.has_intercept
    if linear.shape != (p, d) or linear.dtype != np.int64 or abs(exponent) > _MOST_POWER:
        return False
    features = linear[:, d - p :].astype(np.float64)
    return bool(np.abs(linear).max() < 2**53 and is_invertible(features))


def _losses_fit(manifest: Manifest, statistics: NoisyStatistics) -> bool:
    # A sum for every group and column of numbers, beside an intercept.
    losses, size = statistics.arrays.get("losses"), len(numbers(manifest.columns))
    size *= statistics.n_groups
    if losses is None or statistics.losses is None:
        return losses is None and statistics.losses is None
    fits = losses.shape == (size,) and losses.dtype == np.int64
    return fits and manifest.has_intercept and np.isfinite(statistics.losses.unit)


def _types_fit(arrays: Arrays, noise: NoiseLaw) -> bool:
    # Continuous noise, which alone has a scale, makes floats of the matrices.
    real = noise.scale is not None
    kinds = {name: np.float64 if real and name == "sscp" else np.int64 for name in arrays}
    fits = all(array.dtype == kinds[name] for name, array in arrays.items())
    return fits and (noise.scale is None or float(noise.scale) > 0)


def _shells_fit(arrays: Arrays, count: int, n_groups: int) -> bool:
    # Indexes are checked here, so that no estimate reads past an array.
    traces = _shape_of(arrays, "trace")
    if traces is None or len(traces) != 1 or traces[0] % n_groups:
        return False
    shapes = {_shape_of(arrays, name) for name in ("first_shell", "last_shell")}
    if shapes != {(count,)} or ("group" not in arrays and n_groups != 1):
        return False
    first, last = arrays["first_shell"], arrays["last_shell"]
    outermost = arrays.get("outermost_shell", first)
    group = arrays.get("group", np.zeros(count, dtype=np.int64))
    return (
        outermost.shape == group.shape == (count,)
        and bool(np.all((group >= 0) & (group < n_groups)))
        and bool(np.all((outermost >= 0) & (outermost <= first) & (first <= last)))
        and bool(np.all(last < traces[0] // n_groups))
    )


def _shape_of(arrays: Arrays, name: str) -> tuple[int, ...] | None:
    return arrays[name].shape if name in arrays else None


def _is_symmetric(matrix: PublishedArray, shape: tuple[int, ...], dtype: np.dtype | type) -> bool:
    fits = matrix.shape == shape and matrix.dtype == dtype and bool(np.isfinite(matrix).all())
    return fits and np.array_equal(matrix, matrix.swapaxes(-1, -2))
