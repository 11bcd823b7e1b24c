"""``dpcov mechanisms``: what can draw the noise, and what each promises."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dpcov.mechanisms.base import Mechanism


_GUARANTEES = {"PureDP": "epsilon", "ZCDP": "rho", "ApproxDP": "epsilon,delta"}
_NAME = typer.Argument(help="Describe this mechanism and its options.")


def mechanisms(name: Annotated[str | None, _NAME] = None) -> None:
    """List the mechanisms, or describe one with its options (dpcov release --option NAME=VALUE)."""
    from dpcov.mechanisms.registry import MECHANISMS, find_mechanism

    if name is not None:
        typer.echo(_describe(find_mechanism(name)))
        return
    rows = [_facts(mechanism) for mechanism in MECHANISMS]
    lines = [dict(zip(rows[0], rows[0], strict=True)), *rows]
    widths = {title: max(len(line[title]) for line in lines) for title in rows[0]}
    # As wide as the widest cell, so that grep and cut can read the lines.
    for line in lines:
        cells = (f"{text:<{widths[title]}}" for title, text in line.items())
        typer.echo("  ".join(cells).rstrip())
    typer.echo("\nHow to choose: docs/mechanisms.md   ·   options: dpcov mechanisms NAME")


def _facts(mechanism: type["Mechanism[Any]"]) -> dict[str, str]:
    # One row of the table.
    from dpcov.privacy.guarantee import NEIGHBORS

    both = mechanism.relations == NEIGHBORS
    return {
        "NAME": mechanism.name,
        "GUARANTEE": " | ".join(_GUARANTEES[kind.__name__] for kind in mechanism.promises),
        "RELATION": "both" if both else " | ".join(mechanism.relations),
        "NUMERICS": mechanism.numerics,
        "PAPER": mechanism.paper,
        "SUMMARY": mechanism.summary,
    }


def _describe(mechanism: type["Mechanism[Any]"]) -> str:
    # Facts, options with their defaults, and what the class says about them.
    import inspect

    fields = dataclasses.fields(mechanism)  # type: ignore[arg-type]
    defaults = ", ".join(f"{field.name}={field.default}" for field in fields)
    facts = {**_facts(mechanism), "Options": defaults or "none"}
    lines = [f"{title.capitalize():<10} {text}" for title, text in facts.items()]
    return "\n".join([*lines, "", inspect.getdoc(mechanism) or ""])
