"""Tell which strata of a second moment hold rows, and what the others may hold.

Contract: public numbers only.
"""

from dataclasses import replace
from math import sqrt

import numpy as np

from dpcov.published.estimate.post import find_post
from dpcov.published.estimate.unit import Part, Source, UnitEstimate
from dpcov.published.file.statistics import Post

# Standard deviations of its trace from which a stratum is taken to hold rows.
CLEAR_TRACE = 3.0


def seems_inhabited(part: Part) -> bool:
    """Whether a stratum's trace says that there are rows in it."""
    if part.is_empty:
        return False
    return part.trace is None or part.trace > CLEAR_TRACE * sqrt(part.trace_variance or 0.0)


def inhabited(unit: UnitEstimate, least: float = 0.0) -> UnitEstimate:
    """The same without strata whose trace is noise, which shrinkage estimates as zero.

    Those of rows no longer than the root of ``least`` are kept.
    """
    parts = tuple(p for p in unit.parts if seems_inhabited(p) or p.largest_trace <= least)
    if not (unit.parts_may_be_empty and parts and unit.noise and unit.noise.diagonal):
        return unit
    diagonal = sum(part.diagonal_variance for part in parts)
    noise = unit.noise.times(diagonal / unit.noise.diagonal)
    return replace(
        unit,
        parts=parts,
        matrix=np.sum([part.matrix for part in parts], axis=0),
        noise=noise._replace(diagonal=diagonal),
        sources=tuple(_share_of(s, i, unit.parts, parts) for i, s in enumerate(unit.sources)),
    )


def left_open(unit: UnitEstimate, kept: UnitEstimate) -> float:
    """Deviation of what strata that are not kept hold of all squared lengths, over what is kept.

    Two of them reach to their noisy traces, if positive, and two standard deviations more.
    """
    dropped = [part for part in unit.parts if part not in kept.parts]
    trace = sum(part.trace or 0.0 for part in dropped)
    std = sqrt(sum(part.trace_variance or 0.0 for part in dropped))
    # Traces in other coordinates are not known, but how far they reach.
    reach = max(trace, 0.0) / 2 + std + sum(part.reach for part in dropped)
    held = sum(float(np.trace(p.matrix)) if p.trace is None else p.trace for p in kept.parts)
    return reach / held if held > 0 else 0.0


def _share_of(source: Source, i: int, whole: tuple[Part, ...], kept: tuple[Part, ...]) -> Source:
    total = sum(part.by_source[i] for part in whole)
    share = sum(part.by_source[i] for part in kept) / total if total else 0.0
    return source._replace(noise=source.noise.times(share))


def read_with(unit: UnitEstimate, post: Post) -> UnitEstimate:
    """The part of a second moment whose noise counts where it is read with ``post``."""
    return inhabited(unit) if find_post(post).drops_empty else unit
