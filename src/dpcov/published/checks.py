"""Whether a release that was read from a file makes sense at all.

Contract: no estimate is computed from arrays that do not fit their manifest.  Says nothing about who wrote
the file.
"""

import re
from collections.abc import Mapping

import numpy as np

from dpcov.published.columns import LARGEST_SCALE, SMALLEST_SCALE
from dpcov.published.manifest import Manifest
from dpcov.published.statistics import NoiseLaw, NoisyStatistics, PublishedArray

_MAX_BITS = 64


def numbers_make_sense(manifest: Manifest) -> bool:
    """Whether estimates can be computed at all; says nothing about who wrote the file."""
    statistics, columns = manifest.statistics, manifest.columns
    scales = (manifest.norm_bound, statistics.radius, *(column.half_range for column in columns))
    counts = (1 if manifest.n_rows is None else manifest.n_rows, manifest.guarantee.rows_per_person)
    return (
        bool(columns)
        and all(SMALLEST_SCALE <= scale <= LARGEST_SCALE for scale in scales)
        and all(0 < count < 2**63 for count in counts)
        and 0 <= statistics.lattice_bits <= _MAX_BITS
        and 0 <= statistics.dropped_bits <= _MAX_BITS
    )


def arrays_make_sense(manifest: Manifest, statistics: NoisyStatistics) -> bool:
    """Whether the arrays are the ones of the layout, with the shapes and the noise law they need."""
    arrays, d = statistics.arrays, len(manifest.columns)
    if statistics.layout == "estimate":
        moment = arrays.get("second_moment")
        return (
            moment is not None
            and _is_symmetric(moment, (d, d), np.float64)
            and bool(np.isfinite(moment).all())
            and (statistics.noise is None or _variances_fit(statistics.noise))
        )
    sscp, noise = arrays.get("sscp"), statistics.noise
    if sscp is None or noise is None or not _types_fit(arrays, noise):
        return False
    if statistics.layout == "strata":
        kind = np.int64 if noise.scale is None else np.float64
        fits = _is_symmetric(sscp, (*sscp.shape[:1], d, d), kind) and _shells_fit(
            arrays, len(sscp), statistics.n_groups
        )
        fits = fits and _shape_of(arrays, "joint_trace") in (None, (1,))
    else:
        fits = _is_symmetric(sscp, (d, d), np.int64) and _shape_of(arrays, "trace") in (None, (1,))
    return (
        fits and _shape_of(arrays, "row_count") in _count_shapes(manifest) and _variances_fit(noise)
    )


def _variances_fit(noise: NoiseLaw) -> bool:
    variances = (noise.diagonal_variance, noise.off_diagonal_variance, noise.trace_variance or "0")
    return all(re.fullmatch(r"[0-9]{1,100}", variance) for variance in variances)


def _types_fit(arrays: Mapping[str, PublishedArray], noise: NoiseLaw) -> bool:
    """Whether everything is integer; matrices with continuous noise, which has a scale, are finite floats."""
    real = {"sscp"} if noise.scale is not None else set()
    if any(
        array.dtype != (np.float64 if name in real else np.int64) for name, array in arrays.items()
    ):
        return False
    return noise.scale is None or (
        re.fullmatch(r"[0-9]{1,30}(\.[0-9]{1,30})?(e[+-]?[0-9]{1,2})?", noise.scale) is not None
        and float(noise.scale) > 0
        and bool(np.isfinite(arrays["sscp"]).all())
    )


def _count_shapes(manifest: Manifest) -> tuple[tuple[int, ...] | None, ...]:
    """Shapes that the noisy row count may have: one for every group, absent where the number is public."""
    if manifest.groups:
        return ((len(manifest.groups),),)
    return ((1,),) if manifest.n_rows is None else ((1,), None)


def _shells_fit(arrays: Mapping[str, PublishedArray], count: int, n_groups: int) -> bool:
    """Whether every matrix of a ``strata`` release names a group, and shells that have a trace."""
    if not _shape_of(arrays, "first_shell") == _shape_of(arrays, "last_shell") == (count,):
        return False
    first, last, traces = (
        arrays["first_shell"],
        arrays["last_shell"],
        _shape_of(arrays, "trace") or (0,),
    )
    if len(traces) != 1 or traces[0] % n_groups or not _groups_fit(arrays, count, n_groups):
        return False
    outermost = arrays.get("outermost_shell", first)
    if outermost.shape != first.shape or not bool(np.all((outermost >= 0) & (outermost <= first))):
        return False
    return bool(np.all((first <= last) & (last < traces[0] // n_groups)))


def _groups_fit(arrays: Mapping[str, PublishedArray], count: int, n_groups: int) -> bool:
    if "group" not in arrays:
        return n_groups == 1
    group = arrays["group"]
    return group.shape == (count,) and bool(np.all((group >= 0) & (group < n_groups)))


def _shape_of(arrays: Mapping[str, PublishedArray], name: str) -> tuple[int, ...] | None:
    return arrays[name].shape if name in arrays else None


def _is_symmetric(matrix: PublishedArray, shape: tuple[int, ...], dtype: type) -> bool:
    same_kind = matrix.shape == shape and matrix.dtype == dtype
    return same_kind and np.array_equal(matrix, matrix.swapaxes(-1, -2))
