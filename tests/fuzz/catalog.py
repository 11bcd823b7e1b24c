"""All targets of the fuzzer, by name."""

from tests.fuzz import commands, queries, releases, saved_files, schemas, tables
from tests.fuzz.engine import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        schemas.TARGET,
        releases.BYTES,
        releases.FORGED,
        *tables.TARGETS,
        queries.DUCKDB,
        queries.SQLITE,
        saved_files.MOMENTS,
        saved_files.LEDGER,
        commands.TARGET,
    )
}
