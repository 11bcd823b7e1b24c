"""Commands that read a release; none costs privacy."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import typer

from dpcov.cli import options
from dpcov.cli.options import example, option
from dpcov.errors import UsageError, few_of, printable
from dpcov.files import ReservedFile, check_output, reason_of, write_file
from dpcov.published.digits import plural

app = typer.Typer()


@app.command(epilog=example("show"))
def show(
    release: options.ReleaseFile,
    group: options.Group = None,
    json: Annotated[bool, option("show json")] = False,
    details: Annotated[bool, option("show details")] = False,
) -> None:
    """Print what was released about whom, under which guarantee, and what can be read from it."""
    from dpcov.published.file.archive import encode_manifest

    loaded = options.load(release, group)
    told = encode_manifest(loaded.manifest).decode() if json else loaded.summary(details=details)
    typer.echo(told, nl=json)


@app.command(epilog=example("doctor"))
def doctor(
    release: options.ReleaseFile, group: options.Group = None, json: options.Json = False
) -> None:
    """Say of every column what can be read from it, why not more, and what would help."""
    from dpcov.published.words.summary import told_by_doctor

    loaded = options.load(release, group)
    found = loaded.diagnose()
    if json:
        typer.echo(options.as_json({"headline": found.headline} | vars(found)))
        return
    typer.echo(told_by_doctor(found), nl=False)
    if names := loaded.group_names:
        some = printable(few_of([quote(name) for name in names], 5))
        typer.echo(f"\nThese are the numbers of all groups together. One alone: --group {some}.")


@app.command(epilog=example("report"))
def report(
    release: options.ReleaseFile,
    output: Annotated[Path, option("report output", "-o")],
    ledger: options.ShownLedger = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Explain the release on a page: guarantee, correlations, spectrum, noise; costs no privacy."""
    from dpcov.report import render_release

    check_output(output, release, ledger)
    # The file is taken first: a page of thousands of features takes a while.
    with ReservedFile(output, overwrite=overwrite) as file:
        loaded = options.load(release)
        balance = options.balance_of(loaded, ledger)
        file.write(render_release(loaded, file_name=release.name, balance=balance))
    typer.echo(f"Wrote {output}: one page, open it in a browser.")


@app.command(epilog=example("export"))
def export(
    release: options.ReleaseFile,
    output: Annotated[Path, option("export output", "-o")],
    what: Annotated[str, option("export what")] = "covariance",
    to: Annotated[str | None, option("export to", metavar="PROGRAM")] = None,
    target: Annotated[str | None, option("export target")] = None,
    group: options.Group = None,
    pooled: options.Pooled = False,
    post: options.Post = None,
    missing: Annotated[str, option("export missing")] = "pairwise",
    overwrite: options.Overwrite = False,
) -> None:
    """Write a matrix, the means, or a script of R, Julia or Stata with both; costs no privacy."""
    from dpcov.privacy.options import plain
    from dpcov.published.estimate.present import MissingAs
    from dpcov.published.export import Quantity
    from dpcov.published.export import export as write
    from dpcov.published.scripts import write_script

    check_output(output, release)
    loaded = options.load(release, group, pooled=pooled)
    read = plain("--missing", missing, MissingAs)
    chosen: Any = {"post": post, "missing": read, "overwrite": overwrite}
    if to is not None:
        if what != "covariance":
            raise UsageError("A script holds means and covariances. Leave out --what.")
        program: Any = to
        write_script(loaded, output, program, target=target, **chosen)
        typer.echo(f"Wrote {output}: a script that runs as it is.")
        return
    if target is not None:
        raise UsageError("--target is what a script's regression predicts. Say --to, too.")
    write(loaded, output, **chosen | {"quantity": plain("--what", what, Quantity)})
    typer.echo(f"Wrote {output}: {what} of {plural(len(loaded.feature_names), 'feature')}.")


@app.command(epilog=example("combine"))
def combine(
    releases: options.ReleaseFiles,
    output: Annotated[Path, option("combine output", "-o")],
    disjoint: Annotated[bool, option("combine disjoint")] = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Average releases of one table: less noise, the joint guarantee; costs no privacy."""
    check_output(output, *releases)
    first, *others = map(options.load, releases)
    made = first.unite(*others) if disjoint else first.combine(*others)
    made.save(output, overwrite=overwrite)
    typer.echo(
        f"Wrote {output}: {made.guarantee.promise}, of {plural(len(made.members), 'release')}."
    )
    if disjoint:
        typer.echo(
            "  It keeps this for whoever is in one of these tables, or in several of one account."
        )
    for note in made.statistics.notes:
        typer.echo(printable(f"  {note}"))
    options.tell_of(made)


@app.command(epilog=example("compare"))
def compare(
    first: options.ReleaseFile,
    second: options.SecondFile,
    columns: Annotated[list[str] | None, option("compare column", metavar="NAME")] = None,
    what: Annotated[str, option("compare what")] = "correlations",
    level: Annotated[float, option("compare level")] = 0.95,
    group: options.Group = None,
    second_group: Annotated[str | None, option("compare second-group")] = None,
    json: options.Json = False,
) -> None:
    """Say which numbers differ by more than noise and sampling explain: of two years or sites."""
    from dpcov.analysis.intervals.differences import (
        Quantity,
        clearest_first,
        difference_intervals,
        told_of,
    )
    from dpcov.privacy.options import plain

    asked: Any = {"what": plain("--what", what, Quantity), "level": level}
    earlier, later = options.load(first, group), options.load(second, second_group or group)
    found = difference_intervals(earlier, later, columns, **asked)
    if json:
        facts = [
            {"title": x.manifest.title, "fingerprint": x.fingerprint} for x in (earlier, later)
        ]
        typer.echo(options.as_json({"releases": facts} | clearest_first(found).to_dict()))
        return
    typer.echo(told_of(found))


@app.command(epilog=example("nest"))
def nest(
    release: options.ReleaseFile,
    parents: options.ParentsFile,
    inside: Annotated[Path, option("nest inside")],
    group: Annotated[str, option("group")],
    output: Annotated[Path, option("nest output", "-o")],
    overwrite: options.Overwrite = False,
) -> None:
    """Let regions add up to their states: one table, released by each; costs no privacy."""
    import csv

    check_output(output, release, parents, inside)
    try:
        with inside.open(encoding="utf-8-sig", newline="") as file:
            rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row][1:]
    except OSError as error:
        raise UsageError(f"Cannot read {inside}: {reason_of(error)}. Check the path.") from None
    except (ValueError, csv.Error):
        raise UsageError(f"{inside} is no CSV file in UTF-8. Save it as one.") from None
    if any(len(row) != 2 for row in rows):
        raise UsageError(f"{inside} needs two columns below a header: a group, and what holds it.")
    holders = dict(rows)
    if twice := [name for name, holder in rows if holders[name] != holder]:
        raise UsageError(f"{inside} says twice what holds {twice[0]!r}. Leave one line of it.")
    regions, states = options.load(release).nest(options.load(parents), holders)
    made = regions.get(group) or states.get(group)
    own = [name for name in regions if holders.get(name, name) == group]
    if group in regions and group in states and own != [group]:
        raise UsageError(
            f"Both releases have a group {group!r}. In Python, `nest` gives both of them."
        )
    if made is None:
        raise UsageError(
            f"Neither release has a group {group!r}. They have: {', '.join([*regions, *states])}."
        )
    made.save(output, overwrite=overwrite)
    typer.echo(f"Wrote {output}: {group}, {made.guarantee.promise}.")
    options.tell_of(made)


@app.command(epilog=example("sample"))
def sample(
    release: options.ReleaseFile,
    output: Annotated[Path, option("sample output", "-o")],
    rows: Annotated[int, option("sample rows", min=1)] = 1000,
    group: options.Group = None,
    pooled: options.Pooled = False,
    seed: Annotated[int | None, option("sample seed", min=0)] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Draw synthetic rows with the release's means, correlations and bounds; costs no privacy."""
    import pyarrow as pa
    from pyarrow.csv import write_csv
    from pyarrow.parquet import write_table

    check_output(output, release)
    write = {".csv": write_csv, ".parquet": write_table}.get(output.suffix.lower())
    if write is None:
        raise UsageError("End the file name in .csv or .parquet.")
    sink = pa.BufferOutputStream()
    write(options.load(release, group, pooled=pooled).sample(rows, seed=seed), sink)
    write_file(output, sink.getvalue().to_pybytes(), overwrite=overwrite)
    typer.echo(f"Wrote {output}: {rows} synthetic rows; they describe nobody.")


@app.command(epilog=example("record"))
def record(
    release: options.ReleaseFile,
    output: Annotated[Path, option("record output", "-o")],
    kind: Annotated[Literal["registry", "checklist"], option("record kind")] = "registry",
    curator: Annotated[str, option("record curator")] = "",
    intended_use: Annotated[str, option("record intended-use")] = "",
    description: Annotated[str, option("record description")] = "",
    sector: Annotated[str, option("record sector")] = "",
    published: Annotated[str, option("record published", metavar="YYYY-MM-DD")] = "",
    link: Annotated[str, option("record link")] = "",
    justification: Annotated[str, option("record justification")] = "",
    ledger: options.ShownLedger = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Write a registry entry (JSON) or a NIST SP 800-226 checklist (Markdown); costs no privacy."""
    from dpcov.report.checklist import checklist
    from dpcov.report.deployment import Deployment, registry_entry

    told = {"description": description, "sector": sector, "published": published, "link": link}
    told |= {"curator": curator, "intended_use": intended_use}
    if kind == "checklist" and (justification or any(told.values())):
        raise UsageError("A checklist takes --ledger alone; the rest is for a registry entry.")
    check_output(output, release, ledger)
    loaded = options.load(release)
    balance = options.balance_of(loaded, ledger)
    if kind == "checklist":
        content = checklist(loaded, balance).encode()
    else:
        deployment = Deployment(**told)
        content = registry_entry(loaded, deployment, justification=justification, balance=balance)
    write_file(output, content, overwrite=overwrite)
    typer.echo(f"Wrote {output}.")
