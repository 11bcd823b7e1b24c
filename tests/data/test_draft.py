"""What a draft proposes follows from names and types, and it says why."""

import gzip
from datetime import date, time
from io import BytesIO

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import dpcov
from dpcov import Schema
from dpcov.data.layout import FileLayout
from dpcov.data.schema.declared import Boolean, Categorical, Date, Ignored, Numeric
from dpcov.data.schema.draft import describe
from dpcov.data.schema.names import BY_KIND, propose, propose_described, words_of
from dpcov.data.sources import open_source
from dpcov.data.sources.delimited import from_stream
from dpcov.errors import ReleaseError, SchemaError, UsageError
from tests.data.reading import read_encoded

IGNORED = [
    *("id", "ID", "patient_id", "patientId", "userid", "case_no", "uuid", "ssn"),
    *("Patient_Number", "email", "phone", "name", "first_name", "Nachname", "vorname", "prénom"),
    *("apellidos", "Adresse", "dirección", "street", "zip", "zip_code", "PLZ", "postleitzahl"),
    *("Fallnummer", "Patientennr", "Versichertennummer", "FallNr", "persnr", "hhnr", "PatNr"),
    *("pid", "hid", "pidp", "hhid", "code_postal", "codigo_postal", "telefono", "Telefon"),
    *("PATID", "SUBJID", "USUBJID", "SEQN", "Nr", "Lfd. Nr.", "Obs", "obs."),
    *("Unnamed: 0", "__index_level_0__", "rownames", "row.names", "RowNumber", "rowid"),
]
FREE = ["note", "comments", "description", "Bemerkung", "commentaire", "observaciones", "free_text"]
SEXES = ["sex", "gender", "Geschlecht", "sexe", "sexo", "SEX"]
DATES = [
    *("date", "birth_date", "dob", "admission_date", "Geburtsdatum", "fecha_nacimiento"),
    *("date_naissance", "sample_datetime", "pickupdatetime"),
    *("BENE_BIRTH_DT", "issue_dt", "deathdate", "OPENDATE", "Aufnahmedatum", "created_datetime"),
]
TRUTHS = ["is_ill", "has_children", "IsMarried", "ist_krank"]
WEIGHTS = ["weight", "pweight", "PWGT", "sample_wt", "fnlwgt", "gewichtung", "poids"]
WEIGHTS += ["housewgt", "FINALWGT", "WTMEC2YR", "wtint2yr", "PERWT", "hhwt", "wtssall", "WTFINL"]
WEIGHTS += ["hochr", "Hochrechnungsfaktor", "Gewichtungsfaktor", "phrf"]
HINTS = {
    "year": "1900",
    "Baujahr": "1900",
    "yr_built": "1900",
    "birth_year": "1900",
    "pctUrban": "0 and 100",
    "share_percent": "0 and 100",
    "Prozent": "0 and 100",
}
PLAIN = [
    *("age", "income", "covid_tests", "acid", "paid", "valid", "weight_kg", "mobile_use"),
    *("state_tax", "kids", "width", "days", "grid", "humidity", "filename_length"),
    *("INR", "inr_value", "Nummer_der_Welle"),
    *("candidate", "Mandate", "birthwt", "lwt", "dt", "wt_loss_2yr", "MEDREIMB_IP", "ip_days"),
    *("birth_weight", "babywgt", "mother_body_weight", "fetalweight", "sedate", "liquidate"),
    *("yearly_visits_rate", "updates", "candidates", "rows", "row_width", "observed", "obs_days"),
]


@pytest.mark.parametrize("kind", ["number", "text"])
@pytest.mark.parametrize("name", [*IGNORED, *FREE])
def test_who_a_person_is_and_free_text_are_ignored(name, kind):
    declared, _ = propose(name, kind)
    if name in FREE and kind == "number":
        assert declared == Numeric()  # Spanish and German grades are called so
    else:
        assert isinstance(declared, Ignored) and declared.note


@pytest.mark.parametrize(
    ("names", "kinds", "expected", "words"),
    [
        (SEXES, ("number", "text"), Categorical(), "female"),
        (DATES, ("text",), Date(), "a date, by its name"),
        (TRUTHS, ("number", "text"), Boolean(), "true or false"),
    ],
)
def test_names_say_more_than_types(names, kinds, expected, words):
    for name in names:
        for kind in kinds:
            declared, why = propose(name, kind)
            assert declared == expected and words in why, (name, kind)


def test_a_date_in_digits_is_told_its_format():
    for name in DATES:
        assert '20240131 need format = "%Y%m%d"' in propose(name, "number")[1], name
        assert "format" not in propose(name, "text")[1]


def test_weights_of_surveys_are_noticed():
    for name in WEIGHTS:
        declared, _ = propose(name, "number")
        words = "say weights = {column = "
        assert isinstance(declared, Ignored) and words in declared.note, name


@pytest.mark.parametrize("name", ["VSTRAT", "VPSU", "SDMVPSU", "sdmvstra", "psu", "strata"])
def test_strata_and_sampling_units_are_no_numbers(name):
    declared, _ = propose(name, "number")
    assert isinstance(declared, Ignored) and "sampling unit of a survey" in declared.note
    assert propose(name, "text") == BY_KIND["text"]


@pytest.mark.parametrize("name", ["strategy", "pressure", "demonstrated", "orchestra"])
def test_words_with_the_same_letters_are_no_strata(name):
    assert propose(name, "number") == BY_KIND["number"]


def test_codes_are_noticed():
    for name in ("icd_code", "BENE_RACE_CD", "cd"):
        declared, why = propose(name, "number")
        assert declared == Categorical() and "a code, by its name" in why, name


@pytest.mark.parametrize("name", ["ip", "client_ip", "IP"])
def test_an_address_of_a_computer_is_a_text(name):
    assert isinstance(propose(name, "text")[0], Ignored)
    assert propose(name, "number")[0] == Numeric()


@pytest.mark.parametrize("name", ["two_year_recid", "Full_time_year_round", "% of one year olds"])
def test_a_length_of_time_is_no_year(name):
    assert "a year" not in propose(name, "number")[1]


@pytest.mark.parametrize("name", ["first", "Last", "middle"])
def test_texts_called_first_and_last_are_names(name):
    assert isinstance(propose(name, "text")[0], Ignored)
    assert propose(name, "number")[0] == Numeric()
    assert propose(f"{name}_visit", "text")[0] == Categorical()


def test_public_bounds_are_proposed_as_comments_only():
    for name, words in HINTS.items():
        declared, why = propose(name, "number")
        assert declared == Numeric() and words in why, name


def test_other_names_keep_their_types():
    for name in PLAIN:
        assert propose(name, "number")[0] == Numeric(), name
        assert propose(name, "boolean")[0] == Boolean(), name


@pytest.mark.parametrize(
    ("kind", "description", "note"),
    [
        ("text", "Bemerkungen", "free text, by its description"),
        ("number", "Gewichtungsfaktor", "a survey weight, by its description"),
        ("text", "Name des Hausarztes", "a name or an address, by its description"),
        ("number", "Patientennummer", "an identifier, by its description"),
    ],
)
def test_a_short_description_says_what_a_name_does_not(kind, description, note):
    declared, _ = propose_described("v17", kind, description)
    assert isinstance(declared, Ignored) and declared.note.startswith(note)
    # A name that says something has the first word, and a sentence has none.
    assert propose_described("sex", kind, description) == propose("sex", kind)
    sentence = f"What we know of {description} here"
    assert propose_described("v17", kind, sentence) == propose("v17", kind)


@pytest.mark.parametrize("kind", ["number", "text", "boolean"])
def test_of_a_name_that_is_a_question_only_the_type_counts(kind):
    questions = (
        "R3. Utilities (phone, internet, gas, electric, water, sewer)",
        "As a result of the pandemic, did the date change?",
        "Yearly costs of what you pay by code or number",
        "Selecting yes means that nobody will see your name",
    )
    for question in questions:
        assert propose(question, kind) == BY_KIND[kind], question
    assert isinstance(propose("What is your full name, please?", kind)[0], Ignored | Boolean)


def test_names_are_split_into_words():
    assert words_of("birthDate_2") == ["birth", "date", "2"]
    assert words_of("Größe-IDNr PLZ") == ["grosse", "id", "nr", "plz"]


def test_columns_of_like_names_become_one_pattern():
    names = ["PAY_1", "PAY_2", "PAY_3", *(f"PAY_AMT{n}" for n in range(1, 7)), "Q1", "Q2", "x9"]
    source = open_source(pd.DataFrame({name: [1.5] for name in names}))
    drafted = describe(source).schema
    assert list(drafted.columns) == ["PAY_[0-9]*", "PAY_AMT*", "Q1", "Q2", "x9"]
    assert set(drafted.resolve(names).columns) == set(names)
    assert "# 6 columns of like names" in describe(source).dumps()
    mixed = open_source(pd.DataFrame({"Q1": [1.5], "Q2": ["x"], "Q3": [1.5], "Q4": [True]}))
    assert list(describe(mixed).schema.columns) == ["Q1", "Q2", "Q3", "Q4"]
    array = open_source([[1.0, 2.0, 3.0, 4.0]])
    assert list(describe(array).schema.resolve(array.columns).columns) == ["x0", "x1", "x2", "x3"]
    odd = open_source(pa.table({name: [1.5] for name in ("a[1]", "b?1", "b?2", "b?3")}))
    assert not describe(odd).schema.patterns
    assert list(describe(odd).schema.columns) == ["a[1]", "b?1", "b?2", "b?3"]


def test_every_column_says_why_and_no_value_is_told(tmp_path):
    (tmp_path / "a.csv").write_text(
        "id,age,zip,sex,visit_date,pct_fat,remarks,ward,,empty\n"
        "SENTINEL_7391,73911937.25,7391,F,2020-07-31,7391,SENTINEL,SENTINEL,1,\n"
    )
    drafted = describe(open_source(tmp_path / "a.csv"))
    text, columns = drafted.dumps(), drafted.schema.columns
    assert text.startswith("# A draft.")
    assert not any(value in text for value in ("SENTINEL", "7391", "2020-07", '"F"', "nan,"))
    parts = text.split("\n\n")[2:]
    assert len(parts) == 10
    assert all(part.startswith("# ") or "note = " in part for part in parts)
    assert Schema.loads(text) == drafted.schema
    # A column without a name, such as that of an index, and one without values.
    assert isinstance(columns[""], Ignored) and isinstance(columns["empty"], Ignored)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_columns_that_begin_with_empty_cells_have_the_type_of_later_ones(tmp_path, ending):
    rows = ["name,sight,flag,void", *["x" * 99 + ",,,"] * 15_000, "y,1.5,U,", "z,2,N,"]
    table = "\n".join(rows) + "\n"
    opened = gzip.open if ending.endswith("gz") else open
    with opened(tmp_path / f"a{ending}", "wt") as file:
        file.write(table)
    kinds = {"name": "text", "sight": "number", "flag": "text", "void": "other"}
    assert open_source(tmp_path / f"a{ending}").kinds() == kinds
    # A stream is read once, and keeps its first rows only.
    assert from_stream(BytesIO(table.encode()), "-").kinds()["sight"] == "other"


def test_decimal_commas_are_numbers_once_they_are_declared(tmp_path):
    path = tmp_path / "west.csv"
    path.write_text("bmi;ward\n21,3;north\n29,1;south\n")
    source = open_source(path, FileLayout(delimiter=";"))
    assert type(describe(source).schema.columns["bmi"]) is Categorical
    drafted = describe(source, decimal=",").schema
    assert type(drafted.columns["bmi"]) is Numeric and drafted.decimal == ","
    assert type(drafted.columns["ward"]) is Categorical
    with pytest.raises(UsageError, match="decimal mark"):
        describe(source, decimal=";")


def test_dates_are_drafted_as_dates_by_their_type(tmp_path):
    days = [date(2020, 1, 31), None, date(2021, 12, 1)]
    types = {"day": pa.date32(), "long": pa.date64(), "moment": pa.timestamp("us")}
    types |= {"there": pa.timestamp("ns", tz="UTC")}
    table = pa.table({name: pa.array(days).cast(kind) for name, kind in types.items()})
    hours = pa.array([time(1), None, time(2)], pa.time32("s"))
    pa.parquet.write_table(table.append_column("hour", hours), tmp_path / "x.parquet")
    pa.csv.write_csv(table, tmp_path / "x.csv")
    objects = pd.DataFrame({"cells": pd.Series(days, dtype=object)})
    for given in (tmp_path / "x.parquet", tmp_path / "x.csv", table.to_pandas(), objects):
        made = describe(open_source(given)).schema.columns
        assert isinstance(made.pop("hour", Ignored()), Ignored)
        assert made and set(made.values()) == {Date()}
        columns = {name: Date(lower=2020, upper=2030) for name in made}
        schema = Schema(columns=columns, missing="center", intercept=False)
        (encoded,) = read_encoded(open_source(given), schema, 9)
        assert (encoded[0] < 0).all() and not encoded[1].any()
    assert "by its type; bounds are years" in describe(open_source(table)).comments["day"]


def test_a_draft_says_that_a_person_may_have_several_rows(tmp_path):
    (tmp_path / "visits.csv").write_text("patient_id,visit,age\n1,1,40\n1,2,41\n")
    before = describe(open_source(tmp_path / "visits.csv")).dumps().split("rows_per_person = 1")[0]
    assert "several rows" in before and "rows_per_person is the largest" in before


def test_a_data_frame_is_drafted_in_python_and_filled_in(tmp_path):
    frame = pd.DataFrame({"age": [31.5, 64.0], "sex": ["f", "m"], "is_ill": [True, False]})
    file = tmp_path / "users.toml"
    text = dpcov.draft(frame, file)
    assert file.read_text() == text == describe(open_source(frame)).dumps()
    assert not any(cell in text for cell in ("31.5", "64.0", '"f"', '"m"'))
    with pytest.raises(SchemaError):
        dpcov.Schema.from_toml(file, complete=True)
    with pytest.raises(ReleaseError, match="exists already"):
        dpcov.draft(frame, file)
    filled = text.replace("lower = nan", "lower = 0").replace("upper = nan", "upper = 120")
    file.write_text(filled.replace("categories = []", 'categories = ["f", "m"]'))
    assert dpcov.Schema.from_toml(file, complete=True).features.keys() == {"age", "sex", "is_ill"}


def test_a_draft_never_takes_the_place_of_the_table(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("age\n1\n")
    with pytest.raises(UsageError, match="would be lost"):
        dpcov.draft(table, table, overwrite=True)
    assert table.read_text() == "age\n1\n"
