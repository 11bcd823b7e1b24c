"""What is done at the desk about what a person has decided.

Contract: no value of a row stays here.  What is done is done through the library's doors, which
refuse what the command line refuses.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import msgspec

from dpcov.data.fit import fit
from dpcov.data.sources import file_of
from dpcov.desk.decisions import Decisions, place_of, within
from dpcov.desk.job import Job, Tell, counting, in_words
from dpcov.errors import MovedError, UsageError
from dpcov.files import ReservedFile, is_of_database
from dpcov.pipeline.plan.page import sweep
from dpcov.pipeline.plan.rehearsal import Rehearsal, count_rows
from dpcov.pipeline.table import release
from dpcov.privacy.ledger.ledger import Ledger
from dpcov.published.release import Release
from dpcov.report import render_release


@dataclass
class Work(Decisions):
    """One table on its way."""

    name: str = field(default_factory=lambda: secrets.token_hex(4))
    # Numbers of pages; what was typed on one before the oldest is too late.
    pages: Iterator[int] = field(default_factory=lambda: count(1))
    oldest: int = 0
    # The page that was refused last may be sent again.
    refused: str = ""
    # The last work of every step, and the step of the latest.
    jobs: dict[str, Job] = field(default_factory=dict)
    step: str = ""
    # The schema as it was written.
    saved: bytes = b""
    # Why a release has no report.
    unwritten: str = ""

    def check(self) -> None:
        """Find out how the rows fit the schema."""
        schema, table = self.schema, self.source()
        self._start("columns", "Reading the table", lambda tell: fit(table, schema, counting(tell)))

    def unfit(self) -> list[str]:
        """Columns that cannot be used as they are declared, if the rows were read since."""
        self.settle()
        read = self.jobs.get("columns")
        found = read.made.columns if read is not None and read.made is not None else ()
        unusable = (column for column in found if not column.usable)
        return [f"Column '{each.name}': {each.findings[0].words}" for each in unusable]

    def keep(self) -> None:
        """Write the schema as far as it is filled in, for a desk that is started later."""
        # The file is that of the release.
        self._require_idle()
        path = self.files["schema"]
        is_given = self.described and within(self.folder, self.described) == path
        if path.exists() and not is_given and not self._is_own(path):
            raise UsageError(f"{path.name} exists. Move it away, or open the table with it.")
        self._write_schema()

    def rehearse(self) -> None:
        """Find out what could be read at many budgets; opens no table."""
        if self.rows is None and not self.expected_rows:
            raise UsageError("Say roughly how many rows the table has.")
        self.schema.require_complete()
        public, n_public = None, 0
        if self.public:
            public = within(self.folder, self.public)
            n_public = count_rows(public, self.schema)
        rehearsal = Rehearsal(
            schema=self.schema,
            n_rows=self.rows or self.expected_rows,
            public=public,
            n_public=n_public,
            neighbors=self.neighbors,
            options={"by": self.by} if self.by else {},
        )
        budget, words = self.budget, "Rehearsing the release at several budgets"
        self._start("budget", words, lambda tell: sweep(rehearsal, budget, tell))

    def begin(self, overwrite: bool = False) -> None:
        """Write the schema, open the account where it is new, release, and write the report."""
        self._require_idle()
        lacks = [lack for lacks in self.missing().values() for lack in lacks]
        # Before an account is opened, whose total is fixed then.
        if lacks := lacks or self.refusals(self.rows):
            raise UsageError("\n".join(lacks))
        self.source().check_wanted(self.schema.features)
        files, table = self.files, file_of(place_of(self.data, self.folder))
        taken = [self.ledger_place, *([table] if table else [])]
        for path in files.values():
            if any(is_of_database(path, other) for other in taken):
                raise UsageError(f"{path.name} is the table or the ledger. Name the ledger anew.")
            if path.exists() and not (overwrite or self._is_own(path)):
                raise UsageError(f"{path.name} exists. Allow to write over it, or move it away.")
        if self.left() is None:
            # The budget may have changed since.
            self.require_room()
            Ledger(self.ledger_place).create(self.account, self.total(), self.neighbors)
        self._write_schema()
        decided = replace(self, moved={}, unwritten="")
        # The account is there from now on; one that gets lost is not opened anew unasked.
        self.total_epsilon = self.total_delta = ""
        self._start("release", "Releasing", lambda tell: decided._release(tell, overwrite), decided)

    def _release(self, tell: Tell, overwrite: bool) -> Release:
        # How many there are is private where their number is.
        is_public = self.neighbors == "replace-one"
        page = ReservedFile(self.files["report"], overwrite=overwrite)
        with self._keeping("report"), page:
            with self._keeping("release"):
                release(
                    place_of(self.data, self.folder),
                    schema=self.schema,
                    budget=self.budget,
                    neighbors=self.neighbors,
                    n_rows=self.rows if is_public else None,
                    by=self.by or None,
                    ledger=self.ledger_place,
                    dataset=self.account,
                    output=self.files["release"],
                    overwrite=overwrite,
                    progress=counting(tell) if is_public else lambda rows: tell(0, None),
                )
            made = Release.load(self.files["release"])
            self.unwritten = self._write_report(made, page)
        return made

    def _write_report(self, made: Release, page: ReservedFile) -> str:
        """Why there is no report, if so: what was paid for is released all the same."""
        try:
            page.write(render_release(made, file_name=self.files["release"].name))
        except Exception as error:
            return in_words(error)
        return ""

    @property
    def is_kept(self) -> bool:
        """Whether the file that was written is the schema still."""
        return self.saved == self.schema.dumps().encode()

    def _write_schema(self) -> None:
        path = self.files["schema"]
        self.schema.save(path)
        self.saved = path.read_bytes()

    def _is_own(self, path: Path) -> bool:
        # What an attempt left behind may be written again; what was paid for may not.
        return path == self.files["schema"] and path.read_bytes() == self.saved

    @contextmanager
    def _keeping(self, what: str) -> Iterator[None]:
        # Another program may take the name of a file until it is written.
        try:
            yield
        except MovedError as error:
            self.moved[what] = error.path

    # --- work in the background --------------------------------------------------------------

    @property
    def begun(self) -> "Work":
        """What the page of the release is about: what was decided when it began, if it did."""
        job = self.jobs.get("release")
        return self if job is None or job.problem else job.decided

    def takes(self, page: str) -> bool:
        """Whether what was typed on a page is taken: nothing else was since, or it was refused."""
        return page.isdecimal() and (page == self.refused or int(page) >= self.oldest)

    @property
    def is_changed(self) -> bool:
        """Whether something else was decided since."""
        return self.begun._basis("release") != self._basis("release")

    def settle(self) -> None:
        """Drop what is no longer true of what is decided; a release stays what it is."""
        for step, job in list(self.jobs.items()):
            is_old = job.decided._basis(step) != self._basis(step)
            if is_old and (step != "release" or job.problem):
                job.stop()
                del self.jobs[step]

    def stop(self) -> None:
        """End what goes on."""
        for job in self.jobs.values():
            job.stop()
        if self.step in self.jobs:
            self.jobs[self.step].wait()

    def _basis(self, step: str) -> tuple[object, ...]:
        # What the work of a step depends on.
        plain = msgspec.structs.replace(self.schema, title="")
        terms = self.neighbors, self.rows, self.by, self.delta
        if step == "release":
            return self.schema, *terms, self.epsilon, self.ledger, self.account
        if step == "columns":
            return (plain,)
        return plain, *terms, self.rows or self.expected_rows, self.public

    def _start(
        self, step: str, what: str, run: Callable[[Tell], object], decided: "Work | None" = None
    ) -> None:
        self._require_idle()
        # One at a time: each may fill the memory.
        for other in self.jobs.values():
            other.stop()
        self.jobs[step], self.step = Job(what, run, decided or replace(self)).start(), step

    def _require_idle(self) -> None:
        # Whoever would take the place of a release could have it charged twice.
        if "release" in self.jobs and self.jobs["release"].running:
            raise UsageError("It is being released. Wait until it has ended, or stop it.")
