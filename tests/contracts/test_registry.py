"""What the registry promises of every mechanism: a complete row, a proof, a documented module."""

import ast
import dataclasses
import inspect
import re
from fractions import Fraction
from pathlib import Path

import pytest

from dpcov.mechanisms import geometry
from dpcov.mechanisms.geometry.budget_split import first_mechanism
from dpcov.mechanisms.registry import MECHANISMS, find_mechanism, make_mechanism, names
from dpcov.privacy.guarantee import NEIGHBORS, ZCDP, ApproxDP, PureDP

GEOMETRY = Path(geometry.__file__).parent
PROOFS = {path.name: path.read_text(encoding="utf-8") for path in GEOMETRY.parent.rglob("*.md")}
CITED = re.compile(r"\b(\w+\.md),\s+(Theorem|Lemma)s?\s+(\d+)")
CLAIM = re.compile(r"^\*\*((?:Theorem|Lemma) \d+)\b", re.MULTILINE)

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


def cited_in_vain(text):
    """Theorems and lemmas that a text cites, and the proof that it names lacks."""
    return [
        f"{name}, {kind} {number}"
        for name, kind, number in CITED.findall(text)
        if f"{kind} {number}" not in CLAIM.findall(PROOFS.get(name, ""))
    ]


def test_theorems_and_lemmas_that_modules_and_proofs_cite_are_there():
    sources = [path.read_text(encoding="utf-8") for path in GEOMETRY.parents[1].rglob("*.py")]
    assert not [each for text in (*sources, *PROOFS.values()) for each in cited_in_vain(text)]
    assert cited_in_vain("stratified.md, Theorem 99; absent.md,\n    Lemma 1") == [
        "stratified.md, Theorem 99",
        "absent.md, Lemma 1",
    ]


@pytest.mark.parametrize(
    "module",
    sorted({*GEOMETRY.glob("*.py")} - {Path(geometry.__file__)}),
    ids=lambda path: path.stem,
)
def test_a_module_that_finds_a_geometry_names_its_proof(module):
    text = " ".join(ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))).split())
    [proof] = re.findall(r"[Pp]roof ?: (\w+\.md)", text)
    assert (GEOMETRY / proof).is_file()


@pytest.mark.parametrize("proof", sorted(GEOMETRY.glob("*.md")), ids=lambda path: path.stem)
def test_every_claim_on_a_geometry_names_tests_that_check_it(proof):
    text = PROOFS[proof.name]
    for word in ("**Claim.**", "**Preconditions.**", "**Numerics.**"):
        assert word in text
    claims = CLAIM.findall(text)
    rows = re.findall(r"^\| (.+?) \| `tests/", text, re.MULTILINE)
    assert claims and sorted(", ".join(rows).split(", ")) == sorted(claims)


def test_claims_on_a_geometry_are_numbered_through():
    text = "\n".join(PROOFS[path.name] for path in GEOMETRY.glob("*.md"))
    for kind in ("Theorem", "Lemma"):
        numbers = sorted(int(each.split()[1]) for each in CLAIM.findall(text) if kind in each)
        assert numbers == list(range(1, numbers[-1] + 1))


def test_an_exact_mechanism_has_no_idealized_first_matrix():
    """It is drawn for isotropic mechanisms alone, and by another one in pure epsilon."""
    promises = ZCDP(rho=1), ApproxDP(epsilon=1, delta=Fraction(1, 10**6)), PureDP(epsilon=1)
    drawn = {type(each): first_mechanism(each).numerics for each in promises}
    pairs = [
        (each.numerics, drawn[promise])
        for each in MECHANISMS
        if each.is_isotropic
        for promise in each.promises
    ]
    assert ("exact", "idealized") not in pairs and ("idealized", "idealized") in pairs
