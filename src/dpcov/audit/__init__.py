"""Audits of a privacy guarantee: lower bounds on what an attacker learns from releases.

Contract: a bound exceeds the true epsilon or rho with probability ``ALPHA`` at most, so a claim
below it is refuted.  A bound below the claim proves nothing.  Works on made-up tables only.
"""

from dpcov.audit.limits import (
    ALPHA,
    CONFIDENCE,
    clopper_pearson,
    lower_bound,
    lower_bound_epsilon,
    lower_bound_interval,
    lower_bound_of_event,
    lower_bound_rho,
    refutes,
)
from dpcov.audit.neighboring import Neighboring, attaining
from dpcov.audit.releases import along_difference, half_noise, released
from dpcov.audit.suite import DEEP, QUICK, Case, Effort, Finding, Verdict, audit, cases_of

__all__ = [
    "ALPHA",
    "CONFIDENCE",
    "DEEP",
    "QUICK",
    "Case",
    "Effort",
    "Finding",
    "Neighboring",
    "Verdict",
    "along_difference",
    "attaining",
    "audit",
    "cases_of",
    "clopper_pearson",
    "half_noise",
    "lower_bound",
    "lower_bound_epsilon",
    "lower_bound_interval",
    "lower_bound_of_event",
    "lower_bound_rho",
    "refutes",
    "released",
]
