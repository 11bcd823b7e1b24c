"""What a mechanism publishes: arrays of noisy numbers and the law of their noise.

Contract: everything in here has already passed through a mechanism, so it may be stored, printed
and processed without limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpcov.published.file.columns import EncodedColumn, NormBound

Layout = Literal["sscp", "strata", "estimate", "combined"]
"""``sscp``: noisy integer moments with a known noise law.  ``strata``: the same for several strata.
``estimate``: a finished second moment matrix.  ``combined``: those of several releases."""

Post = Literal["none", "psd", "clip", "projection", "shrink", "threshold"]
"""Name of a post-processing: a row of :data:`dpcov.published.estimate.post.POSTS`."""

ThresholdRule = Literal["best", "hard", "soft"]
"""``hard``: keep or kill an entry.  ``soft``: move it toward zero.  ``best``: by estimated risk."""

TraceBound = Literal["noisy", "public"]
"""Bound of a projection: the noisy trace if it is smaller, or the public bound alone."""

Bits = Annotated[int, msgspec.Meta(ge=0, le=64)]

PublishedArray = NDArray[np.int64] | NDArray[np.float64]

# Few digits and small exponents: numbers from a file must not fill the memory.
Variance = Annotated[str, msgspec.Meta(pattern="^[1-9][0-9]{0,99}$")]
Decimal = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,30}(\.[0-9]{1,30})?(e[+-]?[0-9]{1,2})?$")]


@dataclass(frozen=True, kw_only=True)
class NoiseLaw:
    """Law of the noise on the sscp, in lattice units (exact decimal strings of integers).

    ``family`` is its name, as in docs/noise.md; variances are those of entries, and of trace and
    row count where released.  ``scale`` is the s of a density proportional to exp(-||W||_*/s).
    """

    family: str
    diagonal_variance: Variance
    off_diagonal_variance: Variance
    trace_variance: Variance | None = None
    row_count_variance: Decimal | None = None
    scale: Decimal | None = None


LOSS_UNITS = 2**20
"""What a row adds at most to sums of losses, in integers."""


@dataclass(frozen=True, kw_only=True)
class LossLaw:
    """Noisy sums of what scaling rows down took of the columns of numbers.

    ``unit`` is that of the sums, in squared encoded units, ``variance`` that of their noise, in
    squared units of the sums.  The longest rows add less than they lost: ``counted`` is the part
    of all losses that is in the sums, as far as is known.
    """

    unit: Annotated[float, msgspec.Meta(gt=0)]
    variance: Variance
    counted: Annotated[float, msgspec.Meta(ge=1e-3, le=1)]

    @property
    def most(self) -> float:
        """What a row adds at most, in squared encoded units."""
        return self.unit * LOSS_UNITS


@dataclass(frozen=True, kw_only=True)
class PostOptions:
    """Choices within a post-processing: ``trace`` for ``projection``, the others for ``threshold``.

    ``gamma`` makes the threshold gamma sqrt(log d / n) + 4 sqrt(log d) noise_std.
    """

    trace: TraceBound = "noisy"
    rule: ThresholdRule = "best"
    gamma: float | None = None


class StatisticsRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to read the arrays."""

    layout: Layout
    # A unit row has integer squared norm 4**lattice_bits; low bits were removed after the noise.
    lattice_bits: Bits
    dropped_bits: Bits
    # Norm to which rows were clipped, over the norm bound; the unit of the lattice.  Above 1 where
    # norm shells were fitted to the rows: the outermost one reaches beyond the norm bound.
    radius: NormBound
    # What the mechanism is meant to be read with, unless the reader says otherwise.
    post: Post
    # None for an estimate, unless noise was added to the sscp and the sum is published as it is.
    noise: NoiseLaw | None
    # What the mechanism found out privately and chose, in words.
    notes: tuple[str, ...] = ()
    post_options: PostOptions = PostOptions()
    # Part of all squared lengths that scaling long rows down took, as found privately.
    lost: float = 0.0
    # Features stand in the arrays as ``arrays["linear"] * 2**linear_exponent``, (p, d) int64, maps
    # encoded rows; None where as they are encoded.
    linear_exponent: int | None = None
    # Of ``arrays["losses"]``, (groups * numbers,), one for every column of numbers; None where
    # nobody asked.
    losses: LossLaw | None = None


class NoisyStatistics(StatisticsRecord, frozen=True, kw_only=True):
    """Published arrays, int64 unless said otherwise, with everything that is needed to read them.

    Layout ``sscp``: ``sscp`` (d, d), and ``trace`` and ``row_count`` (1,) where released.
    ``strata``: ``sscp`` (m, d, d), one for every group of shells that was drawn, each in units of
    its largest shell's squared radius, float64 where the noise is continuous; ``first_shell`` and
    ``last_shell`` (m,); ``outermost_shell`` (m,), where rows of shells before ``first_shell`` are
    in the matrix too, shortened; ``trace`` (shells,), each in units of its own shell's;
    ``joint_trace`` (1,), the sum of the traces of the m matrices in their units, with the noise of
    a diagonal entry; ``row_count``.  With public groups: ``group`` (m,), ``trace`` (groups *
    shells,), ``row_count`` (groups,).  ``estimate``: ``second_moment`` (d, d) float64.
    ``combined``: the arrays of release i, as they are, under ``i.name``.
    """

    arrays: Mapping[str, PublishedArray]
    # What mechanisms need not say, and files do.
    lattice_bits: Bits = 0
    dropped_bits: Bits = 0
    radius: NormBound = 1.0
    post: Post = "psd"
    noise: NoiseLaw | None = None
    # Public groups that the rows were divided into.
    n_groups: int = 1
    # Where the mechanism found a geometry of its own.
    columns: tuple[EncodedColumn, ...] | None = None
    norm_bound: float | None = None

    @property
    def record(self) -> StatisticsRecord:
        """How to read the arrays, for a manifest."""
        names = StatisticsRecord.__struct_fields__
        return StatisticsRecord(**{name: getattr(self, name) for name in names})
