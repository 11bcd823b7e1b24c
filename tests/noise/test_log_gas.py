"""A table of the noise law that lost its accuracy is never drawn from."""

import pytest

from dpcov.errors import NumericError
from dpcov.noise import log_gas


@pytest.mark.parametrize("half_line", [False, True])
def test_a_table_that_does_not_count_its_points_is_refused(half_line, monkeypatch):
    log_gas.prepare.__wrapped__(4, half_line)
    monkeypatch.setattr(log_gas, "RELATIVE_SLACK", 0.0)
    with pytest.raises(NumericError, match="lost its accuracy"):
        log_gas.prepare.__wrapped__(4, half_line)
