"""The page of a release: put the sections together.

Contract: reads a release only, and the balance of a ledger if the publisher gives it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpcov.privacy.ledger.ledger import Balance
from dpcov.published.base import on_one_thread
from dpcov.published.numbers import PartNumbers, parts_of
from dpcov.published.release import Release
from dpcov.published.words import rows_in_words
from dpcov.report import about, heatmap, results
from dpcov.report.charts import number
from dpcov.report.html import Child, Html, el, join, json_block, name_of, shorten
from dpcov.report.page import Section, page

SCRIPTS = ("theme.js", "heatmap.js", "parts.js")


@on_one_thread
def render_release(
    release: Release, *, file_name: str = "release.dpcov", balance: Balance | None = None
) -> bytes:
    """Write the page of a release.

    Parameters
    ----------
    release : Release
    file_name : str
        Name of the release file, for the examples.
    balance : Balance, optional
        What the dataset's ledger says, if the page shall show it.

    Returns
    -------
    bytes
        An HTML document that needs nothing else.

    Examples
    --------
    >>> import numpy as np, dpcov
    >>> made = dpcov.second_moment(np.eye(3), norm_bound=1, budget=dpcov.Budget(rho=1))
    >>> render_release(made).startswith(b"<!doctype html>")
    True
    """
    parts = list(parts_of(release))
    drawn, data = _maps(parts)
    return page(
        title=release.manifest.title or "Untitled table",
        subtitle="A covariance matrix released under differential privacy",
        top=join(_warnings(release), _facts(release, parts[0]), _selector(parts)),
        sections=(
            about.about(release),
            about.guarantee(release),
            about.budget(release, balance),
            *_results(parts, drawn),
            about.care(release),
            about.load(release, file_name),
        ),
        data=data,
        scripts=SCRIPTS,
        footer=_provenance(release),
    )


def _results(parts: Sequence[PartNumbers], drawn: set[int]) -> tuple[Section, ...]:
    def section(
        key: str, title: str, short: str, content: Callable[[PartNumbers], Html]
    ) -> Section:
        if len(parts) == 1:
            return Section(key=key, title=title, short=short, content=content(parts[0]))
        made = (
            el(
                "div",
                el("p", "Rows: ", name_of(part.name), class_="of-part"),
                content(part),
                data_part=place,
            )
            for place, part in enumerate(parts)
        )
        return Section(key=key, title=title, short=short, content=join(made))

    return (
        section(
            "correlations",
            "Correlations",
            "Correlations",
            lambda p: results.correlations(p, p.index in drawn),
        ),
        section("spectrum", "Components above the noise", "Spectrum", results.spectrum),
        section("strata", "Noise against signal", "Noise and signal", results.strata),
        section("error", "Expected error", "Expected error", results.error),
        section("features", "Means and standard deviations", "Means and spreads", results.features),
    )


def _maps(parts: Sequence[PartNumbers]) -> tuple[set[int], Html]:
    """Which parts have a heat map, and the data of all of them."""
    matrices: list[tuple[int, Any]] = []
    for part in parts:
        size = len(part.release.feature_names)
        sizes = [len(estimates.correlation) for _, estimates in matrices]
        if part.estimates is not None and size > 1 and heatmap.fits([*sizes, size]):
            matrices.append((part.index, part.estimates))
    precision = heatmap.precision_for([len(estimates.correlation) for _, estimates in matrices])
    content = {
        "names": [shorten(name) for name in parts[0].release.feature_names],
        "maps": {
            index: heatmap.pack(estimates.correlation, estimates.correlation_noise, precision)
            for index, estimates in matrices
        },
    }
    return {index for index, _ in matrices}, json_block("map-data", content)


def _warnings(release: Release) -> Child:
    return [
        el("p", el("strong", "Warning: "), text, class_="warning")
        for text in release.manifest.warnings
    ]


def _facts(release: Release, part: PartNumbers) -> Html:
    """The five numbers that a reader looks for first."""
    promise = release.guarantee.promise
    facts: list[tuple[str, str, str]] = [
        (
            "Rows",
            rows_in_words(release),
            "exact, public" if release.manifest.n_rows is not None else "noisy, protected",
        ),
        ("Features", f"{len(release.feature_names):,}", _groups_words(release)),
        ("Guarantee", str(promise), f"{release.guarantee.neighbors} neighbors"),
    ]
    after = part.errors.after if part.errors.after is not None else part.errors.before
    if after is not None and part.errors.size > 0:
        facts.append(
            (
                "Expected error",
                f"{number(100 * after / part.errors.size)} %",
                "of the size of the matrix",
            )
        )
    spectrum = None if part.estimates is None else part.estimates.spectrum
    if spectrum is not None and spectrum.n_above is not None and np.size(spectrum.noisy) > 1:
        facts.append(
            ("Above the noise", f"{spectrum.n_above} of {spectrum.noisy.size}", "components")
        )
    items = (
        el("div", el("dt", label), el("dd", value, el("small", note)))
        for label, value, note in facts
    )
    return el("dl", items, class_="facts")


def _groups_words(release: Release) -> str:
    return f"in {len(release.group_names)} groups" if release.group_names else "of every row"


def _selector(parts: Sequence[PartNumbers]) -> Child:
    if len(parts) == 1:
        return None
    options = (el("option", shorten(part.name), value=place) for place, part in enumerate(parts))
    return el("div", el("label", "Numbers of ", el("select", options, id="part")), class_="parts")


def _provenance(release: Release) -> Html:
    manifest = release.manifest
    software = ", ".join(f"{name} {version}" for name, version in manifest.software.items())
    return join(
        el("p", "Fingerprint ", el("code", release.fingerprint)),
        el(
            "p",
            f"Released {manifest.created} with {software}. This page reads the release file and nothing else.",
        ),
    )
