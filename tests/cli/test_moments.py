"""``dpcov moments``: sites make checkpoints, somebody merges them, one release."""

import os
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from dpcov import Budget, Ledger, Release
from dpcov import checkpoint as gathered
from dpcov.cli.main import app
from dpcov.data.checkpoint import Checkpoint
from dpcov.data.vault import Key

SCHEMA = """
[columns.x0]
type = "numeric"
lower = -3
upper = 3
[columns.x1]
type = "numeric"
lower = 0
upper = 1
"""
TERMS = "--schema schema.toml --rho 0.5"
RELEASE = f"{TERMS} --no-ledger -o p.dpcov"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for place, name in enumerate(("jan.csv", "feb.csv", "mar.csv")):
        rows = np.column_stack([rng.normal(size=50 + place), rng.uniform(size=50 + place)])
        np.savetxt(name, rows, delimiter=",", header="x0,x1", comments="")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    assert dpcov("moments key k").exit_code == 0
    return tmp_path


def dpcov(command):
    return CliRunner().invoke(app, command.split())


def checkpoint(parts, output="all.moments"):
    return dpcov(f"moments checkpoint {parts} {TERMS} --key k -o {output}")


def change(path, text):
    """Write another content without anybody who asks when noticing."""
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=times)


def refused(result, words, code=2):
    assert result.exit_code == code
    assert words in " ".join(result.output.split())


def test_a_schema_with_bounds_to_fill_in_is_refused_before_a_part_is_opened(folder):
    (folder / "schema.toml").write_text(SCHEMA.replace("upper = 3", ""))
    (folder / "jan.csv").write_text("")
    refused(checkpoint("jan.csv"), "columns.x0", code=3)


def test_sites_checkpoint_somebody_merges_and_one_release_is_paid_once():
    assert checkpoint("jan.csv feb.csv", output="north.moments").exit_code == 0
    assert checkpoint("mar.csv", output="south.moments").exit_code == 0
    merged = dpcov("moments merge north.moments south.moments --key k -o all.moments")
    assert merged.exit_code == 0, merged.output
    assert "3 parts" in merged.output
    assert dpcov("ledger create l.sqlite --dataset p --rho 0.5").exit_code == 0
    paid = "--ledger l.sqlite --dataset p -o p.dpcov"
    made = dpcov(f"release all.moments --key k {TERMS} {paid}")
    assert made.exit_code == 0, made.output
    assert Release.load("p.dpcov").n_rows == 50 + 51 + 52
    assert len(Ledger("l.sqlite").entries("p")) == 1


@pytest.mark.parametrize("name", ["x1", "x[1-9]"])
def test_a_part_without_a_column_is_refused_before_the_first_is_read(folder, name):
    (folder / "schema.toml").write_text(SCHEMA.replace("columns.x1", f'columns."{name}"'))
    (folder / "mar.csv").write_text("x0,y1\n0,1\n")
    refused(checkpoint("jan.csv feb.csv mar.csv"), name, code=4 if name == "x1" else 3)
    assert not (folder / "all.moments").exists()
    # What was counted is not opened again.
    assert checkpoint("jan.csv feb.csv").exit_code == 0
    change(folder / "jan.csv", "x0,y1\n0,1\n")
    (folder / "mar.csv").write_text("x0,x1\n0,1\n")
    assert checkpoint("jan.csv feb.csv mar.csv --resume").exit_code == 0


def test_an_interrupted_checkpoint_goes_on_where_it_stopped(folder):
    (folder / "feb.csv").rename(folder / "later.csv")
    (folder / "feb.csv").write_text("x0,x1\n1,oops\n")
    stopped = checkpoint("jan.csv feb.csv mar.csv")
    assert stopped.exit_code == 4
    assert "oops" not in stopped.output
    (folder / "later.csv").rename(folder / "feb.csv")
    change(folder / "jan.csv", "x0,x1\n0,oops\n")
    resumed = checkpoint("jan.csv feb.csv mar.csv --resume")
    assert resumed.exit_code == 0, resumed.output
    assert "3 parts" in resumed.output


@pytest.mark.parametrize("parts", ["jan.csv feb.csv mar.csv", "mar.csv"])
@pytest.mark.parametrize("seconds", [1, -1000])
def test_a_part_that_was_written_after_it_was_counted_is_noticed(folder, parts, seconds):
    """Its new rows would be left out, and those that another part has by now count twice.

    A file that replaces it may be older, as copies that keep their time are.
    """
    assert checkpoint("jan.csv feb.csv").exit_code == 0
    written = (folder / "all.moments").stat().st_mtime_ns + seconds * 10**9
    os.utime(folder / "feb.csv", ns=(written, written))
    before = (folder / "all.moments").read_bytes()
    refused(checkpoint(f"{parts} --resume"), "feb.csv was written since its rows were read")
    assert (folder / "all.moments").read_bytes() == before


def test_moments_that_do_not_say_when_a_part_was_written_are_not_told_as_changed(folder):
    """Those of earlier versions do not, nor those of a frame that is called as a file is."""
    key = Key.from_file(folder / "k")
    assert checkpoint("jan.csv").exit_code == 0
    held = Checkpoint.load(folder / "all.moments", key)
    replace(held, written={}).save(folder / "all.moments", key, overwrite=True)
    resumed = checkpoint("feb.csv --resume")
    refused(resumed, "does not say when jan.csv was written")
    assert "was written since" not in " ".join(resumed.output.split())
    assert "3 parts" in checkpoint("jan.csv feb.csv mar.csv --overwrite").output


@pytest.mark.parametrize("changed", ["jan.csv", "feb.csv"])
def test_a_part_that_is_written_while_others_or_itself_are_counted_is_noticed(
    folder, monkeypatch, changed
):
    """The file of moments that is saved afterwards is newer than the part."""

    def slow(part, **terms):
        made = gathered(part, **terms)
        if part == "feb.csv":
            later = max(each.stat().st_mtime_ns for each in folder.iterdir()) + 1
            os.utime(folder / changed, ns=(later, later))
        return made

    monkeypatch.setattr("dpcov.checkpoint", slow)
    words = f"{changed} was written since its rows were read"
    refused(checkpoint("jan.csv feb.csv mar.csv"), words)
    if changed == "jan.csv":
        refused(checkpoint("jan.csv feb.csv mar.csv --resume"), words)
    monkeypatch.setattr("dpcov.checkpoint", gathered)
    assert "3 parts" in checkpoint("jan.csv feb.csv mar.csv --overwrite").output


def test_mistakes_are_refused_before_anything_is_read(folder):
    for parts in ("jan.csv jan.csv", f"jan.csv ./jan.csv {folder / 'jan.csv'}"):
        refused(checkpoint(parts), "named twice")
    refused(checkpoint("jan.csv absent.csv"), "no file", code=4)
    assert not (folder / "all.moments").exists()
    assert checkpoint("jan.csv").exit_code == 0
    twice = dpcov("moments merge all.moments all.moments --key k -o b.moments")
    assert twice.exit_code != 0
    assert "twice" in twice.output
    # Gathered anew, it has another random number.
    assert checkpoint("jan.csv feb.csv", "again.moments").exit_code == 0
    refused(dpcov("moments merge all.moments again.moments --key k -o b.moments"), "twice", code=4)
    # Parts may have no name.
    key, terms = Key.from_file("k"), {"schema": "schema.toml", "budget": Budget(rho="0.5")}
    for name in ("jan", "feb"):
        gathered(f"{name}.csv", **terms).save(f"{name}.moments", key)
    merged = dpcov("moments merge jan.moments feb.moments --key k -o c.moments")
    assert merged.exit_code == 0, merged.output


def test_a_survey_is_advised_where_one_can_be_made(folder):
    assert "dpcov survey" in checkpoint("jan.csv").output
    (folder / "schema.toml").write_text(f"norm_bound = 1.5\n{SCHEMA}")
    made = checkpoint("jan.csv", "b.moments")
    assert made.exit_code == 0 and "survey" not in made.output


def test_a_file_that_the_command_reads_is_no_key(folder):
    (folder / "geometry.toml").write_text(SCHEMA)
    (folder / "link").symlink_to("schema.toml")
    for key in ("schema.toml", "link", "./jan.csv", "geometry.toml"):
        known = f"{TERMS} --geometry geometry.toml -o all.moments"
        refused(dpcov(f"moments checkpoint jan.csv {known} --key {key}"), "is no secret key")
    assert not (folder / "all.moments").exists()


def test_saved_moments_need_their_key_and_tables_none(folder):
    assert checkpoint("jan.csv").exit_code == 0
    assert dpcov("moments key other").exit_code == 0
    refused(dpcov(f"release all.moments {RELEASE}"), "need their key")
    assert "key is another one" in dpcov(f"release all.moments {RELEASE} --key other").output
    refused(dpcov(f"release jan.csv {RELEASE} --key k"), "for saved moments")
    assert not (folder / "p.dpcov").exists()


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("old.moments", "--overwrite"),
        ("absent/all.moments", "create it first"),
        ("all.dat", ".moments"),
    ],
)
def test_what_cannot_be_written_is_refused_before_a_part_is_read(folder, output, words):
    (folder / "bad.csv").write_text("x0,x1\nnone of a number,1\n")
    (folder / "old.moments").write_bytes(b"mine")
    result = checkpoint("bad.csv", output=output)
    assert result.exit_code in (2, 7)
    assert words in result.output
    assert (folder / "old.moments").read_bytes() == b"mine"


def test_parts_are_never_written_over(folder):
    (folder / "jan.csv").rename("jan.moments")
    before = (folder / "jan.moments").read_bytes()
    refused(checkpoint("feb.csv jan.moments --overwrite", output="jan.moments"), "another name")
    assert (folder / "jan.moments").read_bytes() == before


def test_a_part_counts_once_by_whatever_name_and_from_whatever_folder(folder, monkeypatch):
    assert checkpoint("jan.csv").exit_code == 0
    for name in ("./jan.csv", str(folder / "jan.csv"), "jan.csv"):
        again = checkpoint(f"{name} --resume")
        assert again.exit_code == 0
        assert "1 part" in again.output
    # A file of the same name in another folder is another part.
    site = folder / "site"
    site.mkdir()
    (site / "jan.csv").write_text((folder / "feb.csv").read_text())
    monkeypatch.chdir(site)
    terms = TERMS.replace("schema.toml", "../schema.toml")
    more = dpcov(f"moments checkpoint jan.csv {terms} --key ../k -o ../all.moments --resume")
    assert more.exit_code == 0, more.output
    assert "2 parts" in more.output


def test_a_part_that_was_moved_is_not_counted_again(folder):
    assert checkpoint("jan.csv").exit_code == 0
    moved = folder / "elsewhere"
    moved.mkdir()
    (folder / "jan.csv").rename(moved / "jan.csv")
    refused(checkpoint(f"{moved / 'jan.csv'} --resume"), "must not count twice")
    (moved / "jan.csv").rename(folder / "jan.csv")
    assert "1 part" in checkpoint("jan.csv --resume").output
