"""Numbers that pages state are those of the code and of the measured results."""

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpcov import Budget
from dpcov.data import cells
from dpcov.mechanisms.base import Problem
from dpcov.mechanisms.blocks.cost import part_of
from dpcov.mechanisms.registry import MECHANISMS
from dpcov.privacy.guarantee import ZCDP, ApproxDP, PureDP
from dpcov.privacy.meaning import certainty, detection
from dpcov.published.words.words import FALSE_ALARMS

ROOT = Path(__file__).parents[2]
CLOSER = re.compile(r"(5|five) times\s+closer", re.IGNORECASE)


def test_what_an_epsilon_means_is_what_the_code_says():
    text = (ROOT / "docs/which-epsilon.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- epsilons -->(.*?)<!-- end -->", text, re.DOTALL)
    lines = [line.strip("| ").split(" | ") for line in table[1].strip().splitlines()[2:]]
    for epsilon, right, confirmed in lines:
        promise = Budget(epsilon=epsilon, delta="1e-6").promise
        assert int(right) == math.ceil(100 * certainty(promise))
        assert int(confirmed) == math.ceil(100 * detection(promise, FALSE_ALARMS))
    assert len(lines) == 6


def test_mechanisms_promise_what_their_page_says():
    text = (ROOT / "docs/mechanisms.md").read_text(encoding="utf-8")
    (head, table) = re.search(r"^(\| mechanism \|.*)\n\|[- |]+\n((?:\|.*\n)+)", text, re.M).groups()
    assert head == "| mechanism | pure ε | ρ | (ε, δ) | numerics | paper |"
    said = {}
    for line in table.splitlines():
        names, *promised, numerics, paper = [cell.strip() for cell in line.strip("|").split("|")]
        kept = {
            kind
            for kind, cell in zip((PureDP, ZCDP, ApproxDP), promised, strict=True)
            if cell.startswith("yes")
        }
        said |= dict.fromkeys(re.findall(r"`([\w-]+)`", names), (kept, numerics, paper))
    assert set(said) == {mechanism.name for mechanism in MECHANISMS}
    for mechanism in MECHANISMS:
        kept, numerics, paper = said[mechanism.name]
        assert kept == set(mechanism.promises)
        assert numerics.startswith(mechanism.numerics) and mechanism.paper.startswith(paper)
        assert len(mechanism.relations) == 2


def test_boolean_columns_read_the_words_that_their_page_names():
    text = (ROOT / "docs/cells.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"### True or false\n\n(.*)", text)
    assert set(re.findall(r"`(\w+)`", said)) == set(cells._TRUTH)


def test_noisy_numbers_of_rows_cost_what_the_mechanisms_page_says():
    text = (ROOT / "docs/mechanisms.md").read_text(encoding="utf-8")
    assert "a twentieth of the budget in `laplace` and in all idealized mechanisms but" in text
    problem = Problem(n_features=5, neighbors="add-remove-one")
    for mechanism in MECHANISMS:
        budget = Budget(epsilon=1) if PureDP in mechanism.promises else Budget(rho=1)
        cost = getattr(mechanism().calibrate(problem, budget), "row_count", None)
        # A projection in pure epsilon is of what laplace draws.
        asks = mechanism.name in ("laplace", "projection") or (
            mechanism.numerics == "idealized" and mechanism.name != "stratified-nuclear"
        )
        assert cost == (part_of(budget.promise, Fraction(1, 20)) if asks else None), mechanism.name


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_correlations_are_as_much_closer_as_the_first_pages_say(page):
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    from benchmarks.analyst.page import LINES, correlations, measured

    found = correlations(measured(LINES))
    rivals = found[[name for name in found if name.startswith(("MST", "AIM"))]].min(axis=1)
    ratios = (rivals / found["dpcov"]).dropna()
    assert len(ratios) == 18
    assert round(float(np.exp(np.log(ratios).mean()))) == 5
    assert CLOSER.search((ROOT / page).read_text(encoding="utf-8"))
    assert ratios.min() > 1, "dpcov is closer in all of them, says README.md"


def test_the_papers_page_says_what_its_results_say():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    from benchmarks.papers import publish

    page = publish.PAGE.read_text(encoding="utf-8")
    found = publish.blocks(pd.read_csv(publish.CURVES), pd.read_csv(publish.CLAIMS))
    assert publish.filled(page, found) == page


def test_several_releases_err_as_their_pages_say():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    from scipy.stats import gmean

    from benchmarks.analyst import several

    lines = pd.read_csv(several.LINES)
    lines["ratio"] = lines["now"] / lines["before"]
    ratios = lines.set_index(["what", "table", "budgets"])["ratio"]
    planned, first, own = (ratios[f"top-up, {way}"] for way in several.WAYS)
    advised = first.where(first.index.get_level_values("budgets") != "0.02 + 0.18", own)
    means = [each.groupby("budgets").agg(gmean).max() for each in (planned, advised)]
    groups = lines[lines["what"] == "groups"].groupby("truth")["ratio"].agg(gmean)
    ends = [ratios[f"nested, {level}"].agg(["min", "max"]) for level in ("regions", "states")]
    regions, states = (f"{low:.2f} to {high:.2f} times" for low, high in ends)
    held = lines[lines["what"].str.startswith("held, ")]["now"].min()
    ways = (ratios[f"sites, {way}"].groupby("budgets").agg(gmean) for way in ("own", "largest's"))
    alone, shared = (f"{sizes.min():.1f} to {sizes.max():.1f} times" for sizes in ways)

    text = (ROOT / "docs/several.md").read_text(encoding="utf-8")
    most = f"{max(planned.max(), advised.max()) - 1:.0%}".replace("%", " %")
    assert f"at most {100 * max(means) - 100:.0f} % larger" in text
    assert f"Single tables are up to {most} worse" in text
    assert f"err {groups['table']:.2f} times as much as those of groups alone" in text
    assert f"and {groups['population']:.2f} times as estimates of the population" in text
    assert f"Correlations of regions err {regions} as much as alone" in text
    assert f"those of states {states}" in text
    assert f"together err {alone} as much as" in text and f"largest site's {shared}" in text
    assert f"Intervals hold in {100 * held:.0f} to 100 %" in text

    text = several.PAGE.read_text(encoding="utf-8")
    others = planned.drop("adult", level="table").max()
    assert f"Planned, it is at most {100 * others - 100:.0f} % for every table but adult" in text
    assert f"single tables are up to {100 * advised.max() - 100:.0f} % worse" in text


def test_bounds_cost_as_much_as_the_geometry_page_says():
    pd = pytest.importorskip("pandas")
    names = ("r-tables", "r-tables-levels", "other-tables", "other-tables-levels")
    files = [pd.read_csv(ROOT / f"docs/measured/{name}.csv") for name in names]
    first = files[0].iloc[1]
    assert (first["rows"], first["epsilon"]) == ("5,000 and more", "1")
    most = max(file[["×100", "×1000"]].max().max() for file in files)

    text = (ROOT / "docs/geometry.md").read_text(encoding="utf-8")
    there = 100 * first[["×100", "×1000"]].max() - 100
    assert f"at most {there:.0f} % there, and up to {100 * most - 100:.0f} % at other" in text
    assert f"err {first['over bounds']:.2f} times as much" in text
    assert f"That is {first['over floor']:.2f} times" in text
