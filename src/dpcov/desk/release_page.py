"""The page of a release: the last look before it, and what came out.

Contract: it shows what the release says, and names of files.
"""

from collections.abc import Sequence

from dpcov.desk.frame import form, frame, problems_box, same_as, subtitle, waiting
from dpcov.desk.work import Work
from dpcov.published.diagnosis import Diagnosis, plus_minus, with_error
from dpcov.published.numbers import WITHIN
from dpcov.published.summary import LIGHTS
from dpcov.report.html import Child, Html, el, join, name_of, table

_ABOUT = {
    "schema": "what is public about the columns",
    "release": "the release: give this file to analysts",
    "report": "a page about the release, for people",
}


def release(base: str, work: Work, problems: Sequence[str] = ()) -> bytes:
    """Last look, and what came out."""
    job = work.job if work.step == "release" else None
    lacks = [each for found in work.missing().values() for each in found]
    content: list[Child] = [problems_box(problems)]
    if job is not None and job.running:
        content += [waiting(base, work)]
    elif work.made is not None:
        content += [_made(base, work)]
    else:
        if job is not None and job.problem:
            content.append(problems_box(job.problem.splitlines(), "It was not released"))
        content += [
            problems_box(lacks, "Still to be filled in"),
            _before(base, work, ready=not lacks),
        ]
    return frame(
        base, "Release", content, same_as(work.commands("release")), work=work, step="release"
    )


def _before(base: str, work: Work, *, ready: bool) -> Html:
    facts = {
        "Table": subtitle(work),
        "Columns": f"{len(work.schema.features)} of {len(work.schema.columns)} are released",
        "Protected": f"{work.schema.rows_per_person} rows per person, {work.neighbors}",
        "Budget": str(work.budget),
        "Charged to": f"{work.account} in {work.ledger}",
        "Writes": ", ".join(path.name for path in work.files.values()),
    }
    listed = el(
        "dl", [join(el("dt", key), el("dd", text)) for key, text in facts.items()], class_="plain"
    )
    overwrite = el(
        "p",
        el("input", type="checkbox", name="overwrite", id="overwrite", value="yes"),
        el("label", "Write over files of these names", for_="overwrite"),
        class_="radio",
    )
    button = form(f"{base}/{work.name}/begin", overwrite, button="Release", version=work.version)
    return join(listed, button if ready else el("p", "Fill in what is missing first."))


def _made(base: str, work: Work) -> Html:
    made = work.made
    assert made is not None
    found = made.diagnose()
    links = [
        el("li", el("a", path.name, href=f"{base}/{work.name}/files/{what}"), f" – {_ABOUT[what]}")
        for what, path in work.files.items()
    ]
    return join(
        el(
            "section",
            el("h2", "Released"),
            el("p", found.headline, class_="lead", id="headline"),
            el("p", f"{made.guarantee.promise}. Fingerprint ", el("code", made.fingerprint)),
            _verdicts(found),
        ),
        el(
            "section",
            el("h2", "Files"),
            el("p", f"In {work.folder}. All may be published."),
            el("ul", links),
        ),
        el(
            "section",
            el("h2", "Do it again"),
            el(
                "p",
                el("a", "Download a script", href=f"{base}/{work.name}/files/script"),
                " that writes the schema, opens the account and releases.",
            ),
        ),
    )


def _verdicts(found: Diagnosis) -> Html:
    rows = [
        (
            name_of(column.name),
            LIGHTS[column.verdict],
            " ± ".join(with_error(column.mean, WITHIN * column.mean_noise)),
            plus_minus(column.within),
            f"{column.cause} {column.advice}".strip(),
        )
        for column in found.columns
    ]
    head = ("Column", "Verdict", "Mean", "Correlations ±", "Why, and what helps")
    return table(head, rows, caption="What can be read from every column", text=(1, 4))
