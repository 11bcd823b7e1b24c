"""``dpcov mechanisms``: what can draw the noise, and what each promises."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dpcov.mechanisms.base import Mechanism

EXAMPLE = "Example: dpcov mechanisms laplace"

_GUARANTEES = {"PureDP": "epsilon", "ZCDP": "rho", "ApproxDP": "epsilon,delta"}


def mechanisms(
    name: Annotated[
        str | None, typer.Argument(help="Describe this mechanism and its options.")
    ] = None,
) -> None:
    """List the mechanisms, or describe one with its options (--option NAME=VALUE of dpcov release)."""
    from dpcov.mechanisms.registry import MECHANISMS, find_mechanism

    if name is not None:
        typer.echo(describe(find_mechanism(name)))
        return
    typer.echo(table([facts(mechanism) for mechanism in MECHANISMS]))
    typer.echo("\nHow to choose: docs/mechanisms.md   ·   options: dpcov mechanisms NAME")


def facts(mechanism: type["Mechanism[Any]"]) -> dict[str, str]:
    """One row of the table."""
    from dpcov.privacy.guarantee import NEIGHBORS

    return {
        "NAME": mechanism.name,
        "GUARANTEE": " | ".join(_GUARANTEES[kind.__name__] for kind in mechanism.promises),
        "RELATION": "both" if mechanism.relations == NEIGHBORS else " | ".join(mechanism.relations),
        "NUMERICS": mechanism.numerics,
        "PAPER": mechanism.paper,
        "SUMMARY": mechanism.summary,
    }


def table(rows: list[dict[str, str]]) -> str:
    """Columns as wide as their widest cell, so that tools such as grep and cut can read the lines."""
    lines = [{title: title for title in rows[0]}, *rows]
    widths = {title: max(len(line[title]) for line in lines) for title in rows[0]}
    return "\n".join(
        "  ".join(f"{line[title]:<{widths[title]}}" for title in line).rstrip() for line in lines
    )


def describe(mechanism: type["Mechanism[Any]"]) -> str:
    """Facts, options with their defaults, and what the class says about them."""
    import inspect

    lines = [f"{title.capitalize():<10} {text}" for title, text in facts(mechanism).items()]
    fields = dataclasses.fields(mechanism)  # type: ignore[arg-type]
    defaults = ", ".join(f"{field.name}={field.default}" for field in fields)
    lines += [f"{'Options':<10} {defaults or 'none'}", "", inspect.getdoc(mechanism) or ""]
    return "\n".join(lines)
