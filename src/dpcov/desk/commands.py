"""The command lines that say what was decided at the desk, and a script of them."""

from shlex import quote

from dpcov.data.layout import PLAIN
from dpcov.desk.decisions import is_toml
from dpcov.desk.work import Work


def commands_of(work: Work, step: str) -> list[str]:
    """The command lines of a step."""
    schema, made, page = (_path(work.files[each].name) for each in ("schema", "release", "report"))
    terms = _flags(epsilon=work.epsilon, delta=work.delta)
    is_public = work.neighbors == "replace-one"
    relation = _flags(neighbors="" if is_public else work.neighbors)
    rows = _flags(rows=work.rows if is_public else None, by=work.by)
    account = _path(work.ledger) + _flags(dataset=work.account)
    table, needs = _table(work), list[str]()
    if not isinstance(work.data, str):
        needs = [': "${DPCOV_DB:?Set it to the address of the database}"']
    if step == "columns":
        checked = f"--data {table}" if isinstance(work.data, str) else table
        begun, known = f"draft {table}{_described(work)}", _path(work.described)
        if is_toml(work.described):
            # What it says of many columns at once is written out.
            begun = f"resolve {known} {checked}"
        if work.absent:
            needs += [f"# Leave out of {known} what the table lacks, and save it as {schema}."]
        elif known != schema:
            needs += [f"dpcov schema {begun} -o {schema}"]
        return [*needs, f"dpcov schema check {schema} {checked}"]
    if step == "people":
        return [f"dpcov schema check {schema}"]
    if step == "budget":
        expected = work.rows or work.expected_rows or "N"
        planned = f"--schema {schema} --rows {expected}{terms}{relation}"
        if work.by:
            said = (
                "# The command makes up rows: public rows with groups are read on this page alone."
            )
            rehearsed = f"dpcov release --dry-run {planned}{_flags(by=work.by)}"
            return [said, rehearsed] if work.public else [rehearsed]
        return [f"dpcov plan {planned}{_flags(table=work.public)}"]
    if step == "account":
        total = _flags(epsilon=work.total_epsilon, delta=work.total_delta)
        opened = [f"dpcov ledger create {account}{total}{relation}"] if work.total_epsilon else []
        return [*opened, f"dpcov ledger show {account}"]
    return [
        *needs,
        f"dpcov release {table} --schema {schema}{terms}{relation}{rows} \\\n"
        f"    --ledger {account} -o {made}",
        f"dpcov doctor {made}",
        f"dpcov report {made} -o {page}",
    ]


def script_of(work: Work) -> str:
    """A shell script that does all of it again."""
    opened = commands_of(work, "account")[:1] if work.total_epsilon else []
    lines = ["#!/bin/sh", "set -e", f"cat > {_path(work.files['schema'].name)} <<'SCHEMA'"]
    lines += [work.schema.dumps().rstrip("\n"), "SCHEMA", *opened]
    return "\n".join([*lines, *commands_of(work, "release"), ""])


def _flags(**given: object) -> str:
    return "".join(f" --{name} {quote(str(value))}" for name, value in given.items() if value)


def _path(name: str) -> str:
    # What begins with a dash would be an option.
    return quote(f"./{name}" if name.startswith("-") else name)


def _table(work: Work) -> str:
    if isinstance(work.data, str):
        return _path(work.data)
    return f"--sql {quote(work.data.sql)} --db-env DPCOV_DB"


def _described(work: Work) -> str:
    # What a draft needs to know of the file beside its name.
    layout, decimal = work.schema.file or PLAIN, work.schema.decimal
    stated = {name: getattr(layout, name) for name in ("delimiter", "encoding", "header", "part")}
    unusual = {name: value for name, value in stated.items() if value != getattr(PLAIN, name)}
    return _flags(codebook=work.described, decimal="" if decimal == "." else decimal, **unusual)
