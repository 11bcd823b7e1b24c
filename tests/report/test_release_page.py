import ast
import base64
import hashlib
import re

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.markup import visible
from dpcov.published.digits import plus_minus
from dpcov.report import render_release
from dpcov.report.charts import number
from dpcov.report.release_page import SECTIONS
from tests.releases import released_of
from tests.report.examples import UNHELPFUL_NAMES, demo, grouped, make, plain, unhelpful
from tests.report.test_html import Seen

PURE = dpcov.Budget(epsilon=1)
UNUSUAL = {
    "one feature": lambda: make(("only",)),
    "two features": lambda: make(("a", "b")),
    "no intercept": plain,
    "nothing but zeros": lambda: plain(mechanism="zero"),
    "a finished estimate": lambda: plain(3, mechanism="eigenvectors", budget=PURE),
    "Laplace noise": lambda: plain(3, mechanism="laplace", budget=PURE),
    "nuclear noise": lambda: make(("a", "b", "c", "d"), budget=PURE),
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


def markup_of(page):
    return re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)


@pytest.mark.parametrize("kind", UNUSUAL)
def test_every_kind_of_release_has_a_page_with_all_sections(kind):
    page, compared = text_of(UNUSUAL[kind]()), "Groups side by side"
    assert ("release = release.group(" in page) == (kind == "groups")
    words = Seen(page).words
    missing = [title for _, title, _ in SECTIONS if title not in words]
    assert missing == ([] if kind == "groups" else [compared])
    assert "nan" not in markup_of(page).lower().split()


@pytest.mark.parametrize(
    ("geometry", "expected"),
    [
        ("private", "the length to which longer encoded rows were scaled"),
        ("schema", "the public bound on the length of an encoded row"),
    ],
)
def test_page_and_summary_say_whether_the_norm_bound_was_found_or_is_public(geometry, expected):
    made = make(("a", "b", "c"), geometry=geometry)
    bound = made.manifest.norm_bound
    assert f"Norm bound: {number(bound)}, {expected}." in text_of(made)
    assert f"{bound:.6g}, {expected}" in " ".join(made.summary(details=True).split())


def test_the_page_says_the_same_as_the_release():
    made, example = demo(), "dpcov.load('survey.dpcov')"
    page = text_of(made, file_name="survey.dpcov")
    for said in ("6,366", "(1, 1e-6)-DP", made.fingerprint, "satisfaction", "15 to 90", example):
        assert said in Seen(page).words
    shown = re.findall(r"<dt>(.*?)</dt><dd>(.*?)<small>(.*?)</small>", page)
    facts, found = {name: rest for name, *rest in shown}, made.diagnose()
    usable = sum(column.usable for column in found.columns)
    assert facts["Columns that can be used"][0] == f"{usable} of {len(found.columns)}"
    typical, worst = (
        f"±{plus_minus(found.typical)}",
        f"typical; ±{plus_minus(found.worst)} the worst",
    )
    assert facts["Correlations within"] == [typical, worst]
    above = made.numbers.estimates.spectrum.n_above
    assert facts["Above the noise"][0] == f"{above} of {len(found.columns)}"
    row = re.search(r"satisfaction</bdi></th><td><span class=\"light.*?</tr>", page)[0]
    mean, _, spread, _, _ = (float(told) for told in re.findall(r"number\">([\d.]+)<", row))
    # Numbers are written to the last digit that counts.
    shown = made.mean_vector()[0], np.sqrt(made.covariance_matrix()[0, 0])
    assert (mean, spread) == pytest.approx(shown, rel=0.02)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("two features", "Replace one person’s row by anything else, and"),
        ("several rows per person", "Replace one person’s rows (at most 5) by anything else, and"),
        ("a private number of rows", "Add one person’s row to the table, or take them out, and"),
    ],
)
def test_the_page_says_what_may_change_without_the_file_changing_much(kind, change):
    words = Seen(text_of(UNUSUAL[kind]())).words
    assert change in words
    public = "The number of rows of the table is public, not protected."
    assert (public in words) == change.startswith("Replace")


@pytest.mark.parametrize("name", ["größe", "\U00020bb7", 'a"b', "a'b"])
def test_the_code_on_a_page_names_the_file(name):
    """Characters beyond the basic plane were written as JSON has them, and Python does not."""
    words = Seen(text_of(plain(), file_name=f"{name}.dpcov")).words
    shown = re.search(r"dpcov\.load\((.*?\.dpcov.)\)", words)[1]
    assert ast.literal_eval(shown) == f"{name}.dpcov"


def test_the_page_says_how_missing_values_count():
    left_out, centered = "left out pair by pair", "counts as the center"
    marked, plain = text_of(UNUSUAL["missing values"]()), text_of(demo())
    assert left_out in marked and centered not in marked
    assert centered in plain and left_out not in plain
    # Columns say it too; since indicators are no features, none did.
    assert "numeric (missing values are marked)" in marked and "are marked)" not in plain
    assert ">Missing</th>" in marked and ">Missing</th>" not in plain


def test_the_page_of_a_pooled_group_says_how_missing_values_count():
    """They were said to count as the center, while the group is over the values present."""
    rows = pa.table({"a": [*np.linspace(0, 1, 1900), *[None] * 100], "g": ["u", "v"] * 1000})
    columns = {"a": dpcov.Numeric(lower=0, upper=1), "g": dpcov.Categorical(categories=("u", "v"))}
    made = released_of(columns, rows, rho=5, by="g")
    page = text_of(made.group("u", pooled=True))
    assert "left out pair by pair" in page and "counts as the center" not in page


def test_nothing_is_said_of_noise_and_bias_that_are_not_there():
    page = text_of(UNUSUAL["nothing but zeros"]())
    assert "<title>Untitled table</title>" in page
    for said in (
        "biases estimates",
        "a dot stands for",
        "The map hides",
        "deliberate noise",
        "with noise",
    ):
        assert said not in page, said
        assert said in text_of(make(("a", "b", "c"), 50, epsilon="0.1")), said


def test_a_combined_promise_is_not_said_to_be_what_a_mechanism_was_calibrated_for():
    made = make(("a", "b"))
    page = text_of(made.combine(make(("a", "b"), geometry=made)))
    assert "calibrated" not in page and "what the proof shows" in page


def test_nothing_is_loaded_from_anywhere():
    page = text_of(unhelpful())
    assert not re.search(r"(src|href)=\"(?!#)", markup_of(page))
    for _, text in re.findall(r"<(script|style)[^>]*>(.*?)</\1>", page, flags=re.DOTALL):
        assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp|import\(", text)


def test_the_policy_allows_this_style_and_this_script_only():
    page = text_of(demo())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for kind in ("style", "script"):
        inside = re.search(rf"<{kind}>(.*?)</{kind}>", page, flags=re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert ' style="' not in page
    assert not re.search(r"<[^>]*\son[a-z]+=", page)


def test_unhelpful_names_stay_text():
    seen = Seen(text_of(unhelpful()))
    assert seen.tags.count("script") == 2  # data, code
    assert not {"img", "b", "i"} & set(seen.tags)
    assert [name for name in UNHELPFUL_NAMES if visible(name)[:40] not in seen.words] == []


def test_a_group_named_like_markup_has_its_own_part_and_a_seeded_release_is_called_so_at_the_top():
    page = text_of(grouped())
    assert 'data-part="3"' in page  # all rows, two sites, the rest
    assert "&lt;i&gt;south&lt;/i&gt;" in page
    assert page.index("not private") < page.index('id="about"')


def test_units_descriptions_and_functions_are_shown_as_text():
    money = dpcov.Numeric(
        lower=0, upper=99, unit="<b>EUR", transform="sqrt", description="Income <i>\u202e"
    )
    sex = dpcov.Categorical(categories=("1",), labels={"1": "male"}, description="Sex at birth")
    table = pa.table({"m": np.linspace(0, 99, 500), "s": ["1", "2"] * 250})
    page = text_of(released_of({"m": money, "s": sex}, table, rho=1))
    for shown in ("sqrt(m) [sqrt(&lt;b&gt;EUR)]", "value of a function", "Income &lt;i&gt;\ufffd"):
        assert shown in page, shown
    assert "Sex at birth" in page
    assert number(2026) == "2026" and number(1000) == "1000" and number(12_000) == "12,000"
    assert number(999_000) == "999,000" and number(1e6) == "1e6" and number(1e-4) == "0.0001"
    assert number(-0.5) == "−0.5" and number(-1e-9) == "−1e−9"
    assert "male" in page
    without = released_of({"s": dpcov.Categorical(categories=("1",))}, table, rho=1)
    assert ">Description<" not in text_of(without)
