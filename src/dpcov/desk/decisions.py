"""What a person has decided at the desk so far about one table.

Contract: holds public decisions and names; no value of a row.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf, nan
from pathlib import Path
from typing import Self

import msgspec

from dpcov.data.layout import FileLayout
from dpcov.data.schema.codebooks import read_codebook
from dpcov.data.schema.declared import Ignored, Numeric, Weights
from dpcov.data.schema.draft import describe
from dpcov.data.schema.schema import Schema
from dpcov.data.schema.wildcards import assign, is_pattern
from dpcov.data.sources import Query, Source, open_source
from dpcov.desk.columns import declared, written
from dpcov.errors import BudgetError, DpcovError, LedgerError, NoLedgerError, UsageError
from dpcov.files import ReservedFile, is_of_database
from dpcov.pipeline.terms import BOUNDS_ARE_KEPT
from dpcov.privacy.budget import Budget
from dpcov.privacy.guarantee import Neighbors, PureDP, check_neighbors, format_number
from dpcov.privacy.ledger.composition import fits, typical
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.privacy.meaning import LARGEST_QUIET_EPSILON, check_delta, implied_epsilon

STEPS = ("columns", "people", "budget", "account", "release")


@dataclass
class Decisions:
    """Public decisions about the release of one table."""

    # The file, or the statement and its database; and where files are written.
    data: str | Query
    folder: Path
    # As far as it is filled in.
    schema: Schema
    neighbors: Neighbors = "replace-one"
    rows: int | None = None
    by: str = ""
    public: str = ""
    epsilon: str = "1"
    delta: str = "1e-6"
    ledger: str = "ledger.sqlite"
    dataset: str = ""
    total_epsilon: str = ""
    total_delta: str = ""
    expected_rows: int = 0
    # Files that have other names, since another program took theirs meanwhile.
    moved: dict[str, Path] = field(default_factory=dict)
    # Why columns are proposed as they are; and the codebook or schema that was given.
    notes: dict[str, str] = field(default_factory=dict)
    described: str = ""
    # Columns of a sheet that are not read, because they have no name.
    unnamed: int = 0
    # Columns that the schema names and the table lacks.
    absent: list[str] = field(default_factory=list)

    @classmethod
    def open(
        cls,
        data: str | Query,
        folder: Path,
        described: str = "",
        decimal: str = "",
        **layout: str | int | None,
    ) -> Self:
        """Read names and types of a table.

        ``described`` is a schema that exists, or a codebook; ``decimal`` the mark of numbers that
        are written as text; ``layout`` the fields of a `FileLayout`.
        """
        typed = {key: value for key, value in layout.items() if value}
        path, is_schema, known = within(folder, described), is_toml(described), None
        if is_schema:
            known = Schema.from_toml(path)
        elif described:
            known = read_codebook(path, FileLayout.of(**typed))
        found = FileLayout.of(known.file if known else None, **typed)
        source = open_source(place_of(data, folder), found)
        if known is not None and is_schema:
            terms = {"file": found, "decimal": decimal or known.decimal}
            schema, why = msgspec.structs.replace(known, **terms), dict[str, str]()
        else:
            made = describe(source, known, found, decimal or None)
            schema, why = made.schema, made.comments
        entries = assign(schema.columns, source.columns) if schema.patterns else {}
        schema = schema.resolve(source.columns)
        absent = [name for name in schema.features if name not in source.columns]
        if len(absent) < len(schema.features):
            schema = _of_columns(source, schema) if absent else schema
        source.check_wanted(schema.features)
        notes = {name: why.get(entries.get(name, name), "") for name in schema.columns}
        return cls(
            data,
            folder,
            schema,
            notes=notes,
            described=described,
            unnamed=source.unnamed,
            absent=absent,
        )

    @property
    def about(self) -> str:
        """What the work is about, for a person."""
        return self.data if isinstance(self.data, str) else f"A query: {self.data.sql}"

    @property
    def stem(self) -> str:
        """First part of the names of all files that are written."""
        return "table" if isinstance(self.data, Query) else Path(self.data).name.split(".")[0]

    @property
    def files(self) -> dict[str, Path]:
        """What a release writes."""
        endings = {"schema": "toml", "release": "dpcov", "report": "html"}
        named = {what: self.folder / f"{self.stem}.{end}" for what, end in endings.items()}
        return named | self.moved

    @property
    def budget(self) -> Budget:
        """What the release may cost."""
        return Budget(epsilon=self.epsilon, delta=self.delta or None)

    @property
    def account(self) -> str:
        """Name of the people in the ledger."""
        return self.dataset or self.stem

    def declare(self, given: Mapping[str, Mapping[str, str]]) -> list[str]:
        """Take over what was typed of columns; what cannot be read is listed and left as it was."""
        columns, problems = dict(self.schema.columns), list[str]()
        for name, fields in given.items():
            try:
                columns[name] = declared(columns[name], fields)
            except (DpcovError, msgspec.ValidationError) as error:
                problems.append(f"Column '{name}': {error}")
        self.schema = msgspec.structs.replace(self.schema, columns=columns)
        return problems

    def write_schema(self, text: str) -> None:
        """Take over a schema as text."""
        source = self.source()
        schema = Schema.loads(text).resolve(source.columns)
        source.check_wanted(schema.features)
        self.schema = schema

    def source(self) -> Source:
        """The table; nothing but names and types is read of it here."""
        return open_source(place_of(self.data, self.folder), self.schema.file)

    @property
    def weightings(self) -> list[str]:
        """Columns that may hold the weights of rows."""
        columns = self.schema.columns.items()
        return [name for name, each in columns if isinstance(each, Ignored | Numeric)]

    def decide_people(self, typed: Mapping[str, str]) -> None:
        """Who is protected, what is public about their number, groups, and weights of rows."""
        rows, by = typed["rows"], typed["by"]
        if by and by not in self.schema.groupings:
            raise UsageError("Groups are those of a categorical or boolean column.")
        weighted = self._weighted(typed["weights"], typed["largest"])
        per_person = count_of(typed["rows_per_person"], "Rows per person")
        stated = count_of(rows, "The number of rows") if rows.strip() else None
        self.neighbors, self.rows, self.by = check_neighbors(typed["neighbors"]), stated, by
        more = {"rows_per_person": per_person, "title": typed["title"].strip()}
        self.schema = msgspec.structs.replace(weighted, **more)

    def _weighted(self, column: str, largest: str) -> Schema:
        """The schema with these weights of rows; their column is a number from 0 to the largest."""
        now = self.schema.weights
        if not column:
            return msgspec.structs.replace(self.schema, weights=None)
        if column not in self.weightings:
            raise UsageError("Weights are those of a numeric or ignored column.")
        if now is not None and (column, largest.strip()) == (now.column, written(now.upper)):
            return self.schema
        try:
            upper = float(largest)
        except ValueError:
            upper = nan
        if not 0 < upper < inf:
            raise UsageError("The largest weight is a positive number, such as 8.")
        about = self.schema.columns[column].description
        columns = self.schema.columns | {column: Numeric(lower=0, upper=upper, description=about)}
        weights = Weights(column=column, upper=upper)
        return msgspec.structs.replace(self.schema, columns=columns, weights=weights)

    def decide_budget(self, epsilon: str, delta: str) -> None:
        """What the release may cost."""
        Budget(epsilon=epsilon, delta=delta or None)
        self.epsilon, self.delta = epsilon.strip(), delta.strip()

    def decide_account(self, typed: Mapping[str, str]) -> None:
        """Where the budget is charged; with a total the account is opened when it is released."""
        ledger, dataset = typed["ledger"].strip(), typed["dataset"].strip()
        if not ledger or not dataset:
            raise UsageError("Name the ledger and the dataset.")
        before = self.ledger, self.dataset
        self.ledger, self.dataset = ledger, dataset
        try:
            left = self.left()
            self._require_ledger()
        # What cannot be opened is not kept: the page asks it again.
        except DpcovError:
            self.ledger, self.dataset = before
            raise
        self.total_epsilon = typed["total_epsilon"].strip()
        self.total_delta = typed["total_delta"].strip()
        if left is not None:
            # Its total is fixed.
            self.total_epsilon = self.total_delta = ""
            return
        self.require_room()

    def _require_ledger(self) -> None:
        # A ledger that cannot be written is refused here, and not when all is decided.
        if "://" in self.ledger:
            return
        path = Path(self.ledger_place)
        if any(is_of_database(each, path) for each in self.files.values()):
            raise UsageError(f"{path.name} is written by the release. Choose another ledger.")
        if path.exists() and not os.access(path, os.W_OK):
            raise UsageError(f"{path.name} cannot be written. Change its rights.")
        ReservedFile(path, overwrite=True).discard()

    def require_room(self) -> None:
        """UsageError where a new account cannot pay for the release."""
        if not self.total_epsilon:
            raise UsageError(
                "This account does not exist yet. Say what all releases about these people "
                "together may cost."
            )
        total, promise = self.total().promise, self.budget.promise
        if not fits(total, promise):
            lacks_delta = isinstance(total, PureDP) and not isinstance(promise, PureDP)
            advice = "Choose a larger total, or a smaller budget."
            raise UsageError(
                f"This release, {promise}, does not fit into a total of {total}, which is fixed "
                f"once the account is open. {'Give the total a δ.' if lacks_delta else advice}"
            )

    def total(self) -> Budget:
        """What all releases about these people may cost."""
        return Budget(epsilon=self.total_epsilon, delta=self.total_delta or None)

    def left(self) -> str | None:
        """What the account has left, in words; None where there is none yet."""
        book = Ledger(self.ledger_place)
        try:
            return book.remaining(self.account).in_words if book.has(self.account) else None
        # An empty file is one, too.
        except NoLedgerError:
            return None

    def accounts(self) -> list[str]:
        """The accounts that the ledger has."""
        try:
            return [account.name for account in Ledger(self.ledger_place).datasets()]
        except NoLedgerError:
            return []

    @property
    def ledger_place(self) -> str:
        """Where the ledger is."""
        return self.ledger if "://" in self.ledger else str(within(self.folder, self.ledger))

    def missing(self) -> dict[str, list[str]]:
        """What every step still lacks."""
        lacks = {step: list[str]() for step in STEPS}
        lacks["columns"] = self.schema.problems()
        if self.neighbors == "add-remove-one" and self.rows is not None:
            lacks["people"] = ["The number of rows is private here; leave it out."]
        if self.by and self.by not in self.schema.groupings:
            lacks["people"].append(f"Column '{self.by}' has no groups any more. Choose others.")
        if not self.total_epsilon and self._lacks_ledger():
            lacks["account"] = ["Say what all releases about these people together may cost."]
        return lacks

    def _lacks_ledger(self) -> bool:
        # A server is not asked for every page.
        path = Path(self.ledger_place)
        return "://" not in self.ledger and not (path.exists() and path.stat().st_size)

    def cautions(self) -> list[str]:
        """What a release will refuse or warn of."""
        promise = self.budget.promise
        known = self.refusals(self.rows or self.expected_rows or None)
        said = [f"A release will refuse this. {each}" for each in known]
        if (epsilon := implied_epsilon(promise)) > LARGEST_QUIET_EPSILON:
            large = f"epsilon = {format_number(epsilon)} is large and protects hardly anybody."
            said.append(f"{large} Choose a smaller one, or write down why it has to be so large.")
        if self.schema.norm_bound is not None:
            said.append(BOUNDS_ARE_KEPT)
        exists, refused = self._asked_account()
        if self.total_delta and isinstance(promise, PureDP) and not exists:
            said.append(
                "A new account adds up ε and δ from now on if its first release has no delta. "
                "Releases with a delta cost more there. Will later ones have a delta? Then give "
                "this one a delta under Budget."
            )
        return [*said, refused] if refused else said

    def refusals(self, n_rows: int | None) -> list[str]:
        """Why no release of so many rows may cost this, whatever the account allows."""
        promise, said = self.budget.promise, list[str]()
        if self.by and isinstance(promise, PureDP):
            said.append("Groups need a delta. Give one under Budget, or choose no groups.")
        try:
            check_delta(promise, self.neighbors, n_rows)
        except BudgetError as error:
            said.append(str(error))
        return said

    def _asked_account(self) -> tuple[bool, str]:
        """Whether the account exists, and why it does not pay for the release, if it does not."""
        try:
            if self.left() is None:
                return False, ""
        # A page waits up to ten seconds for a server: it says for what.
        except DpcovError as error:
            return False, f"The ledger was asked about the account {self.account}. {error}"
        spend, per_person = typical(self.budget.promise), self.schema.rows_per_person
        spend = replace(spend, mechanism="auto", rows_per_person=per_person)
        try:
            Ledger(self.ledger_place).check(self.account, spend, self.neighbors)
        except LedgerError as error:
            return True, f"The account {self.account} does not allow this. {error}"
        return True, ""


def place_of(data: str | Query, folder: Path) -> str | Query:
    """The table; what is not a whole path is in the folder, the file of a database too."""
    if isinstance(data, str):
        return str(within(folder, data))
    kind, sign, path = data.db.partition(":///")
    if kind not in ("sqlite", "duckdb") or not path:
        return data
    return Query(data.sql, db=f"{kind}{sign}{within(folder, path)}")


def within(folder: Path, name: str) -> Path:
    """A file that was typed, in the folder unless it is a whole path."""
    # The system raises what is no error of its own.
    if "\x00" in name:
        raise UsageError("The name of a file holds a zero character. Correct it.")
    return folder / name


def _of_columns(source: Source, schema: Schema) -> Schema:
    """The schema of the columns that a table has; one that the schema does not name is ignored."""
    unnamed = Ignored(note="The schema does not name it.")
    columns = {name: schema.columns.get(name, unnamed) for name in source.columns}
    wildcards = not any(map(is_pattern, columns))
    return msgspec.structs.replace(schema, columns=columns, wildcards=wildcards)


def is_toml(name: str) -> bool:
    """Whether a file that describes the table is a schema, and no codebook."""
    return name.lower().endswith(".toml")


def count_of(text: str, what: str) -> int:
    """A whole number that was typed, 1 or more."""
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*", text) or int(text) < 1:
        raise UsageError(f"{what} is a whole number, 1 or more.")
    return int(text)
