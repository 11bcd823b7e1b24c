"""Short form of benchmarks.analysis.ridge: one release against models that pay for themselves."""

import pytest

import dpcov
from benchmarks.analysis.ridge import compare
from benchmarks.analysis.tasks import adult, digits
from benchmarks.data import MissingTable, data_directory


def by_method(scores):
    return {(score.method, score.models): score for score in scores}


def test_one_release_serves_ten_models_better_than_ten_perturbed_ones():
    budget = dpcov.Budget(epsilon=8, delta="1e-6")
    found = by_method(compare(digits(), budget=budget, models=(2, 10), repetitions=2))
    release = found["dpcov: one release", 0]
    for models in (2, 10):
        rival = found["output perturbation", models]
        assert release.r2 > rival.r2 + 0.05
        assert release.coefficient_error < rival.coefficient_error
    assert release.r2 < found["non-private ridge", 0].r2


@pytest.mark.slow
@pytest.mark.shared_data
def test_on_adult_at_epsilon_one_the_release_wins_from_the_second_model_on():
    try:
        task = adult(data_directory())
    except MissingTable as missing:
        pytest.skip(str(missing))
    found = by_method(compare(task, models=(2, 5, 10), repetitions=2))
    release = found["dpcov: one release", 0]
    assert release.r2 > found["non-private ridge", 0].r2 - 0.06
    for models in (2, 5, 10):
        rival = found["output perturbation", models]
        assert release.r2 > rival.r2 + 0.02
        assert release.coefficient_error < rival.coefficient_error
