"""Options of a benchmark's command, from what they are where nothing is said."""

import argparse
from typing import Any


def asked(doc: str | None, arguments: list[str] | None = None, **usual: Any) -> argparse.Namespace:
    """What a command is asked for: its options have the names of their usual values.

    False is a switch, a list takes several values, a tuple several of its own; a type stands for an
    option without a usual value.
    """
    parser = argparse.ArgumentParser(description=(doc or "").split("\n", 1)[0])
    for name, value in usual.items():
        several = isinstance(value, list | tuple)
        one = value[0] if several else value
        kind = one if isinstance(one, type) else type(one)
        if one is False:
            parser.add_argument(f"--{name}", action="store_true")
            continue
        parser.add_argument(
            f"--{name}",
            type=kind,
            nargs="+" if several else None,
            choices=value if isinstance(value, tuple) else None,
            default=None if kind is one else value,
        )
    return parser.parse_args(arguments)
