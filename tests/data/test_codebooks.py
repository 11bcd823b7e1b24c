"""Codebooks become drafts: labels, declared ranges and missing codes, never a statistic of rows."""

import json
import re
import tomllib
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dpcov
from dpcov.cli.main import app
from dpcov.data.readers import reader_of
from dpcov.data.schema.codebooks import read_codebook
from dpcov.data.schema.codebooks.fields import BOUNDED, BOUNDED_TOO, code_of
from dpcov.data.schema.draft import describe
from dpcov.data.sources import open_source
from dpcov.errors import DataError, SchemaError, UsageError

FILES = Path(__file__).with_name("files")
CANNOT_BE_LISTED = (
    "values {} mean a missing one, by the codebook, and cannot be listed; make them empty in the "
    "data, then declare the column"
)

PACKAGE = {
    "title": "Health 2026",
    "resources": [
        {
            "name": "people",
            "path": "people.csv",
            "encoding": "iso-8859-1",
            "dialect": {"delimiter": ";"},
            "schema": {
                "missingValues": ["", "-9", "refused"],
                "fields": [
                    {"name": "age", "type": "integer", "title": "Age", "description": "In years."}
                    | {"constraints": {"minimum": 0, "maximum": 110}},
                    {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"]}},
                    {"name": "site", "type": "integer"}
                    | {
                        "categories": [
                            {"value": 1, "label": "North"},
                            {"value": 2, "label": "South"},
                        ]
                    },
                    {"name": "wage", "type": "number", "decimalChar": ",", "groupChar": "."},
                    {"name": "smokes", "type": "boolean"},
                    {
                        "name": "ill",
                        "type": "boolean",
                        "trueValues": ["ja"],
                        "falseValues": ["nein"],
                    },
                    {"name": "visit", "type": "date", "format": "%d.%m.%Y"}
                    | {"constraints": {"minimum": "2020-01-01", "maximum": "2024-12-31"}},
                    {"name": "place", "type": "geopoint"},
                ],
            },
        },
        {"name": "notes", "path": "notes.txt"},
    ],
}
PEOPLE = {
    "age": dpcov.Numeric(lower=0, upper=110, description="Age. In years"),
    "sex": dpcov.Categorical(categories=("f", "m")),
    "site": dpcov.Categorical(categories=("1", "2"), labels={"1": "North", "2": "South"}),
    "wage": dpcov.Numeric(decimal=",", thousands="."),
    "smokes": dpcov.Boolean(),
    "ill": dpcov.Categorical(categories=("ja", "nein")),
    "visit": dpcov.Date(format="%d.%m.%Y", lower=2020, upper=2025),
    "place": dpcov.Ignored(note="of type geopoint, by the codebook"),
}


def written(tmp_path, content, name="codebook.json"):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_a_frictionless_package(tmp_path):
    read = read_codebook(written(tmp_path, PACKAGE))
    assert dict(read.columns) == PEOPLE
    assert read.title == "Health 2026"
    assert read.missing_codes == (-9, "refused")
    assert read.file == dpcov.FileLayout(delimiter=";", encoding="iso-8859-1")
    assert dpcov.Schema.loads(read.dumps()) == read
    alone = read_codebook(written(tmp_path, PACKAGE["resources"][0]["schema"]))
    assert alone.columns == read.columns


def test_a_table_schema_that_pandas_wrote():
    read = read_codebook(FILES / "table-schema.json")
    assert read.columns["city"].categories == ("Bern", "Bern; old", "Köln", "Málaga", "Zürich")
    assert read.columns["height"] == dpcov.Numeric()
    assert read.columns["born"] == dpcov.Date()


def test_one_of_several_tables_is_chosen(tmp_path):
    schema = PACKAGE["resources"][0]["schema"]
    tables = [{"name": name, "schema": schema} for name in ("one", "two")]
    path = written(tmp_path, {"resources": tables})
    with pytest.raises(DataError, match=r"'one', 'two'\. Choose one by part .*--part"):
        read_codebook(path)
    assert read_codebook(path, dpcov.FileLayout(part="two")).columns == PEOPLE


CSVW = {
    "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
    "url": "people.csv",
    "dc:title": {"@value": "People", "@language": "en"},
    "dialect": {"delimiter": "\t", "encoding": "windows-1252", "skipRows": 2},
    "null": ["", "NULL", "999"],
    "tableSchema": {
        "columns": [
            {"name": "age", "titles": {"en": "Age at entry"}, "dc:description": "Years"}
            | {"datatype": {"base": "integer", "minimum": "0", "maximum": "120"}},
            {"name": "wage", "titles": {"de": "Lohn"}}
            | {"datatype": {"base": "decimal", "format": {"decimalChar": ","}}},
            {"name": "day", "datatype": {"base": "date", "format": "dd.MM.yyyy"}},
            {"name": "when", "datatype": "dateTime"},
            {"name": "ok", "datatype": {"base": "boolean", "format": "Y|N"}},
            {"name": "area", "datatype": "string", "null": "??"},
            {"name": "extra", "virtual": True},
        ]
    },
}


def test_csvw(tmp_path):
    read = read_codebook(written(tmp_path, CSVW))
    codes = (999,)
    assert dict(read.columns) == {
        "Age at entry": dpcov.Numeric(lower=0, upper=120, description="Years", missing_codes=codes),
        "Lohn": dpcov.Numeric(decimal=",", missing_codes=codes),
        "day": dpcov.Date(format="%d.%m.%Y", missing_codes=codes),
        "when": dpcov.Date(missing_codes=codes),
        "ok": dpcov.Categorical(categories=("Y", "N"), missing_codes=codes),
        "area": dpcov.Categorical(missing_codes=("??",)),
    }
    assert read.title == "People"
    assert read.file == dpcov.FileLayout(delimiter="\t", encoding="windows-1252", header=3)


def test_csvw_for_differential_privacy(tmp_path):
    """The terms of CSVW-EO (CSVW-SAFE): with and without the prefix of the vocabulary."""
    for prefix in ("", "csvw-eo:", "csvw-safe:"):
        values = [{f"{prefix}partitionValue": kind} for kind in ("Adelie", "Gentoo")]
        partitions = [{f"{prefix}predicate": value} for value in values]
        table = {
            "@context": ["http://www.w3.org/ns/csvw", "csvw-eo-context.jsonld"],
            "@type": "Table",
            f"{prefix}maxContributions": 3,
            f"{prefix}publicLength": 344,
            "tableSchema": {
                "columns": [
                    {"name": "penguin", "datatype": "positiveInteger", f"{prefix}privacyId": True},
                    {
                        "name": "island",
                        "datatype": "string",
                        f"{prefix}keyValues": ["Biscoe", "Dream"],
                    },
                    {"name": "species", "datatype": "string", f"{prefix}partitions": partitions},
                    {"name": "mass", "datatype": "double", "minimum": 2000.0, "maximum": 7000.0},
                    {"name": "male", "datatype": "boolean", f"{prefix}keyValues": [False, True]},
                ]
            },
        }
        read = read_codebook(written(tmp_path, table, "penguins.json-ld"))
        assert dict(read.columns) == {
            "penguin": dpcov.Ignored(note="identifies a person, by the codebook"),
            "island": dpcov.Categorical(categories=("Biscoe", "Dream")),
            "species": dpcov.Categorical(categories=("Adelie", "Gentoo")),
            "mass": dpcov.Numeric(lower=2000, upper=7000),
            "male": dpcov.Boolean(),
        }
        assert read.rows_per_person == 3


def test_rows_of_a_person_are_read_or_refused_but_never_fewer(tmp_path):
    table = {"tableSchema": {"columns": [{"name": "x"}]}, "maxContributions": "3"}
    assert read_codebook(written(tmp_path, table)).rows_per_person == 3
    for other in (2.5, True, "many", {"@value": 3}):
        path = written(tmp_path, table | {"maxContributions": other})
        with pytest.raises(SchemaError, match="form of its kind"):
            read_codebook(path)


DDI = """<?xml version="1.0" encoding="UTF-8"?>
<codeBook xmlns="ddi:codebook:2_5" version="2.5">
  <stdyDscr><citation><titlStmt><titl>Survey of  people</titl></titlStmt></citation></stdyDscr>
  <dataDscr>
    <var ID="V1" name="age" intrvl="contin" measUnit="years">
      <labl>Age</labl>
      <valrng><range min="15" max="99"/></valrng>
      <invalrng><range min="-3" max="-1"/><item VALUE="999"/></invalrng>
      <qstn><qstnLit>How old are you?</qstnLit></qstn>
      <sumStat type="min">17</sumStat><sumStat type="max">61234</sumStat>
      <catgry missing="Y"><catValu>-9</catValu><labl>not asked</labl></catgry>
      <varFormat type="numeric"/>
    </var>
    <var ID="V2" name="sex" intrvl="discrete">
      <labl>Sex</labl>
      <catgry><catValu>1</catValu><labl>male</labl><catStat type="freq">61234</catStat></catgry>
      <catgry><catValu>2</catValu><labl>female</labl></catgry>
      <catgry missing="Y"><catValu>9</catValu><labl>refused</labl></catgry>
      <varFormat type="numeric"/>
    </var>
    <var ID="V3" name="town"><varFormat type="character"/></var>
    <var ID="V4" name="day"><varFormat type="numeric" category="date"/></var>
    <var ID="V5" name="debt"><invalrng><range max="-1"/></invalrng><varFormat type="numeric"/></var>
    <var ID="V6" name="trust">
      <valrng><range min="0" max="10"/><range min="20" max="30"/></valrng>
      <catgry><catValu>0</catValu><labl>none</labl></catgry>
      <catgry><catValu>10</catValu><labl>full</labl></catgry>
      <varFormat type="numeric"/>
    </var>
  </dataDscr>
</codeBook>
"""


def test_ddi(tmp_path):
    read = read_codebook(written(tmp_path, DDI, "survey.xml"))
    assert read.title == "Survey of people"
    assert dict(read.columns) == {
        "age": dpcov.Numeric(
            lower=15,
            upper=99,
            unit="years",
            description="Age. How old are you?",
            missing_codes=(999, -9, -3, -2, -1),
        ),
        "sex": dpcov.Categorical(
            categories=("1", "2"),
            labels={"1": "male", "2": "female"},
            description="Sex",
            missing_codes=(9,),
        ),
        "town": dpcov.Categorical(),
        "day": dpcov.Date(),
        "debt": dpcov.Ignored(note=CANNOT_BE_LISTED.format("lowest to -1")),
        "trust": dpcov.Numeric(lower=0, upper=30, description="0 = none, 10 = full"),
    }
    # Statistics of rows are not read.
    assert "61234" not in describe(None, read).dumps()


def test_values_of_ddi_that_only_occur_are_no_categories(tmp_path):
    count = '<catStat type="freq">7</catStat>'
    values = "".join(f"<catgry><catValu>{age}</catValu>{count}</catgry>" for age in (61, 62, 97))
    refused = f'<catgry missing="Y"><catValu>-9</catValu>{count}</catgry>'
    labeled = f"<catgry><catValu>1</catValu><labl>yes</labl>{count}</catgry>"
    labeled += f"<catgry><catValu>2</catValu><labl>no</labl>{count}</catgry>"
    listed = "<catgry><catValu>m</catValu></catgry><catgry><catValu>f</catValu></catgry>"
    kinds = {"age": values + refused, "ill": labeled + values, "sex": listed}
    variables = "".join(f'<var name="{name}">{said}</var>' for name, said in kinds.items())
    read = read_codebook(written(tmp_path, f"<codeBook>{variables}</codeBook>", "d.xml"))
    assert dict(read.columns) == {
        "age": dpcov.Numeric(missing_codes=(-9,)),
        "ill": dpcov.Categorical(categories=("1", "2"), labels={"1": "yes", "2": "no"}),
        "sex": dpcov.Categorical(categories=("m", "f")),
    }


def test_entities_and_other_files_are_refused(tmp_path):
    bomb = DDI.replace("<codeBook", '<!DOCTYPE x [<!ENTITY a "aaaa">]>\n<codeBook', 1)
    with pytest.raises(SchemaError, match="document type"):
        read_codebook(written(tmp_path, bomb, "bomb.xml"))
    for name, content in {
        "a.xml": "<codeBook>",
        "b.xml": "<codeBook/>",
        "c.json": "[1]",
        "d.json": '{"x": 1}',
        "e.json": '{"fields": [{"type": "integer"}]}',
        "f.json": '{"tableSchema": {"columns": [7]}}',
        "g.json": "{" * 5000,
        "h.csv": "a,b",
        "i.json": '{"a":' * 900 + "1" + "}" * 900,
    }.items():
        with pytest.raises(SchemaError):
            read_codebook(written(tmp_path, content, name))


def test_the_dictionary_of_spss_and_stata():
    read = read_codebook(FILES / "awkward.sav")
    sex = dpcov.Categorical(
        categories=("1", "2"),
        labels={"1": "male", "2": "female"},
        missing_codes=(9,),
        description="Sex of the respondent",
    )
    assert read.columns["sex"] == sex
    # Those that are labelled, then those of a declared range.
    codes = (-9, *(code for code in range(-99, 0) if code != -9))
    age = dpcov.Numeric(description="Age in completed years", missing_codes=codes)
    assert read.columns["age"] == age
    assert read.columns["born"] == dpcov.Date(description="Date of birth")
    assert read_codebook(FILES / "awkward.zsav").columns["sex"] == sex
    stata = read_codebook(FILES / "awkward.dta").columns
    assert stata["sex"].labels == {"1": "male", "2": "female", "9": "refused"}
    assert stata["born"] == dpcov.Date(description="Date of birth")
    assert read_codebook(FILES / "awkward.sas7bdat").columns["born"].as_ == "year"


def test_a_draft_of_a_table_with_a_codebook(tmp_path):
    source = open_source(FILES / "awkward.csv")
    made = describe(source, read_codebook(FILES / "awkward.sav"))
    assert list(made.schema.columns) == list(source.columns)
    assert made.schema.columns["sex"].labels == {"1": "male", "2": "female"}
    # A name says more than a dictionary without labels.
    assert isinstance(made.schema.columns["id"], dpcov.Ignored)
    assert made.schema.columns["height"].description == "Height in meters"
    assert "bounds are years" in made.comments["born"]
    assert made.absent == ()
    bounded = describe(
        open_source(FILES / "awkward.csv"), read_codebook(written(tmp_path, PACKAGE))
    )
    assert bounded.comments["age"] == BOUNDED
    assert set(bounded.absent) == set(PEOPLE) - {"age", "sex"}


def test_the_command(tmp_path):
    path, output = written(tmp_path, PACKAGE), tmp_path / "schema.toml"

    def run(*arguments):
        result = CliRunner().invoke(app, [str(each) for each in arguments])
        assert result.exit_code == 0, result.output
        return result.output

    run("schema", "draft", "--codebook", path, "-o", output)
    assert dict(dpcov.Schema.from_toml(output).columns) == PEOPLE
    text = run("schema", "draft", FILES / "awkward.csv", "--codebook", path, "--delimiter", ",")
    assert "The table lacks 6 columns of the codebook" in text
    assert 'delimiter = ","' in text


def test_a_layout_that_is_said_leaves_the_rest_of_the_codebooks(tmp_path):
    table = tmp_path / "people.csv"
    table.write_bytes("A title;;\nage;sex;größe\n1;f;2\n".encode("latin-1"))
    asked = ["schema", "draft", table, "--codebook", written(tmp_path, PACKAGE), "--header", 2]
    result = CliRunner().invoke(app, [str(each) for each in asked])
    assert result.exit_code == 0, result.output
    read = dpcov.Schema.loads(result.stdout)
    assert read.file == dpcov.FileLayout(delimiter=";", encoding="iso-8859-1", header=2)
    assert list(read.columns) == ["age", "sex", "größe"]


def test_ranges_that_mean_missing_hold_for_other_files_of_the_same_rows(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat", reason="needs dpcov[files]")
    path = tmp_path / "s.sav"
    spans = {"income": [{"lo": 97, "hi": 99}], "debt": [{"lo": -1.7e308, "hi": -1}]}
    frame = pd.DataFrame({"income": [1.0, 97.0, 98.0], "debt": [5.0, -3.0, 0.0]})
    refused = {"income": {99: "refused"}}
    pyreadstat.write_sav(frame, path, missing_ranges=spans, variable_value_labels=refused)
    read = read_codebook(path).columns
    assert read["income"] == dpcov.Numeric(missing_codes=(99, 97, 98))
    assert read["debt"] == dpcov.Ignored(note=CANNOT_BE_LISTED.format("lowest to -1"))
    # The file itself is read with all of its ranges.
    own = describe(open_source(path)).schema.columns
    words = "97 to 99 = missing"
    assert own["income"] == dpcov.Numeric(description=words, missing_codes=(99,))
    assert own["debt"] == dpcov.Numeric(description="lowest to -1 = missing")


def test_the_codes_of_a_range_do_not_fill_a_page():
    codes = (*range(-60, 60), 0.5, -1e-20)
    text = dpcov.Schema(columns={"age": dpcov.Numeric(missing_codes=codes)}).dumps()
    assert dpcov.Schema.loads(text).columns["age"].missing_codes == codes
    assert len(text[text.index("\nmissing_codes") :].splitlines()) < 12


def test_a_field_without_missing_codes_does_not_take_those_of_the_table(tmp_path):
    fields = [{"name": "a", "type": "number"}, {"name": "b", "type": "number"}]
    fields[1]["missingValues"] = [""]
    package = {"fields": fields, "missingValues": ["", "-99"]}
    read = read_codebook(written(tmp_path, json.dumps(package)))
    assert read.missing_codes == (-99,)
    assert [read.columns[name].missing_codes for name in "ab"] == [None, ()]


def test_a_code_with_a_fraction_is_missing_whatever_the_decimal_mark_of_the_file(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat", reason="needs dpcov[files]")
    frame = pd.DataFrame({"heat": [36.6, 99.9, 37.5, 99.9]})
    pyreadstat.write_sav(frame, tmp_path / "s.sav", missing_ranges={"heat": [99.9]})
    known = read_codebook(tmp_path / "s.sav")
    for decimal in ".,":
        frame.to_csv(tmp_path / "s.csv", index=False, sep=";", decimal=decimal)
        layout = dpcov.FileLayout(delimiter=";")
        drafted = describe(open_source(tmp_path / "s.csv", layout), known, layout, decimal).schema
        declared = msgspec.structs.replace(drafted.columns["heat"], lower=30, upper=45)
        assert declared.missing_codes == (99.9,)
        read = reader_of(msgspec.structs.replace(drafted, columns={"heat": declared}), "heat")
        (block,) = open_source(tmp_path / "s.csv", layout).blocks(9, wanted={"heat": read.wanted})
        np.testing.assert_array_equal(read.of(block), [36.6, np.nan, 37.5, np.nan])


@pytest.mark.parametrize("text", ["09", "1.50", "1.0", "-0", "+1", "1e3", "0.00001", "1" * 16, "x"])
def test_a_code_stays_a_text_that_would_be_another_one_as_a_number(text):
    assert code_of(text) == text


def test_exclusive_bounds_are_bounds(tmp_path):
    ends = {"exclusiveMinimum": 0, "exclusiveMaximum": 9}
    frictionless = {"fields": [{"name": "x", "type": "number", "constraints": ends}]}
    datatype = {"base": "number", "minExclusive": 0, "maxExclusive": "9"}
    csvw = {"tableSchema": {"columns": [{"name": "x", "datatype": datatype}]}}
    span = '<valrng><range minExclusive="0" maxExclusive="9"/></valrng>'
    ddi = f'<codeBook><var name="x">{span}<varFormat type="numeric"/></var></codeBook>'
    paths = [written(tmp_path, frictionless), written(tmp_path, ddi, "d.xml")]
    paths.append(written(tmp_path, csvw, "w.json"))
    for path in paths:
        assert read_codebook(path).columns["x"] == dpcov.Numeric(lower=0, upper=9)


def test_texts_of_a_codebook_may_be_lists_and_its_dialect_a_link(tmp_path):
    fields = [{"name": "x", "type": "number", "title": ["Age", "Alter"], "description": []}]
    resource = {"schema": {"fields": fields}, "dialect": "dialect.json"}
    book = read_codebook(written(tmp_path, resource))
    assert (book.columns["x"].description, book.file) == ("Age", None)


def test_csvw_says_that_there_are_no_quotation_marks_or_no_line_of_names(tmp_path):
    table = {"tableSchema": {"columns": [{"name": "x"}]}, "dialect": {"quoteChar": None}}
    assert read_codebook(written(tmp_path, table)).file == dpcov.FileLayout(quote="")
    # The file is refused until it has one, in words that say so.
    table["dialect"] = {"headerRowCount": 0, "skipRows": 1}
    assert read_codebook(written(tmp_path, table)).file == dpcov.FileLayout(header=2)


def test_a_first_row_is_not_shown_as_names_beside_a_codebook_with_others(tmp_path):
    table = tmp_path / "people.csv"
    table.write_text("Zebra,female\nJones,male\n")
    fields = [{"name": "town", "type": "string"}, {"name": "sex", "type": "string"}]
    resource = {"schema": {"fields": fields}, "dialect": {"header": False}}
    asked = ["schema", "draft", str(table), "--codebook", str(written(tmp_path, resource))]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 3 and "Zebra" not in result.output
    assert "none of the columns of the codebook: town, sex" in result.output


def test_a_codebook_alone_is_drafted_by_names_as_beside_its_table(tmp_path):
    fields = [{"name": name, "type": "integer", "title": "T"} for name in ("id", "size")]
    known = read_codebook(written(tmp_path, {"fields": fields}))
    alone = describe(None, known).schema.columns
    assert isinstance(alone["id"], dpcov.Ignored)
    beside = describe(open_source(pd.DataFrame({"id": [1], "size": [2]})), known)
    declared = {"id": alone["id"], "size": dpcov.Numeric(description="T")}
    assert beside.schema.columns == alone == declared


@pytest.mark.parametrize(
    ("level", "codes", "ends"),
    [
        *((level, (1, 2, 3, 4, 5), (1, 5)) for level in ("ordinal", "scale")),
        *(("nominal", (1, 2, 3, 4, 5), None), ("unknown", (1, 2, 3), None)),
        ("ordinal", (0, 1, 2, 9), (0, 2)),
        ("scale", (-3, -2, -1, 0, 1, 2, 3), (-3, 3)),
        # A gap, a code below zero that may mean a missing value.
        *(("ordinal", (1, 2, 3, 8), None), ("ordinal", (-1, 0, 1, 2), None)),
        # What else than the values of an age is labeled.
        ("scale", (97, 98, 99), None),
        # No scale.
        *(("ordinal", (1, 2), None), ("scale", (1, 1.5, 2), None)),
    ],
)
def test_labeled_points_of_an_ordered_scale_are_numbers(tmp_path, level, codes, ends):
    pyreadstat = pytest.importorskip("pyreadstat", reason="needs dpcov[files]")
    labels = {code: f"point {code}" for code in codes}
    pyreadstat.write_sav(
        pd.DataFrame({"q": [50.0]}),
        tmp_path / "t.sav",
        variable_value_labels={"q": labels},
        variable_measure={"q": level},
        missing_ranges={"q": [9.0]},
        column_labels={"q": "How much?"},
    )
    for read in (
        describe(open_source(tmp_path / "t.sav")).schema,
        read_codebook(tmp_path / "t.sav"),
    ):
        said = ", ".join(f"{code} = point {code}" for code in codes if code != 9)
        if ends is None:
            assert isinstance(read.columns["q"], dpcov.Categorical) or codes == (1, 1.5, 2)
        else:
            assert read.columns["q"] == dpcov.Numeric(
                lower=ends[0], upper=ends[1], description=f"How much? {said}", missing_codes=(9,)
            )


@pytest.fixture
def items(tmp_path):
    """Stata has no levels of measurement: every item of a questionnaire was a category."""
    pyreadstat = pytest.importorskip("pyreadstat", reason="needs dpcov[files]")
    agree = {1.0: "pas du tout", 2.0: "plutôt non", 3.0: "plutôt oui", 4.0: "tout à fait"}
    labels = {"q1": agree, "q2": agree, "canton": agree, "sexe": {1.0: "H", 2.0: "F"}}
    frame = pd.DataFrame({name: [1.0, 2.0] for name in labels} | {"age": [30.0, 40.0]})
    frame["q2"] = pd.Series([1.0, "a"], dtype=object)
    labels["q2"] = agree | {"a": "refus"}
    told = {"variable_value_labels": labels, "missing_user_values": {"q2": ["a"]}}
    pyreadstat.write_dta(frame, tmp_path / "s.dta", column_labels={"q1": "Question 1"}, **told)
    return tmp_path / "s.dta"


def test_scales_that_a_codebook_does_not_call_ordered_are_named(items):
    drafted = tomllib.loads(dpcov.draft(items, ordered=["q*"]))["columns"]
    assert (drafted["q1"]["lower"], drafted["q1"]["upper"]) == (1, 4)
    said = "1 = pas du tout, 2 = plutôt non, 3 = plutôt oui, 4 = tout à fait"
    assert drafted["q1"]["description"] == f"Question 1. {said}"
    assert drafted["q2"]["type"] == "numeric" and drafted["q2"]["description"] == said
    assert drafted["canton"]["type"] == drafted["sexe"]["type"] == "categorical"
    # Where a pattern fits others, too, they stay what they are.
    every = tomllib.loads(dpcov.draft(items, ordered=["*"]))["columns"]
    kinds = {name: column["type"] for name, column in every.items()}
    assert kinds == dict.fromkeys(("q1", "q2", "canton", "age"), "numeric") | {
        "sexe": "categorical"
    }
    command = ["schema", "draft", str(items), "--ordered", "q1", "--ordered", "q2"]
    done = CliRunner().invoke(app, command)
    assert done.stdout.strip() == dpcov.draft(items, ordered="q*").strip()


@pytest.mark.parametrize("name", ["sexe", "age", "x*"])
def test_what_has_no_labels_of_a_scale_is_not_called_ordered(items, name):
    with pytest.raises(UsageError, match=f"labels of an ordered scale.* '{re.escape(name)}'"):
        dpcov.draft(items, ordered=[name])


def test_bounds_of_a_codebook_are_explained_once():
    columns = {name: dpcov.Numeric(lower=1, upper=5) for name in "abc"}
    made = describe(None, dpcov.Schema(columns=columns | {"d": dpcov.Numeric()}))
    assert [made.comments[name] for name in "abc"] == [BOUNDED, BOUNDED_TOO, BOUNDED_TOO]
    assert "Bounds" not in made.comments["d"]


def test_other_codebooks_tell_ordered_scales(tmp_path):
    points = "".join(
        f"<catgry><catValu>{point}</catValu><labl>p{point}</labl></catgry>" for point in (1, 2, 3)
    )
    for nature in ("ordinal", "interval", "nominal"):
        ddi = f'<codeBook><var name="q" nature="{nature}">{points}</var></codeBook>'
        (column,) = read_codebook(written(tmp_path, ddi, "d.xml")).columns.values()
        assert isinstance(column, dpcov.Categorical) == (nature == "nominal")
    for kind, ordered in (("integer", True), ("integer", False), ("string", True)):
        values = [{"value": place if kind == "integer" else f"{place}"} for place in (1, 2, 3)]
        field = {"name": "q", "type": kind, "categories": values, "categoriesOrdered": ordered}
        text = json.dumps({"fields": [field]})
        (column,) = read_codebook(written(tmp_path, text, "t.json")).columns.values()
        is_scale = kind == "integer" and ordered
        scale = dpcov.Numeric(lower=1, upper=3)
        assert column == (scale if is_scale else dpcov.Categorical(categories=("1", "2", "3")))


def test_levels_are_called_differently_whatever_the_labels(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat", reason="needs dpcov[files]")
    labels = {1: "1", 2: "1", 3: "4", 4: "", 5: "five"}
    table = pd.DataFrame({"q": [1.0, 2.0, 3.0]})
    pyreadstat.write_sav(table, tmp_path / "t.sav", variable_value_labels={"q": labels})
    drafted = read_codebook(tmp_path / "t.sav")
    names = ["q=1 (1)", "q=1 (2)", "q=4 (3)", "q=4 (4)", "q=five"]
    assert [column.name for column in drafted.encoded_columns[1:-1]] == names


@pytest.mark.parametrize("length", [1, 8, 9, 255, 256, 600])
@pytest.mark.parametrize("factor", ["factor", "Gewichtungsfaktor für Westen"])
def test_the_column_by_which_spss_weights_rows_is_told(tmp_path, length, factor):
    pyreadstat = pytest.importorskip("pyreadstat", reason="needs dpcov[files]")
    path, factor = tmp_path / "t.sav", factor.replace(" ", "_")
    table = pd.DataFrame({"name": ["a" * length], "x": [1.0], factor: [2.0], "y": [3.0]})
    pyreadstat.write_sav(table, path)
    assert isinstance(describe(open_source(path)).schema.columns[factor], dpcov.Numeric)
    # Where the heading says so, in words of 8 bytes counted from 1.  A longer text is several, of
    # 255 bytes, which hold 252 of it.
    parts = [min(255, length)] if length < 256 else [255] * (length // 252) + [length % 252]
    word = sum(-(-part // 8) for part in parts) + 2
    content = bytearray(path.read_bytes())
    for place, note in ((word, "WEIGHT BY"), (0, ""), (1, ""), (9999, ""), (-1, "")):
        content[76:80] = place.to_bytes(4, "little", signed=True)
        path.write_bytes(content)
        for columns in (describe(open_source(path)).schema.columns, read_codebook(path).columns):
            assert isinstance(columns["x"], dpcov.Numeric)
            assert note in getattr(columns[factor], "note", "")
            assert isinstance(columns[factor], dpcov.Ignored) == bool(note)
