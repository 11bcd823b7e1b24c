"""Nobody but the person who started the desk gets an answer from it."""

import re
import socket
from types import SimpleNamespace

import pytest

from tests.desk.conftest import TICKET, opened


@pytest.mark.parametrize("browse", [True, False])
def test_a_browser_is_opened_where_it_is_wanted_and_the_address_is_said(
    tmp_path, monkeypatch, browse
):
    serve, said, shown, known = pytest.importorskip("dpcov.desk.serve"), [], [], []
    server = SimpleNamespace(run=lambda sockets: sockets[0].close())

    def server_of(desk, port, ticket):
        known.append((f"http://127.0.0.1:{port}/", desk.token, ticket))
        return server

    monkeypatch.setattr(serve, "server_of", server_of)
    monkeypatch.setattr(serve, "hear_warnings", lambda: None)
    monkeypatch.setattr(serve.webbrowser, "open", shown.append)
    serve.serve(tmp_path, 0, show=said.append, browse=browse)
    ((address, token, ticket),) = known
    assert re.fullmatch(r"[\w-]{32}", token) and f"{address}{token}/" in said[0]
    # Others can list the command line of a browser.
    assert shown == [f"{address}{ticket}"] * browse
    assert bool(re.fullmatch(r"[\w-]{32}", ticket)) == browse and ticket != token


def test_a_ticket_leads_to_the_first_page_once(desk):
    for foreign in ({"Host": "evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
        assert desk.ask("", base=f"/{TICKET}", **foreign)[0] in (403, 404)
    status, headers, _ = desk.ask("", base=f"/{TICKET}")
    assert (status, headers["location"]) == (303, f"{desk.base}/")
    assert headers["cache-control"] == "no-store"
    status, _, text = desk.ask("", base=f"/{TICKET}")
    assert status == 404 and desk.base not in text


def test_the_page_is_there_for_who_knows_the_token(desk):
    for ending in (".zsav", ".jsonld", ".json-ld"):
        (desk.folder / f"book{ending}").touch()
    status, headers, text = desk.ask()
    assert all(f"book{ending}" in text for ending in (".zsav", ".jsonld", ".json-ld"))
    assert status == 200 and "Choose a table" in text
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store" and headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("base", ["", "/wrong", "/a-token-that-the-test-know", "//"])
def test_an_address_without_the_token_gets_nothing(desk, base):
    status, _, text = desk.ask("/", base=base)
    assert status == 404 and "table" not in text.lower() and desk.base not in text


def test_a_name_that_was_pointed_at_this_machine_gets_nothing(desk):
    """DNS rebinding: the browser believes to talk to another host."""
    status, _, text = desk.ask("/", Host=f"evil.example:{desk.port}")
    assert status == 404 and text == "Not found"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {},
        {"Origin": "ours", "Sec_Fetch_Site": "cross-site"},
        {"Origin": "ours", "Sec_Fetch_Site": "same-site"},
    ],
)
def test_a_form_of_another_page_does_nothing(desk, headers):
    given = {
        key: f"http://{desk.host}" if text == "ours" else text for key, text in headers.items()
    }
    status, _, _ = desk.ask("/open", "POST", {"data": "patients.csv", "schema": ""}, **given)
    assert status == 403
    assert "patients.csv</bdi>" not in desk.ask()[2]


def test_what_another_page_embeds_is_refused(desk):
    assert desk.ask("/style.css", Sec_Fetch_Site="cross-site")[0] == 403
    status, headers, _ = desk.ask("/style.css")
    assert status == 200 and headers["content-type"].startswith("text/css")


def test_only_this_machine_can_connect(desk):
    others = [each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    for address in {each for each in others if not each.startswith("127.")}:
        with pytest.raises(OSError), socket.create_connection((address, desk.port), timeout=1):
            pass


def test_no_page_loads_anything_from_elsewhere(desk):
    work = opened(desk)
    for path in ("/", *(f"{work}/{step}" for step in ("columns", "people", "budget", "account"))):
        _, _, text = desk.ask(path)
        addresses = re.findall(r'(?:src|href|action)="([^"]*)"', text)
        assert all(each.startswith((desk.base, "#", "data:,")) for each in addresses)


def test_a_work_that_is_not_there_says_so(desk):
    status, _, text = desk.ask("/abc/columns")
    assert status == 404 and "Begin again" in text
