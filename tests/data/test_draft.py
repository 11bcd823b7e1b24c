from dpcov.data.schema.declared import Categorical, Ignored, Numeric
from dpcov.data.schema.draft import draft
from dpcov.data.schema.schema import Schema
from dpcov.data.sources import open_source


def test_a_draft_is_valid_toml_without_any_value(tmp_path):
    (tmp_path / "a.csv").write_text(",a,b,c,d\n1,SENTINEL_7391,73911937.25,2020-07-31,\n")
    schema = draft(open_source(tmp_path / "a.csv"))
    text = schema.dumps()
    assert Schema.loads(text) == schema
    assert schema.columns["a"] == Categorical()
    assert schema.columns["b"] == Numeric()
    assert {name for name, c in schema.columns.items() if isinstance(c, Ignored)} == {"", "c", "d"}
    assert not any(value in text for value in ("SENTINEL", "7391", "2020-07", "nan,"))
    assert len(schema.problems()) == 2
