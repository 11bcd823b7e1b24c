"""From noisy statistics and public facts to a release.

Promise: a pure function of what may be published; draws nothing and reads no row.
"""

from datetime import UTC, datetime
from importlib.metadata import version
from typing import TypedDict, Unpack

import numpy as np

from dpcov.artifact import Release
from dpcov.artifact_file import member_record
from dpcov.columns import EncodedColumn
from dpcov.manifest import Manifest, MechanismRecord, SpentRecord, StatisticsRecord, guarantee_record
from dpcov.privacy.guarantee import Guarantee
from dpcov.statistics import NoisyStatistics, Post

SEEDED_WARNING = "not private: the randomness was seeded for research"


class Facts(TypedDict):
    """Public facts that a release states as they are; see :class:`~dpcov.manifest.Manifest`."""

    mechanism: MechanismRecord
    n_rows: int | None
    norm_bound: float
    intercept_is_public: bool
    columns: tuple[EncodedColumn, ...]
    title: str
    groups: tuple[str, ...]
    schema_toml: str | None
    spent: SpentRecord | None


def assemble(
    statistics: NoisyStatistics,
    guarantee: Guarantee,
    *,
    private: bool,
    post: Post | None = None,
    notes: tuple[str, ...] = (),
    **facts: Unpack[Facts],
) -> Release:
    """Put a release together.

    Parameters
    ----------
    statistics : NoisyStatistics
        What the mechanism drew.
    guarantee : Guarantee
    private : bool
        Whether the randomness was the operating system's; otherwise the release carries a warning.
    post : Post, optional
        How to read the release, where that is not the mechanism's own way.
    notes : tuple of str
        Public remarks, before the mechanism's own.
    **facts
        See :class:`Facts`.
    """
    arrays = dict(statistics.arrays)
    manifest = Manifest(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        software={"dpcov": version("dpcov"), "numpy": np.__version__},
        guarantee=guarantee_record(guarantee),
        statistics=StatisticsRecord(
            layout=statistics.layout,
            lattice_bits=statistics.lattice_bits,
            dropped_bits=statistics.dropped_bits,
            radius=statistics.radius,
            post=post or statistics.post,
            noise=statistics.noise,
            notes=notes + statistics.notes,
            post_options=statistics.post_options,
        ),
        members={name: member_record(array) for name, array in arrays.items()},
        warnings=() if private else (SEEDED_WARNING,),
        **facts,
    )
    return Release(manifest, arrays)
