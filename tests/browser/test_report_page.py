import base64
import re
import time

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.report import render_release
from tests.report.examples import demo, grouped, make, unhelpful, wide

MAP, READOUT = "canvas.map", ".readout"
SAID = "document.querySelector('.readout').textContent"
COLORS = """
const map = document.querySelector("canvas.map");
const pixels = map.getContext("2d").getImageData(0, 0, map.width, map.height).data;
const found = new Set();
for (let k = 0; k < pixels.length; k += 4 * 97) found.add(pixels.slice(k, k + 4).join());
return found.size;
"""
BACKGROUND = "return getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    releases = {
        "demo": demo(),
        "groups": grouped(),
        "one": make(("only",)),
        "hundred": wide(100),
        # Cells of the map are blocks of four columns and as many rows.
        "hundreds": wide(500, 3000, "50"),
        "unhelpful": unhelpful(),
    }
    for name, release in releases.items():
        (folder / f"{name}.html").write_bytes(render_release(release))
    return {name: folder / f"{name}.html" for name in releases}


@pytest.mark.parametrize("name", ["demo", "groups", "one", "hundred", "hundreds", "unhelpful"])
# Colors do not move anything, and widths color nothing.
@pytest.mark.parametrize(("width", "dark"), [(1400, False), (800, True), (380, False)])
def test_pages_are_drawn_without_complaint_at_any_width(browser, pages, name, width, dark):
    browser.open(pages[name], width, dark=dark)
    browser.screenshot(f"report-{name}-{width}-{'dark' if dark else 'light'}")
    assert browser.complaints() == []
    assert not browser.scrolls_sideways()
    assert browser.clipped() == []
    if name != "one":
        assert browser.run(COLORS) > 3
    assert browser.run("return window.hacked") is None


def test_a_complaint_would_be_noticed(browser, pages, tmp_path):
    script = "<script>window.hacked = 1</script></body>"
    planted = pages["demo"].read_text().replace("</body>", script)
    (tmp_path / "planted.html").write_text(planted)
    browser.open(tmp_path / "planted.html")
    # The console tells of it a moment later.
    browser.wait("return document.readyState === 'complete'")
    told, end = browser.complaints(), time.monotonic() + 5
    while not told and time.monotonic() < end:
        told = browser.complaints()
    assert any("Content Security Policy" in entry["message"] for entry in told)
    assert browser.run("return window.hacked") is None


def test_pointing_at_a_cell_names_the_pair_its_correlation_and_noise(browser, pages):
    browser.open(pages["demo"])
    browser.hover(MAP, 0.5, 0.1)
    told = browser.wait(f"const said = {SAID}; return said.includes('×') && said")
    pattern = r"(.+) × (.+): ([+−]\d\.\d{3}), noise std ([\d.e-]+)"
    first, second, r, noise = re.fullmatch(pattern, told).groups()
    names = list(demo().feature_names)
    expected = demo().correlation_matrix()[names.index(first), names.index(second)]
    assert float(r.replace("−", "-")) == pytest.approx(expected, abs=1e-3)
    assert float(noise) > 0


def test_the_keyboard_moves_the_cursor_and_zooms(browser, pages):
    browser.open(pages["hundred"])
    browser.keys(MAP, "\ue015")  # down: the cursor appears at the first cell
    first = browser.text(READOUT)
    assert re.match(r"(.+) × \1: \+1\.000", first)
    browser.keys(MAP, "\ue014")  # right
    assert browser.text(READOUT) != first
    assert ": +1.000" not in browser.text(READOUT)
    browser.keys(MAP, "+")
    browser.keys(MAP, *["\ue014"] * 40)  # beyond the border, the window moves along
    assert browser.text(READOUT).count("sensor") == 2
    browser.keys(MAP, "0", "\ue015")
    assert browser.text(READOUT) == first
    assert browser.complaints() == []


def test_tables_fit_on_paper(browser, tmp_path):
    """The widest one has parts that are missing, and names as long as a cell."""
    path = tmp_path / "missing.html"
    names = [f"a column of the questionnaire {place}" for place in range(6)]
    path.write_bytes(render_release(make(names, schema={"missing": "indicator"})))
    # A4 with its margins, and letter is wider.
    browser.open(path, round((210 - 2 * 16) / 25.4 * 96))
    browser.command("Emulation.setEmulatedMedia", media="print")
    script = """return [...document.querySelectorAll("table")].filter((each) => each.clientWidth)
        .map((each) => each.getBoundingClientRect().right - document.body.clientWidth)"""
    found = browser.run(script)
    browser.command("Emulation.setEmulatedMedia", media="")
    assert len(found) > 2 and max(found) <= 0


def test_slanted_names_are_left_out_where_they_would_overlap(browser, tmp_path):
    path, heights = tmp_path / "many.html", []
    path.write_bytes(render_release(make([f"column {k}" for k in range(29)])))
    for width in (400, 1400):
        browser.open(path, width)
        map_ = f"document.querySelector('{MAP}')"
        across, down = browser.run(f"return [{map_}.clientWidth, {map_}.clientHeight]")
        # Names of rows take three tenths of a narrow map.
        heights.append(down / across)
    assert heights[0] == pytest.approx(0.7, abs=0.01) and heights[1] > 0.8


def test_a_large_map_shows_blocks_and_opens_to_single_pairs(browser, pages):
    browser.open(pages["hundreds"])
    browser.hover(MAP, 0.3, 0.6)
    wanted = "nothing stands out of the noise"
    told = browser.wait(f"const said = {SAID}; return said.includes('{wanted}') && said")
    assert " to " in told
    browser.run("document.querySelector('.fade').click()")
    browser.hover(MAP, 0.32, 0.6)
    told = browser.wait(f"const said = {SAID}; return said.includes('strongest') && said")
    assert ": mean " in told
    browser.keys(MAP, "++")
    browser.keys(MAP, "\ue015")
    assert re.search(r"sensor \d+ × sensor \d+: [+−]", browser.text(READOUT))
    browser.screenshot("report-hundreds-zoomed")


def test_the_order_can_be_that_of_the_schema(browser, pages):
    browser.open(pages["hundred"])
    browser.run("document.querySelector('.switch input[value=schema]').click()")
    browser.keys(MAP, "\ue015")
    assert browser.text(READOUT).startswith("sensor 0 × sensor 0:")
    browser.keys(MAP, "\ue014")
    assert browser.text(READOUT).startswith("sensor 0 × sensor 1:")


def test_what_noise_could_make_is_hidden_until_it_is_wanted(browser, pages):
    browser.open(pages["hundreds"])
    hidden = browser.run(COLORS)
    browser.run("document.querySelector('.fade').click()")
    assert browser.run(COLORS) > hidden


ROWS = "return [...document.querySelectorAll('#features tbody tr:not([hidden]) th')]"


def test_the_table_of_columns_is_sorted_filtered_and_saved(browser, pages):
    browser.open(pages["hundred"])
    names = ROWS + ".map((cell) => cell.textContent)"
    assert browser.run(names)[:2] == ["sensor 0", "sensor 1"]
    heading = "document.querySelectorAll('#features .sort')[0]"
    browser.run(f"{heading}.click(); {heading}.click()")
    assert browser.run(names)[0] == "sensor 99"
    assert browser.run(f"return {heading}.parentElement.ariaSort") == "descending"
    spreads = "document.querySelectorAll('#features .sort')[4]"
    browser.run(f"{spreads}.click()")
    rows = "[...document.querySelectorAll('#features tbody tr')]"
    found = browser.run(f"return {rows}.map((row) => Number(row.cells[4].textContent))")
    assert found == sorted(found)
    browser.keys("#features input", "sensor 42")
    assert browser.run(names) == ["sensor 42"]
    browser.run(
        """URL.createObjectURL = (blob) => {
          blob.text().then((text) => { window.saved = text; });
          return "#";
        };
        document.querySelector('[aria-label^="Save this table"]').click()"""
    )
    saved = browser.wait("return window.saved").splitlines()
    assert len(saved) == 101
    assert saved[0].startswith('"Column","Verdict","Mean"')
    assert browser.complaints() == []


def test_numbers_with_an_error_are_sorted_as_numbers(browser, pages):
    browser.open(pages["groups"])
    browser.run("document.querySelectorAll('#groups .sort')[1].click()")
    cells = "return [...document.querySelectorAll('#groups .sortable tbody tr td:nth-child(2)')]"
    rows = browser.run(f"{cells}.map(each => each.textContent)")
    numbers = [float(each.split("±")[0].replace(",", "")) for each in rows]
    assert "±" in rows[0] and numbers == sorted(numbers) and len({*map(len, rows)}) > 1


def test_the_theme_follows_the_system_until_the_button_is_used(browser, pages):
    browser.open(pages["demo"], dark=False)
    light = browser.run(BACKGROUND)
    browser.find("#theme").click()
    dark = browser.run(BACKGROUND)
    assert light != dark
    assert browser.find("#theme").get_attribute("aria-pressed") == "true"
    browser.open(pages["demo"], dark=True)
    assert browser.run(BACKGROUND) == dark


def test_the_first_tab_stop_skips_to_the_content_and_focus_is_visible(browser, pages):
    browser.open(pages["demo"])
    browser.find("body").send_keys("\ue004")
    assert browser.run("return document.activeElement.textContent") == "Skip to the content"
    outline = "return parseFloat(getComputedStyle(document.activeElement).outlineWidth)"
    assert browser.run(outline) >= 2
    assert browser.run("return document.activeElement.getBoundingClientRect().left") >= 0


def test_the_selector_shows_one_group_with_its_own_numbers(browser, pages):
    part = "[data-part]:not([hidden])"
    shown = f"return document.querySelectorAll('#features {part}').length"
    visible = f"return document.querySelector('#features {part} tbody').textContent"
    browser.open(pages["groups"])
    assert browser.run(shown) == 1
    everybody = browser.run(visible)
    browser.choose("part", 2)
    assert browser.run(shown) == 1
    assert browser.run(visible) != everybody
    size = f"return document.querySelector('#correlations {part} canvas.map').clientWidth"
    assert browser.wait(size) > 0


def test_long_names_of_pairs_keep_to_their_column(browser, tmp_path):
    names = [f"marital-status-of-the-person={each}" for each in ("never", "widowed", "divorced")]
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.uniform(-1, 1, 900) for name in names} | {"site": ["a", "b"] * 450})
    columns = dict.fromkeys(names, dpcov.Numeric(lower=-1, upper=1))
    columns["site"] = dpcov.Categorical(categories=("a", "b"))
    schema = dpcov.Schema(columns=columns, missing="never")
    made = dpcov.release(table, schema=schema, by="site", budget=dpcov.Budget(rho=1))
    (tmp_path / "long.html").write_bytes(render_release(made))
    found = """return [...document.querySelectorAll(".pair")].map((each) =>
      [each.scrollWidth - each.closest("td").clientWidth, each.clientWidth])"""
    for width in (1400, 380):
        browser.open(tmp_path / "long.html", width)
        pairs = browser.run(found)
        assert pairs and all(over <= 0 and wide > 150 for over, wide in pairs), (width, pairs)
    browser.open(tmp_path / "long.html", 1400)
    box = "const box = document.querySelector('.named .scroll'); "
    assert browser.run(box + "return box.scrollWidth <= box.clientWidth")


def test_every_plot_has_words_and_every_control_a_name(browser, pages):
    browser.open(pages["groups"])
    for each, word in (("svg[role=img]", "querySelector('title')"), ("canvas.map", "ariaLabel")):
        plots = f"[...document.querySelectorAll('{each}')]"
        assert browser.run(f"return {plots}.every((plot) => plot.{word})")
    nodes = browser.command("Accessibility.getFullAXTree")["nodes"]
    roles = ("button", "combobox", "checkbox", "radio", "link")
    controls = [node for node in nodes if node.get("role", {}).get("value") in roles]
    assert len(controls) > 10
    assert all(node["name"]["value"].strip() for node in controls)


@pytest.mark.parametrize("name", ["demo", "hundred"])
def test_printing_gives_a_light_document(browser, pages, name):
    browser.open(pages[name], dark=True)
    printed = base64.b64decode(browser.command("Page.printToPDF", printBackground=True)["data"])
    (browser.artifacts / f"report-{name}.pdf").write_bytes(printed)
    assert printed.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 20
    browser.command("Emulation.setEmulatedMedia", media="print")
    assert browser.run(BACKGROUND) == "rgb(253, 253, 251)"
    assert browser.run("return getComputedStyle(document.querySelector('nav')).display") == "none"
    headings = "return [...document.querySelectorAll('#features thead th')].map(e => e.innerText)"
    assert browser.run(headings)[:3] == ["Column", "Verdict", "Mean"]
