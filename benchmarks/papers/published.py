"""Errors measured with the authors' own code for Dong, Liang, Yi (2022), to compare with.

Synthetic rows of norm 1, rho = 0.1: mean Frobenius error over 10 to 20 runs, by n and d.  That code uses other
constants than the paper.
"""

COLUMNS = (10, 20, 30, 50, 70, 100, 200, 400, 800)

SEPARATE_COV: dict[int, tuple[float, ...]] = {
    1000: (0.0443, 0.0802, 0.102, 0.117, 0.116, 0.115, 0.125, 0.154, 0.206),
    4000: (0.0107, 0.0227, 0.0323, 0.0494, 0.0601, 0.0672, 0.0657, 0.061, 0.0627),
    16000: (0.00266, 0.00548, 0.0082, 0.0137, 0.0191, 0.0258, 0.0392, 0.0413, 0.0351),
}
ADAPTIVE_COV: dict[int, tuple[float, ...]] = {
    1000: (0.0342, 0.0653, 0.092, 0.139, 0.188, 0.264, 0.138, 0.175, 0.239),
    4000: (0.00897, 0.018, 0.0261, 0.0408, 0.0544, 0.0722, 0.133, 0.0637, 0.0695),
    16000: (0.00225, 0.00447, 0.0068, 0.0111, 0.0152, 0.021, 0.0375, 0.0674, 0.0362),
}
PUBLISHED = {"SeparateCov": SEPARATE_COV, "AdaptiveCov": ADAPTIVE_COV}


def published_error(method: str, n: int, d: float) -> float:
    """Mean error of a method of the published code."""
    return PUBLISHED[method][n][COLUMNS.index(int(d))]
