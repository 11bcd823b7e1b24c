"""The coverage benchmark measures what it says: its truth is that of the rows, and its table has every kind."""

import numpy as np

from benchmarks.analysis.coverage import LITTLE, binary, gaussian, measure


def test_truth_is_computed_from_the_rows_of_the_population():
    population = gaussian(4)
    rows, truth = population.frame.to_numpy(), population.truth()
    np.testing.assert_allclose(truth["means"], rows.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(truth["variances"], rows.var(axis=0), rtol=1e-9)
    np.testing.assert_allclose(truth["correlations"], np.corrcoef(rows.T)[np.triu_indices(4, 1)], atol=1e-9)
    design = np.column_stack([np.ones(len(rows)), rows[:, 1:]])
    np.testing.assert_allclose(truth["coefficients"], np.linalg.lstsq(design, rows[:, 0])[0], atol=1e-9)
    # In encoded units; bounds are six standard deviations.
    np.testing.assert_allclose(
        truth["eigenvalues"], np.linalg.eigvalsh(np.cov(rows.T) / 36)[:1:-1], rtol=1e-3
    )


def test_every_kind_of_interval_is_measured():
    rows = list(measure(binary(), 500, LITTLE, repetitions=2))
    assert len({row.kind for row in rows}) == 7
    assert all(0 <= row.least <= row.coverage <= 1 and row.width > 0 for row in rows)
