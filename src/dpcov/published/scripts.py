"""Write scripts of other software that hold a release's moments and run as they are.

Contract: reads a release only.  Names are anybody's text: in a script they stay text, and variables
have names made of letters, digits and underscores.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain, count
from math import isfinite
from pathlib import Path
from string import Template
from typing import Literal

from dpcov.errors import UsageError, closest, few_of
from dpcov.files import write_file
from dpcov.privacy.options import plain
from dpcov.published.estimate.present import MissingAs
from dpcov.published.file.statistics import Post
from dpcov.published.linalg.symmetric import Array
from dpcov.published.reading.base import BaseRelease
from dpcov.published.words.design import rows_worth, weights_column
from dpcov.published.words.diagnosis import diagnose
from dpcov.published.words.numbers import complete_columns

Program = Literal["r", "julia", "stata"]
# Stata's limit is 32 letters; a number may have to be added.
_LONGEST, _LONGEST_LABEL = 26, 80
# Words that R or Stata keep to themselves.
_RESERVED = {"if", "else", "repeat", "while", "function", "for", "next", "break", "in", "using"}
_RESERVED |= {"with", "byte", "double", "float", "int", "long", "str", "strl", "inf", "nan", "na"}
_RESERVED |= {"null", "true", "false"}
_PER_LINE = 4
# What standard errors do not count: the second where no design effect is known.
_NOISE = "the privacy noise"
_NOISE_AND_DESIGN = f"{_NOISE}, nor what weights and several rows of one person take"


def write_script(
    release: BaseRelease,
    path: str | Path,
    to: Program,
    *,
    target: str | None = None,
    post: Post | None = None,
    missing: MissingAs = "pairwise",
    overwrite: bool = False,
) -> None:
    """Write a script that holds means and covariances, and fits a regression and a factor.

    Parameters
    ----------
    to : {"r", "julia", "stata"}
        R uses lavaan and psych where they are installed; Julia its standard library alone.
    target : str, optional
        The feature that the regression predicts; by default the last number but the weights.
    post, missing
        As in :meth:`dpcov.Release.covariance`.

    Raises
    ------
    UsageError
        For a target that is not there, or a number of rows that is not known.
    ReleaseError
        Without an intercept.
    """
    program = plain("to", to, Program)
    text = _text(release, program, target, post, missing)
    write_file(Path(path), text.encode(), overwrite=overwrite)


def _text(
    release: BaseRelease,
    program: Program,
    target: str | None,
    post: Post | None,
    missing: MissingAs,
) -> str:
    if not isfinite(release.n_rows) or release.n_rows < 1:
        raise UsageError(
            "The number of rows is not known, and a script needs it. Export the matrix as NAME.csv."
        )
    language, names = _LANGUAGES[program], release.feature_names
    goal = _target(release, target)
    variables, possible = _identifiers(names), _predictors(release, goal)
    hidden = {column.name for column in diagnose(release).columns if column.hidden}
    chosen = [place for place in possible if names[place] not in hidden] or possible
    left_out = [variables[place] for place in possible if place not in chosen]
    references = [
        variables[place]
        for place, column in enumerate(release.features)
        if column.kind == "category"
        and column.source != release.features[goal].source
        and place not in possible
    ]
    covariance = release.covariance_matrix(post, missing=missing)
    worth = rows_worth(release)
    # Places count from 1 in R and in Julia.
    values = {
        "n_rows": str(round(release.n_rows)),
        "n_effective": str(max(1, round(worth if isfinite(worth) else release.n_rows))),
        "uncounted": _NOISE if isfinite(worth) else _NOISE_AND_DESIGN,
        "names": language.listed([language.quoted(name) for name in variables]),
        "labels": language.listed([language.quoted(name) for name in names]),
        "means": language.listed(_numbers(release.mean_vector(missing=missing))),
        "covariance": language.matrix([*map(_numbers, covariance)]),
        "guarantee": language.quoted(str(release.guarantee)),
        "fingerprint": language.quoted(release.fingerprint),
        "title": language.quoted(release.manifest.title or "untitled table"),
        "target": str(goal + 1),
        "predictors": language.listed([str(place + 1) for place in chosen]),
        "y": variables[goal],
        "x": " ".join(variables[place] for place in chosen),
        "all": " ".join(variables),
        "left_out": " ".join(left_out) or "none",
        "references": " ".join(references) or "none",
        "label_lines": "\n".join(
            f"label variable {variable} {_stata_string(name)}"
            for variable, name in zip(variables, names, strict=True)
        ),
    }
    template = resources.files("dpcov.published").joinpath("templates", language.template)
    return Template(template.read_text(encoding="utf-8")).substitute(values)


def _target(release: BaseRelease, target: str | None) -> int:
    names = release.feature_names
    if target is None:
        numbers = [
            place
            for place, column in enumerate(release.features)
            if column.kind in ("numeric", "boolean") and column.source != weights_column(release)
        ]
        goal = numbers[-1] if numbers else len(names) - 1
    elif target in names:
        goal = names.index(target)
    else:
        close = closest(target, names)
        told = f"Did you mean '{close}'?" if close else f"Name one of: {few_of(names, 20)}."
        raise UsageError(f"There is no feature of that name. {told}")
    if not _predictors(release, goal):
        raise UsageError("No feature is left to predict the target with. Choose another target.")
    return goal


def _predictors(release: BaseRelease, goal: int) -> list[int]:
    """All features of other columns but the weights; of levels that hold all rows but the first."""
    features, found, complete = release.features, [], set(complete_columns(release))
    left_out = (features[goal].source, weights_column(release))
    for place, column in enumerate(features):
        # Such levels add up to one: the first is what the others are compared with.
        is_first = column.kind == "category" and column.source in complete
        complete.discard(column.source)
        if column.source not in left_out and not is_first:
            found.append(place)
    return found


def _identifiers(names: Sequence[str]) -> list[str]:
    """A variable's name for every feature, all different, also where case does not count."""
    made: dict[str, str] = {}
    for name in names:
        # Letters without their accents, which are characters of their own in this form.
        bare = re.sub(r"[\u0300-\u036f]", "", unicodedata.normalize("NFKD", name))
        stem = re.sub(r"[^A-Za-z0-9]+", "_", bare).strip("_")[:_LONGEST].rstrip("_") or "x"
        # Also Stata's types of texts: str1, str2, and so on.
        if not stem[0].isalpha() or re.sub(r"^str\d+$", "str", stem.lower()) in _RESERVED:
            stem = f"x_{stem}"
        tried = (stem if number == 0 else f"{stem}_{number}" for number in count())
        chosen = next(name for name in tried if name.lower() not in made)
        made[chosen.lower()] = chosen
    return list(made.values())


@dataclass(frozen=True)
class _Language:
    """A template, and how its language writes texts, lists of words, and matrices of them."""

    template: str
    quoted: Callable[[str], str]
    listed: Callable[[Sequence[str]], str]
    matrix: Callable[[Sequence[Sequence[str]]], str]


def _numbers(values: Array) -> list[str]:
    return [repr(value) for value in values.tolist()]


def _wrapped(words: Sequence[str], end: str = "") -> str:
    # Lines of a few words: no program likes lines of thousands of letters.
    lines = [words[at : at + _PER_LINE] for at in range(0, len(words), _PER_LINE)]
    return f", {end}\n  ".join(", ".join(line) for line in lines)


def quoted_for_r(text: str) -> str:
    """Text in R: names are anybody's, and quoted they stay text; control characters by code."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "")
    return '"' + "".join(c if c.isprintable() else f"\\U{{{ord(c):x}}}" for c in quoted) + '"'


def _quoted_for_julia(text: str) -> str:
    # A dollar sign would put in the value of a variable.
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted) + '"'


def _stata_string(text: str) -> str:
    # Stata has no escapes: what it would expand or end at is left out.
    safe = "".join("_" if c in "\"`$\\'" or not c.isprintable() else c for c in text)
    return f'"{safe[:_LONGEST_LABEL]}"'


def _r_list(words: Sequence[str]) -> str:
    return f"c({_wrapped(words)})"


def _r_matrix(rows: Sequence[Sequence[str]]) -> str:
    # Row by row: Rscript takes minutes to read one long statement.
    return "\n".join(f"rows[[{place}]] <- {_r_list(row)}" for place, row in enumerate(rows, 1))


def _julia_list(words: Sequence[str]) -> str:
    return f"[{_wrapped(words)}]"


def _julia_matrix(rows: Sequence[Sequence[str]]) -> str:
    # Column by column, as Julia keeps them: the matrix is symmetric.
    return f"reshape({_julia_list([*chain(*rows)])}, {len(rows)}, :)"


def _stata_list(words: Sequence[str]) -> str:
    return f"({_wrapped(words, ' ///')})"


def _stata_matrix(rows: Sequence[Sequence[str]]) -> str:
    return "\nmatrix C = C \\ ".join(map(_stata_list, rows))


_LANGUAGES: dict[Program, _Language] = {
    "r": _Language("script.R", quoted_for_r, _r_list, _r_matrix),
    "julia": _Language("script.jl", _quoted_for_julia, _julia_list, _julia_matrix),
    "stata": _Language("script.do", _stata_string, _stata_list, _stata_matrix),
}
