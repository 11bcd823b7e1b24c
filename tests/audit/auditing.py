"""The machinery of :mod:`dpcov.audit`, under the name that the tests of single mechanisms use."""

from dpcov.audit import (
    ALPHA,
    CONFIDENCE,
    Neighboring,
    along_difference,
    attaining,
    clopper_pearson,
    half_noise,
    lower_bound,
    lower_bound_epsilon,
    lower_bound_interval,
    lower_bound_of_event,
    lower_bound_rho,
    one_row_more,
    orthogonal_rows,
    refutes,
    released,
)

__all__ = [
    "ALPHA",
    "CONFIDENCE",
    "Neighboring",
    "along_difference",
    "attaining",
    "clopper_pearson",
    "half_noise",
    "lower_bound",
    "lower_bound_epsilon",
    "lower_bound_interval",
    "lower_bound_of_event",
    "lower_bound_rho",
    "one_row_more",
    "orthogonal_rows",
    "refutes",
    "released",
]
