"""The numbers stated in the tutorials, measured over repetitions of what their pages do once.

Run: python -m benchmarks.tutorials [adult|adult-intervals|digits|mnist|breast-cancer]
     [--data DIR] [--repetitions N]

Tables and schemas are those of the pages, whose code is executed, so that the two cannot
differ.  Randomness is seeded. Adult and MNIST need their files (see benchmarks/data.py).
"""

import argparse
import contextlib
import io
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import dpcov
from benchmarks.data import MissingTable, data_directory, file_of
from benchmarks.measured import table as markdown
from dpcov import Budget, SeededEntropy
from dpcov.analysis import NoiseWarning, PrivateLDA, PrivatePCA, PrivateQDA, PrivateRidge
from dpcov.errors import PrivacyWarning

Array = NDArray[np.float64]

PAGES = Path(__file__).parents[1] / "docs" / "tutorials"
ADULT_EPSILONS = ("0.1", "0.25", "1")
DIGITS_EPSILONS = ("1", "2", "8", "30", "100")
MNIST_EPSILONS = ("0.1", "0.5", "1", "8")
BIOPSY_EPSILONS = ("1", "2", "4", "8")


def names_of(page: str, *, data: str | Path | None = None) -> dict[str, Any]:
    """Run the Python blocks of a tutorial in an empty folder and return the names that they
    define."""
    text = (PAGES / page).read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": page}
    found = mock.patch.dict(os.environ, {"DPCOV_DATA": str(data or "")})
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), found, _quiet():
        for code in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
            exec(compile(code, page, "exec"), names)
    return names


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore", NoiseWarning)
        yield


def need_adult(directory: Path) -> Path:
    """Refuse to pass made-up people off as Adult."""
    return file_of(directory, "adult.csv.gz").parent


def adult(directory: Path, repetitions: int) -> list[list[str]]:
    """R² on people who were not released, and the coefficients' error, for three targets."""
    page = names_of("adult.md", data=need_adult(directory))
    learn, test, encoded = page["learn"], page["test"], page["encoded"]
    rows, new = encoded(learn), encoded(test)
    lines = [["ε", "target", "R²", "lowest", "without privacy", "coefficient error"]]
    for epsilon in ADULT_EPSILONS:
        budget = Budget(epsilon=epsilon, delta="1e-6")
        made = [seeded(learn, page["schema"], budget, seed) for seed in range(repetitions)]
        for target in ("income=>50K", "hours-per-week", "education-num"):
            features = [name for name in rows.columns if name != target]
            exact = page["LinearRegression"]().fit(rows[features], rows[target])
            models = [PrivateRidge.from_release(release, target=target) for release in made]
            scores = [model.score(test, new[target]) for model in models]
            # In units in which every coefficient is the change of the target per standard deviation
            # of its feature.
            spread = rows[features].std().to_numpy()
            error = np.linalg.norm(
                [(model.coef_ - exact.coef_) * spread for model in models], axis=1
            )
            relative = error / np.linalg.norm(exact.coef_ * spread)
            found = np.mean(scores), np.min(scores), exact.score(new[features], new[target])
            cells = (f"{score:.3f}" for score in found)
            lines.append([epsilon, target, *cells, f"{np.mean(relative):.2f}"])
    return lines


def exact_ridge(page: dict[str, Any], model: PrivateRidge, target: str) -> Array:
    """Coefficients of a model's own penalty without noise, on the rows that were released."""
    names = list(model.get_encoded_names())
    half_ranges = {column.name: column.half_range for column in model.release_.manifest.columns}
    scale = np.array([half_ranges[name] for name in (*names, target)])
    rows = page["encoded"](page["learn"])[[*names, target]].to_numpy() / scale
    covariance = np.cov(rows.T, bias=True)
    weights = np.linalg.solve(
        covariance[:-1, :-1] + model.alpha_ * np.eye(len(names)), covariance[:-1, -1]
    )
    return np.asarray(weights * scale[-1] / scale[:-1])


def adult_intervals(directory: Path, repetitions: int) -> list[list[str]]:
    """How many 95 % intervals for income hold the coefficient of the released table, with and
    without the noise."""
    page = names_of("adult.md", data=need_adult(directory))
    lines = [["ε", "intervals that hold", "naive ones", "typical width, naive = 1"]]
    for epsilon in ADULT_EPSILONS:
        found = []
        for seed in range(repetitions):
            made = seeded(
                page["learn"], page["schema"], Budget(epsilon=epsilon, delta="1e-6"), seed
            )
            model = PrivateRidge.from_release(made, target="income=>50K")
            exact = exact_ridge(page, model, "income=>50K")
            table, about_rows = model.conf_int(), model.conf_int(sampling=False)
            holds = (about_rows.lower[1:] <= exact) & (exact <= about_rows.upper[1:])
            naive = 1.96 * table.sampling_std[1:]
            naive_holds = np.abs(table.estimate[1:] - exact) <= naive
            wider = (table.upper - table.lower)[1:] / (2 * naive)
            found.append((np.mean(holds), np.mean(naive_holds), np.median(wider)))
        holds, naive_holds, wider = np.mean(found, axis=0)
        lines.append([epsilon, f"{holds:.0%}", f"{naive_holds:.0%}", f"{wider:.1f}"])
    return lines


def digits(directory: Path, repetitions: int) -> list[list[str]]:
    """Share of held-out images that are recognized."""
    page = names_of("digits.md")
    lines = [["ε", "correct", "lowest", "from groups", "quadratic, from groups"]]
    for epsilon in DIGITS_EPSILONS:
        budget = Budget(epsilon=epsilon, delta="1e-5")
        found = []
        for seed in range(repetitions):
            groups = seeded(page["learn"], page["schema"], budget, seed, by="digit")
            of_groups = [ours.from_release(groups) for ours in (PrivateLDA, PrivateQDA)]
            own = digit_accuracy(page, budget, seed)
            found.append([own, *(accuracy(page, model) for model in of_groups)])
        means, lowest = np.mean(found, axis=0), np.min(found, axis=0)[0]
        lines.append([epsilon, *(f"{share:.2f}" for share in (means[0], lowest, *means[1:]))])
    exact, quadratic = (accuracy(page, page[name]) for name in ("exact", "exact_quadratic"))
    return [*lines, ["without privacy", f"{exact:.2f}", "", "", f"{quadratic:.2f}"]]


def digit_accuracy(page: dict[str, Any], budget: Budget, seed: int) -> float:
    """Accuracy of one seeded release of the page's digits."""
    made = seeded(page["learn"], page["schema"], budget, seed)
    return accuracy(page, PrivateLDA.from_release(made, target="digit"))


def accuracy(page: dict[str, Any], model: Any) -> float:
    """Share of the page's held-out images that a model recognizes."""
    return float(model.score(page["test"][page["names"]], page["test"]["digit"]))


def mnist(directory: Path, repetitions: int) -> list[list[str]]:
    """The same with the first 50,000 of MNIST's training images and the other 10,000 to test on."""
    with np.load(file_of(directory, "mnist_train.npz")) as archive:
        images, labels = archive["X"].reshape(-1, 28, 28) * (16 / 255), archive["y"]
    lines = [["pixels", "ε", "correct", "without privacy"]]
    for side in (4, 7, 14):
        page = names_of("digits.md")
        page["SIDE"], page["names"][:] = (
            side,
            [f"pixel {i},{j}" for i in range(side) for j in range(side)],
        )
        table = page["table_of"](images, labels)
        page["learn"], page["test"] = table[:50_000], table[50_000:]
        bounds = {name: dpcov.Numeric(lower=0, upper=16) for name in page["names"]}
        columns = {**bounds, "digit": page["schema"].columns["digit"]}
        page["schema"] = dpcov.Schema(title="MNIST", missing="never", columns=columns)
        exact = page["LinearDiscriminantAnalysis"]().fit(
            page["learn"][page["names"]], page["learn"]["digit"]
        )
        best = accuracy(page, exact)
        for epsilon in MNIST_EPSILONS:
            budget = Budget(epsilon=epsilon, delta="1e-6")
            found = np.mean([digit_accuracy(page, budget, seed) for seed in range(repetitions)])
            lines.append([f"{side} × {side}", epsilon, f"{found:.2f}", f"{best:.2f}"])
    return lines


def breast_cancer(directory: Path, repetitions: int) -> list[list[str]]:
    """How many components stand out of the noise, and how well they point."""
    page = names_of("breast-cancer.md")
    values, vectors = page["values"][::-1], page["vectors"][:, ::-1]
    lines = [["ε", "noise edge", "variances", "above the edge", "cosine of first", "of second"]]
    for epsilon in BIOPSY_EPSILONS:
        budget = Budget(epsilon=epsilon, delta="1e-5")
        fits = []
        for seed in range(repetitions):
            made = seeded(page["biopsies"], page["schema"], budget, seed)
            fits.append(PrivatePCA.from_release(made, n_components=2, scaling="encoded"))
        scree = np.mean([fit.scree_[:3] for fit in fits], axis=0)
        cosines = np.mean(
            [np.abs(np.sum(fit.components_ * vectors[:, :2].T, axis=1)) for fit in fits], axis=0
        )
        above = np.mean([fit.n_above_noise_ for fit in fits])
        cells = f"{fits[0].noise_edge_:.3f}", ", ".join(f"{v:.3f}" for v in scree), f"{above:.1f}"
        lines.append([epsilon, *cells, *(f"{cosine:.2f}" for cosine in cosines)])
    exact = ", ".join(f"{v:.3f}" for v in values[:3])
    return [*lines, ["without privacy", "", exact, "", "", ""]]


def seeded(
    table: Any, schema: dpcov.Schema, budget: Budget, seed: int, **more: Any
) -> dpcov.Release:
    """A release with random numbers that are the same at every run."""
    return dpcov.release(table, schema=schema, budget=budget, entropy=SeededEntropy(seed), **more)


TABLES: dict[str, Callable[[Path, int], list[list[str]]]] = {
    "adult": adult,
    "adult-intervals": adult_intervals,
    "digits": digits,
    "mnist": mnist,
    "breast-cancer": breast_cancer,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="?", choices=list(TABLES), help="default: all")
    parser.add_argument("--data")
    parser.add_argument("--repetitions", type=int, default=10)
    chosen = parser.parse_args()
    for name in [chosen.table] if chosen.table else TABLES:
        print(f"\n{name}, {chosen.repetitions} repetitions\n")
        try:
            with warnings.catch_warnings():
                for kind in (NoiseWarning, PrivacyWarning):
                    warnings.simplefilter("ignore", kind)
                print(markdown(TABLES[name](data_directory(chosen.data), chosen.repetitions)))
        except MissingTable as missing:
            print(f"left out: {missing}")


if __name__ == "__main__":
    main()
