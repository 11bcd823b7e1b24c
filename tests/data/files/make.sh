#!/bin/sh
# Makes all files of this folder anew, in this folder; see README.md for versions.
set -e
cd "$(dirname "$0")"
export LC_ALL=C.UTF-8
Rscript make.R
xz -9e --force rows-small.sas7bdat rows-large.sas7bdat many-columns.sas7bdat
# A title and a blank line stand above the names, as in many sheets.
{ printf 'Survey 2026,,,,,,\n,,,,,,\n'; cat awkward.csv; } > titled.csv
office() { soffice --headless --norestore --convert-to "$1" --infilter="$2" --outdir . "$3"; }
utf8='Text - txt - csv (StarCalc):44,34,76,1'
office xlsx "$utf8" titled.csv
office ods "$utf8" awkward.csv
office xls "$utf8" awkward.csv
# Tabs, quotation marks and UTF-16 (65535), as Excel saves "Unicode text".
office 'txt:Text - txt - csv (StarCalc):9,34,65535,1' "$utf8" awkward.csv
mv awkward.txt utf16-tabs.txt
rm titled.csv
python make.py
