"""Each planted mistake is caught, by the machinery that sound mechanisms are held to."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from dpcov.audit import Case, audit, cases_of, lower_bound_epsilon, refutes
from dpcov.noise.bingham import sample_binghams
from dpcov.noise.entropy import BlockEntropy, SeededEntropy
from dpcov.privacy.guarantee import PureDP
from tests.audit import zoo

SOUND = [plant for plant in zoo.PLANTS if plant.needs]
"""Those that the search has to find: the mechanism without the mistake meets the same tables."""


def find(plant, mechanism):
    facts = {"neighbors": plant.neighbors, "budget": plant.budget, "n_features": plant.columns}
    (finding,) = audit([Case(mechanism=mechanism, **facts)], plant.effort, seed=1)
    return finding


@pytest.mark.parametrize("plant", zoo.PLANTS, ids=str)
def test_a_planted_mistake_is_caught(plant):
    finding = find(plant, plant.mechanism())
    assert finding.verdict == "refuted"
    # Some show only on tables that the search has to find.
    assert plant.needs in finding.pair


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("plant", zoo.DEEP_PLANTS, ids=str)
def test_a_subtle_mistake_is_caught_by_many_releases(plant):
    assert find(plant, plant.mechanism()).verdict == "refuted"


@pytest.mark.parametrize("plant", SOUND, ids=str)
def test_the_same_mechanism_without_the_mistake_is_not_refuted(plant):
    assert find(plant, plant.mechanism.__mro__[1]()).verdict != "refuted"


def test_five_columns_are_needed_to_see_what_depends_on_their_number():
    (plant,) = [plant for plant in zoo.PLANTS if plant.columns > 2]
    assert find(replace(plant, columns=2), plant.mechanism()).verdict == "ok"
    assert find(plant, plant.mechanism.__mro__[1]()).verdict == "ok"


def test_the_zoo_holds_what_it_should():
    every = [str(plant) for plant in (*zoo.PLANTS, *zoo.DEEP_PLANTS)]
    assert len(every) == len(set(every)) == 14
    assert len(cases_of(plant.mechanism() for plant in zoo.PLANTS)) >= len(zoo.PLANTS)


def leading_shares(draws):
    """Directions beside a row: S = I against diag(0, 2), epsilon = 2 by the exponent of u' S u."""
    entropy = BlockEntropy(SeededEntropy(3))
    return [
        sample_binghams(sscp, draws, entropy)[:, 0] ** 2
        for sscp in (np.eye(2), np.diag([0.0, 2.0]))
    ]


def test_an_inverted_acceptance_ratio_is_caught_in_batches_of_directions():
    claim = PureDP(epsilon=2)
    sound = leading_shares(40_000)
    assert not refutes(claim, *sound)
    assert lower_bound_epsilon(*sound) > 0.5
    with mock.patch("dpcov.noise.bingham.acceptance", zoo.inverted_acceptance):
        assert refutes(claim, *leading_shares(40_000))
