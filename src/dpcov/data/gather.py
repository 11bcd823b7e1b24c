"""Exact moments of whatever the custodian has, by the engine that fits it.

Contract: memory does not depend on the number of rows, except for mechanisms that ask for the rows
themselves.  What comes out is sensitive.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from dpcov.data.checkpoint import Checkpoint
from dpcov.data.engines import (
    LOCAL,
    Encoding,
    MomentsTask,
    TableEncoding,
    TellRows,
    load_engine,
    local,
    name_engine,
)
from dpcov.data.moments import Moments, MomentsSpec
from dpcov.data.rows import EncodedRows, RowsSpec
from dpcov.data.schema.schema import Schema
from dpcov.errors import UsageError
from dpcov.privacy.options import Between, Count, make_plain

__all__ = ["Gathering", "TellRows", "table_moments"]


@dataclass(frozen=True, kw_only=True)
class Gathering:
    """Where to gather moments, and with what; public.

    Parameters
    ----------
    engine : str, optional
        Recognised by the type of the data if not given.
    threads : int, optional
        Threads of the local engine; all cores by default.
    memory_limit : float, optional
        GiB that gathering may take on one machine; what the machine has by default.
    progress : callable, optional
        Called with the number of rows after every block.
    """

    engine: str | None = None
    threads: Count | None = None
    memory_limit: Annotated[float, Between(0, open=True)] | None = None
    progress: TellRows | None = None

    def __post_init__(self) -> None:
        make_plain(self, "engine", "threads", "memory_limit")

    def columns(self, data: Any) -> tuple[str, ...]:
        """Names of the data's columns."""
        return load_engine(name_engine(data, self.engine)).columns(data)

    def gather(
        self, data: Any, encoding: Encoding, spec: MomentsSpec | RowsSpec
    ) -> Moments | EncodedRows:
        """Keep the rows, or their moments only: what the mechanism wants."""
        return (
            self.moments(data, encoding, spec)
            if isinstance(spec, MomentsSpec)
            else self.rows(data, encoding)
        )

    def moments(self, data: Any, encoding: Encoding, spec: MomentsSpec) -> Moments:
        """Exact **sensitive** moments."""
        if isinstance(data, Checkpoint):
            return data.take(encoding, spec)
        task = MomentsTask(
            encoding=encoding, spec=spec, threads=self.threads, memory_limit=self.memory_limit
        )
        return load_engine(self._engine(data)).moments(data, task, self.progress)

    def rows(self, data: Any, encoding: Encoding) -> EncodedRows:
        """All encoded rows, **sensitive**, in the memory of this machine."""
        if isinstance(data, Checkpoint):
            raise UsageError(
                "This mechanism needs the rows, and saved moments have none. Give the table itself."
            )
        name = self._engine(data)
        if name != LOCAL:
            raise UsageError(
                f"This mechanism needs the rows in one place, but the {name} engine gathers moments only. "
                "Give a file or a table of this machine, or choose another mechanism."
            )
        return local.rows(data, encoding, self.progress)

    def _engine(self, data: Any) -> str:
        if not isinstance(data, local.GroupedRows):
            return name_engine(data, self.engine)
        name = name_engine(data.rows, self.engine)
        if name != LOCAL:
            raise UsageError(
                f"The {name} engine takes no groups beside the rows. Put them into a column and use release(by=...)."
            )
        return name


def table_moments(data: Any, schema: Schema, spec: MomentsSpec, **where: Any) -> Moments:
    """Exact **sensitive** moments of a table as a schema encodes it; keywords as in `Gathering`."""
    return Gathering(**where).moments(data, TableEncoding(schema=schema), spec)
