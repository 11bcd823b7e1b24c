"""Nothing that noise alone could make looks like a finding on a page."""

import html
import re
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.published.estimate.entry_noise import FALSE_PAIRS
from dpcov.published.export import export
from dpcov.published.words.numbers import Spectrum, group_numbers
from dpcov.published.words.summary import told_numbers
from dpcov.report import render_release, results
from dpcov.report.charts import BOTTOM, HEIGHT, TOP, number
from tests.published.mistakes import MISTAKES, released
from tests.releases import released_of
from tests.report.examples import demo, make, plain

NONE = "No correlation stands out from the noise."
NAMES = tuple(f"x{place}" for place in range(20))


def independent(seed):
    """Columns that have nothing to do with each other, and noise as large as they are."""
    rows = np.random.default_rng(0).choice([-0.5, 0.5], size=(2**14, len(NAMES)))
    columns = dict.fromkeys(NAMES, dpcov.Numeric(lower=-1, upper=1))
    terms = {"rho": "0.002", "geometry": "schema", "mechanism": "gaussian"}
    return released_of(columns, rows, seed, **terms)


@pytest.mark.parametrize("count", [1, 2])
def test_two_features_have_correlations_and_components(count):
    numbers = group_numbers(make(NAMES[:count]))
    for made in (results.correlations(numbers, drawn=False), results.spectrum(numbers)):
        assert ("There is one feature" in made) == (count == 1)


def short_rows():
    """Rows much shorter than their bounds allow, whose lengths the mechanism finds."""
    columns = dict.fromkeys(NAMES[:4], dpcov.Numeric(lower=-8, upper=8))
    rows = np.random.default_rng(0).normal(size=(20_000, 4))
    terms = {"neighbors": "add-remove-one", "geometry": "schema", "mechanism": "stratified"}
    made = released_of(columns, rows, **terms)
    assert any("edges" in note for note in made.manifest.statistics.notes)
    return made


def pairs(made):
    page = results.correlations(group_numbers(made), drawn=False)
    return re.findall(
        r'<th scope="row"><bdi>(.*?)</bdi> × <bdi>(.*?)</bdi>', page.split("whole")[0]
    )


def test_noise_alone_makes_a_strong_pair_in_few_releases():
    found = [bool(pairs(independent(seed))) for seed in range(40)]
    # More than 7 of 40 where 2 are expected: one of a thousand times.
    assert sum(found) <= 7
    assert FALSE_PAIRS == 1 / 20


def test_a_threshold_for_one_pair_would_be_noticed(monkeypatch):
    monkeypatch.setattr("dpcov.published.estimate.entry_noise.FALSE_PAIRS", 190 * FALSE_PAIRS)
    assert sum(bool(pairs(independent(seed))) for seed in range(10)) > 7


def test_levels_of_one_column_are_no_pair():
    made = released("hospital", 0)
    sources = {column.name: column.source for column in made.features}
    found = pairs(made)
    assert ("height", "weight") in found
    assert all(sources[first] != sources[second] for first, second in found)


def test_where_nothing_stands_out_the_page_says_so_before_the_map():
    page = render_release(independent(0)).decode()
    assert NONE in page and page.index(NONE) < page.index("<canvas")
    assert "Strongest pairs" not in page


def test_levels_that_exclude_each_other_are_told_of_where_nothing_else_stands_out():
    rng = np.random.default_rng(0)
    levels, numbers = rng.choice(["n", "s"], 3000), rng.uniform(-1, 1, 3000)
    table = pa.table({"ward": levels, "x": numbers})
    ward, x = dpcov.Categorical(categories=("n", "s")), dpcov.Numeric(lower=-1, upper=1)
    made = released_of({"ward": ward, "x": x}, table, rho="0.005", missing="never")
    page = render_release(made).decode()
    assert "Strongest pairs" not in page and NONE not in page
    assert f"{NONE[:-1]}, but for those of levels of one column, which exclude each other." in page


def test_gray_cells_are_named_where_the_noise_hides_a_column():
    said = "Gray: the noise hides the column."
    lost = make(("a", "b", "c"), 50, epsilon="0.001", entropy=dpcov.SeededEntropy(1))
    assert said in render_release(lost).decode()
    assert said not in render_release(released("hospital", 0)).decode()


def test_the_words_noise_edge_stand_below_the_chart_where_nothing_is_drawn():
    for made in (demo(), independent(0)):
        chart, words = results.spectrum(group_numbers(made)).split("<figcaption>")
        assert 'class="edge"' in chart and "noise edge" not in chart
        assert '<span class="key edge-key"></span> noise edge' in words


def cells_of(page):
    """Text of the cells of every table on a page."""
    tables = re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
    rows = [re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL) for body in tables]
    return [
        [
            [
                html.unescape(re.sub("<[^>]*>", "", cell))
                for cell in re.findall("<t[dh].*?</t[dh]>", r)
            ]
            for r in table
        ]
        for table in rows
    ]


def test_tables_of_correlations_hold_those_of_the_release():
    found = group_numbers(demo())
    made, names = found.estimates, found.release.feature_names
    page = results.correlations(found, drawn=False)
    strong, whole = cells_of(page)
    assert f"are more than {made.clear:.1f} noise std from zero" in page
    assert [name for name, *_ in whole] == list(names)
    for i, (_, *row) in enumerate(whole):
        for j, cell in enumerate(row):
            r = made.correlation[i, j]
            assert (
                cell == "·" if made.hidden[i, j] else float(cell.replace("−", "-")) == round(r, 3)
            )
    assert len({cell for _, *row in whole for cell in row}) > 10
    for pair, r, std, ratio in strong:
        i, j = map(names.index, pair.split(" × "))
        assert abs(made.correlation[i, j] - float(r.replace("−", "-"))) <= 0.0005
        assert float(std) == round(made.correlation_noise[i, j], 3)
        assert float(ratio) == round(abs(made.correlation[i, j]) / made.correlation_noise[i, j], 1)
    assert (results.signed(float("nan")), results.signed(-0.25)) == ("–", "−0.250")
    unknown = plain(3, mechanism="eigenvectors", budget=dpcov.Budget(epsilon=1))
    page = results.correlations(group_numbers(unknown), drawn=False)
    assert "Pairs with the largest correlation" in page
    assert {len(cells) for cells in cells_of(page)[0]} == {2}


def test_the_table_of_verdicts_holds_those_of_the_release():
    found = demo().diagnose()
    (rows,) = cells_of(results.verdicts(found))
    assert len(rows) == len(found.columns)
    for row, column in zip(rows, found.columns, strict=True):
        assert row[0] == column.in_unit and column.verdict in row[1]
        assert row[2:7] == list(told_numbers(column))


def test_components_are_counted_from_one_and_stand_beside_their_eigenvalues():
    found = group_numbers(demo())
    rows = re.findall(r"<tr>(.*?)</tr>", results.spectrum(found).partition("<tbody>")[2])
    cells = [re.sub("<[^>]*>", " ", row).split() for row in rows]
    made = found.estimates.spectrum
    pairs = zip(made.noisy, made.estimate, strict=True)
    assert cells == [[str(1 + k), number(a), number(b)] for k, (a, b) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("above", "said"),
    [
        (0, "Above the noise: 0 of 4 components. Noise alone would reach"),
        (1, "Above the noise: 1 of 4 components, with 75 % of the estimated variance. Noise"),
        (2, "Above the noise: 2 of 4 components, with 100 % of the estimated variance. Noise"),
    ],
)
def test_components_above_the_noise_are_said_with_their_part_of_the_variance(above, said):
    made = Spectrum(np.array([8.0, 3, 1, 0]), np.array([6.0, 2, 0, 0]), 2.5, above)
    assert results._spectrum_words(made).startswith(said)


@pytest.mark.parametrize(
    ("noisy", "said"),
    [
        ([8.0, 3, 1], None),
        ([8.0, 3, -1], "1 noisy eigenvalue is not positive and not drawn."),
        ([8.0, 0, -4], "2 noisy eigenvalues are not positive and not drawn."),
    ],
)
def test_eigenvalues_that_cannot_be_drawn_are_counted(noisy, said):
    made = Spectrum(np.array(noisy), np.array([6.0, 0, 0]), 2.5, 1)
    page = results.spectrum(SimpleNamespace(estimates=SimpleNamespace(spectrum=made)))
    assert page.count('class="noisy"') == sum(value > 0 for value in noisy)
    assert said in page if said else "not drawn" not in page


def test_components_are_drawn_where_the_edge_of_the_noise_is_not_known():
    made = Spectrum(np.array([8.0, 3, 0.02]), np.array([6.0, 2, 0.01]), None, None)
    page = results.spectrum(SimpleNamespace(estimates=SimpleNamespace(spectrum=made)))
    heights = [float(each) for each in re.findall(r'<circle[^>]* cy="([\d.]+)"', page)]
    assert 'class="edge"' not in page and "cannot be drawn" in page
    assert heights == sorted(set(heights)) and len(heights) == 3 and heights[0] > TOP
    assert heights[-1] < HEIGHT - BOTTOM


def test_verdicts_causes_and_the_headline_are_on_the_page():
    made = released("hospital", 7, [MISTAKES[0]])
    page = render_release(made).decode()
    assert made.diagnose().headline in page
    assert ">Spread</th>" in page and ">RMS</th>" not in page
    # Cards called the root mean square around zero a spread.
    without_means = plain()
    for shown in (render_release(without_means).decode(), without_means._repr_html_()):
        assert ">RMS</th>" in shown and ">Spread</th>" not in shown
    assert "▲ suspicious" in page
    assert "Its mean lies at the lower bound, 50" in page
    assert page.count("● good") == sum(c.verdict == "good" for c in made.diagnose().columns)


@pytest.mark.parametrize("word", ["Frobenius", "stratum", "norm shell", "encoded unit", "drowned"])
def test_words_of_the_workshop_are_not_on_pages(word):
    for made in (released("hospital", 7), independent(0), short_rows()):
        assert word not in render_release(made).decode()
        assert word not in made.summary()


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R")
def test_the_code_for_r_reads_a_column_called_na(tmp_path):
    """Sodium, whose name R takes for a missing value."""
    made = make(("NA", "K"), title="electrolytes")
    export(made, tmp_path / "covariance.csv")
    code = re.search(r"<code>(S &lt;- .*?)</code>", render_release(made).decode())[1]
    run = ["Rscript", "-e", html.unescape(code)]
    printed = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert [line.split()[0] for line in printed.splitlines()] == ["NA", "NA", "K"]
