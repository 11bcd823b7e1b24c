"""NHANES and Adult from the choice of a file to the report, and how long a person takes.

Time is that of the keystroke-level model (Card, Moran and Newell 1980): a key takes 0.28 s,
pointing and pressing a button 1.3 s, and every step begins with 1.35 s of thought.  Reading and
looking up bounds take equally long in both ways and are left out.
"""

import csv
import gzip

import pytest

from benchmarks import measured
from benchmarks.data import MissingTable, data_directory
from dpcov import Release
from tests.browser.test_desk import Person
from tests.desk.conftest import running_in

KEY, POINT, THINK = 0.28, 1.3, 1.35
AT_THE_DESK = ("pip install 'dpcov[desk]'", "dpcov desk")
BOUNDS = {
    "age": (0, 100),
    "diastolic_bp": (20, 200),
    "poverty_index": (0, 1000),
    "race": (1, 3),
    "red_blood_cells": (0, 100),
    "sedimentation_rate": (0, 150),
    "serum_albumin": (0, 10),
    "serum_cholesterol": (0, 1000),
    "serum_iron": (0, 500),
    "serum_magnesium": (0, 10),
    "serum_protein": (0, 20),
    "sex": (1, 2),
    "systolic_bp": (50, 300),
    "tibc": (0, 1000),
    "ts": (0, 150),
    "white_blood_cells": (0, 100),
    "bmi": (10, 100),
    "pulse_pressure": (0, 200),
    "signed_followup_years": (-25, 25),
}
NUMBERS = {
    "age": (0, 110),
    "education-num": (1, 16),
    "capital-gain": (0, 100000),
    "capital-loss": (0, 10000),
    "hours-per-week": (0, 100),
}
# Lines that somebody types who does the same with a text editor, for a schema of these columns.
COMMANDS = """pip install dpcov
dpcov schema draft nhanes.csv -o nhanes.toml
nano nhanes.toml
dpcov schema check nhanes.toml --data nhanes.csv
dpcov plan --schema nhanes.toml --rows 9000 --epsilon 1 --delta 1e-6
dpcov ledger create ledger.sqlite --dataset nhanes --epsilon 4 --delta 1e-5
dpcov release nhanes.csv --schema nhanes.toml --epsilon 1 --delta 1e-6 --ledger ledger.sqlite --dataset nhanes -o nhanes.dpcov
dpcov doctor nhanes.dpcov
dpcov report nhanes.dpcov -o nhanes.html""".splitlines()  # noqa: E501


class Timed(Person):
    """Counts steps and seconds."""

    steps, seconds = 0, 0.0

    def spend(self, keys, pointing=0, thought=1):
        self.steps += thought
        self.seconds += keys * KEY + pointing * POINT + thought * THINK

    def type(self, identifier, text):
        super().type(identifier, text)
        # One key more goes to the field.
        self.spend(len(text) + 1)

    def press(self, words):
        super().press(words)
        self.spend(0, pointing=1)

    def fill(self, place, what, value):
        """A cell of the table of columns; its neighbor is one key away."""
        script = """const cell = document.querySelector(`[name="${arguments[0]}"]`);
        cell.value = arguments[1];
        cell.dispatchEvent(new Event("input", { bubbles: true }));"""
        self.browser.run(script, f"{place}.{what}", str(value))
        self.spend(len(str(value)) + 1, thought=0)


def table(name, folder):
    try:
        path = data_directory(None) / f"{name}.csv.gz"
    except MissingTable:
        path = None
    if path is None or not path.exists():
        pytest.skip("needs the public benchmark data sets beside the project")
    with gzip.open(path, "rt", newline="") as file:
        found = file.read()
    target = folder / f"{name.rstrip('1')}.csv"
    target.write_text(found)
    return target.name, csv.DictReader(found.splitlines())


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with running_in(tmp_path_factory.mktemp("desk")) as running:
        yield running


def finish(person, rows):
    person.press("Save and go on")
    assert person.title() == "People", person.browser.text("main")[:900]
    person.press("Save and go on")
    person.type("expected_rows", str(rows))
    person.press("Rehearse")
    person.until("#plan-data")
    person.press("Save and go on")
    person.type("total_epsilon", "4")
    person.type("total_delta", "1e-5")
    person.press("Save and go on")
    person.press("Release")
    person.until("#headline")
    return person.browser.text("#headline")


def by_hand():
    """Steps and seconds with a shell and a text editor: each placeholder is found by two keys."""
    keys = sum(len(line) + 1 for line in COMMANDS)
    keys += sum(len(str(bound)) + 2 for bounds in BOUNDS.values() for bound in bounds)
    return len(COMMANDS), keys * KEY + len(COMMANDS) * THINK


@pytest.mark.shared_data
def test_nhanes_takes_half_the_time_that_it_takes_with_a_text_editor(browser, running):
    name, rows = table("nhanes1", running.folder)
    person = Timed(browser, running)
    person.look()
    for command in AT_THE_DESK:
        person.spend(len(command) + 1)
    person.type("data", name)
    person.press("Open the file")
    for place, column in enumerate(rows.fieldnames):
        kind = "return document.querySelector(`[name='${arguments[0]}.type']`).value"
        if browser.run(kind, place) != "numeric":
            browser.choose_named(f"{place}.type", "numeric")
            person.spend(1, pointing=1, thought=0)
        lower, upper = BOUNDS[column]
        person.fill(place, "lower", lower)
        person.fill(place, "upper", upper)
    headline = finish(person, 9000)
    assert "of 19 columns can be used" in headline
    assert Release.load(running.folder / "nhanes.dpcov").n_rows > 8000
    browser.screenshot("desk-nhanes")
    steps, seconds = by_hand()
    found = [
        ("the desk", person.steps, person.seconds),
        ("a shell and a text editor", steps, seconds),
    ]
    shown = [[way, str(count), f"{time:.0f}"] for way, count, time in found]
    assert shown == measured.results("desk-newcomer.csv")[1:]
    assert person.seconds <= 0.5 * seconds


@pytest.mark.shared_data
def test_adult_with_its_categories_goes_the_whole_way(browser, running):
    name, rows = table("adult", running.folder)
    levels = {column: set() for column in rows.fieldnames}
    for row in rows:
        for column, value in row.items():
            levels[column].add(value)
    person = Timed(browser, running)
    person.look()
    person.type("data", name)
    person.press("Open the file")
    for place, column in enumerate(rows.fieldnames):
        if column in NUMBERS:
            person.browser.choose_named(f"{place}.type", "numeric")
            for what, bound in zip(("lower", "upper"), NUMBERS[column], strict=True):
                person.fill(place, what, bound)
        elif column in ("fnlwgt", "split", "native-country"):
            person.browser.choose_named(f"{place}.type", "ignored")
        else:
            person.browser.choose_named(f"{place}.type", "categorical")
            person.fill(place, "categories", "\n".join(sorted(levels[column] - {"?"})))
    headline = finish(person, 48842)
    assert "columns can be used" in headline
    assert Release.load(running.folder / "adult.dpcov").manifest.n_rows == 48842
    browser.screenshot("desk-adult")
