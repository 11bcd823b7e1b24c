"""Put noisy statistics and public facts together to a release, or rehearse that beforehand.

Contract: a pure function of what may be published; draws nothing and reads no row.
"""

from datetime import UTC, datetime
from importlib.metadata import version
from typing import TypedDict, Unpack

import msgspec
import numpy as np

from dpcov.errors import UsageError
from dpcov.privacy.guarantee import Guarantee
from dpcov.published.file.archive import encode_manifest, member_records
from dpcov.published.file.columns import EncodedColumn
from dpcov.published.file.manifest import Manifest, MechanismRecord, SpentRecord, guarantee_record
from dpcov.published.file.statistics import NoisyStatistics, Post
from dpcov.published.release import Release

SEEDED_WARNING = "not private: the randomness was seeded for research"
# Read once, while the installation can be read.
_SOFTWARE = {"dpcov": version("dpcov"), "numpy": np.__version__}


class Facts(TypedDict):
    """Public facts that a release states as they are, as in its manifest."""

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
    """Put a release together; a warning says so where the randomness was not ``private``.

    ``post`` replaces the mechanism's own way to be read; ``notes`` come before its own.
    """
    chosen = msgspec.structs.replace(
        statistics, post=post or statistics.post, notes=notes + statistics.notes
    )
    return Release(_manifest(chosen, guarantee, facts, private), dict(statistics.arrays))


def rehearse(guarantee: Guarantee, **facts: Unpack[Facts]) -> None:
    """Refuse public facts that a release could not hold, or that could not be read back."""
    manifest = _manifest(NoisyStatistics(layout="estimate", arrays={}), guarantee, facts)
    try:
        msgspec.json.decode(encode_manifest(manifest), type=Manifest)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        problem = f"The release could not be written or read back: {error}. Correct the schema."
        raise UsageError(problem) from None


def _manifest(
    statistics: NoisyStatistics, guarantee: Guarantee, facts: Facts, private: bool = True
) -> Manifest:
    return Manifest(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        software=dict(_SOFTWARE),
        guarantee=guarantee_record(guarantee),
        statistics=statistics.record,
        members=member_records(statistics.arrays),
        warnings=() if private else (SEEDED_WARNING,),
        **facts,
    )
