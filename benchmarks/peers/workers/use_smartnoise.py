"""SmartNoise Core's answers: ``dp_covariance`` with Laplace, Gaussian and snapping noise, and that
noise alone."""

import re
from importlib.metadata import version

import numpy as np
import opendp.smartnoise.core as sn
from serve import serve


def covariance(rows, *, epsilon, mechanism, lower, upper, delta=None):
    """Divided by n, as for everybody; the note is the library's own account of what was spent."""
    n, d = rows.shape
    budget = {"epsilon": epsilon} | ({} if delta is None else {"delta": delta})
    # With its protection of floating point the library knows the snapping mechanism only.
    with sn.Analysis(
        neighboring="substitute", protect_floating_point=mechanism == "Automatic"
    ) as analysis:
        data = sn.to_float(sn.Dataset(value=rows))
        released = sn.dp_covariance(
            data=data,
            privacy_usage=budget,
            mechanism=mechanism,
            finite_sample_correction=False,
            data_lower=lower,
            data_upper=upper,
            data_rows=n,
            data_columns=d,
        )
        _release(analysis)
    spent = re.findall(r"(epsilon|delta): (\S+)", str(analysis.privacy_usage))
    return np.reshape(released.value, (d, d)), "spends " + ", ".join(
        f"{k} = {float(v):.3g}" for k, v in spent
    )


def _release(analysis):
    """Without the library's stack trace, should it refuse."""
    try:
        analysis.release()
    except RuntimeError as error:
        raise RuntimeError(str(error).rsplit("Caused by:", 1)[-1].strip()) from None


def noise(_, *, epsilon, mechanism, n, d, size, delta=None):
    """Entries of the covariance of constant columns, on and above the diagonal, off-diagonal ones
    twice."""
    rows, upper = np.full((n, d), 0.5), np.triu_indices(d)
    drawn: list[float] = []
    while len(drawn) < size:
        matrix, _ = covariance(
            rows, epsilon=epsilon, delta=delta, mechanism=mechanism, lower=0.0, upper=1.0
        )
        if not np.array_equal(matrix, matrix.T):
            raise ValueError("The released matrix is not symmetric.")
        drawn.extend(matrix[upper])
    return drawn[:size]


if __name__ == "__main__":
    serve(
        version("opendp-smartnoise-core"),
        {"dp_covariance": covariance, "noise of dp_covariance": noise},
    )
