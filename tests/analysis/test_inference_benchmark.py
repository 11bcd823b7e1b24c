"""The coverage benchmark measures what it says, with the truth of the rows."""

import numpy as np

from benchmarks.analysis.coverage import LITTLE, Row, Sampled, markdown, measure
from benchmarks.analysis.populations import binary, gaussian


def test_truth_is_computed_from_the_rows_of_the_population():
    population = gaussian(4)
    rows, truth = population.frame.to_numpy(), Sampled(population).truth
    np.testing.assert_allclose(truth["means"], rows.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(truth["variances"], rows.var(axis=0), rtol=1e-9)
    np.testing.assert_allclose(
        truth["correlations"], np.corrcoef(rows.T)[np.triu_indices(4, 1)], atol=1e-9
    )
    design = np.column_stack([np.ones(len(rows)), rows[:, 1:]])
    np.testing.assert_allclose(
        truth["coefficients"], np.linalg.lstsq(design, rows[:, 0])[0], atol=1e-9
    )
    # In encoded units; bounds are six standard deviations.
    np.testing.assert_allclose(
        truth["eigenvalues"], np.linalg.eigvalsh(np.cov(rows.T) / 36)[:1:-1], rtol=1e-3
    )


def test_every_kind_of_interval_is_measured():
    rows = list(measure(Sampled(binary()), 500, LITTLE, repetitions=2))
    assert len({row.kind for row in rows}) == 7
    assert all(0 <= row.least <= row.coverage <= 1 and row.width > 0 for row in rows)


def test_the_table_has_a_line_for_each_setting_and_a_cell_for_each_kind():
    made = {"population": "p", "budget": "(0.1)-zCDP", "mechanism": "gaussian", "tails": "moments"}
    made |= {"repetitions": 9, "least": 0.9, "least_of": "a", "naive": 0.25, "unbounded": 0.0}
    rows = [
        Row(n=n, kind=kind, coverage=0.95, width=width, **made)
        for n in (500, 5000)
        for kind, width in (("means", 1.25), ("ridge", np.inf))
    ]
    lines = list(markdown(rows))
    assert lines[0] == "| population | n | budget | means | ridge |"
    assert lines[2:] == [
        "| p | 500 | ρ = 0.1 | 95 (90) *25*, 1.2 | 95 (90) *25*, ∞ |",
        "| p | 5,000 | ρ = 0.1 | 95 (90) *25*, 1.2 | 95 (90) *25*, ∞ |",
    ]
