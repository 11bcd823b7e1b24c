"""What a release says about itself, in words that a data-protection officer can check.

Contract: reads a release only, and claims no more than its guarantee.  Knows nothing of rows or randomness.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import exp
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from dpcov.errors import ReleaseError
from dpcov.privacy.guarantee import (
    ApproxDP,
    Guarantee,
    Promise,
    PureDP,
    costs_nothing,
    format_number,
)

if TYPE_CHECKING:
    from dpcov.published.base import BaseRelease

_SHOWN_FEATURES = 12
_NAME_WIDTH = 34

_NUMERICS = {
    "exact": "exact: the proof covers the computer's arithmetic",
    "idealized": "idealized: the proof assumes real-number arithmetic (see docs/limitations.md)",
}


def summarize(release: "BaseRelease") -> str:
    """Plain-text account of a release, about one screen."""
    parts = (_title, _warnings, _what, _guarantee, _noise, _estimates, _provenance)
    told = "\n\n".join(text for text in (part(release) for part in parts) if text) + "\n"
    # Names come from a file that anybody may have written: no control codes reach the terminal.
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in told)


def _title(release: "BaseRelease") -> str:
    title = release.manifest.title or "untitled table"
    return f"Private covariance release: {title}\nFingerprint  {release.fingerprint}"


def _warnings(release: "BaseRelease") -> str:
    return "\n".join(f"WARNING      {warning}" for warning in release.manifest.warnings)


def _what(release: "BaseRelease") -> str:
    kind = "means and covariance" if release.has_intercept else "second moments (not centered)"
    count = len(release.feature_names)
    groups = (
        [("Groups", f"the same for each of {_first(release.group_names)}")]
        if release.group_names
        else []
    )
    return _table(
        (
            "Published",
            f"{kind} of {count} feature{'s' if count != 1 else ''}, with noise; no row and no single value",
        ),
        ("Features", _first(release.feature_names)),
        *groups,
        ("Rows", _rows(release)),
        (
            "Norm bound",
            f"{release.manifest.norm_bound:.6g}, the public bound on the length of an encoded row",
        ),
    )


def _first(names: Sequence[str]) -> str:
    more = f", and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(map(_short, names[:6])) + more


def _rows(release: "BaseRelease") -> str:
    if release.manifest.n_rows is not None:
        return f"{release.manifest.n_rows:,} (published exactly: this number is not protected)"
    if not np.isfinite(release.n_rows):
        return "not published"
    return f"about {release.n_rows:,.0f} (noisy: the exact number is protected)"


def _guarantee(release: "BaseRelease") -> str:
    guarantee = release.guarantee
    facts = _table(
        ("Guarantee", f"{guarantee.promise}, {guarantee.neighbors} neighbors"),
        ("Protects", _protected(guarantee)),
        ("Numerics", _NUMERICS[guarantee.numerics]),
        ("Mechanism", release.manifest.mechanism.name),
    )
    return f"{facts}\n{_in_words(guarantee.promise)}"


def _protected(guarantee: Guarantee) -> str:
    """Whose data may change, and how."""
    rows = guarantee.rows_per_person
    said = (
        "what one person's row says"
        if rows == 1
        else f"what the rows of one person (at most {rows}) say"
    )
    if guarantee.neighbors == "replace-one":
        return f"{said}; not how many rows there are"
    return f"{said}, and whether the person is in the table at all"


def _in_words(promise: Promise) -> str:
    """What the numbers mean for one person."""
    if costs_nothing(promise):
        return f"{'In words':<13}nothing in this release depends on the table."
    if isinstance(promise, PureDP):
        return _at_most(promise.epsilon) + "."
    if isinstance(promise, ApproxDP):
        extra = f"up to an additional probability of {format_number(promise.delta)}"
        return f"{_at_most(promise.epsilon)},\n{_LABEL}{extra}."
    from dpcov.privacy.convert import zcdp_epsilon

    points = []
    for delta in (Fraction(1, 10**6), Fraction(1, 10**9)):
        epsilon = zcdp_epsilon(promise.rho, delta)
        points.append(f"({_round_up(epsilon)}, {format_number(delta)})-DP")
    return (
        f"{'In words':<13}this implies {' and '.join(points)}, and all points between on its curve."
    )


def _at_most(epsilon: Fraction) -> str:
    factor = _round_up(Fraction(exp(epsilon))) if epsilon < 20 else f"e^{_round_up(epsilon)}"
    return f"{'In words':<13}changing what is protected makes no outcome more than {factor} times as likely"


def _round_up(value: Fraction) -> str:
    """Three digits, never less than the value."""
    from decimal import ROUND_CEILING, Context, Decimal

    exact = Context(prec=40, rounding=ROUND_CEILING).divide(
        Decimal(value.numerator), Decimal(value.denominator)
    )
    return f"{Context(prec=3, rounding=ROUND_CEILING).plus(exact).normalize():f}"


def expected_error(release: "BaseRelease") -> str | None:
    """How far the second moments are from the truth, as the release is read by default; None where it is not known."""
    error = release.expected_error(
        "shrink" if release.manifest.statistics.post == "shrink" else "none"
    )
    if error is None:
        return None
    size = float(np.linalg.norm(release.second_moment()))
    if size > 0:
        return f"about {error:.3g} (Frobenius norm) in a second moment matrix of size {size:.3g}"
    return f"everything drowned in noise: the estimate is zero, the truth at most {error:.3g} (Frobenius norm)"


def _noise(release: "BaseRelease") -> str:
    statistics, error = release.manifest.statistics, expected_error(release)
    rows = [("Note", note) for note in statistics.notes]
    if statistics.noise is not None:
        rows.append(("Noise", statistics.noise.family))
    if error is not None:
        rows.append(("Error", error))
    return _table(*rows)


def _estimates(release: "BaseRelease") -> str:
    """Means and standard deviations of the first features, or why there are none."""
    if not release.has_intercept:
        return ""
    try:
        means, variances = release.mean(), np.diagonal(release.covariance())
    except ReleaseError as error:
        return _table(("Estimates", str(error)))
    names = [_short(name) for name in release.feature_names[:_SHOWN_FEATURES]]
    width = max(len("Feature"), *map(len, names))
    lines = [f"{'Feature':<{width}}  {'mean':>11}  {'std':>11}   (estimates, noise included)"]
    for name, mean, variance in zip(names, means, variances, strict=False):
        lines.append(f"{name:<{width}}  {mean:>11.4g}  {max(0.0, float(variance)) ** 0.5:>11.4g}")
    left_out = len(release.feature_names) - len(names)
    return "\n".join([*lines, f"... and {left_out} more"] if left_out else lines)


def _provenance(release: "BaseRelease") -> str:
    manifest = release.manifest
    spent = "no ledger was used: somebody must keep account of what else was released about these people"
    if costs_nothing(release.guarantee.promise):
        spent = "nobody: this release costs nothing"
    if manifest.spent is not None:
        spent = f"entry {manifest.spent.entry} of dataset {manifest.spent.dataset}"
    software = ", ".join(f"{name} {number}" for name, number in manifest.software.items())
    return _table(("Charged to", spent), ("Created", manifest.created), ("Made with", software))


_LABEL = " " * 13
_WIDTH = 104


def _table(*rows: tuple[str, str]) -> str:
    return "\n".join(
        fill(f"{label:<13}{text}", _WIDTH, subsequent_indent=_LABEL, break_on_hyphens=False)
        for label, text in rows
    )


def _short(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else name[: _NAME_WIDTH - 1] + "…"
