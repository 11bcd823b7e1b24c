"""``dpcov ledger``: who may still spend what."""

from typing import Annotated

import typer

from dpcov.cli import options

app = typer.Typer(no_args_is_help=True, help="Keep the account of privacy budgets.")

CREATE_EXAMPLE = "Example: dpcov ledger create ledger.sqlite --dataset patients --epsilon 4 --delta 1e-6"
LIST_EXAMPLE = "Example: dpcov ledger list ledger.sqlite"
SHOW_EXAMPLE = "Example: dpcov ledger show ledger.sqlite --dataset patients"

Dataset = Annotated[str, typer.Option("--dataset", help="Name of the dataset.")]


@app.command(epilog=CREATE_EXAMPLE)
def create(
    ledger: options.LedgerPlace,
    dataset: Dataset,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rho: options.Rho = None,
    neighbors: options.NeighborsOption = "replace-one",
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
    from dpcov.privacy.composition import check_composition
    from dpcov.privacy.guarantee import check_neighbors
    from dpcov.privacy.ledger import Ledger

    budget = options.budget_from(epsilon, delta, rho)
    rule = None if composition is None else check_composition(composition, budget.promise)
    Ledger(ledger).create(dataset, budget, check_neighbors(neighbors), composition=rule)
    typer.echo(f"Dataset {dataset} may spend {budget.promise} in total ({neighbors} neighbors).")


@app.command("list", epilog=LIST_EXAMPLE)
def list_datasets(ledger: options.LedgerPlace) -> None:
    """List the datasets of a ledger with their totals."""
    from dpcov.privacy.ledger import Ledger

    for account in Ledger(ledger).datasets():
        typer.echo(f"{account.name}  total {account.total}  {account.neighbors}")


@app.command(epilog=SHOW_EXAMPLE)
def show(ledger: options.LedgerPlace, dataset: Dataset) -> None:
    """List every entry of a dataset and what is left."""
    from dpcov.privacy.convert import shorten_down
    from dpcov.privacy.guarantee import format_number
    from dpcov.privacy.ledger import Ledger

    book = Ledger(ledger)
    for entry in book.entries(dataset):
        when = entry.reserved_at[:19]
        typer.echo(f"{entry.id:>4}  {when}  {entry.state:<9}  {entry.spend.mechanism}  {entry.spend.promise}")
    balance = book.remaining(dataset)
    for unit, total in balance.total.items():
        left = balance.remaining[unit]
        rounded = format_number(shorten_down(left)) if left > 0 else "0"
        spent = format_number(balance.spent[unit])
        typer.echo(f"{unit}: total {format_number(total)}, spent {spent}, left {rounded}")
