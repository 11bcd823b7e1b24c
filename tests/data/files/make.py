"""Writes the awkward table with pandas, openpyxl and pyreadstat.  Run by make.sh."""

import json
import zipfile
from pathlib import Path

import pandas as pd
import pyreadstat

table = pd.read_csv("awkward.csv", parse_dates=["born"], keep_default_na=False, na_values=[""])
described, read = pyreadstat.read_sav("awkward.sav", user_missing=True)
pyreadstat.write_sav(
    described,
    "awkward.zsav",
    compress=True,
    column_labels=read.column_names_to_labels,
    variable_value_labels=read.variable_value_labels,
    missing_ranges=read.missing_ranges,
    variable_format={"born": "DATE11"},
)
table.to_stata("pandas.dta", write_index=False, convert_dates={"born": "td"}, version=118)
with pd.ExcelWriter("two-sheets.xlsx") as book:
    pd.DataFrame({"note": ["not the table"]}).to_excel(book, sheet_name="Read me", index=False)
    table.to_excel(book, sheet_name="Daten", index=False)
dates = table.assign(born=table["born"].dt.strftime("%Y-%m-%d"))
dates.to_json("awkward.jsonl", orient="records", lines=True, force_ascii=False)
with zipfile.ZipFile("zipped.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.write("awkward.csv")
texts = pd.read_csv("awkward.csv", dtype=str, keep_default_na=False)
for ending in ("bz2", "xz"):
    texts.to_csv(f"awkward.csv.{ending}", index=False)
described = table.astype({"city": pd.CategoricalDtype(sorted(set(table["city"].dropna())))})
text = described[:0].set_index("id").to_json(orient="table", force_ascii=False)
Path("table-schema.json").write_text(json.dumps(json.loads(text)["schema"], indent=1) + "\n")
