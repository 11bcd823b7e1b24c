"""What clipping to any dyadic norm would give, read off the moments of the norm shells.

Contract: equal to gathering the rows again after clipping them, up to the lattice.  **Sensitive.**

Shell s holds the rows with norm in (2**-(s+1), 2**-s]; clipped to 2**-t they add
Σ_{s>=t} 4**-s S_s + 4**-t Σ_{s<t} N_s, with S_s in units of its shell and N_s of the rows divided
by their own norm.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dpcov.data.moments import Moments
from dpcov.published.linalg.symmetric import Array


def shell_counts(moments: Moments) -> NDArray[np.int64]:
    """Rows in each shell, largest radius first."""
    return np.array([stratum.n_rows for stratum in moments.strata], dtype=np.int64)


def outlier_counts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows longer than 2**-t, for each shell t."""
    return np.concatenate([[0], np.cumsum(counts[:-1])])


def noisy_traces(moments: Moments, noise: Iterable[int]) -> list[int]:
    """Add noise to the trace of every shell, in the shell's lattice units."""
    # Python's integers: a trace may leave 64 bits.
    strata = moments.strata
    return [stratum.sscp.trace() + int(z) for stratum, z in zip(strata, noise, strict=True)]


def clipped_trace(moments: Moments, shell: int) -> float:
    """Trace of the sscp of the rows clipped to 2**-shell, for rows in the unit ball."""
    unit = 4.0**-moments.spec.bits
    inside = sum(
        stratum.sscp.trace() * unit * 4.0 ** -(shell + below)
        for below, stratum in enumerate(moments.strata[shell:])
    )
    return inside + 4.0**-shell * sum(stratum.n_rows for stratum in moments.strata[:shell])


def clipped_sscp(moments: Moments, shell: int) -> Array:
    """Sscp of the rows clipped to 2**-shell and divided by it: rows in the unit ball again."""
    total = np.zeros((moments.n_features, moments.n_features))
    for index, stratum in enumerate(moments.strata):
        # Most shells of a table are empty.
        if not stratum.n_rows:
            continue
        if index >= shell:
            total += stratum.sscp.to_float() * 4.0 ** (shell - index)
        else:
            assert stratum.normalized is not None
            total += stratum.normalized.to_float()
    return total * 4.0**-moments.spec.bits
