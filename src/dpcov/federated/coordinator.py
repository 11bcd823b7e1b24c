"""The coordinator of a study: adds masked contributions and reads the sum, which already carries its noise.

Promise: sees contributions that are uniform on their own, and their sum, which is what the guarantee is about; what it
makes of the sum is post-processing.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dpcov.artifact import Release
from dpcov.assembly import assemble
from dpcov.errors import DataError
from dpcov.federated.residues import Residues, total
from dpcov.federated.site import MECHANISM, Contribution
from dpcov.federated.study import NoiseShares, Study
from dpcov.manifest import MechanismRecord
from dpcov.privacy.guarantee import Guarantee
from dpcov.statistics import NoiseLaw, NoisyStatistics

_WORD = 32
_FAMILY = "sum of discrete gaussians"


def combine(study: Study, contributions: Iterable[Contribution]) -> Release:
    """Add up the contributions of all sites and make a release of the sum.

    Parameters
    ----------
    study : Study
    contributions : iterable of Contribution
        One from every site, of this study and round.  If one of them drew seeded noise, the release says that it is not
        private.

    Raises
    ------
    DataError
        A contribution is missing, of another round, or damaged.
    """
    received = {contribution.site: contribution for contribution in contributions}
    missing = set(study.sites) - set(received)
    if missing or len(received) != len(study.sites):
        raise DataError(
            f"Contributions of all {len(study.sites)} sites are needed, once each. If a site cannot send its own, "
            "repeat the round without it."
        )
    if any(contribution.context != study.context for contribution in received.values()):
        raise DataError("A contribution belongs to another study or round. Ask the site to check its plan.")
    summed = total((Residues.from_bytes(part.values) for part in received.values()), study.length)
    statistics, n_rows = _statistics(study, summed)
    return assemble(
        statistics,
        Guarantee(
            promise=study.budget.promise,
            neighbors=study.neighbors,
            rows_per_person=study.schema.rows_per_person,
            numerics="exact",
        ),
        private=all(part.private for part in received.values()),
        mechanism=MechanismRecord(
            name=MECHANISM,
            options={"bits": study.bits, "sites": len(study.sites), "honest": study.honest},
            chosen_by="custodian",
        ),
        n_rows=n_rows,
        norm_bound=study.schema.norm_bound_or_worst_case,
        intercept_is_public=False,
        columns=study.columns,
        title=study.schema.title,
        groups=(),
        schema_toml=study.schema.dumps(),
        spent=None,
    )


def _statistics(study: Study, summed: Residues) -> tuple[NoisyStatistics, int | None]:
    """Read the sum: noisy matrix, noisy trace, and the row count, public or noisy."""
    shares, count = study.shares(), len(study.sites)
    high, low = summed.halves()
    trace, rows = Residues(summed.high[-2:], summed.low[-2:]).integers()
    dropped = _dropped_bits(high[:-1])
    entries = (high[:-2] << (_WORD - dropped)) + (low[:-2] >> dropped)
    arrays: dict[str, NDArray[np.int64]] = {"sscp": _symmetric(entries, len(study.columns))}
    n_rows = None
    if shares.trace is not None:
        arrays["trace"] = np.array([trace >> dropped], dtype=np.int64)
    half = 1 << study.bits >> 1
    if shares.row_count is not None:
        arrays["row_count"] = np.array([(rows + half) >> study.bits], dtype=np.int64)
    else:
        n_rows = _public_count(rows, study.bits)
    statistics = NoisyStatistics(
        layout="sscp",
        arrays=arrays,
        lattice_bits=study.bits,
        dropped_bits=dropped,
        noise=_law(shares, count, study.bits),
        notes=(f"noise in {count} shares, enough if {study.honest} sites are honest",),
    )
    return statistics, n_rows


def _public_count(rows: int, bits: int) -> int:
    n_rows, rest = divmod(rows, 1 << bits)
    if rest or n_rows < 1:
        raise DataError("The contributions do not fit together; a mask was wrong. Repeat the round.")
    return n_rows


def _dropped_bits(high: NDArray[np.int64]) -> int:
    """Smallest number of low bits whose removal makes every noisy number fit an int64."""
    spread = max(int(high.max()), -int(high.min()) - 1)
    return max(0, spread.bit_length() + _WORD - 62)


def _symmetric(upper: NDArray[np.int64], dimension: int) -> NDArray[np.int64]:
    matrix = np.zeros((dimension, dimension), dtype=np.int64)
    rows, columns = np.triu_indices(dimension)
    matrix[rows, columns] = upper
    matrix[columns, rows] = upper
    return matrix


def _law(shares: NoiseShares, count: int, bits: int) -> NoiseLaw:
    """Law of the sum of all sites' noise: at least what the promise needs."""
    return NoiseLaw(
        family=_FAMILY,
        diagonal_variance=str(shares.diagonal * count),
        off_diagonal_variance=str(shares.off_diagonal * count),
        trace_variance=None if shares.trace is None else str(shares.trace * count),
        row_count_variance=None if shares.row_count is None else str(shares.row_count * count / 4**bits),
    )
