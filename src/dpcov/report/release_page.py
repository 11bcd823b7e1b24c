"""Put the sections of a release's page together.

Contract: reads a release only, and the balance of a ledger if the publisher gives it.
"""

from collections.abc import Callable, Sequence

from dpcov.privacy.ledger.ledger import Balance
from dpcov.published.base import on_one_thread
from dpcov.published.numbers import GroupNumbers, numbers_by_group
from dpcov.published.release import Release
from dpcov.published.words import rows_in_words
from dpcov.report import about, heatmap, results
from dpcov.report.charts import number
from dpcov.report.html import (
    Child,
    Html,
    Section,
    el,
    fill,
    join,
    json_block,
    name_of,
    page,
    shorten,
)

SCRIPTS = ("theme.js", "heatmap.js", "parts.js")


@on_one_thread
def render_release(
    release: Release, *, file_name: str = "release.dpcov", balance: Balance | None = None
) -> bytes:
    """Write the page of a release: an HTML document that needs nothing else.

    ``file_name`` is that of the release file, for the examples; ``balance`` what the dataset's
    ledger says, if the page shall show it.

    Examples
    --------
    >>> import numpy as np, dpcov
    >>> made = dpcov.second_moment(np.eye(3), norm_bound=1, budget=dpcov.Budget(rho=1))
    >>> render_release(made).startswith(b"<!doctype html>")
    True
    """
    # Computed once: sections and maps show the same numbers.
    groups = list(numbers_by_group(release))
    drawn, data = _maps(groups)
    bold, warned = el("strong", "Warning: "), release.manifest.warnings
    warnings = [el("p", bold, text, class_="warning") for text in warned]
    return page(
        release.manifest.title or "Untitled table",
        (
            about.about(release),
            about.guarantee(release),
            about.budget(release, balance),
            *_results(groups, drawn),
            about.care(release),
            about.load(release, file_name),
        ),
        SCRIPTS,
        subtitle="A covariance matrix released under differential privacy",
        top=(warnings, _facts(release, groups[0]), _selector(groups)),
        data=data,
        footer=_provenance(release),
    )


def _results(groups: Sequence[GroupNumbers], drawn: set[int]) -> list[Section]:
    def correlations(group: GroupNumbers) -> Html:
        return results.correlations(group, group.index in drawn)

    sections = (
        ("correlations", "Correlations", "Correlations", correlations),
        ("spectrum", "Components above the noise", "Spectrum", results.spectrum),
        ("strata", "Noise against signal", "Noise and signal", results.strata),
        ("error", "Expected error", "Expected error", results.error),
        ("features", "Means and standard deviations", "Means and spreads", results.features),
    )
    return [Section(key, title, short, _each(groups, made)) for key, title, short, made in sections]


def _each(groups: Sequence[GroupNumbers], content: Callable[[GroupNumbers], Html]) -> Html:
    # All rows and every group, of which the page shows one at a time.
    if len(groups) == 1:
        return content(groups[0])

    def block(group: GroupNumbers) -> Html:
        rows = el("p", "Rows: ", name_of(group.name), class_="of-part")
        return el("div", rows, content(group), data_part=group.index)

    return join(map(block, groups))


def _maps(groups: Sequence[GroupNumbers]) -> tuple[set[int], Html]:
    # Which groups have a heat map, and the data of all of them.
    size = len(groups[0].release.feature_names)
    made = [(group.index, group.estimates) for group in groups if group.estimates is not None]
    # All rows come first, so that they have a map wherever one fits.
    made = made[: heatmap.most_maps(size)]
    maps = {
        index: heatmap.pack(estimates.correlation, estimates.correlation_noise)
        for index, estimates in made
    }
    names = [shorten(name) for name in groups[0].release.feature_names]
    return set(maps), json_block("map-data", {"names": names, "maps": maps})


def _facts(release: Release, group: GroupNumbers) -> Html:
    # The five numbers that a reader looks for first.
    public = release.manifest.n_rows is not None
    groups = len(release.group_names)
    count = f"{len(release.feature_names):,}"
    facts = [
        ("Rows", rows_in_words(release), "exact, public" if public else "noisy, protected"),
        ("Features", count, f"in {groups} groups" if groups else "of every row"),
        ("Guarantee", str(release.guarantee.promise), f"{release.guarantee.neighbors} neighbors"),
    ]
    after = group.error_before if group.error_after is None else group.error_after
    if after is not None and group.size > 0:
        share = f"{number(100 * after / group.size)} %"
        facts.append(("Expected error", share, "of the size of the matrix"))
    spectrum = None if group.estimates is None else group.estimates.spectrum
    if spectrum is not None and spectrum.n_above is not None and spectrum.noisy.size > 1:
        above = f"{spectrum.n_above} of {spectrum.noisy.size}"
        facts.append(("Above the noise", above, "components"))
    items = (
        el("div", el("dt", label), el("dd", value, el("small", remark)))
        for label, value, remark in facts
    )
    return el("dl", items, class_="facts")


def _selector(groups: Sequence[GroupNumbers]) -> Child:
    # The parts' script shows one at a time.
    if len(groups) == 1:
        return None
    options = (el("option", shorten(group.name), value=group.index) for group in groups)
    return el("div", el("label", "Numbers of ", el("select", options, id="part")), class_="parts")


def _provenance(release: Release) -> Html:
    manifest = release.manifest
    software = ", ".join(f"{name} {version}" for name, version in manifest.software.items())
    how = {"created": manifest.created, "software": software}
    return fill("footer.html", fingerprint=release.fingerprint, **how)
