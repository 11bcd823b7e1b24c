import hashlib
import io
import json
import stat
import zipfile
from dataclasses import replace

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpcov
from dpcov.errors import ReleaseError
from dpcov.published.file.archive import MANIFEST_NAME, encode_manifest
from dpcov.published.file.manifest import Manifest
from dpcov.published.release import Release
from dpcov.published.words.summary import told_by_doctor
from tests.fuzz.mutate import unzipped, zipped
from tests.releases import released, released_of

SCHEMA = dpcov.Schema(
    columns={
        "age": dpcov.Numeric(lower=0, upper=100),
        "sex": dpcov.Categorical(categories=("F", "M")),
        "ill": dpcov.Boolean(),
    },
    title="patients",
    missing="never",
)
UNIT = {"x": dpcov.Numeric(lower=-1, upper=1)}
EXECUTED = []


def table(n_rows=200):
    random = np.random.default_rng(1)
    return pa.table(
        {
            "age": random.uniform(20, 90, n_rows),
            "sex": random.choice(["F", "M"], n_rows),
            "ill": random.choice([True, False], n_rows),
        }
    )


TERMS = {"schema": SCHEMA, "budget": dpcov.Budget(rho="0.5"), "mechanism": "gaussian"}


@pytest.fixture(scope="module", params=["replace-one", "add-remove-one"])
def made(request):
    return dpcov.release(table(), neighbors=request.param, **TERMS)


@pytest.fixture
def saved(made, tmp_path):
    path = tmp_path / "made.dpcov"
    made.save(path)
    return path


def write(path, members, comment=None, **options):
    """Write a release file by hand, with a comment that fits its manifest unless it is given."""
    digest = hashlib.sha256(dict(members).get(MANIFEST_NAME, b"")).hexdigest()
    comment = f"dpcov-release-1 sha256:{digest}" if comment is None else comment
    path.write_bytes(zipped(members, comment.encode(), **options))
    return path


def with_manifest(made, tmp_path, change):
    """Save a release whose manifest text was changed by somebody who knows the format."""
    members = dict(unzipped(made.to_bytes()))
    record = json.loads(members[MANIFEST_NAME])
    change(record)
    members[MANIFEST_NAME] = json.dumps(record).encode()
    return write(tmp_path / "changed.dpcov", list(members.items()))


def refused(path, match="."):
    with pytest.raises(ReleaseError, match=match) as caught:
        Release.load(path)
    assert "\n" not in str(caught.value)
    return caught


def test_round_trip_is_equal(made, saved):
    loaded = dpcov.load(saved)
    assert loaded == made
    assert hash(loaded) == hash(made)
    assert loaded.manifest == made.manifest
    assert loaded.guarantee == made.guarantee
    assert loaded.fingerprint == made.fingerprint
    assert loaded.to_bytes() == made.to_bytes() == saved.read_bytes()
    for name, array in made.statistics.arrays.items():
        np.testing.assert_array_equal(loaded.statistics.arrays[name], array)
        assert loaded.statistics.arrays[name].dtype == array.dtype
        assert not loaded.statistics.arrays[name].flags.writeable and not array.flags.writeable
    np.testing.assert_array_equal(loaded.covariance(), made.covariance())
    other = dpcov.release(table(), neighbors=made.guarantee.neighbors, **TERMS)
    assert other != made
    assert other.fingerprint != made.fingerprint
    assert made.is_private
    assert not dpcov.release(table(), entropy=dpcov.SeededEntropy(1), **TERMS).is_private


def test_numpy_and_zipfile_open_it_without_dpcov(made, saved):
    with zipfile.ZipFile(saved) as archive:
        assert archive.testzip() is None
        record = json.loads(archive.read(MANIFEST_NAME))
        matrix = np.load(io.BytesIO(archive.read("sscp.npy")), allow_pickle=False)
    np.testing.assert_array_equal(matrix, made.statistics.arrays["sscp"])
    with np.load(saved, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["sscp"], matrix)
    promise = {"kind": "zcdp", "epsilon": None, "delta": None, "rho": "1/2"}
    assert record["guarantee"]["promise"] == promise
    assert record["title"] == "patients"


def content_places(content):
    """Where the bytes of the members stand."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
    starts = [(info.header_offset + 30 + len(info.filename), info.file_size) for info in infos]
    return {place for start, size in starts for place in range(start, start + size)}


def test_any_altered_bit_is_refused_or_means_the_same(made, tmp_path):
    content, path = made.to_bytes(), tmp_path / "altered.dpcov"
    random, inside = np.random.default_rng(0), content_places(content)
    sampled = random.choice(sorted(inside), 300).tolist()
    for place in {*sampled, *(set(range(len(content))) - inside)}:
        altered = bytearray(content)
        altered[place] ^= 1 << int(random.integers(8))
        path.write_bytes(altered)
        try:
            loaded = Release.load(path)
        except ReleaseError:
            continue
        assert place not in inside
        assert loaded == made
        for name, array in made.statistics.arrays.items():
            np.testing.assert_array_equal(loaded.statistics.arrays[name], array)


def test_every_truncation_is_refused(made, tmp_path):
    content, path = made.to_bytes(), tmp_path / "cut.dpcov"
    ends = range(len(content) - 120, len(content))
    for length in {0, 1, 21, 22, *range(0, len(content), 97), *ends}:
        path.write_bytes(content[:length])
        refused(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_other_members_than_those_of_the_manifest_are_refused(made, tmp_path):
    members = unzipped(made.to_bytes())
    extra = [[*members, (name, b"x")] for name in ("extra.npy", "extra.txt", "../outside.npy")]
    bare = [member for member in members if member[0] != MANIFEST_NAME]
    for wrong in (*extra, [*members, members[0]], members[1:], bare):
        refused(write(tmp_path / "wrong.dpcov", wrong), "members")
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.dpcov"]


def test_a_compressed_bomb_is_refused_before_it_grows(made, tmp_path):
    bomb = dict(unzipped(made.to_bytes())) | {"sscp.npy": bytes(10**8)}
    path = write(tmp_path / "bomb.dpcov", bomb.items(), compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**6
    refused(path, "repacked")


def huge_header(shape):
    buffer = io.BytesIO()
    header = {"descr": "<i8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue()


def with_array(made, tmp_path, content, shape):
    """Replace the matrix by a .npy file and fit every checksum to it."""
    members = dict(unzipped(made.to_bytes()))
    record = json.loads(members[MANIFEST_NAME])
    record["members"]["sscp"] |= {"sha256": hashlib.sha256(content).hexdigest(), "shape": shape}
    members |= {"sscp.npy": content, MANIFEST_NAME: json.dumps(record).encode()}
    return write(tmp_path / "array.dpcov", list(members.items()))


@pytest.mark.parametrize("shape", [[10**6, 10**6], [2**63, 2], [-4, -4], [0], [], [4] * 40])
def test_an_array_that_declares_another_size_is_refused(made, tmp_path, shape):
    refused(with_array(made, tmp_path, huge_header(tuple(shape)) + bytes(200), shape))
    refused(with_array(made, tmp_path, huge_header((10**9, 10**9)) + bytes(200), [5, 5]))


class Payload:
    def __reduce__(self):
        return EXECUTED.append, ("executed",)


def test_pickles_are_refused_and_not_executed(made, tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Payload()], dtype=object), allow_pickle=True)
    refused(with_array(made, tmp_path, buffer.getvalue(), [5, 5]))
    refused(with_array(made, tmp_path, buffer.getvalue(), [1]))
    assert EXECUTED == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 300,
        b"\x93NUMPY\x03\x00" + b"\xff" * 300,
    ],
)
def test_broken_array_files_are_refused(made, tmp_path, content):
    refused(with_array(made, tmp_path, content.ljust(328, b" "), [5, 5]))


GONE = object()
CHANGES = {
    # Where in the manifest, and what is put there; norm bounds have fourth powers, other than zero.
    "surprise": (1,),
    "columns.0.surprise": (1,),
    "statistics.noise.surprise": (1,),
    "warnings": (GONE,),
    "format": (GONE, "other"),
    "version": (2, GONE),
    "columns": ([],),
    "columns.0": (GONE,),
    "norm_bound": ("2", -1.0, 1e999, 1e80, 1e-80),
    "columns.1.half_range": (1e160,),
    "columns.1.upper": (1e308,),
    "n_rows": (0, 10**30),
    "guarantee.rows_per_person": (0,),
    "statistics.noise": (None,),
    "statistics.noise.diagonal_variance": ("many", "9" * 5000, "0"),
    "statistics.noise.off_diagonal_variance": ("0",),
    "statistics.noise.row_count_variance": ("nan", "inf", "-1", "many"),
    "statistics.lattice_bits": (10**6,),
    "statistics.dropped_bits": (10**6,),
    "statistics.radius": (0.0, 1e150),
    "guarantee.promise.rho": (None, "0", "1e999999999", "1/0", "-1"),
    "members.sscp.dtype": ("<f8",),
    "members.sscp.shape": ([25],),
}


@pytest.mark.parametrize("place", CHANGES)
@pytest.mark.timeout(60)
def test_a_manifest_that_does_not_fit_is_refused(made, tmp_path, place):
    steps = [int(step) if step.isdigit() else step for step in place.split(".")]
    for value in CHANGES[place]:

        def change(record, value=value):
            for step in steps[:-1]:
                record = record[step]
            if value is GONE:
                del record[steps[-1]]
            else:
                record[steps[-1]] = value

        refused(with_manifest(made, tmp_path, change), "upgrade" if place == "version" else ".")
    # Another layout of the same is equal.
    assert Release.load(with_manifest(made, tmp_path, lambda record: None)) == made


@pytest.mark.parametrize(
    "text", [b"[" * 10**5, b'{"columns":' + b"[" * 10**5, b"", b"null", b"{}", b"\xff\xfe"]
)
def test_a_manifest_that_is_no_record_is_refused(made, tmp_path, text):
    members = dict(unzipped(made.to_bytes())) | {MANIFEST_NAME: text}
    refused(write(tmp_path / "nested.dpcov", members.items()))


def test_a_manifest_that_its_comment_does_not_name_is_refused(made, tmp_path):
    members = dict(unzipped(made.to_bytes()))
    for comment in ("", "dpcov-release-1 sha256:" + "0" * 64):
        refused(write(tmp_path / "comment.dpcov", members.items(), comment=comment), "altered")
    members["sscp.npy"] = members["sscp.npy"][:-1] + b"x"
    refused(write(tmp_path / "changed.dpcov", members.items()), "altered")


def test_arrays_that_do_not_fit_are_refused(made):
    def refuse(**changed):
        arrays = {**made.statistics.arrays, **changed}
        known = {name: array for name, array in arrays.items() if array is not None}
        with pytest.raises(ReleaseError, match="contradict"):
            Release(made.manifest, known)

    asymmetric = made.statistics.arrays["sscp"] + np.triu(np.ones((5, 5), dtype=np.int64), 1)
    refuse(sscp=asymmetric)
    refuse(sscp=made.statistics.arrays["sscp"].astype(float))
    refuse(trace=np.zeros(2, dtype=np.int64))
    refuse(row_count=np.zeros(3, dtype=np.int64))
    if made.manifest.n_rows is None:
        refuse(row_count=None)


def test_strata_whose_places_do_not_fit_are_refused():
    made = dpcov.release(table(), **TERMS | {"mechanism": "stratified"})
    first, last = (made.statistics.arrays[f"{name}_shell"] for name in ("first", "last"))
    wrong = {"first_shell": (-first - 1, last + 1), "last_shell": (first + 99,), "trace": (first,)}
    for name, choices in wrong.items():
        for choice in choices:
            with pytest.raises(ReleaseError, match="contradict"):
                Release(made.manifest, {**made.statistics.arrays, name: choice})


def test_files_that_are_no_releases_are_refused(tmp_path):
    refused(tmp_path / "absent.dpcov", "no file")
    refused(tmp_path, "Cannot open")
    for name, content in {"text": b"hello", "empty": b"", "zip": b"PK\x05\x06" + bytes(18)}.items():
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name)


def test_saving_keeps_an_existing_file_unless_told_otherwise(made, saved):
    before = saved.read_bytes()
    with pytest.raises(ReleaseError, match="exists already"):
        made.save(saved)
    assert saved.read_bytes() == before
    saved.write_bytes(b"old")
    made.save(saved, overwrite=True)
    assert saved.read_bytes() == before
    assert stat.S_IMODE(saved.stat().st_mode) == 0o644


def in_one_order(schema):
    """The schema as every version of msgspec and Python writes it."""
    if isinstance(schema, dict):
        return {name: in_one_order(value) for name, value in schema.items()}
    if isinstance(schema, list):
        return sorted(map(in_one_order, schema), key=json.dumps)
    return " ".join(schema.split()) if isinstance(schema, str) else schema


def test_the_published_json_schema_is_current(request):
    published = request.config.rootpath / "docs" / "release-manifest.schema.json"
    current = json.dumps(msgspec.json.schema(Manifest), indent=2)
    kept, made = (in_one_order(json.loads(text)) for text in (published.read_bytes(), current))
    assert kept == made, f"write to this file: {current}"


def test_fields_that_came_later_are_written_where_they_say_something(tmp_path):
    """So that files from before read the same, to the byte."""
    rows = pa.table({"x": np.random.default_rng(0).normal(size=5_000)})
    schema = dpcov.Schema(columns={"x": dpcov.Numeric(lower=-50, upper=50)})
    written = {}
    for geometry in ("schema", "private"):
        made = dpcov.release(rows, schema=schema, budget=dpcov.Budget(rho=1), geometry=geometry)
        made.save(tmp_path / geometry)
        assert dpcov.load(tmp_path / geometry).to_bytes() == made.to_bytes()
        written[geometry] = encode_manifest(made.manifest)
    assert b'"upper": 50' in written["private"]
    later = ("lost", "lower", "upper", "disjoint", "combined", "pooled", "also_spent")
    assert not any(f'"{name}"'.encode() in written["schema"] for name in later)


def test_members_that_share_their_bytes_are_refused(tmp_path):
    """A small file would become as large as it says that its members are."""
    table = pa.table({"x": np.linspace(-1, 1, 50)})
    released_of(UNIT, table, rho=1, output=tmp_path / "a.dpcov")
    with zipfile.ZipFile(tmp_path / "a.dpcov", "a") as archive:
        first = archive.infolist()[-1]
        for place in range(100):
            # The same bytes under another name: only the list of members grows.
            again = zipfile.ZipInfo(f"m{place}.npy")
            again.header_offset, again.CRC = first.header_offset, first.CRC
            again.file_size = again.compress_size = first.file_size
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again
        archive._didModify = True
    refused(tmp_path / "a.dpcov", "repacked")


def test_names_in_a_summary_take_one_line():
    name = "x\nGuarantee  none"
    made = released_of({name: UNIT["x"]}, pa.table({name: np.linspace(-1, 1, 50)}), title=name)
    told = made.summary() + str(told_by_doctor(made.diagnose()))
    assert not [line for line in told.splitlines() if line.startswith("Guarantee  none")]


@pytest.mark.parametrize("missing", ["never", "indicator"])
def test_no_spread_is_larger_than_the_bounds_allow(missing):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(1.0 * (rng.random((1000, 12)) < 0.5)).add_prefix("x")
    rows.iloc[::5, 0] = 0.0 if missing == "never" else np.nan
    raw = []
    for seed in range(3):
        made = released(rows, 0, 1, seed, missing=missing)
        covariance = made.covariance_matrix()
        assert np.diagonal(covariance).max() <= 0.25 * (1 + 1e-12)
        assert np.linalg.eigvalsh(covariance)[0] > -1e-12
        assert max(column.spread for column in made.diagnose().columns) <= 0.5 * (1 + 1e-12)
        # Regressions read the same, and what noise made of it stays to be had.
        moment = made.present_moment()
        means = moment[0, 1:] / moment[0, 0]
        variances = np.diagonal(moment)[1:] / moment[0, 0] - means**2
        assert (variances[made.shown] * made.half_ranges**2).max() <= 0.25 * (1 + 1e-9)
        raw.append(np.diagonal(made.covariance_matrix("none")).max())
    assert max(raw) > 0.3


def test_bounds_that_are_far_wider_than_the_unit_leave_spreads_as_they_are():
    rows = np.random.default_rng(0).normal(size=(1000, 3))
    made = released(rows, -9, 9, rho=1)
    first, *features = made.manifest.columns
    wide = [replace(column, lower=-1e150, upper=1e150, half_range=1e-10) for column in features]
    manifest = msgspec.structs.replace(made.manifest, columns=(first, *wide))
    read = Release(manifest, dict(made.statistics.arrays))
    np.testing.assert_allclose(read.correlation_matrix(), made.correlation_matrix())
    assert (np.diagonal(read.covariance_matrix()) > 0).all()
