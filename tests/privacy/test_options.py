"""Options become plain values in their range, or are refused by name."""

from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
import pytest

from dpcov.errors import UsageError
from dpcov.privacy.options import Between, Count, plain

COUNT = Annotated[int, Between(2, 60)]
SHARE = Annotated[float, Between(0, 1, open=True)]
WORD = Literal["a", "b"]
NAN, INF = float("nan"), float("inf")
PLAIN = [
    *((2, COUNT, 2), (np.uint8(60), COUNT, 60), (10**30, int, 10**30), (np.int64(2), float, 2.0)),
    *((None, COUNT | None, None), (np.int64(3), COUNT | None, 3), (np.str_("c"), str, "c")),
    *((1e-300, SHARE, 1e-300), (np.float32(0.5), SHARE, 0.5), (Fraction(1, 3), SHARE, 1 / 3)),
    *((Decimal("0.1"), SHARE, 0.1), (np.True_, bool, True), (np.str_("a"), WORD, "a")),
]


@pytest.mark.parametrize(("value", "hint", "expected"), PLAIN)
def test_values_become_plain(value, hint, expected):
    found = plain("share", value, hint)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("hint", "wrong", "message"),
    [
        (COUNT, [1, 61, 2.0, "2", None, Fraction(2), np.array(2)], "a whole number from 2 to 60"),
        (Count, [0, 2**53 + 1, 10**30], "a whole number, 1 or more"),
        (COUNT | None, [1, "2"], "a whole number from 2 to 60"),
        (int, [True, np.True_, 0.0, "1"], "a whole number."),
        (
            SHARE,
            [0, 1, -0.5, 1.5, NAN, "0.5", None, 0.5j, 10**400, Decimal("sNaN")],
            "both excluded",
        ),
        (float, [INF, NAN, np.array(0.5), True, np.False_], "a number."),
        (Annotated[float, Between(0)], [-0.1, INF], "a number, 0 or more"),
        (Annotated[float, Between(1e-70, 1e70)], [0, 1e71], "a number from 1e-70 to 1e\\+70"),
        (bool, [0, 1, None, "true"], "True or False"),
        (str, [0, None, b"a", True], "text"),
        (WORD, ["c", "A", b"a", None, 1, np.array(["a", "b"])], "one of: a, b"),
    ],
)
def test_anything_else_is_refused_by_name(hint, wrong, message):
    for value in wrong:
        with pytest.raises(UsageError, match=f"^share must be .*{message}"):
            plain("share", value, hint)
