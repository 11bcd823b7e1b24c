"""Numbers that pages state are those of the code and of the measured results."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from dpcov import Budget
from dpcov.privacy.meaning import certainty, detection
from dpcov.published.words import FALSE_ALARMS

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
