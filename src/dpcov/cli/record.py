"""``dpcov record``: what a custodian files about a release."""

from pathlib import Path
from typing import Annotated

import typer

from dpcov.cli import options
from dpcov.errors import UsageError

EXAMPLE = (
    'Example: dpcov record patients.dpcov --curator "City Hospital" --intended-use "regression by researchers" '
    "-o patients.record.json · dpcov record patients.dpcov --kind checklist -o patients.checklist.md"
)


def record(
    release: options.ReleaseFile,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="File to write: JSON, or Markdown for a checklist."),
    ],
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            help="registry: an entry for a deployment registry. checklist: for evaluators.",
        ),
    ] = "registry",
    curator: Annotated[
        str, typer.Option("--curator", help="Who holds the data and publishes.")
    ] = "",
    intended_use: Annotated[
        str, typer.Option("--intended-use", help="What the release is for.")
    ] = "",
    description: Annotated[
        str, typer.Option("--description", help="What was released, in a sentence.")
    ] = "",
    sector: Annotated[
        str, typer.Option("--sector", help="For example health, official statistics.")
    ] = "",
    published: Annotated[
        str, typer.Option("--published", metavar="YYYY-MM-DD", help="Date of publication.")
    ] = "",
    link: Annotated[str, typer.Option("--link", help="Where the release is found.")] = "",
    justification: Annotated[
        str, typer.Option("--justification", help="Why this budget was chosen.")
    ] = "",
    ledger: options.ShownLedger = None,
    force: options.Force = False,
) -> None:
    """Write a deployment registry entry (JSON) or a checklist after NIST SP 800-226 (Markdown); costs no privacy."""
    from dpcov.files import write_file
    from dpcov.published.release import Release
    from dpcov.report.checklist import checklist
    from dpcov.report.deployment import Deployment, registry_entry

    if kind not in ("registry", "checklist"):
        raise UsageError("--kind is registry or checklist.")
    loaded = Release.load(release)
    balance = options.balance_of(loaded, ledger)
    if kind == "checklist":
        content = checklist(loaded, balance).encode()
    else:
        deployment = Deployment(
            curator=curator,
            intended_use=intended_use,
            description=description,
            sector=sector,
            published=published,
            link=link,
        )
        content = registry_entry(loaded, deployment, justification=justification, balance=balance)
    write_file(output, content, overwrite=force)
    typer.echo(f"Wrote {output}.")
