"""``dpcov ledger``: who may still spend what."""

from typing import Annotated

import typer

from dpcov.cli import options

app = typer.Typer(no_args_is_help=True, help="Keep the account of privacy budgets.")

CREATE_EXAMPLE = (
    "Example: dpcov ledger create ledger.sqlite --dataset patients --epsilon 4 --delta 1e-6"
)
LIST_EXAMPLE = "Example: dpcov ledger list ledger.sqlite"
SHOW_EXAMPLE = "Example: dpcov ledger show ledger.sqlite --dataset patients"
VERIFY_EXAMPLE = "Example: dpcov ledger verify ledger.sqlite"

Dataset = Annotated[str, typer.Option("--dataset", help="Name of the dataset.")]


@app.command(epilog=CREATE_EXAMPLE)
def create(
    ledger: options.LedgerPlace,
    dataset: Dataset,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    neighbors: options.NeighborsOption = "replace-one",
    rows_per_person: Annotated[
        int | None,
        typer.Option(
            "--rows-per-person",
            help="Most rows of one person, the unit of all releases. By default the first release fixes it.",
        ),
    ] = None,
    composition: Annotated[
        str | None,
        typer.Option(
            "--composition",
            help="How releases add up: pure, zcdp, gaussian, basic, or planned (all releases fixed in advance). "
            "By default the first release chooses the rule in which it costs least.",
        ),
    ] = None,
) -> None:
    """Open an account: a named dataset with the total budget of all its releases, for ever."""
    from dpcov.privacy.guarantee import check_neighbors
    from dpcov.privacy.ledger.composition import check_composition
    from dpcov.privacy.ledger.ledger import Ledger

    budget = options.budget_from(epsilon, delta, rho)
    rule = None if composition is None else check_composition(composition, budget.promise)
    Ledger(ledger).create(
        dataset,
        budget,
        check_neighbors(neighbors),
        composition=rule,
        rows_per_person=rows_per_person,
    )
    typer.echo(f"Dataset {dataset} may spend {budget.promise} in total ({neighbors} neighbors).")


@app.command("list", epilog=LIST_EXAMPLE)
def list_datasets(ledger: options.LedgerPlace) -> None:
    """List the datasets of a ledger with their totals."""
    from dpcov.privacy.ledger.ledger import Ledger

    for account in Ledger(ledger).datasets():
        typer.echo(f"{account.name}  total {account.total}  {account.neighbors}")


@app.command(epilog=SHOW_EXAMPLE)
def show(ledger: options.LedgerPlace, dataset: Dataset) -> None:
    """List every entry of a dataset and what is left."""
    from dpcov.privacy.convert import shorten_down
    from dpcov.privacy.guarantee import format_number
    from dpcov.privacy.ledger.composition import unit_words
    from dpcov.privacy.ledger.ledger import Ledger

    book = Ledger(ledger)
    for entry in book.entries(dataset):
        when = entry.reserved_at[:19]
        typer.echo(
            f"{entry.id:>4}  {when}  {entry.state:<9}  {entry.spend.mechanism}  {entry.spend.promise}"
        )
    balance = book.remaining(dataset)
    if balance.rows_per_person is not None:
        typer.echo(f"Unit: {options.counted(balance.rows_per_person, 'row')} per person")
    for unit, total in balance.total.items():
        left = balance.remaining[unit]
        rounded = format_number(shorten_down(left)) if left > 0 else "0"
        spent = format_number(balance.spent[unit])
        typer.echo(
            f"{unit_words(unit)}: total {format_number(total)}, spent {spent}, left {rounded}"
        )
    typer.echo(balance.in_words)


@app.command(epilog=VERIFY_EXAMPLE)
def verify(
    ledger: options.LedgerPlace,
    receipt: Annotated[
        str | None,
        typer.Option(
            "--receipt",
            help="What an earlier verify printed: proves that nothing before it was rewritten.",
        ),
    ] = None,
) -> None:
    """Check the audit trail: find edited, deleted, moved or cut-off entries, and say what can still be trusted."""
    from dpcov.errors import LedgerError
    from dpcov.privacy.ledger.ledger import Ledger

    found = Ledger(ledger).verify(receipt)
    if found.problems:
        for problem in found.problems:
            typer.echo(f"Found: {problem}.", err=True)
        raise LedgerError(
            f"The ledger is not as it was written. Trustworthy are events 1 to {found.trusted_events} and "
            f"{len(found.trusted_entries)} releases ({_ranges(found.trusted_entries)}). Spend nothing; restore a "
            "backup that verifies. Without one, open a new account with what is left after counting every release "
            "that the ledger or any published file shows."
        )
    typer.echo(f"The ledger is whole: {found.head.events} events, {found.head.entries} releases.")
    typer.echo(f"Receipt, to be kept elsewhere: {found.head.receipt}")


def _ranges(numbers: tuple[int, ...]) -> str:
    """Write sorted numbers as ranges, such as 1-4, 7."""
    starts = [n for place, n in enumerate(numbers) if place == 0 or numbers[place - 1] != n - 1]
    ends = [
        n
        for place, n in enumerate(numbers)
        if place + 1 == len(numbers) or numbers[place + 1] != n + 1
    ]
    ranges = [f"{a}-{b}" if a < b else f"{a}" for a, b in zip(starts, ends, strict=True)]
    return ", ".join(ranges[:20]) + (", ..." if len(ranges) > 20 else "") or "none"
