"""The figures on the pages are the gallery's: small, and without loads from elsewhere."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

from benchmarks import drawings, gallery, tutorials
from benchmarks.analyst import page
from benchmarks.data import MissingTable

FIGURES = sorted(gallery.FIGURES.glob("*"))
PAGES = gallery.FIGURES.parent
LARGEST = 60_000


def shown(page):
    return re.findall(r"\((?:\.\./)?figures/([\w-]+)\.svg\)", page.read_text(encoding="utf-8"))


def test_every_figure_has_a_drawing_and_every_drawing_is_shown():
    drawn = {"gallery.md": gallery.DRAWINGS, page.PAGE.name: page.DRAWN}
    names = [name for each in (*drawn.values(), drawings.DRAWINGS) for name in each]
    assert sorted(figure.stem for figure in FIGURES) == sorted(names)
    for name, each in drawn.items():
        assert set(shown(PAGES / name)) == set(each)
    explained = [name for each in PAGES.rglob("*.md") for name in shown(each)]
    assert set(drawings.DRAWINGS) <= set(explained)


@pytest.mark.parametrize("name", ["accuracy", "intervals-coverage", "audit"])
def test_a_picture_shows_what_the_files_of_results_say(name):
    figure = drawings.FIGURES / f"{name}.svg"
    assert drawings.draw(name) == figure.read_bytes(), "python -m benchmarks.drawings"


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
