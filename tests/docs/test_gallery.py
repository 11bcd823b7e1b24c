"""The figures on the pages are the gallery's: small, and without loads from elsewhere."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

from benchmarks import gallery, tutorials
from benchmarks.analyst import page
from benchmarks.data import MissingTable

FIGURES = sorted(gallery.FIGURES.glob("*"))
PAGES = gallery.FIGURES.parent
LARGEST = 60_000


def test_every_figure_has_a_drawing_and_every_drawing_is_shown():
    drawings = {"gallery.md": gallery.DRAWINGS, page.PAGE.name: page.DRAWN}
    assert {figure.stem for figure in FIGURES} == {
        name for each in drawings.values() for name in each
    }
    for name, drawn in drawings.items():
        text = (PAGES / name).read_text(encoding="utf-8")
        assert set(re.findall(r"\(figures/([\w-]+)\.svg\)", text)) == set(drawn)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_a_figure_is_small_well_formed_and_loads_nothing(figure):
    assert figure.stat().st_size < LARGEST
    for element in ElementTree.parse(figure).iter():
        for name, value in element.attrib.items():
            if name.endswith("href"):
                assert value.startswith(("#", "data:image/png")), value


def test_a_figure_can_be_drawn_again():
    drawn = gallery.draw("scree", Path())
    assert drawn.startswith(b"<?xml") and len(drawn) < LARGEST


def test_made_up_people_are_never_passed_off_as_adult(tmp_path):
    for drawing in (gallery.coefficient_path, gallery.intervals):
        with pytest.raises(MissingTable):
            drawing(tmp_path)
    with pytest.raises(MissingTable):
        tutorials.adult(tmp_path, 1)
