"""What is typed of a file is what its commands say."""

import socket
import sqlite3
import subprocess
import warnings
from html import unescape
from pathlib import Path

import pytest

from dpcov import Categorical, Numeric
from dpcov.desk.columns import declared, shown
from dpcov.errors import PrivacyWarning, UsageError
from dpcov.markup import visible
from tests.desk.conftest import TYPED, WHO, opened, send

serve = pytest.importorskip("dpcov.desk.serve")
SCHEMA = '[columns.age]\ntype = "ignored"\n[columns."*"]\ntype = "ignored"\n'


def commands(desk, page):
    text = unescape(desk.ask(page)[2])
    return text.split('<pre tabindex="0"><code>')[-1].split("</code>")[0]


@pytest.mark.parametrize("name", ["book.toml", "book.TOML"])
def test_a_layout_beside_a_schema_adds_to_its_own(desk, name):
    (desk.folder / "west.csv").write_bytes("größe;age\n1,5;3\n".encode("latin-1"))
    (desk.folder / name).write_text(f'[file]\ndelimiter = ";"\n{SCHEMA}')
    work = opened(desk, "west.csv", schema=name, encoding="latin-1", decimal=",")
    text = unescape(desk.ask(f"{work}/columns")[2])
    assert all(each in text for each in ('delimiter = ";"', '"latin-1"', 'decimal = ","'))
    assert f"dpcov schema resolve {name} --data west.csv -o west.toml" in text
    assert "schema draft" not in text


def test_a_schema_of_the_name_that_is_written_is_only_checked(desk):
    (desk.folder / "patients.toml").write_text(SCHEMA)
    work = opened(desk, schema="patients.toml")
    said = "dpcov schema check patients.toml --data patients.csv"
    assert commands(desk, f"{work}/columns") == said


def test_a_name_that_begins_with_a_dash_is_no_option(desk):
    (desk.folder / "-x.csv").write_bytes((desk.folder / "patients.csv").read_bytes())
    work = opened(desk, "-x.csv")
    assert send(desk, work, "columns", **TYPED)[0] == 303
    assert "schema draft ./-x.csv -o ./-x.toml" in commands(desk, f"{work}/columns")
    said = commands(desk, f"{work}/release")
    assert "release ./-x.csv --schema ./-x.toml" in said and "doctor ./-x.dpcov" in said


RELEASED = """dpcov release patients.csv --schema patients.toml --epsilon 1 --delta 1e-6 \\
    --ledger ledger.sqlite --dataset people -o patients.dpcov
dpcov doctor patients.dpcov
dpcov report patients.dpcov -o patients.html"""


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("people", "dpcov schema check patients.toml"),
        (
            "account",
            "dpcov ledger create ledger.sqlite --dataset people --epsilon 4 --delta 1e-5\n"
            "dpcov ledger show ledger.sqlite --dataset people",
        ),
        ("release", RELEASED),
    ],
)
def test_every_step_has_its_commands(desk, ready, step, said):
    assert commands(desk, f"{ready}/{step}") == said


def test_a_rehearsal_of_groups_is_a_dry_run(desk, ready):
    assert send(desk, ready, "people", **WHO | {"rows": "2000", "by": "ward"})[0] == 303
    said = "dpcov release --dry-run --schema patients.toml --rows 2000"
    assert commands(desk, f"{ready}/budget") == f"{said} --epsilon 1 --delta 1e-6 --by ward"


def test_the_commands_of_a_query_say_where_its_database_is_asked_for(desk):
    with sqlite3.connect(desk.folder / "clinic.sqlite") as base:
        base.execute("CREATE TABLE visits (age REAL)")
    base.close()
    db = {"db": "sqlite:///clinic.sqlite", "sql": "SELECT * FROM visits"}
    work = desk.post("/query", **db)[1]["location"].removeprefix(desk.base).rsplit("/", 1)[0]
    script = desk.ask(f"{work}/files/script")[2]
    assert "cat > table.toml <<'SCHEMA'" in script
    made = subprocess.run(
        ["sh"],
        input=script,
        cwd=desk.folder,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert made.returncode and "DPCOV_DB: Set it to the address of the database" in made.stderr


def test_statements_name_files_of_the_folder_and_pages_warn_in_place_of_the_terminal(
    tmp_path, monkeypatch
):
    class Server:
        def run(self, sockets):
            assert Path.cwd() == tmp_path
            with warnings.catch_warnings(record=True) as told:
                warnings.warn("large", PrivacyWarning, stacklevel=1)
            assert told == []
            sockets[0].close()

    monkeypatch.setattr(serve, "server_of", lambda *given: Server())
    closed = []
    monkeypatch.setattr(serve.Desk, "close", lambda self, show: closed.append(show))
    with warnings.catch_warnings():
        serve.serve(tmp_path, 0, show=str, browse=False)
    assert closed == [str]


def test_the_only_table_of_a_folder_is_named_already(desk):
    field = '<input id="data" name="data" value="{}"'
    assert field.format("patients.csv") in desk.ask("/")[2]
    (desk.folder / "other.csv").write_text("age\n1\n")
    assert field.format("") in desk.ask("/")[2]


def test_a_desk_that_was_stopped_opens_again_on_its_port():
    first = serve.listen(0)
    place = first.getsockname()
    with socket.create_connection(place):
        # Whoever closes first keeps the address busy for a minute.
        first.accept()[0].close()
    first.close()
    with serve.listen(place[1]) as again:
        assert again.getsockname() == place
        with pytest.raises(UsageError, match=f"Port {place[1]} cannot be used: .* in use. Leave"):
            serve.listen(place[1])


@pytest.mark.parametrize(
    ("layout", "field"),
    [
        ({"header": "5000"}, "“Line of names”"),
        ({"header": "2"}, "“Line of names”"),
        ({"encoding": "klingon"}, "“Encoding”"),
    ],
)
def test_where_a_layout_is_said_is_told_with_its_problems(desk, layout, field):
    status, _, text = desk.post("/open", data="patients.csv", **layout)
    assert status == 422 and f"Here it is said in {field} under" in text


def test_categories_are_typed_with_their_labels():
    now = Categorical(categories=("1", "2"), labels={"1": "yes", "2": "no"})
    assert shown(now, "categories") == "1 = yes\n2 = no"
    assert declared(now, {"categories": "1 = yes\n2 = no"}) == now
    assert declared(now, {"categories": "1 = yes"}).labels == {"1": "yes"}
    for what, several in (("categories", "ja,nein"), ("missing_codes", "7; 9")):
        with pytest.raises(UsageError, match="one a line"):
            declared(now, {what: several})
    assert declared(now, {"missing_codes": "none, refused"}).missing_codes == ("none, refused",)
    assert declared(now, {"missing_codes": "99,5"}).missing_codes == ("99,5",)
    # As two columns of a spreadsheet are pasted.
    assert declared(now, {"categories": "1\tyes\n2\tno"}) == now
    assert declared(now, {"categories": "1\tyes = so"}).labels == {"1": "yes = so"}
    found = declared(now, {"categories": "1 = maybe = so\n3\n >=4"})
    assert found.categories == ("1", "3", ">=4") and found.labels == {"1": "maybe = so"}
    # From another type, and where groups have labels, which the page does not show.
    assert declared(Numeric(), {"type": "categorical", "categories": "1 = a"}).labels == {"1": "a"}
    grouped = Categorical(categories=("1",), groups={"x": ("2",)}, labels={"1": "a", "x": "b"})
    assert declared(grouped, {"categories": "1"}).labels == {"x": "b"}


def test_categories_that_hold_the_sign_themselves_stay_as_they_are():
    now = Categorical(categories=("a = b", "2"), labels={"2": "no"})
    assert shown(now, "categories") == "a = b\n2"
    found = declared(now, {"categories": "a = b\n2\n3"})
    assert found.categories == ("a = b", "2", "3") and found.labels == {"2": "no"}
    # The page shows another sign for a tab.
    now = Categorical(categories=("a\tb", "2"))
    found = declared(now, {"categories": visible("a\tb") + "\n2\n3"})
    assert found.categories == ("a\tb", "2", "3") and not found.labels


def test_a_column_with_groups_alone_needs_no_categories(desk):
    groups = '[columns.ward]\ntype = "categorical"\ngroups = {up = ["north"], down = ["south"]}\n'
    (desk.folder / "g.toml").write_text(SCHEMA + groups)
    work = opened(desk, schema="g.toml")
    text = desk.ask(f"{work}/columns")[2]
    assert 'data-name="ward" data-kind="categorical" data-groups>' in text
