r"""Exact products of lattice rows by int8 multiplications, which tensor cores do far faster than float64 ones.

Promise: `gram` returns the integers of ``values.T @ values`` exactly.  Whether it wins depends on the device, so the
device engine tries both on a GPU and takes the faster.

Splitting (the idea of Ozaki, Ogita, Oishi and Rump, 2012, Numerical Algorithms 59, for integers): a whole number of at
most ``2**bits`` in absolute value is written in base 128 with digits of its own sign,
:math:`q = \sum_i 128^i s_i` with :math:`|s_i| \le 127`; that takes ``bits // 7 + 1`` digits.  Then
:math:`Q^T Q = \sum_{i,j} 128^{i+j} S_i^T S_j`, and the parts with i > j are transposes of those with i < j.  Exact
because

1. a product of digits is at most 127**2, so that int32 holds every partial sum of up to 2**17 of them:
   16,129 * 131,072 < 2**31;
2. digits of a number have one sign, so that any sum of some of the parts is at most
   :math:`\sum |q| |q'| \le n 4^{bits}` in absolute value, which int64 holds for ``n <= 2**(62 - 2 bits)``.
"""

import time
from functools import partial

import torch

from dpcov.data.engines.arrays import Products
from dpcov.errors import UsageError

_BASE = 128
_TILE = 8
_LEAST = 24
"""What the kernels want: sizes divisible by 8 and above 16."""


def most_rows(bits: int) -> int:
    """Rows whose product is exact, by 1. and 2. above."""
    return int(min(2**17, 2 ** (62 - 2 * bits)))


def digits(values: torch.Tensor, bits: int) -> list[torch.Tensor]:
    """Base-128 digits of integer-valued float64 numbers, the lowest first, each of the number's own sign."""
    parts, rest = [], values
    for _ in range(bits // 7 + 1):
        above = torch.trunc(rest / _BASE)  # a power of two: exact
        parts.append((rest - _BASE * above).to(torch.int8))
        rest = above
    return parts


def gram(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Exact ``values.T @ values``.

    Parameters
    ----------
    values : (n, d) float64 tensor
        Integers of at most ``2**bits`` in absolute value; at most :func:`most_rows` rows.

    Returns
    -------
    (d, d) int64 tensor
    """
    n_rows, n_features = values.shape
    if n_rows > most_rows(bits):
        raise UsageError(f"Multiply at most {most_rows(bits)} rows of {bits} bits at a time.")
    slices = [_padded(part) for part in digits(values, bits)]
    total = torch.zeros((n_features, n_features), dtype=torch.int64, device=values.device)
    for i, left in enumerate(slices):
        for j, right in enumerate(slices[i:], i):
            part = torch._int_mm(left, right.T)[:n_features, :n_features].to(torch.int64)
            total += (part if i == j else part + part.T) * _BASE ** (i + j)
    return total


def int8_products(bits: int) -> Products:
    """Products by `gram`."""
    return Products(partial(gram, bits=bits), most_rows(bits))


def faster(usual: Products, other: Products, values: torch.Tensor) -> Products:
    """The faster of two ways for these rows; ``usual`` where the other one fails or disagrees."""
    try:
        agree = torch.equal(usual.total(values), other.total(values))
    except (RuntimeError, NotImplementedError):  # this device has no such product
        return usual
    return other if agree and _seconds(other, values) < _seconds(usual, values) else usual


def _seconds(products: Products, values: torch.Tensor) -> float:
    """Seconds of one product of rows that were multiplied before."""
    start = time.perf_counter()
    products.total(values).max().item()  # a number on this machine: the device has finished
    return time.perf_counter() - start


def _padded(part: torch.Tensor) -> torch.Tensor:
    """Transpose of the rows, with zeros up to sizes that the kernels take."""
    width, height = (max(_LEAST, -(-size // _TILE) * _TILE) for size in (part.shape[1], part.shape[0]))
    padded = torch.zeros((width, height), dtype=torch.int8, device=part.device)
    padded[: part.shape[1], : part.shape[0]] = part.T
    return padded
