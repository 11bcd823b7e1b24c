"""Each planted mistake is caught, by the machinery that sound mechanisms are held to."""

import pytest

from dpcov.audit import Case, Effort, audit
from tests.audit.zoo import (
    PLANTS,
    ExactLengths,
    ExactLosses,
    ExactMap,
    ExactSecond,
    ForgottenMatrix,
)

# Long ones that are much like another run where time is left.
LONG = (ExactSecond, ExactLengths, ExactLosses, ForgottenMatrix)
ALL = [
    pytest.param(plant, marks=[pytest.mark.thorough] * (plant.mechanism in LONG))
    for plant in PLANTS
]
SOUND = [plant for plant in PLANTS if plant.needs or plant.mechanism is ExactMap]
"""Those that the search has to find: the mechanism without the mistake meets the same tables."""


def find(plant, mechanism):
    facts = {"neighbors": plant.neighbors, "budget": plant.budget, "n_features": plant.columns}
    # However long it takes: a machine that stalls takes no draw away.
    effort = Effort(draws=plant.draws, candidates=plant.candidates, seconds=1e6)
    (finding,) = audit([Case(mechanism=mechanism, **facts)], effort, seed=1)
    return finding


@pytest.mark.parametrize("plant", ALL, ids=lambda plant: plant.mechanism.name)
def test_a_planted_mistake_is_caught(plant):
    finding = find(plant, plant.mechanism())
    assert finding.verdict == "refuted"
    # Some show only on tables that the search has to find.
    assert plant.needs in finding.pair


@pytest.mark.thorough
@pytest.mark.parametrize("plant", SOUND, ids=lambda plant: plant.mechanism.name)
def test_the_same_mechanism_without_the_mistake_is_not_refuted(plant):
    assert find(plant, plant.mechanism.__mro__[1]()).verdict != "refuted"


def test_five_columns_are_needed_to_see_what_depends_on_their_number():
    (plant,) = [plant for plant in PLANTS if plant.columns > 2]
    assert find(plant._replace(columns=2), plant.mechanism()).verdict == "ok"
    assert find(plant, plant.mechanism.__mro__[1]()).verdict == "ok"
