import base64
import hashlib
import re
import time

import numpy as np
import pytest

import dpcov
from dpcov.report import render_release
from dpcov.report.html import visible
from tests.report.examples import UNHELPFUL_NAMES, demo, grouped, make, plain, unhelpful, wide
from tests.report.test_html import Seen

SECTIONS = (
    *(
        "What was released, and about whom",
        "What is promised to each person",
        "Privacy budget",
        "Correlations",
    ),
    *(
        "Components above the noise",
        "Noise against signal",
        "Expected error",
        "Means and standard deviations",
    ),
    *("Before you use these numbers", "Use this file"),
)

UNUSUAL = {
    "one feature": lambda: make(("only",)),
    "two features": lambda: make(("a", "b")),
    "no intercept": plain,
    "nothing but zeros": lambda: plain(mechanism="zero"),
    "a finished estimate": lambda: plain(
        3, mechanism="eigenvectors", budget=dpcov.Budget(epsilon=1)
    ),
    "Laplace noise": lambda: plain(3, mechanism="laplace", budget=dpcov.Budget(epsilon=1)),
    "nuclear noise": lambda: make(("a", "b", "c", "d"), budget=dpcov.Budget(epsilon=1)),
    "adaptive": lambda: plain(6, mechanism="adaptive"),
    "a private number of rows": lambda: make(("a", "b"), neighbors="add-remove-one"),
    "drowned in noise": lambda: make(("a", "b"), 50, epsilon="0.001", neighbors="add-remove-one"),
    "seeded": lambda: plain(entropy=dpcov.SeededEntropy(0)),
    "groups": grouped,
    "unhelpful names": unhelpful,
    "several rows per person": lambda: make(("a", "b"), schema={"rows_per_person": 5}),
    "missing values": lambda: make(("a", "b"), schema={"missing": "indicator"}),
}


def text_of(release, **options):
    return render_release(release, **options).decode()


@pytest.mark.parametrize("kind", UNUSUAL)
def test_every_kind_of_release_has_a_page_with_all_sections(kind):
    page = text_of(UNUSUAL[kind]())
    seen = Seen(page)
    for title in SECTIONS:
        assert title in seen.words
    assert (
        "nan"
        not in re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
        .lower()
        .split()
    )


def test_the_page_says_the_same_as_the_release():
    made = demo()
    page = text_of(made, file_name="biopsies.dpcov")
    for words in (
        "569",
        "(2, 1e-6)-DP",
        made.fingerprint,
        "mean radius",
        "5 to 30",
        'dpcov.load("biopsies.dpcov")',
    ):
        assert words in Seen(page).words
    covariance = made.covariance()
    deviation = f"{np.sqrt(covariance[0, 0]):.3g}"
    assert f">{deviation}<" in page


def test_nothing_is_loaded_from_anywhere():
    page = text_of(unhelpful())
    markup = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    assert not re.search(r"(src|href)=\"(?!#)", markup)
    for text in re.findall(
        r"<(?:script|style)[^>]*>(.*?)</(?:script|style)>", page, flags=re.DOTALL
    ):
        assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp|import\(", text)


def test_the_policy_allows_this_style_and_this_script_only():
    page = text_of(demo())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for kind, directive in (("style", "style-src"), ("script", "script-src")):
        inside = re.search(rf"<{kind}>(.*?)</{kind}>", page, flags=re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert ' style="' not in page
    assert not re.search(r"<[^>]*\son[a-z]+=", page)


@pytest.mark.parametrize("name", UNHELPFUL_NAMES)
def test_unhelpful_names_stay_text(name):
    page = text_of(unhelpful())
    seen = Seen(page)
    assert seen.tags.count("script") == 2  # data, code
    assert not {"img", "b", "i"} & set(seen.tags)
    assert visible(name)[:40] in seen.words


def test_a_group_named_like_markup_has_its_own_part():
    page = text_of(grouped())
    assert 'data-part="3"' in page  # all rows, two sites, the rest
    assert "&lt;i&gt;south&lt;/i&gt;" in page


def test_a_seeded_release_is_called_so_at_the_top():
    page = text_of(plain(entropy=dpcov.SeededEntropy(0)))
    assert page.index("not private") < page.index('id="about"')


def test_the_page_of_a_release_is_always_the_same():
    assert render_release(demo()) == render_release(demo())


def test_a_hundred_features_take_less_than_three_seconds_and_three_megabytes():
    made = wide(100)
    started = time.process_time()
    page = render_release(made)
    assert time.process_time() - started < 3
    assert len(page) < 3e6


def test_a_thousand_features_stay_below_twelve_megabytes():
    rng = np.random.default_rng(0)
    made = dpcov.second_moment(
        rng.normal(size=(50, 1000)) / 32, norm_bound=1, budget=dpcov.Budget(rho=1)
    )
    assert len(render_release(made)) < 12e6
