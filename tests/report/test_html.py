import json
from html.parser import HTMLParser

import pytest

from dpcov.markup import Html, el, join, visible
from dpcov.report.html import fill, json_block
from tests.report.examples import UNHELPFUL_NAMES

SLIDER = ("symbol", "text", "promise", "headline", "certainty", "start", "last", "least", "most")


class Seen(HTMLParser):
    """Elements and text as a browser would find them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.attributes = [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.words += data


@pytest.mark.parametrize("name", UNHELPFUL_NAMES)
def test_a_name_is_text_wherever_it_stands(name):
    seen = Seen(el("p", name, title=name))
    assert seen.tags == ["p"]
    assert seen.words == visible(name)
    assert seen.attributes == [("title", visible(name))]
    filled = Seen(fill("slider.html", **dict.fromkeys(SLIDER, name)))
    parts = ["div", "label", "output", "input", "div", "span", "span", "p", "code", "p"]
    assert filled.tags == parts
    assert f"{visible(name)}: {visible(name)}" in filled.words
    assert dict(filled.attributes)["aria-valuetext"] == visible(name)


@pytest.mark.parametrize("name", UNHELPFUL_NAMES)
def test_data_for_scripts_cannot_end_the_script(name):
    block = json_block("data", {name: [name]})
    start, end = '<script type="application/json" id="data">', "</script>"
    inside = block.removeprefix(start).removesuffix(end)
    assert not set(inside) & set("<>&\u2028\u2029")
    assert json.loads(inside) == {name: [name]}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_data_for_scripts_are_json(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_block("data", [value])


def test_only_what_was_built_here_is_markup_and_attributes_are_left_out_or_bare():
    assert el("p", "<b>", Html("<b></b>"), ["<i>", None]) == "<p>&lt;b&gt;<b></b>&lt;i&gt;</p>"
    assert join("a & b") == "a &amp; b"
    made = el("input", hidden=True, checked=False, name=None, value=0)
    assert made == '<input hidden value="0"/>'


def test_invisible_characters_are_shown_and_emoji_kept():
    assert visible("a\x00\x1b\u202eb\ud800") == "a\ufffd\ufffd\ufffdb\ufffd"
    assert visible("👩\u200d🔬 ימין") == "👩\u200d🔬 ימין"
