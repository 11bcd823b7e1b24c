"""One site of a study: its rows, its share of the noise, its masks.

Promise: what leaves is uniform modulo 2**128 to anybody who lacks another contribution, and carries this site's noise
before it is masked; the site's ledger is charged before the noise is drawn, and a site contributes once per round.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.data.moments import Moments
from dpcov.errors import DataError, UsageError
from dpcov.federated.masking import KeyPair, masked
from dpcov.federated.residues import Residues
from dpcov.federated.study import NoiseShares, Study
from dpcov.gathering import table_moments
from dpcov.noise.entropy import Entropy, SystemEntropy
from dpcov.noise.lattice import discrete_gaussian
from dpcov.privacy.ledger import Ledger
from dpcov.privacy.spend import Spend

MECHANISM = "distributed-gaussian"


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """What a site sends to the coordinator.

    Parameters
    ----------
    site : str
        Its name.
    context : bytes
        The study and round that it belongs to.
    values : bytes
        Masked numbers modulo 2**128.
    private : bool
        Whether the site's noise came from a source that may protect somebody.
    """

    site: str
    context: bytes
    values: bytes
    private: bool


class Site:
    """A holder of rows in a study.

    Parameters
    ----------
    name : str
        One of ``study.sites``.
    study : Study
        The public plan.
    """

    def __init__(self, name: str, study: Study) -> None:
        if name not in study.sites:
            raise UsageError("This site is not in the study. Use the name that was agreed on.")
        self.name = name
        self.study = study
        self._keys = KeyPair()
        self._contributed = False

    def __repr__(self) -> str:
        return f"Site({self.name!r}, <sensitive>)"

    @property
    def public_key(self) -> bytes:
        """What the other sites need to share masks with this one; exchange it over an authenticated channel."""
        return self._keys.public

    def contribute(
        self,
        data: Any,
        roster: dict[str, bytes],
        *,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        entropy: Entropy | None = None,
    ) -> Contribution:
        """Gather exact moments, charge the ledger, add this site's noise, mask.

        Parameters
        ----------
        data : Moments, or whatever :func:`dpcov.release` reads
            This site's rows.
        roster : mapping of str to bytes
            Public key of every site.
        ledger, dataset : optional
            Charged with the whole budget of the study: the people of this site are in the sum.

        Raises
        ------
        UsageError, DataError, LedgerError
            Before anything is drawn.
        """
        if self._contributed:
            raise UsageError("This site has contributed to this round. Raise the study's round to repeat it.")
        if (ledger is None) != (dataset is None):
            raise UsageError("A ledger needs a dataset name, and a dataset name needs a ledger.")
        if set(roster) != set(self.study.sites):
            raise UsageError("The roster must hold the public key of every site of the study, and no other.")
        shares = self.study.shares()
        exact = _exact_numbers(self._moments(data), self.study)
        reservation = None
        if ledger is not None and dataset is not None:
            spend = Spend(promise=self.study.budget.promise, mechanism=MECHANISM)
            reservation = ledger.reserve(dataset, spend, self.study.neighbors)
            reservation.mark_drawn()
        self._contributed = True
        randomness = entropy or SystemEntropy()
        noisy = exact + _noise(shares, self.study, randomness)
        values = masked(noisy, self.name, self._keys, roster, self.study.context).to_bytes()
        if reservation is not None:
            reservation.commit(hashlib.sha256(values).hexdigest())
        return Contribution(
            site=self.name, context=self.study.context, values=values, private=randomness.private
        )

    def _moments(self, data: Any) -> Moments:
        study = self.study
        if not isinstance(data, Moments):
            return table_moments(data, study.schema, study.spec)
        wanted = len(study.columns), study.spec, study.schema.norm_bound_or_worst_case
        if (data.n_features, data.spec, data.norm_bound) != wanted:
            raise DataError("These moments were not gathered with the study's schema and bits.")
        return data


def _exact_numbers(moments: Moments, study: Study) -> Residues:
    """Upper triangle of the sscp, its trace, and the row count in units of ``2**-bits`` rows."""
    (stratum,) = moments.strata
    rows, columns = np.triu_indices(moments.n_features)
    high, low = stratum.sscp.words()
    matrix = Residues.from_halves(high[rows, columns], low[rows, columns])
    numbers = Residues.from_integers([stratum.sscp.trace(), stratum.n_rows << study.bits])
    return _joined(matrix, numbers)


def _noise(shares: NoiseShares, study: Study, entropy: Entropy) -> Residues:
    """Draw this site's share, in the order of :func:`_exact_numbers`."""
    rows, columns = np.triu_indices(len(study.columns))
    drawn = np.empty(len(rows), dtype=np.int64)
    for variance, place in ((shares.diagonal, rows == columns), (shares.off_diagonal, rows != columns)):
        drawn[place] = discrete_gaussian(variance, int(place.sum()), entropy)
    return _joined(Residues.from_integers(drawn), Residues.from_integers(_single_draws(shares, entropy)))


def _single_draws(shares: NoiseShares, entropy: Entropy) -> NDArray[np.int64]:
    """Noise of the trace and the row count; a number that is public, or not released, gets none."""
    variances = (shares.trace, shares.row_count)
    draws = [
        0 if variance is None else int(discrete_gaussian(variance, 1, entropy)[0]) for variance in variances
    ]
    return np.array(draws, dtype=np.int64)


def _joined(first: Residues, second: Residues) -> Residues:
    return Residues(np.concatenate([first.high, second.high]), np.concatenate([first.low, second.low]))
