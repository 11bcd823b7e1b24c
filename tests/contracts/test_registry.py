"""What the registry promises of every mechanism: a complete row, a proof, a documented module."""

import ast
import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from dpcov.mechanisms.registry import MECHANISMS, find_mechanism, make_mechanism, names
from dpcov.privacy.guarantee import NEIGHBORS, ZCDP, ApproxDP, PureDP

every_mechanism = pytest.mark.parametrize(
    "mechanism", [pytest.param(mechanism, id=mechanism.name) for mechanism in MECHANISMS]
)


@every_mechanism
def test_a_proof_stands_beside_the_module(mechanism):
    module = Path(inspect.getfile(mechanism))
    proof = module.with_suffix(".md").read_text(encoding="utf-8")
    assert f"`{mechanism.name}`" in proof
    for word in ("Claim", "Preconditions", "Theorem", "Numerics"):
        assert word in proof


@every_mechanism
def test_the_module_states_guarantee_numerics_proof_sensitivity_utility_and_references(mechanism):
    text = inspect.getdoc(inspect.getmodule(mechanism))
    for entry in ("Guarantee", "Sensitivity", "Utility", "References"):
        assert f"\n{entry} : " in text
    assert f"  Numerics : {mechanism.numerics}" in text.replace("\n", " ")
    assert f"  Proof : {Path(inspect.getfile(mechanism)).stem}.md" in text.replace("\n", " ")


@every_mechanism
def test_the_registry_row_is_complete(mechanism):
    assert find_mechanism(mechanism.name) is mechanism
    assert mechanism.name in names()
    assert mechanism.summary
    assert mechanism.paper
    assert set(mechanism.relations) <= set(NEIGHBORS)
    assert set(mechanism.promises) <= {PureDP, ZCDP, ApproxDP}
    assert dataclasses.is_dataclass(mechanism)
    assert make_mechanism(mechanism.name, {}) == mechanism()
    assert hash(mechanism()) == hash(mechanism())


def stated_default(mechanism, option):
    """What a docstring says of an option; ``As in Gaussian`` stands for that mechanism's."""
    text = inspect.getdoc(mechanism)
    found = re.search(rf"^{option} : .*default=(\S+)$", text, re.MULTILINE)
    if found:
        return ast.literal_eval(found[1])
    as_in = "As in :class:`~dpcov.mechanisms.gaussian.Gaussian`"
    assert re.search(rf"\b{option}\b[\w, ]*\n    {as_in}", text)
    return stated_default(find_mechanism("gaussian"), option)


@every_mechanism
def test_the_docstring_states_the_default_of_every_option(mechanism):
    for field in dataclasses.fields(mechanism):
        assert field.default == stated_default(mechanism, field.name)
