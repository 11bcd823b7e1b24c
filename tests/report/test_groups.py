import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpcov
from dpcov.published.digits import with_error
from dpcov.published.pooled import most_distinct
from dpcov.report import groups
from dpcov.report.groups import MAPS_SHOWN, WITHIN, side_by_side
from dpcov.report.release_page import numbers_by_group
from tests.releases import released, released_of
from tests.report.examples import demo, grouped


def many(count=30, rows=400):
    """Groups that are alike, but one in which two features go the other way."""
    rng = np.random.default_rng(0)
    cause = rng.normal(size=(count * rows, 1))
    values = 0.25 * (cause + 0.5 * rng.normal(size=(count * rows, 3)))
    labels = [f"g{place:02d}" for place in range(count)]
    names = np.repeat(labels, rows)
    values[names == "g17", 0] *= -1
    table = pa.table({"group": names, **{f"x{k}": values[:, k] for k in range(3)}})
    columns = dict.fromkeys(("x0", "x1", "x2"), dpcov.Numeric(lower=-1, upper=1))
    columns["group"] = dpcov.Categorical(categories=tuple(labels))
    return released_of(columns, table, rho=1, missing="never", by="group")


@pytest.fixture(scope="module")
def found():
    release = many()
    return release, str(side_by_side(release, next(numbers_by_group(release))))


def test_one_map_a_group_up_to_a_number_of_them_and_all_groups_in_the_table(found):
    release, text = found
    assert text.count('class="small-map"') == 1 + MAPS_SHOWN
    assert text.count('scope="row"') > len(release.group_names)
    for place, name in enumerate(release.pooled.names[:-1]):
        assert name in text, place
    assert f"{len(release.group_names) - MAPS_SHOWN} others below" in text
    pooled = release.pooled
    for mean, std in zip(pooled.means[0].tolist(), pooled.mean_std[0].tolist(), strict=True):
        assert " ± ".join(with_error(mean, WITHIN * std)) in text
    # All three columns are in the table.
    assert "more columns" not in text


def test_a_small_map_is_as_dark_as_a_correlation_is_large():
    correlation = np.array([[1.0, 0.5, -1.0], [0.5, 1.0, np.nan], [-1.0, np.nan, 1.0]])
    drawn = re.findall(
        'd="(.*?)" class="(.*?)" opacity="(.*?)"', groups._small_map("g", correlation)
    )
    cells = {(side, float(opacity)): len(re.findall("M", d)) for d, side, opacity in drawn}
    assert cells == {("above", 0.5): 2, ("below", 1.0): 2}
    assert {side: d for d, side, _ in drawn}["above"] == "M1 0h1v1h-1zM0 1h1v1h-1z"


@pytest.mark.parametrize("times", [1, 6, 12])
def test_differences_that_are_counted_are_larger_than_their_errors(found, times):
    release, _ = found
    pooled = replace(release.pooled, correlation_std=times * release.pooled.correlation_std)
    whole = next(numbers_by_group(release))
    text = str(groups._differences(pooled, whole, whole.estimates.correlation))
    rows = re.findall(r"<tr>(.*?)</tr>", text.partition("<tbody>")[2])
    told = [re.sub("<[^>]*>", " ", row).replace("−", "-") for row in rows]
    sizes = [[float(x) for x in re.findall(r" ([-+]?\d\.\d+)", row)[2:]] for row in told]
    drawn = re.findall(
        r'x1="([\d.]+)" x2="([\d.]+)"[^>]*class="estimate"/><circle cx="(.*?)"', text
    )
    for (apart, half), places in zip(sizes, drawn, strict=True):
        shown = 60 + 58 * np.clip([apart - half, apart + half, apart], -1, 1)
        assert [float(place) for place in places] == pytest.approx(shown, abs=0.5)
    clear = re.search(r"no difference: (\d+) of", text)
    assert sum(abs(apart) > half for apart, half in sizes) == int(clear[1] if clear else 0)


def test_what_differs_is_found(found):
    release, text = found
    rows = re.findall(r"<tr>(.*?)</tr>", text.partition("What differs most")[2])
    assert "g17" in rows[1] and "x0" in rows[1]
    cells = re.sub("<[^>]*>", " ", rows[1]).replace("−", "-")
    here, everywhere, apart, half = map(float, re.findall(r" ([-+]?\d\.\d+)", cells))
    assert here - everywhere == pytest.approx(apart, abs=0.011)
    # A group's interval counts its own error, and little more for that of all groups.
    own = WITHIN * float(np.median(release.pooled.correlation_std[:, 0, 1]))
    assert own < half < 1.5 * own
    # Two pairs of g17, and of the others few.
    clear, intervals = re.search(r"no difference: (\d+) of (\d+)\.", text).groups()
    assert 2 <= int(clear) <= 6 and int(intervals) == 3 * len(release.pooled.names)
    whole = np.nan_to_num(release.correlation_matrix())
    place = release.pooled.names.index("g17")
    assert most_distinct(release.pooled, whole, 1) == [place]


def test_cells_of_a_map_are_the_correlations(found):
    release, text = found
    # g17's first feature goes against both others: four cells of one side, two of the other.
    own = next(each for each in text.split("<figure>") if ">g17<" in each)
    sides = {
        side: sum(
            path.count("h1v1h-1z") for path in re.findall(rf'd="([^"]*)" class="{side}"', own)
        )
        for side in ("above", "below")
    }
    assert sides == {"above": 2, "below": 4}
    place = release.pooled.names.index("g17")
    assert np.sum(release.pooled.correlations[place] < 0) == 4


def test_many_features_have_no_small_maps_and_the_first_of_them_means():
    rows = pd.DataFrame(np.random.default_rng(0).uniform(size=(400, 41))).add_prefix("x")
    release = released(rows.assign(site=["a", "b"] * 200), 0, 1, rho=10, by="site")
    text = str(side_by_side(release, next(numbers_by_group(release))))
    assert "small-map" not in text and "Small maps have up to 40 features" in text
    assert "29 more columns: choose a group above." in text
    head = re.findall("<th.*?</th>", text.split("<tbody>")[0], re.DOTALL)
    assert len(head) == 2 + 12


def test_releases_without_groups_have_no_such_section():
    release = demo()
    assert side_by_side(release, next(numbers_by_group(release))) is None


def test_names_stay_text():
    release = grouped()
    text = str(side_by_side(release, next(numbers_by_group(release))))
    assert "<i>south" not in text and "&lt;i&gt;south" in text
    assert "<i>south" not in release._repr_html_() and "side by side" in release._repr_html_()
    mean, std = release.pooled.means[0, 0].item(), release.pooled.mean_std[0, 0].item()
    assert " ± ".join(with_error(mean, WITHIN * std)) in release._repr_html_()


def test_levels_of_one_column_are_no_pair_that_differs():
    rng, n = np.random.default_rng(0), 2000
    table = pa.table(
        {
            "site": rng.choice(["a", "b"], n),
            "sex": rng.choice(["f", "m"], n),
            "x": rng.uniform(-1, 1, n),
        }
    )
    columns = {
        name: dpcov.Categorical(categories=sorted(set(table[name].to_pylist())))
        for name in ("site", "sex")
    }
    columns["x"] = dpcov.Numeric(lower=-1, upper=1)
    made = released_of(columns, table, rho=1, missing="never", by="site")
    text = str(side_by_side(made, next(numbers_by_group(made)))).replace("<wbr/>", "")
    assert "sex=f</bdi> × <bdi>x" in text and "sex=f</bdi> × <bdi>sex=m" not in text


@pytest.mark.parametrize(("n_rows", "rho"), [(20, 0.01), (40, 0.05), (100, 0.01), (200, 0.01)])
def test_a_difference_that_noise_hides_is_not_shown(n_rows, rho):
    rng = np.random.default_rng(0)
    sites = rng.choice(["a", "b"], n_rows)
    rows = pd.DataFrame(rng.uniform(size=(n_rows, 3))).add_prefix("x").assign(site=sites)
    whole = next(numbers_by_group(released(rows, 0, 1, rho=rho, by="site")))
    noise = whole.estimates.correlation_noise
    known = np.isfinite(whole.release.pooled.correlations + noise)[:, *np.triu_indices(3, 1)]
    text = str(side_by_side(whole.release, whole))
    assert "nan" not in text and "What differs most" in text
    assert text.count('class="interval"') == known.sum()


def test_one_feature_has_means_alone():
    release = one_feature()
    text = str(side_by_side(release, next(numbers_by_group(release))))
    assert "small-map" not in text and "What differs" not in text and "Means" in text


def one_feature():
    table = pa.table({"x": [0.1, 0.4] * 500, "g": ["a", "b"] * 500})
    columns = {"x": dpcov.Numeric(lower=0, upper=1), "g": dpcov.Categorical(categories=("a", "b"))}
    return released_of(columns, table, rho=1, missing="never", by="g")
