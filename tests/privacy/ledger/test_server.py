"""A ledger on a real PostgreSQL server: clients die, connections break and servers fall."""

import itertools
import os
import signal
from fractions import Fraction

import pytest

from dpcov.errors import LedgerError
from dpcov.privacy.budget import Budget
from dpcov.privacy.ledger import store as ledger_store
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.ledger.postgres import LedgerServer
from tests.privacy.ledger.faulty_disk import die, in_child
from tests.privacy.ledger.test_faults import assert_goes_on, assert_remembered, release
from tests.privacy.spends import RELATION, SPEND, TENTH, THIRD, pure, zcdp

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("dpcov.privacy.ledger.postgres")
pytest.importorskip("sqlalchemy")

STRIDES = [9, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])]
"""Every statement in the deep run, some of each step in the quick one."""


@pytest.fixture
def url(postgres_database):
    Ledger(postgres_database).create("patients", Budget(rho=4), RELATION)
    return postgres_database


def reset(url):
    """One account with one release, nothing else."""
    with psycopg.connect(url) as connection:
        connection.execute("DROP SCHEMA IF EXISTS dpcov_ledger CASCADE")
    Ledger(url).create("patients", Budget(rho=1), RELATION)
    Ledger(url).reserve("patients", SPEND, RELATION)


def test_a_server_keeps_the_same_book_as_a_file(url, tmp_path):
    books = Ledger(url), Ledger(tmp_path / "file.ledger")
    books[1].create("patients", Budget(rho=4), RELATION)
    for book in books:
        book.create("staff", Budget(epsilon=THIRD, delta="1e-6"), "add-remove-one")
        book.reserve("patients", SPEND, RELATION, note="Ünicode: 'quoted' :name %s").mark_drawn()
        reservation = book.reserve("patients", SPEND, RELATION)
        reservation.mark_drawn()
        reservation.commit("sha256:abc")
        book.reserve("staff", pure(TENTH, noise_multiplier=Fraction(7, 3)), "add-remove-one")
        with pytest.raises(LedgerError, match="overspend"):
            book.reserve("patients", zcdp(4), RELATION)
        with pytest.raises(LedgerError, match="already has an account"):
            book.create("patients", Budget(rho=100), RELATION)

    for name in ("patients", "staff"):
        shown = [
            [(e.id, e.spend, e.note, e.state, e.fingerprint) for e in book.entries(name)]
            for book in books
        ]
        assert shown[0] == shown[1]
        assert books[0].remaining(name) == books[1].remaining(name)
    verified = [(book.verify().problems, book.verify().head.events) for book in books]
    assert verified[0] == verified[1] == ((), 9)


def test_tampering_on_the_server_is_found(url):
    for _ in range(3):
        Ledger(url).reserve("patients", SPEND, RELATION)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path TO dpcov_ledger")
        for statement in ("UPDATE event SET at = 'x'", "DELETE FROM event", "TRUNCATE event"):
            with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
                connection.execute(statement)
        connection.execute("UPDATE entry SET promise_rho = '1/1000' WHERE id = 2")
        assert "entry 2 was changed: promise_rho" in Ledger(url).verify().problems[0]
        connection.execute("DELETE FROM entry WHERE id = 2")
    assert "entry 2 was removed" in Ledger(url).verify().problems[0]
    with pytest.raises(LedgerError, match=r"damaged.*backup"):
        Ledger(url).reserve("patients", SPEND, RELATION)
    with (
        pytest.raises(LedgerError, match="server only reads"),
        LedgerServer(url)._opened(writes=False) as run,
    ):
        run("DELETE FROM entry", {})


def statements_of(monkeypatch, act):
    """Call ``act(number)`` before every statement and before each transaction's commit."""
    from sqlalchemy.engine import Connection, RootTransaction

    numbers, execute, commit = itertools.count(), Connection.execute, RootTransaction.commit

    def watched(self, *arguments, **values):
        act(next(numbers), self)
        return execute(self, *arguments, **values)

    def committed(self):
        act(next(numbers), self.connection)
        commit(self)

    monkeypatch.setattr(Connection, "execute", watched)
    monkeypatch.setattr(RootTransaction, "commit", committed)


def count_statements(url, monkeypatch):
    reset(url)
    seen = []
    with monkeypatch.context() as patch:
        statements_of(patch, lambda number, _: seen.append(number))
        release(url, lambda _: None)
    return len(seen)


def broken_at(url, monkeypatch, number, act):
    """Act before this statement of a release, which then fails; return the steps that it told."""
    told = []
    with monkeypatch.context() as patch:
        statements_of(patch, lambda reached, place: act(place) if reached == number else None)
        with pytest.raises(LedgerError, match="dpcov ledger show"):
            release(url, told.append)
    return told


@pytest.mark.parametrize("stride", STRIDES)
def test_a_client_killed_before_any_statement(url, monkeypatch, stride):
    count = count_statements(url, monkeypatch)
    assert count > 30
    for number in range(1, count, stride):
        reset(url)

        def work(tell, number=number):
            statements_of(monkeypatch, lambda reached, _: die() if reached == number else None)
            release(url, tell)

        status, told = in_child(work)
        assert status == signal.SIGKILL
        assert_remembered(url, told.split())
    assert_goes_on(url)


@pytest.mark.parametrize("stride", STRIDES)
def test_a_connection_that_ends_before_any_statement(url, monkeypatch, stride):
    count = count_statements(url, monkeypatch)
    with psycopg.connect(url, autocommit=True) as killer:

        def cut(connection):
            pid = connection.connection.dbapi_connection.info.backend_pid
            killer.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))

        for number in range(0, count, stride):
            reset(url)
            assert_remembered(url, broken_at(url, monkeypatch, number, cut))
    assert_goes_on(url)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_server_killed_before_any_statement(durable_postgres, monkeypatch):
    url = durable_postgres.url
    for number in range(0, count_statements(url, monkeypatch), 3):
        reset(url)
        told = broken_at(url, monkeypatch, number, lambda _: durable_postgres.kill())
        durable_postgres.start()
        assert_remembered(url, told)
    assert_goes_on(url)


def test_what_does_not_answer_is_explained_without_a_password(postgres_database):
    secret = postgres_database.split(":")[2].split("@")[0]
    gone = "postgresql://custodian:wrongpw@127.0.0.1:1/books"
    for place in (gone, postgres_database.replace(secret, "wrongpw")):
        with pytest.raises(LedgerError, match=r"does not answer.*password") as refused:
            Ledger(place).datasets()
        found = refused.value
        assert "wrongpw" not in f"{found!r} {found.__context__!r} {found.__cause__!r}"


def test_a_database_without_a_ledger_is_refused(postgres_database):
    book = Ledger(postgres_database)
    for call in (book.datasets, lambda: book.reserve("patients", SPEND, RELATION)):
        with pytest.raises(LedgerError, match="no ledger in this database"):
            call()


def test_a_reader_without_the_right_to_write_spends_nothing(url):
    name = f"reader_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'readerpw'")
        connection.execute(f"GRANT USAGE ON SCHEMA dpcov_ledger TO {name}")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA dpcov_ledger TO {name}")
        reader = f"postgresql://{name}:readerpw@{url.partition('@')[2]}"
        try:
            assert Ledger(reader).remaining("patients").spent == {"rho": 0}
            assert Ledger(reader).verify().problems == ()
            with pytest.raises(LedgerError, match="right to create a schema"):
                Ledger(reader).reserve("patients", SPEND, RELATION)
        finally:
            connection.execute(f"DROP OWNED BY {name}")
            connection.execute(f"DROP ROLE {name}")
    assert Ledger(url).entries("patients") == ()


def test_a_client_that_is_gone_in_mid_step_does_not_hold_the_others_up(url, monkeypatch):
    monkeypatch.setattr(ledger_store, "LOCK_WAIT_SECONDS", 0.1)
    with (
        pytest.raises(LedgerError, match="ended the connection"),
        LedgerServer(url).writing() as transaction,
    ):
        monkeypatch.setattr(ledger_store, "LOCK_WAIT_SECONDS", 20)
        assert Ledger(url).reserve("patients", SPEND, RELATION).id == 1
        transaction.add_entry("patients", SPEND, "")
    assert len(Ledger(url).entries("patients")) == 1


def test_a_lost_network_is_noticed_soon(url):
    with LedgerServer(url)._engine.connect() as connection:
        asked = connection.connection.driver_connection.info.get_parameters()
    # By the system, which needs to be told: a network cannot be cut here.
    assert (asked["tcp_user_timeout"], asked["keepalives_idle"]) == ("30000", "30")


def test_a_held_lock_is_explained(url, monkeypatch):
    monkeypatch.setattr(ledger_store, "LOCK_WAIT_SECONDS", 0.1)
    with psycopg.connect(url) as holder:
        holder.execute("SELECT * FROM dpcov_ledger.trail_head FOR UPDATE")
        with pytest.raises(LedgerError, match="Another process"):
            Ledger(url).reserve("patients", SPEND, RELATION)
        assert Ledger(url).remaining("patients").spent == {"rho": 0}
    Ledger(url).reserve("patients", SPEND, RELATION)
