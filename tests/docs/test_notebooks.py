"""The notebooks run from top to bottom, cell by cell, and what a cell ends with can be shown.

Without Jupyter: cells share one namespace, and the value of a last expression is shown as a
notebook would show it, by ``_repr_html_`` or ``repr``; a semicolon at the end hides it.
"""

import ast
import json
import re
import warnings
from pathlib import Path

import pytest

pytest.importorskip("sklearn")
pyplot = pytest.importorskip("matplotlib.pyplot")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def cells(path, kind):
    book = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in book["cells"] if cell["cell_type"] == kind]


def shown(source, names, where):
    """Run a cell and return what a notebook shows of its last expression, if anything."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), names)
    if last is None:
        return ""
    value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    if value is None or source.rstrip().endswith(";"):
        return ""
    rich = getattr(value, "_repr_html_", None)
    return rich() if rich is not None else repr(value)


@pytest.mark.filterwarnings("ignore:.*not private", "ignore::dpcov.analysis.NoiseWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pyplot.switch_backend("Agg")
    names, found, figures = {"__name__": "__main__"}, [], 0
    for cell in cells(path, "code"):
        with warnings.catch_warnings():
            # Glyphs and fonts are the machine's.
            warnings.filterwarnings("ignore", message="Glyph")
            found.append(shown("".join(cell["source"]), names, f"{path.name}: {cell['id']}"))
        # As a notebook does after every cell.
        for number in pyplot.get_fignums():
            pyplot.figure(number).savefig(tmp_path / f"{figures}.png")
            figures += 1
        pyplot.close("all")
    assert figures >= {"custodian": 1, "analyst": 5, "researcher": 2}[path.stem]
    assert sum(text.startswith("<div>") for text in found) >= 1
    assert not any("<script" in text for text in found)


def test_the_analyst_reads_the_file_that_the_custodian_wrote(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "patients.dpcov").write_bytes(b"")
    analyst, *_ = NOTEBOOKS
    shown("".join(cells(analyst, "code")[0]["source"]), {}, analyst.name)
    assert (tmp_path / "patients.dpcov").read_bytes() == b""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_and_begins_with_a_title(path):
    book = json.loads(path.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert "".join(book["cells"][0]["source"]).startswith("# ")
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    assert all(re.fullmatch(r"[\w-]{1,64}", cell["id"]) for cell in book["cells"])
    for cell in cells(path, "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None


def test_there_is_a_notebook_for_each_of_the_three_and_links_go_somewhere():
    assert [path.stem for path in NOTEBOOKS] == ["analyst", "custodian", "researcher"]
    for path in NOTEBOOKS:
        text = "".join("".join(cell["source"]) for cell in cells(path, "markdown"))
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert (path.parent / target).is_file(), target


def test_the_runner_sees_a_cell_that_fails_and_what_a_cell_ends_with():
    names = {}
    assert shown("a = 1\na + 1", names, "x") == "2"
    assert shown("a;", names, "x") == "" and shown("b = a", names, "x") == ""
    with pytest.raises(NameError):
        shown("nothing", names, "x")
