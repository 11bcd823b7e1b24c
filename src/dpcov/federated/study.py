"""What the sites of a study agree on in public, and the noise that follows from it.

Promise: the noise of the honest sites alone keeps the budget, even against a coordinator who is in league with all the
other sites (docs/federated.md).  Knows no rows and draws nothing.
"""

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import msgspec

from dpcov.columns import EncodedColumn
from dpcov.data.moments import DEFAULT_BITS, MomentsSpec
from dpcov.data.schema import Schema
from dpcov.errors import BudgetError, UsageError
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.gaussian import Gaussian, GaussianCalibration
from dpcov.mechanisms.gaussian_scale import sqrt_down
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import ZCDP, Neighbors, check_neighbors

SMALLEST_SHARE = 64
"""Least variance of a share in lattice units: the sum of shares is then a discrete Gaussian up to 2**-900."""

_GAP_BITS = 880


@dataclass(frozen=True, kw_only=True)
class NoiseShares:
    """Integer variances of the discrete Gaussian noise that every site draws.

    Parameters
    ----------
    diagonal, off_diagonal : int
        For the entries of the matrix.
    trace, row_count : int or None
        For the trace (replace-one) or the row count, in units of ``4**-bits`` rows squared (add-remove-one).
    """

    diagonal: int
    off_diagonal: int
    trace: int | None
    row_count: int | None


@dataclass(frozen=True, kw_only=True)
class Study:
    """The public plan of one release by several sites.

    Parameters
    ----------
    schema : Schema
        The same at every site.
    budget : Budget
        ``Budget(rho=...)``: the guarantee of the sum.
    sites : tuple of str
        Names of the sites, two or more.
    honest : int
        How many sites at least draw their noise properly and keep it to themselves.  Noise grows by sites / honest.
    neighbors : {"replace-one", "add-remove-one"}
        Under ``replace-one`` the total number of rows is public.
    round : int
        Raised by one when a round failed and is repeated, perhaps with fewer sites; every round is charged.
    bits : int
        Lattice resolution.
    """

    schema: Schema
    budget: Budget
    sites: tuple[str, ...]
    honest: int
    neighbors: Neighbors = "replace-one"
    round: int = 1
    bits: int = DEFAULT_BITS

    def __post_init__(self) -> None:
        check_neighbors(self.neighbors)
        self.schema.require_complete()
        if len(self.sites) < 2 or len(set(self.sites)) != len(self.sites):
            raise UsageError("A study has two or more sites with distinct names.")
        if not 2 <= self.honest <= len(self.sites):
            raise UsageError("State how many sites are honest: at least 2, at most all of them.")
        if not isinstance(self.budget.promise, ZCDP):
            raise BudgetError("A study's budget is stated as Budget(rho=...).")

    @property
    def columns(self) -> tuple[EncodedColumn, ...]:
        """Columns of the encoded rows."""
        return self.schema.encoded_columns

    @property
    def spec(self) -> MomentsSpec:
        """What every site gathers."""
        return MomentsSpec(bits=self.bits)

    @property
    def context(self) -> bytes:
        """Fingerprint of everything agreed on; masks of different studies or rounds are unrelated."""
        facts = (self.schema.dumps(), str(self.budget.promise), self.sites, self.honest, self.neighbors)
        return hashlib.sha256(msgspec.json.encode((*facts, self.round, self.bits))).digest()

    @property
    def length(self) -> int:
        """Numbers in a contribution: upper triangle, trace, row count."""
        d = len(self.columns)
        return d * (d + 1) // 2 + 2

    def problem(self) -> Problem:
        """State the public facts as mechanisms want them."""
        rows_per_person = self.schema.rows_per_person
        return Problem(
            n_features=len(self.columns), neighbors=self.neighbors, rows_per_person=rows_per_person
        )

    def central(self) -> GaussianCalibration:
        """Noise that a trusted coordinator would draw."""
        return Gaussian(bits=self.bits).calibrate(self.problem(), self.budget)

    def shares(self) -> NoiseShares:
        """Divide that noise among the honest sites, enlarged for the gap between sums and discrete Gaussians.

        With V the central variance and t the gap's bound, rho-zCDP needs squared shift / variance at most
        (sqrt(2 rho) - t)**2; Kairouz, Liu, Steinke (2021), Theorem 1.
        """
        central = self.central()
        promise = self.budget.promise
        assert isinstance(promise, ZCDP)
        root = sqrt_down(2 * promise.rho)
        gap = Fraction(self.length * self.honest, 2**_GAP_BITS)
        if gap >= root:
            raise BudgetError("The budget is too small for noise in shares. Use a larger one.")
        factor = (root / (root - gap)) ** 2 / self.honest
        count = central.row_count_variance
        return NoiseShares(
            diagonal=_share(central.diagonal_variance * factor),
            off_diagonal=_share(central.off_diagonal_variance * factor),
            trace=None if central.trace_variance is None else _share(central.trace_variance * factor),
            row_count=None if count is None else _share(count * 4**self.bits * factor),
        )


def _share(variance: Fraction) -> int:
    return max(SMALLEST_SHARE, ceil(variance))
