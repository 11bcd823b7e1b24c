"""``dpcov ledger``: who may still spend what."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from dpcov.cli import options
from dpcov.cli.options import example, option
from dpcov.errors import LedgerError, UsageError, few_of
from dpcov.privacy.ledger.composition import Composition
from dpcov.privacy.ledger.ledger import Balance, Ledger
from dpcov.privacy.ledger.records import Entry
from dpcov.published.digits import plural

app = typer.Typer(no_args_is_help=True, help="Keep the account of privacy budgets.")

Dataset = Annotated[str, option("ledger dataset")]


@app.command(epilog=example("ledger create"))
def create(
    ledger: options.LedgerPlace,
    dataset: Dataset,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    neighbors: options.Relation = "replace-one",
    rows_per_person: Annotated[int | None, option("ledger rows-per-person")] = None,
    composition: Annotated[Composition | None, option("ledger composition")] = None,
) -> None:
    """Open an account: a named dataset with the total budget of all its releases, forever."""
    book = Ledger(ledger)
    budget = options.budget_from(epsilon, delta, rho)
    # Without a rule the first release chooses, so that accounts can be opened early.
    book.create(
        dataset, budget, neighbors, composition=composition, rows_per_person=rows_per_person
    )
    typer.echo(f"Dataset {dataset} may spend {budget.promise} in total ({neighbors} neighbors).")
    if others := [account.name for account in book.datasets() if account.name != dataset]:
        told = "Releases about the same people belong in one account, whatever the year."
        typer.echo(f"Other accounts of this ledger: {few_of(others, 10)}. {told}")


@app.command("list", epilog=example("ledger list"))
def list_datasets(ledger: options.LedgerPlace) -> None:
    """List the datasets of a ledger with their totals."""
    for account in Ledger(ledger).datasets():
        typer.echo(f"{account.name}  total {account.total}  {account.neighbors}")


@app.command(epilog=example("ledger show"))
def show(
    ledger: options.LedgerPlace,
    dataset: Annotated[str | None, option("ledger-show dataset")] = None,
    json: options.Json = False,
) -> None:
    """List every entry of a dataset, with the beginning of its fingerprint, and what is left."""
    book = Ledger(ledger)
    dataset = _only(book) if dataset is None else dataset
    entries, balance = book.entries(dataset), book.remaining(dataset)
    if json:
        typer.echo(options.as_json(_record(dataset, entries, balance)))
        return
    for entry in entries:
        state, spend = f"{entry.reserved_at[:19]}  {entry.state:<9}", entry.spend
        told = f"{entry.id:>4}  {state}  {spend.mechanism}  {spend.promise}"
        typer.echo(f"{told}  {(entry.fingerprint or '')[:12]}".rstrip())
    if any(entry.state != "committed" for entry in entries):
        typer.echo(
            "What is not committed was interrupted or still runs. It counts: noise may exist."
        )
    if balance.rows_per_person is not None:
        typer.echo(f"Unit: {plural(balance.rows_per_person, 'row')} per person")
    for unit, total, spent, left in balance.rows:
        typer.echo(f"{unit}: total {total}, spent {spent}, left {left}")
    for told in filter(None, (balance.so_far, balance.in_words)):
        typer.echo(told)


def _record(dataset: str, entries: Sequence[Entry], balance: Balance) -> dict[str, Any]:
    releases = [
        {
            "entry": entry.id,
            "reserved_at": entry.reserved_at,
            "state": entry.state,
            "mechanism": entry.spend.mechanism,
            "promise": str(entry.spend.promise),
            "fingerprint": entry.fingerprint,
        }
        for entry in entries
    ]
    amounts = [
        dict(zip(("unit", "total", "spent", "left"), (unit, *map(float, numbers)), strict=True))
        for unit, *numbers in balance.rows
    ]
    return {
        "dataset": dataset,
        "composition": balance.composition,
        "rows_per_person": balance.rows_per_person,
        "releases": releases,
        "amounts": amounts,
        "so_far": balance.so_far,
        "left": balance.in_words,
    }


def _only(book: Ledger) -> str:
    names = [account.name for account in book.datasets()]
    if len(names) != 1:
        told = few_of(names, 10) or "none"
        raise UsageError(f"Say of which account: --dataset NAME. Its accounts: {told}.")
    return names[0]


@app.command(epilog=example("ledger verify"))
def verify(
    ledger: options.LedgerPlace, receipt: Annotated[str | None, option("ledger receipt")] = None
) -> None:
    """Check the trail for edited, deleted, moved or cut-off entries; say what can be trusted."""
    found = Ledger(ledger).verify(receipt)
    # Every problem is told; the exit code says that the ledger cannot be trusted.
    for problem in found.problems:
        typer.echo(f"Found: {problem}.", err=True)
    if found.problems:
        whole = found.trusted_entries
        some = few_of(list(map(str, whole)), 20) or "none"
        raise LedgerError(
            "The ledger is not as it was written. Trustworthy are events 1 to "
            f"{found.trusted_events} and {plural(len(whole), 'release')} ({some}). "
            "Spend nothing; restore a backup that verifies. Without one, open a new account with "
            "what is left after counting every release that the ledger or any published file shows."
        )
    told = (found.head.events, "event"), (found.head.entries, "release")
    typer.echo(f"The ledger is whole: {', '.join(plural(*each) for each in told)}.")
    typer.echo(f"Receipt, to be kept elsewhere: {found.head.receipt}")
