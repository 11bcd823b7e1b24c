"""Gather exact moments of whatever the custodian has, by the engine that fits it.

Contract: memory does not depend on the number of rows, except where a mechanism asks several times:
a copy of a table's rows is kept then while it has room.  What comes out is sensitive.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any

from dpcov.data.checkpoint import Checkpoint
from dpcov.data.encode import Encoder
from dpcov.data.engines import LOCAL, load_engine, local, name_engine
from dpcov.data.engines.base import Encoding, HistogramTask, MomentsTask, TellRows
from dpcov.data.kept import KeptSource
from dpcov.data.memory import allowed_bytes
from dpcov.data.questions import Ask, MomentsQuestion, Question
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import Source, open_source
from dpcov.errors import UsageError
from dpcov.privacy.options import Between, Count, make_plain


@dataclass(frozen=True, kw_only=True)
class Gathering:
    """Where to gather moments, and with what, as in :func:`dpcov.release`; public."""

    engine: str | None = None
    threads: Count | None = None
    memory_limit: Annotated[float, Between(0, open=True)] | None = None
    progress: TellRows | None = None

    def __post_init__(self) -> None:
        make_plain(self, "engine", "threads", "memory_limit")
        if not (self.progress is None or callable(self.progress)):
            raise UsageError("progress must be a function of a number of rows.")

    def columns(self, data: Any) -> tuple[str, ...]:
        """Names of the data's columns."""
        names: tuple[str, ...] = load_engine(name_engine(data, self.engine)).columns(data)
        return names

    def resolve(self, schema: Schema, data: Any) -> tuple[Schema, Any]:
        """The schema with the table's own names, and the table, opened where names were read."""
        if not schema.patterns:
            return schema, data
        if isinstance(data, Checkpoint):
            return schema.resolve(Schema.loads(data.schema_toml).columns), data
        if self._reads_here(data):
            # A stream can be opened only once.
            data = open_source(data, schema.file, self.memory_limit)
            if not data.names_columns:
                raise UsageError(
                    f"The columns of '{data.name}' are those of its first row. Write out what the "
                    "patterns stand for: dpcov schema resolve SCHEMA --data FILE"
                )
        return schema.resolve(self.columns(data)), data

    def ask(
        self, data: Any, encoding: Encoding, *, again: bool = False, n_is_public: bool = True
    ) -> Ask:
        """Answer questions about a table; ``again`` says that there will be several."""
        # Nothing is opened before it is asked, and once then.
        opened = cache(partial(self._opened, data, encoding))
        kept = cache(lambda: self._kept(opened(), encoding, n_is_public)) if again else opened
        return Ask(lambda question: self.answer(kept(), encoding, question))

    def answer(self, data: Any, encoding: Encoding, question: Question) -> Any:
        """Exact **sensitive** answer to a question."""
        if isinstance(data, Checkpoint):
            return data.take(encoding, question)
        task = self._task(encoding, question)
        return load_engine(self._engine(data)).moments(data, task, self.progress)

    def check(self, data: Any, encoding: Encoding, questions: Iterable[Question]) -> None:
        """Refuse questions that the engine cannot answer about such data; no row is read."""
        if not isinstance(data, Checkpoint):
            for question in questions:
                load_engine(self._engine(data)).check(data, self._task(encoding, question))

    def _task(self, encoding: Encoding, question: Question) -> MomentsTask | HistogramTask:
        if question.geometry is not None:
            assert isinstance(encoding, Encoder)
            encoding = Encoder(encoding.schema, question.geometry, encoding.grouping)
        where: dict[str, Any] = {"threads": self.threads, "memory_limit": self.memory_limit}
        if isinstance(question, MomentsQuestion):
            return MomentsTask(encoding=encoding, **vars(question), **where)
        assert isinstance(encoding, Encoder)
        return HistogramTask(encoding=encoding, question=question, **where)

    def _reads_here(self, data: Any) -> bool:
        if isinstance(data, Checkpoint | local.GroupedRows):
            return False
        name = self._engine(data)
        return name == LOCAL or (name == "device" and name_engine(data) != name)

    def _opened(self, data: Any, encoding: Encoding) -> Any:
        # Data that only their engine can open stay as they are.
        here = self._reads_here(data)
        return open_source(data, encoding.layout, self.memory_limit) if here else data

    def _kept(self, source: Any, encoding: Encoding, n_is_public: bool) -> Any:
        # A source of which a copy is kept, unless its rows are in memory already.
        if not isinstance(source, Source):
            return source
        # What is refused follows from public numbers: neither cells nor a private count decide.
        if source.once and not n_is_public:
            raise UsageError(
                f"'{source.name}' can be read once only, and this mechanism reads it several "
                "times. Save it to a file first, or use geometry='schema' (--geometry schema)."
            )
        if source.n_rows:
            return source
        return KeptSource(source, allowed_bytes(self.memory_limit), encoding.readers)

    def _engine(self, data: Any) -> str:
        if not isinstance(data, local.GroupedRows):
            return name_engine(data, self.engine)
        name = name_engine(data.rows, self.engine)
        if name != LOCAL:
            raise UsageError(
                f"The {name} engine takes no groups beside the rows. "
                "Put them into a column and use release(by=...)."
            )
        return name
