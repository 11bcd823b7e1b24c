"""Audits of a privacy guarantee: lower bounds on what an attacker learns from releases.

Contract: a bound exceeds the true epsilon or rho with probability ``ALPHA`` at most, so a claim
below it is refuted.  A bound below the claim proves nothing.  Works on made-up tables only.
"""

from dpcov.audit.neighboring import Neighboring, attaining
from dpcov.audit.releases import half_noise
from dpcov.audit.suite import QUICK, Case, Effort, audit, cases_of

__all__ = ["QUICK", "Case", "Effort", "Neighboring", "attaining", "audit", "cases_of", "half_noise"]
