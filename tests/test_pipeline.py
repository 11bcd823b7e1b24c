import numpy as np
import pytest

import dpcov

SCHEMA = dpcov.Schema(columns={name: dpcov.Numeric(lower=-1, upper=1) for name in ("x0", "x1")})
ROWS = np.random.default_rng(0).uniform(0.85, 0.95, size=(20_000, 2))


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [("gaussian", {}), ("gaussian", {"clip": 0.5}), ("stratified", {}), ("separate", {}), ("adaptive", {})],
)
def test_means_are_right_whether_or_not_rows_are_shortened(mechanism, options):
    made = dpcov.release(
        ROWS,
        schema=SCHEMA,
        budget=dpcov.Budget(rho=100),
        mechanism=mechanism,
        entropy=dpcov.SeededEntropy(2),
        **options,
    )
    np.testing.assert_allclose(made.mean(), ROWS.mean(axis=0), atol=0.005)
    np.testing.assert_allclose(made.covariance(), np.cov(ROWS.T), atol=0.0005)


def test_the_rows_are_not_changed_by_a_release():
    rows = np.asfortranarray(ROWS)
    before = rows.copy()
    dpcov.second_moment(rows, norm_bound=1.0, budget=dpcov.Budget(rho=1))
    dpcov.release(rows, schema=SCHEMA, budget=dpcov.Budget(rho=1))
    np.testing.assert_array_equal(rows, before)
