"""Make a geometry alone, by the survey that a release makes otherwise, and say how it was found.

Contract: the file holds numbers that the survey published, and public facts.
"""

from dataclasses import dataclass
from hashlib import sha256

import msgspec

from dpcov.data.geometry import Geometry
from dpcov.mechanisms.base import Calibration
from dpcov.mechanisms.survey_alone import SurveyAlone
from dpcov.pipeline.publish import Account, Drawn, Maker, guarantee_of

_LINE_ROOM = 2**9


@dataclass(frozen=True, kw_only=True)
class FoundGeometry:
    """A geometry, and comments for its file."""

    geometry: Geometry
    notes: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the file."""
        return sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """TOML text."""
        return self.geometry.dumps(self.notes).encode()


class GeometryMaker(Maker[FoundGeometry]):
    """Makes a geometry."""

    def rehearse(self, calibration: Calibration, account: Account | None) -> int:
        """A geometry can always be written; every column takes a few lines."""
        return _LINE_ROOM * (len(self.terms.columns) + 8)

    def make(self, drawn: Drawn) -> FoundGeometry:
        """State what was drawn, for whom, and for which releases."""
        assert isinstance(self.terms.mechanism, SurveyAlone)
        notes = [
            f"found with {guarantee_of(self.terms, drawn.calibration)}",
            f"the norm bound was chosen for releases with {self.terms.mechanism.coming}",
        ]
        if drawn.spent is not None:
            notes.append(f"charged: entry {drawn.spent.entry} of dataset {drawn.spent.dataset}")
        if not drawn.private:
            notes.insert(0, "NOT PRIVATE: the randomness was seeded, for research on public data")
        geometry = msgspec.structs.replace(drawn.value, seeded=not drawn.private)
        return FoundGeometry(geometry=geometry, notes=tuple(notes))
