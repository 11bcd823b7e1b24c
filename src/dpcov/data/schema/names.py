"""Guess from a column's name what it holds, to propose how to declare it.

Contract: names and the kinds of columns only, never a value.  A guess proposes; the custodian
decides.  Words are English, German, French and Spanish.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import msgspec

from dpcov.data.schema.declared import Boolean, Categorical, Date, Declared, Ignored, Numeric

# What is proposed, and why; the reason is written as a comment.
Proposal = tuple[Declared, str]

_ROW = "a row number, by its name"
_PERSONAL = "{what}, by its name: it says who a person is"
_TEXT = "free text, by its name"
_ZIP = "a postal code, by its name: never a number; to use it, declare categorical regions"
_WEIGHT = (
    'a survey weight, by its name: if it is one, say weights = {column = "...", upper = ...} at '
    "the top of the file, and make it numeric, from 0 to that public bound; the weight of a body "
    "is numeric, too"
)
_DESIGN = (
    "a stratum or sampling unit of a survey, by its name: its number means nothing; if it is a "
    "region, it is categorical; intervals take a public design_effect for the design"
)
_SEX = 'the categories are, for example, "female" and "male", or the codes of the codebook'
_DATE = "a date, by its {by}; bounds are years, for example 1900 and 2030, each from its first day"
_DIGITS = '; digits such as 20240131 need format = "%Y%m%d"'
_YEAR = "a year, by its name; bounds are, for example, 1900 and 2030"
_PERCENT = (
    "a percentage, by its name: if the codebook says so, bounds are 0 and 100; where 55 % is "
    "stored as 0.55, as workbooks do, they are 0 and 1"
)
_TRUTH = "true or false, by its name"
_CODE = "a code, by its name: list the codes as texts, or ignore it"
_OTHER = (
    'neither a number nor a text, or empty so far; a date has the type "date"; otherwise '
    "derive a number in the data to use it"
)
# What is proposed of a kind where the name says nothing.
BY_KIND: dict[str, Proposal] = {
    "number": (Numeric(), "numbers, by their type; codes such as 1 = yes are categorical"),
    "text": (Categorical(), "texts, by their type; names, addresses and free text are ignored"),
    "boolean": (Boolean(), "true or false, by its type"),
    "date": (Date(), _DATE.format(by="type")),
    "other": (Ignored(note=_OTHER), ""),
}
# Columns of like names from which they get one entry.
_LEAST_GROUP = 3
_GROUP = "{count} columns of like names: one entry for all that fit the pattern"


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_IDS = _words("""id ids uuid guid ssn nhs nino mrn pid key kennung kennziffer identifiant
identifiante identificador identifier seqn matricule dni nif curp rfc iban passport reisepass
pid pidp hid hidp hhid persid""")
_PEOPLE = _words("""name names firstname lastname surname forename fullname username nachname
vorname familienname nom prenom nombre nombres apellido apellidos email mail emails correo courriel
phone telephone telefon telefono tel handy fax address adresse anschrift strasse rue calle direccion
street domicile domicilio url website signature initials""")
# Texts of these names alone, and numbers of none: an inpatient is IP in numbers.
_PARTS_OF_NAMES, _ADDRESS = _words("first middle last"), "ip"
_FREE = _words("""note notes comment comments description remark remarks memo freetext bemerkung
bemerkungen kommentar kommentare notiz beschreibung remarque remarques commentaire commentaires nota
notas comentario comentarios observacion observaciones descripcion""")
_SEXES = _words("sex gender geschlecht sexe genre sexo genero")
_ZIPS = _words("zip zipcode postcode postalcode plz postleitzahl codepostal codigopostal cp")
_WEIGHTS = _words("""wt wgt wts pweight fweight aweight iweight pwgt fnlwgt weight weights
gewichtung gewichtungsfaktor hochrechnung hochrechnungsfaktor hochr phrf hhrf poids""")
# Those of NHANES, IPUMS and the General Social Survey, and whatever ends so.
_WEIGHTED = re.compile(r"\w+wgt|wt[a-z]{2,3}[24]yr|(per|hh|asec|final)wt|wtss\w*|wtfinl|wtsupp")
_DESIGNS = re.compile(r"v?(psu|stra(t|ta|tum))|sdmv(psu|stra)")
_DATES = _words("""date datetime dob birthdate birthday datum geburtsdatum geburtstag naissance
fecha nacimiento""")
# Weights of bodies, beside whose words a survey's have none: birth_weight, babywgt.
_OF_A_BODY = re.compile(r".*(birth|newborn|infant|baby|body|fetal)(wt|wgt|weight)s?")
# Written as one word, or short: deathdate, Aufnahmedatum, birth_dt.
_DATED = re.compile(r"(?!(se|liqui|consoli)date$)\w+(?<!candi)(?<!man)(?<!vali)(date(time)?|datum)")
_YEARS = _words("year yr jahr baujahr annee ano anio yob")
_PERCENTS = _words("pct percent percentage perc prozent pourcentage porcentaje")
_CODES = _words("code codes cd codigo kode schluessel")
_YES_NO = _words("is has had was ist hat est tiene es")
# Beside which a number or code is one of a person.
_OWNERS = _words("""patient pat person case record account card insurance member subject subj usubj
participant user customer client student employee respondent""")
_NUMBERS = _words("no nr num number nummer numero")

# German has one word for it; INR is a laboratory value.
_NUMBERED = re.compile(
    r"\w+nummer|(fall|pat|patienten|versicherten|kunden|mitglieds|akten|pers|personen|personal|hh"
    r"|haushalts|konto|vertrags|steuer|haus|tel)nr"
)
# Words of a description that is one more name, and no sentence.
_NAME_WORDS = 3
# Words of a name that is no question of a form.
_MOST_WORDS = 8
# What pandas, pyarrow and R call row numbers that they write among the columns.
_ROW_NUMBERS = re.compile(r"unnamed\d+|indexlevel\d+|row(id|names?|num|number)|(lfd)?nr|obs")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def propose(name: str, kind: str) -> Proposal:
    """Propose a declaration for a column of this name and kind."""
    words, (usual, why) = words_of(name), BY_KIND[kind]
    if len(words) > _MOST_WORDS:
        return usual, why
    joined = "".join(words)
    every, last = {joined, *words}, {joined, *words[-1:]}
    if _ROW_NUMBERS.fullmatch(joined):
        return Ignored(note=_ROW), ""
    if every & _ZIPS or {"code", "postal"} <= every or {"codigo", "postal"} <= every:
        return Ignored(note=_ZIP), ""
    if _is_identifier(words, joined):
        return Ignored(note=_PERSONAL.format(what="an identifier")), ""
    names = joined.endswith("name") or joined in _PARTS_OF_NAMES or _ADDRESS in every
    if kind != "boolean" and (every & _PEOPLE or (kind == "text" and names)):
        return Ignored(note=_PERSONAL.format(what="a name or an address")), ""
    # In German and Spanish the same words are grades, which are numbers.
    if kind in ("text", "other") and every & _FREE:
        return Ignored(note=_TEXT), ""
    if every & _SEXES:
        return Categorical(), _SEX
    if kind in ("boolean", "date"):
        return usual, why
    if len(words) > 1 and words[0] in _YES_NO:
        return Boolean(), _TRUTH
    weighs = kind == "number" and (last & _WEIGHTS or _WEIGHTED.fullmatch(joined))
    if weighs and not _OF_A_BODY.fullmatch(joined):
        return Ignored(note=_WEIGHT), ""
    if kind == "number" and _DESIGNS.fullmatch(joined):
        return Ignored(note=_DESIGN), ""
    if (every if kind != "number" else last) & _DATES or _ends_in_a_date(words, last):
        return Date(), _DATE.format(by="name") + _DIGITS * (kind == "number")
    if kind == "number" and last & _CODES:
        return Categorical(), _CODE
    # Within a name it is a length of time: two_year_survival, full_time_year_round.
    if kind == "number" and {joined, *words[:1], *words[-1:]} & _YEARS:
        return usual, _YEAR
    if kind == "number" and (every & _PERCENTS or "%" in name):
        return usual, _PERCENT
    return usual, why


def propose_described(name: str, kind: str, description: str) -> Proposal:
    """Propose by a short description, where the name says nothing."""
    found = propose(name, kind)
    if found != BY_KIND[kind] or not 0 < len(words_of(description)) <= _NAME_WORDS:
        return found
    declared, why = propose(description, kind)
    if isinstance(declared, Ignored):
        declared = msgspec.structs.replace(declared, note=_by_description(declared.note))
    return declared, _by_description(why)


def _by_description(why: str) -> str:
    return why.replace("by its name", "by its description")


def _is_identifier(words: list[str], joined: str) -> bool:
    first_or_last = {joined, *words[:1], *words[-1:]}
    owned = not _OWNERS.isdisjoint(words) and bool(_NUMBERS & set(words[-1:]))
    return (
        owned
        or _NUMBERED.fullmatch(joined) is not None
        or not first_or_last.isdisjoint(_IDS)
        or (joined.removesuffix("id") in _OWNERS and joined.endswith("id"))
    )


def _ends_in_a_date(words: list[str], last: set[str]) -> bool:
    return any(map(_DATED.fullmatch, last)) or (len(words) > 1 and words[-1] == "dt")


def words_of(name: str) -> list[str]:
    """The words of a name in small letters without accents: ``birthDate_2`` has three."""
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss"))
    letters = "".join(each for each in plain if not unicodedata.combining(each))
    return [word.lower() for word in _WORD.findall(letters)]


def grouped(proposals: Mapping[str, Proposal]) -> dict[str, Proposal]:
    """Propose one pattern for columns that differ in a number only and are declared alike."""
    stems: dict[tuple[str, type, str], list[str]] = {}
    for name, (declared, why) in proposals.items():
        stem = re.sub(r"\d+$", "", name)
        if stem != name and not isinstance(declared, Ignored):
            stems.setdefault((stem, type(declared), why), []).append(name)
    pattern_of: dict[str, str] = {}
    for (stem, *_), names in stems.items():
        fitting = (stem + tail for tail in ("*", "[0-9]*") if not set("*?[") & set(stem))
        pattern = next((each for each in fitting if _only(each, names, proposals)), None)
        if pattern is not None and len(names) >= _LEAST_GROUP:
            pattern_of |= dict.fromkeys(names, pattern)
    counts = Counter(pattern_of.values())
    found: dict[str, Proposal] = {}
    for name, (declared, why) in proposals.items():
        entry = pattern_of.get(name, name)
        if entry in counts:
            told = _GROUP.format(count=counts[entry])
            why = f"{told}; {why}" if why else told
        found.setdefault(entry, (declared, why))
    return found


def _only(pattern: str, names: Iterable[str], every: Iterable[str]) -> bool:
    return pattern.strip("*") != "" and {x for x in every if fnmatchcase(x, pattern)} == set(names)
