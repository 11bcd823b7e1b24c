"""Commands that read a release: what they write, others can read."""

import pyarrow.csv
import pyarrow.parquet
import pytest


@pytest.mark.parametrize(
    ("name", "read"), [("s.csv", pyarrow.csv.read_csv), ("s.parquet", pyarrow.parquet.read_table)]
)
def test_synthetic_rows_are_written_and_read_back(desk, name, read):
    desk.release()
    output = desk.folder / name
    desk.done("sample --rows 70 --seed 1", desk.output, "-o", output)
    rows = read(output)
    assert (rows.num_rows, rows.column_names) == (70, ["age", "sex", "ill"])
    assert desk.run("sample", desk.output, "-o", output).exit_code == 7
    assert desk.run("sample", desk.output, "-o", desk.folder / "s.xls").exit_code == 2
