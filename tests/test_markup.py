"""Objects show themselves in notebooks: readable without a style sheet, light or dark, inert."""

import re
from functools import cache

import pytest

import dpcov
from dpcov.data.geometry import Geometry
from dpcov.markup import CELL, MOST_SHOWN, card, el, facts, listing, shorten
from tests.report.examples import UNHELPFUL_NAMES, grouped, plain, unhelpful, wide
from tests.report.test_html import Seen

pytest.importorskip("sklearn")
from dpcov.analysis import (
    PrivateCorrelation,
    PrivateLinearRegression,
    PrivatePCA,
    PrivateRidge,
    mean_intervals,
)

ALLOWED = {
    *("div", "p", "strong", "bdi", "wbr", "br", "details", "summary", "ul", "li", "code"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
}
COLOR = re.compile(r"color|background|#[0-9a-f]{3}|rgb", re.IGNORECASE)


def schema():
    """Hostile names, categories, and a title; one bound is left open."""
    columns = {name: dpcov.Numeric(lower=0, upper=1) for name in UNHELPFUL_NAMES}
    columns["open"] = dpcov.Numeric()
    columns["group"] = dpcov.Categorical(categories=UNHELPFUL_NAMES)
    columns["note"] = dpcov.Ignored(note=UNHELPFUL_NAMES[0])
    weights = dpcov.Weights(column=UNHELPFUL_NAMES[1], upper=2)
    return dpcov.Schema(columns=columns, title=UNHELPFUL_NAMES[0], weights=weights)


def complete_schema():
    """Nothing is left open, and levels have names of their own."""
    sex = dpcov.Categorical(
        categories=("1",), labels={"1": "man", "2": "woman"}, groups={"2": ("2", "f")}
    )
    return dpcov.Schema(columns={"sex": sex})


@cache
def objects():
    hostile = unhelpful()
    two = list(hostile.feature_names[:2])
    return {
        "release": hostile,
        "a release without means": plain(),
        "a release with groups": grouped(),
        "diagnosis": hostile.diagnose(),
        "schema": schema(),
        "complete schema": complete_schema(),
        "budget": dpcov.Budget(epsilon=1, delta="1e-6"),
        "geometry": Geometry.of(hostile.features, hostile.manifest.norm_bound),
        "intervals": mean_intervals(hostile),
        "ridge": PrivateRidge.from_release(hostile, target=two[0]),
        "two targets": PrivateLinearRegression.from_release(hostile, target=two),
        "components": PrivatePCA.from_release(hostile),
        "correlations": PrivateCorrelation.from_release(hostile, features=two),
        "not fitted": PrivatePCA(n_components=3, features=UNHELPFUL_NAMES),
    }


KINDS = (
    *("release", "a release without means", "a release with groups", "diagnosis", "schema"),
    *("complete schema", "budget"),
    *("geometry", "intervals", "ridge", "two targets", "components", "correlations", "not fitted"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_is_inert_markup_without_colors(kind):
    text = objects()[kind]._repr_html_()
    seen = Seen(text)
    assert set(seen.tags) <= ALLOWED
    for tag in set(seen.tags) - {"br"}:
        assert text.count(f"<{tag}>") + text.count(f"<{tag} ") == text.count(f"</{tag}>")
    names = {name for name, _ in seen.attributes}
    assert names <= {"style", "title", "class", "scope", "tabindex", "role", "aria-label"}
    styles = [value for name, value in seen.attributes if name == "style"]
    assert not any(COLOR.search(value) for value in styles)


def test_what_is_shown_is_what_the_objects_say():
    shown = {kind: Seen(made._repr_html_()).words for kind, made in objects().items()}
    release = objects()["release"]
    assert str(release.guarantee.promise) in shown["release"]
    assert release.fingerprint[:16] in shown["release"]
    assert release.diagnose().headline in shown["release"]
    assert release.diagnose().headline in shown["diagnosis"]
    for kind in ("release", "diagnosis"):
        assert all(shorten(name, CELL) in shown[kind] for name in UNHELPFUL_NAMES)
    assert "fill in lower and upper" in shown["schema"]
    assert "lower 0 · upper 1" in shown["schema"]
    told = "sexcategoricalcategories 1 · labels 1 = man, 2 = woman · groups 2 = 2, f"
    assert shown["complete schema"].endswith(told)
    assert "To be corrected" in shown["schema"]
    assert "To be corrected" not in shown["complete schema"]
    assert "up to 73.11 %" in shown["budget"]
    first = objects()["intervals"].rows[0]
    assert f"{first.lower:.5g}" in shown["intervals"]
    assert f"{objects()['ridge'].coef_[0]:.5g}" in shown["ridge"]
    assert "n_components: 3" in shown["not fitted"]
    assert "Warning: " not in shown["release"] and "not private" in shown["a release with groups"]


def test_the_address_of_a_ledger_is_not_shown():
    secret = PrivatePCA(ledger="postgresql://me:secret@host/name", dataset="people")
    shown = Seen(secret._repr_html_()).words
    assert "secret" not in shown and "ledger: given" in shown


def test_notebooks_that_ask_for_all_forms_get_this_one():
    model = objects()["ridge"]
    found = model._repr_mimebundle_()
    assert found == {"text/plain": repr(model), "text/html": model._repr_html_()}


def test_a_long_table_is_cut_and_says_so():
    text = wide(100, 2000)._repr_html_()
    assert text.count("<tr>") == 1 + MOST_SHOWN
    assert f"and {100 - MOST_SHOWN} more" in text
    assert "more" not in listing(("a", "b"), [("x", "1")] * MOST_SHOWN, "c")


def test_pieces_are_escaped():
    text = card("<i>", "<b>", facts([("<u>", "<s>"), ("nothing", None)]), el("p", "&"))
    assert Seen(text).tags == ["div", "p", "strong", "bdi", "p", "strong", "br", "p"]
    assert "nothing" not in text


def test_names_that_differ_at_their_ends_alone_are_cut_to_different_words():
    names = [f"a long name of a question in a questionnaire, item {place}" for place in range(3)]
    for longest in (24, 40, CELL):
        short = {shorten(name, longest) for name in names}
        assert len(short) == 3 and {*map(len, short)} == {longest}
        assert all(each.startswith("a long name") and "…" in each for each in short)
