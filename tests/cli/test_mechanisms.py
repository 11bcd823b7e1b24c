import dataclasses

import pytest

import dpcov
from dpcov.mechanisms.registry import MECHANISMS, names

BUDGETS = {
    "PureDP": ("--epsilon", "2"),
    "ZCDP": ("--rho", "1"),
    "ApproxDP": ("--epsilon", "1", "--delta", "1e-6"),
}


def test_the_table_has_one_line_for_every_mechanism(desk):
    lines = desk.run("mechanisms").output.splitlines()
    assert lines[0].split() == ["NAME", "GUARANTEE", "RELATION", "NUMERICS", "PAPER", "SUMMARY"]
    assert tuple(line.split()[0] for line in lines[1 : len(MECHANISMS) + 1]) == names()
    (gaussian,) = [line for line in lines if line.startswith("gaussian ")]
    assert "rho | epsilon,delta" in gaussian
    assert "both" in gaussian
    assert "exact" in gaussian


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=names())
def test_every_option_is_described(desk, mechanism):
    text = desk.run("mechanisms", mechanism.name).output
    for field in dataclasses.fields(mechanism):
        assert f"{field.name}={field.default}" in text
    assert mechanism.paper in text


def test_an_unknown_name_is_refused(desk):
    result = desk.run("mechanisms", "magic")
    assert result.exit_code == 2
    assert "gaussian" in result.output


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=names())
def test_every_mechanism_can_be_released(desk, mechanism):
    result = desk.run(
        "release",
        desk.data,
        "--schema",
        desk.schema,
        *BUDGETS[mechanism.promises[0].__name__],
        "--mechanism",
        mechanism.name,
        "--no-ledger",
        "-o",
        desk.output,
    )
    assert result.exit_code == 0, result.output
    assert dpcov.load(desk.output).manifest.mechanism.name == mechanism.name


@pytest.mark.parametrize(
    ("name", "budget", "option", "kept"),
    [
        ("laplace", "PureDP", "sensitivity=paper", "paper"),
        ("gaussian", "ZCDP", "noise=upper-triangle", "upper-triangle"),
        ("gaussian", "ApproxDP", "calibration=classical", "classical"),
        ("projection", "PureDP", "trace=public", "public"),
        ("thresholding", "ZCDP", "gamma=1", 1),
        ("thresholding", "ZCDP", "gamma=0.5", 0.5),
    ],
)
def test_options_reach_the_mechanism(desk, name, budget, option, kept):
    arguments = ("release", desk.data, "--schema", desk.schema, *BUDGETS[budget], "--no-ledger")
    result = desk.run(*arguments, "--mechanism", name, "--option", option, "-o", desk.output)
    assert result.exit_code == 0, result.output
    assert dpcov.load(desk.output).manifest.mechanism.options[option.partition("=")[0]] == kept
    wrong = desk.run(
        *arguments, "--mechanism", name, "--option", option.partition("=")[0] + "=-nonsense"
    )
    assert wrong.exit_code == 2
