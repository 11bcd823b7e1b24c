"""Say which columns of a table the patterns of a schema stand for, such as ``BILL_AMT*``.

Contract: which entry a column gets follows from its name and the schema alone, never from a cell
and never from other columns.  Messages do not tell names that stand in the table only: where the
line of names was forgotten, they are values.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase

from dpcov.data.schema.problems import listed
from dpcov.errors import SchemaError, few_of

# What stands for other characters, as in a shell: any number, exactly one, one of a list.
_WILDCARD = re.compile(r"\*|\?|\[!?\]?[^]]*\]")

UNRESOLVED = (
    "{what} stand for columns that only the table can name. Write them out first: dpcov schema "
    "resolve SCHEMA --data FILE (it reads names only), or Schema.resolve(names). "
    "Names that hold such signs themselves need wildcards = false."
)
_NAMELESS_TABLE = (
    "No other entry of the schema fits the names of the table, so nothing shows that they are "
    "names: where the line of names was forgotten, {what} would publish a row. Add the name of "
    "one column at least."
)


def is_pattern(name: object) -> bool:
    """Whether a name holds ``*``, ``?`` or ``[...]``."""
    return isinstance(name, str) and _WILDCARD.search(name) is not None


def quoted(names: Iterable[str]) -> str:
    """A few names in quotes, and how many more there are."""
    return few_of([f"'{name}'" for name in names], 5)


def assign(entries: Collection[str], names: Collection[str]) -> Mapping[str, str]:
    """Find the entry of every column that one describes, in the order of the table.

    An entry that is a column's own name comes first, then the pattern with most characters outside
    of wildcards.
    """
    literal = {entry for entry in entries if entry in names}
    patterns = [entry for entry in entries if entry not in literal and is_pattern(entry)]
    entry_of, used, problems = dict[str, str](), set[str](), list[str]()
    for place, name in enumerate(names, 1):
        fits = [name] if name in literal else []
        if not fits and name.strip():
            fits = [each for each in patterns if fnmatchcase(name, each)]
        used.update(fits)
        best = [each for each in fits if _weight(each) == max(map(_weight, fits))]
        if len(best) > 1:
            problems.append(
                f"{quoted(best)} fit column {place} of the table equally well; declare it by its "
                "name, or make one pattern longer."
            )
        if best:
            entry_of[name] = best[0]
    if unused := [each for each in patterns if each not in used]:
        problems.append(f"{quoted(unused)}: no column of the table has such a name.")
    anything = [each for each in used - literal if not _weight(each)]
    if anything and not any(map(_weight, used)) and not literal:
        problems.append(_NAMELESS_TABLE.format(what=quoted(anything)))
    if problems:
        raise SchemaError(listed("The schema's patterns do not fit the table:", problems))
    return entry_of


def _weight(pattern: str) -> int:
    # Characters that a name must have; one of a list counts, too.
    return len(_WILDCARD.sub(lambda found: "x" if found[0].startswith("[") else "", pattern))
