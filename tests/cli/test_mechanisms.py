import dataclasses

import pytest

import dpcov
from dpcov.mechanisms.registry import MECHANISMS, names

BUDGETS = {"PureDP": "--epsilon 2", "ZCDP": "--rho 1", "ApproxDP": "--epsilon 1 --delta 1e-6"}


def test_the_table_has_one_line_for_every_mechanism(desk):
    lines = desk.done("mechanisms").splitlines()
    assert lines[0].split() == ["NAME", "GUARANTEE", "RELATION", "NUMERICS", "PAPER", "SUMMARY"]
    assert tuple(line.split()[0] for line in lines[1 : len(MECHANISMS) + 1]) == names()
    (gaussian,) = [line for line in lines if line.startswith("gaussian ")]
    for fact in ("rho | epsilon,delta", "both", "exact"):
        assert fact in gaussian


def test_an_unknown_name_is_refused(desk):
    result = desk.run("mechanisms magic")
    assert result.exit_code == 2
    assert "gaussian" in result.output


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=names())
def test_every_mechanism_is_described_and_can_be_released(desk, mechanism):
    text = desk.done("mechanisms", mechanism.name)
    for field in dataclasses.fields(mechanism):
        assert f"{field.name}={field.default}" in text
    assert mechanism.paper in text
    budget = BUDGETS[mechanism.promises[0].__name__]
    command = f"release {budget} --no-ledger --mechanism {mechanism.name}"
    desk.done(command, desk.data, *desk.fixed)
    assert dpcov.load(desk.output).manifest.mechanism.name == mechanism.name


@pytest.mark.parametrize(
    ("name", "budget", "option", "kept"),
    [
        ("laplace", "PureDP", "sensitivity=paper", "paper"),
        ("gaussian", "ZCDP", "noise=upper-triangle", "upper-triangle"),
        ("projection", "PureDP", "trace=public", "public"),
        ("thresholding", "ZCDP", "gamma=1", 1),
        ("thresholding", "ZCDP", "gamma=0.5", 0.5),
    ],
)
def test_options_reach_the_mechanism(desk, name, budget, option, kept):
    command = f"release {BUDGETS[budget]} --no-ledger --mechanism {name}"
    arguments = (desk.data, *desk.fixed, "--overwrite", "--option")
    desk.done(command, *arguments, option)
    key = option.partition("=")[0]
    assert dpcov.load(desk.output).manifest.mechanism.options[key] == kept
    assert desk.run(command, *arguments, f"{key}=-nonsense").exit_code == 2
