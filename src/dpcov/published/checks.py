"""Check that a release's arrays and numbers match its manifest.

Contract: no estimate is computed from arrays that do not fit.  Says nothing about who wrote them.
"""

import re
from collections.abc import Mapping

import numpy as np

from dpcov.published.columns import LARGEST_SCALE, SMALLEST_SCALE
from dpcov.published.manifest import Manifest
from dpcov.published.statistics import NoiseLaw, NoisyStatistics, PublishedArray

_MAX_BITS = 64
# Few digits and small exponents: numbers from a file must not fill the memory.
_VARIANCE = re.compile(r"[0-9]{1,100}")
_SCALE = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?(e[+-]?[0-9]{1,2})?")

Arrays = Mapping[str, PublishedArray]


def numbers_make_sense(manifest: Manifest) -> bool:
    """Whether estimates can be computed at all."""
    statistics, columns = manifest.statistics, manifest.columns
    scales = (manifest.norm_bound, statistics.radius, *(column.half_range for column in columns))
    counts = (1 if manifest.n_rows is None else manifest.n_rows, manifest.guarantee.rows_per_person)
    bits = (statistics.lattice_bits, statistics.dropped_bits)
    return (
        bool(columns)
        and all(SMALLEST_SCALE <= scale <= LARGEST_SCALE for scale in scales)
        and all(0 < count < 2**63 for count in counts)
        and all(0 <= number <= _MAX_BITS for number in bits)
    )


def arrays_make_sense(manifest: Manifest, statistics: NoisyStatistics) -> bool:
    """Whether the arrays are the ones of the layout, with the shapes and noise law they need."""
    arrays, noise, d = statistics.arrays, statistics.noise, len(manifest.columns)
    if statistics.layout == "estimate":
        moment = arrays.get("second_moment")
        return (
            moment is not None
            and _is_symmetric(moment, (d, d), np.float64)
            and bool(np.isfinite(moment).all())
            and (noise is None or _variances_fit(noise))
        )
    sscp = arrays.get("sscp")
    if sscp is None or noise is None or not _types_fit(arrays, noise):
        return False
    if statistics.layout == "strata":
        kind = np.int64 if noise.scale is None else np.float64
        fits = _is_symmetric(sscp, (*sscp.shape[:1], d, d), kind)
        fits = fits and _shells_fit(arrays, len(sscp), statistics.n_groups)
        fits = fits and _shape_of(arrays, "joint_trace") in (None, (1,))
    else:
        fits = _is_symmetric(sscp, (d, d), np.int64) and _shape_of(arrays, "trace") in (None, (1,))
    return fits and _count_fits(arrays, manifest) and _variances_fit(noise)


def _variances_fit(noise: NoiseLaw) -> bool:
    variances = (noise.diagonal_variance, noise.off_diagonal_variance, noise.trace_variance or "0")
    return all(_VARIANCE.fullmatch(variance) for variance in variances)


def _types_fit(arrays: Arrays, noise: NoiseLaw) -> bool:
    # Noise on integers keeps them integer; continuous noise makes finite floats of the matrices.
    # Only continuous noise has a scale.
    real = {"sscp"} if noise.scale is not None else set()
    if any(
        array.dtype != (np.float64 if name in real else np.int64) for name, array in arrays.items()
    ):
        return False
    return noise.scale is None or (
        _SCALE.fullmatch(noise.scale) is not None
        and float(noise.scale) > 0
        and bool(np.isfinite(arrays["sscp"]).all())
    )


def _count_fits(arrays: Arrays, manifest: Manifest) -> bool:
    # A public number of rows needs no noisy one; every group has its own.
    shape = _shape_of(arrays, "row_count")
    if shape is None:
        return manifest.n_rows is not None and not manifest.groups
    return shape == (len(manifest.groups) or 1,)


def _shells_fit(arrays: Arrays, count: int, n_groups: int) -> bool:
    # Indexes are checked here, so that no estimate reads past an array.
    if not _shape_of(arrays, "first_shell") == _shape_of(arrays, "last_shell") == (count,):
        return False
    first, last = arrays["first_shell"], arrays["last_shell"]
    traces = _shape_of(arrays, "trace")
    if traces is None or len(traces) != 1 or traces[0] % n_groups:
        return False
    outermost = arrays.get("outermost_shell", first)
    group = arrays.get("group", np.zeros(count, dtype=np.int64))
    if "group" not in arrays and n_groups != 1:
        return False
    return (
        outermost.shape == group.shape == (count,)
        and bool(np.all((group >= 0) & (group < n_groups)))
        and bool(np.all((outermost >= 0) & (outermost <= first) & (first <= last)))
        and bool(np.all(last < traces[0] // n_groups))
    )


def _shape_of(arrays: Arrays, name: str) -> tuple[int, ...] | None:
    return arrays[name].shape if name in arrays else None


def _is_symmetric(matrix: PublishedArray, shape: tuple[int, ...], dtype: type) -> bool:
    same_kind = matrix.shape == shape and matrix.dtype == dtype
    return same_kind and np.array_equal(matrix, matrix.swapaxes(-1, -2))
