"""Device arrays give the integers of the local engine: on NumPy as a stand-in, and on PyTorch."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.data.encode import encode_array
from dpcov.data.engines.arrays import DeviceMoments
from dpcov.data.engines.base import BallEncoding, MomentsTask
from dpcov.data.exact.library import NUMPY
from dpcov.data.exact.moments import MomentsSpec
from dpcov.errors import DataError, UsageError
from dpcov.noise.entropy import SeededEntropy
from dpcov.published.linalg.symmetric import compose, eigh
from tests.data.reading import table_moments

try:
    import torch

    from dpcov.data.engines import device as engine
except ModuleNotFoundError:
    torch = None

SPECS = (
    {},
    {"shells": 4, "normalized": True},
    {"shells": 64, "bits": 24},
    {"shells": 3, "bits": 7, "normalized": True},
    {"shells": 5, "clip": 0.01},
)


def awkward_rows(n_rows=3000, n_features=7, seed=0):
    """Rows of all lengths: zero, tiny, on the borders of shells, on the bound, far beyond it."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)) * 2.0 ** -random.integers(-2, 40, size=(n_rows, 1))
    X[:20] = 0.0
    X[20:40] = (
        2.0 ** -np.arange(20)[:, None] * np.eye(n_features)[random.integers(0, n_features, 20)]
    )
    X[40:60] /= np.linalg.norm(X[40:60], axis=1)[:, None]
    X[60] = 1e200
    X[61] = 5e-324
    return X


def gather(library, X, **spec):
    task = MomentsTask(
        encoding=BallEncoding(n_features=X.shape[1], norm_bound=3.0), spec=MomentsSpec(**spec)
    )
    gathered = DeviceMoments(library, task)
    for part in np.array_split(X, 3):
        gathered.add_raw(library.from_host(part))
    return gathered.fetch()


def manifests(schema, **data):
    """What releases of the same draws state, by each engine of data of its own."""
    options = {"schema": schema, "budget": dpcov.Budget(epsilon=1, delta="1e-6")}
    for name, each in data.items():
        yield dpcov.release(each, engine=name, entropy=SeededEntropy(1), **options).manifest


@pytest.mark.parametrize("spec", SPECS)
def test_moments_by_device_code_equal_the_local_engine(spec):
    X = awkward_rows()
    assert gather(NUMPY, X, **spec) == dpcov.moments(X, norm_bound=3.0, engine="local", **spec)


def test_division_by_a_rounded_reciprocal_would_be_noticed():
    """What PyTorch does on a GPU when it divides by a number; why `Library.number` exists."""

    class Reciprocal(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **options):
            plain = [np.asarray(part) for part in inputs]
            if ufunc is np.true_divide:
                ufunc, plain[1] = np.multiply, 1.0 / plain[1]
            return getattr(ufunc, method)(*plain, **options)

    careless = replace(NUMPY, from_host=lambda array: np.asarray(array).view(Reciprocal))
    X = awkward_rows()
    assert not np.array_equal(encode_array(X, 3.0, careless), encode_array(X, 3.0))


@pytest.fixture(params=["cpu", "cuda"])
def place(request):
    """A device of PyTorch."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU here")
    return torch.device(request.param)


@pytest.mark.skipif(
    torch is None, reason="the device engine needs torch: pip install 'dpcov[device]'"
)
class TestTorch:
    """The engine itself, on the CPU and on a GPU."""

    @pytest.mark.parametrize("spec", SPECS)
    def test_a_tensor_is_recognized_and_gives_equal_moments(self, spec, place):
        X = awkward_rows()
        made = dpcov.moments(torch.from_numpy(X).to(place), norm_bound=3.0, **spec)
        assert made == dpcov.moments(X, norm_bound=3.0, engine="local", **spec)
        changed = X.copy()
        changed[50, :2] += 0.01
        assert dpcov.moments(torch.from_numpy(changed).to(place), norm_bound=3.0, **spec) != made

    def test_many_wide_rows_give_equal_moments(self, place):
        X = np.random.default_rng(1).normal(size=(40_000, 130))
        made = dpcov.moments(torch.from_numpy(X).to(place), norm_bound=11.0, shells=12)
        assert made == dpcov.moments(X, norm_bound=11.0, shells=12, engine="local")

    @pytest.mark.parametrize("kind", ["float32", "float16", "int32", "bool"])
    def test_tensors_of_other_types_equal_their_numpy_arrays(self, kind, place):
        X = (awkward_rows()[62:] * 3).astype(kind)
        X = np.nan_to_num(X, posinf=9, neginf=9) if kind == "float16" else X
        tensor = torch.from_numpy(X).to(place)
        assert dpcov.moments(tensor, norm_bound=3.0, shells=3) == dpcov.moments(
            X, norm_bound=3.0, shells=3
        )

    def test_a_tensor_with_a_gradient_is_taken_and_left_alone(self):
        X = torch.from_numpy(awkward_rows()[:60].copy()).requires_grad_()
        before = X.detach().clone()
        dpcov.moments(X, norm_bound=0.1)
        assert torch.equal(X.detach(), before)

    def test_tables_and_groups_are_encoded_here_and_multiplied_there(self):
        random = np.random.default_rng(3)
        schema = dpcov.Schema(
            columns={
                "size": dpcov.Numeric(lower=0, upper=10),
                "kind": dpcov.Categorical(categories=("a", "b")),
            }
        )
        table = pa.table(
            {"size": random.normal(size=900), "kind": random.choice(["a", "b", "c"], 900)}
        )
        told = []
        spec = MomentsSpec(shells=3, normalized=True)
        made = table_moments(table, schema, spec, engine="device", progress=told.append)
        assert made == table_moments(table, schema, spec, engine="local")
        assert sum(told) == 900
        options = {"schema": schema, "budget": dpcov.Budget(rho=1), "engine": "device"}
        release = dpcov.release(table, by="kind", neighbors="replace-one", **options)
        assert {"a", "b"} <= set(release.manifest.groups)

    def test_a_private_geometry_is_the_same_to_the_bit(self):
        """The table's counts, lengths, map and matrices, on whatever PyTorch finds."""
        random = np.random.default_rng(5)
        factor = random.normal(size=20_000)
        columns = {
            name: size * (factor + random.normal(size=20_000))
            for name, size in {"a": 3.0, "b": 70.0, "c": 0.01}.items()
        }
        schema = dpcov.Schema(
            columns={name: dpcov.Numeric(lower=-1e4, upper=1e4) for name in columns}
        )
        table = pa.table(columns)
        here, there = manifests(schema, local=table, device=table)
        assert here.statistics.linear_exponent is not None
        assert (here.columns, here.statistics) == (there.columns, there.statistics)
        # The arrays' hashes: the map and the noisy sums.
        assert here.members == there.members

    @pytest.mark.parametrize("kind", ["float16", "float32", "int32"])
    def test_every_pass_reads_a_tensor_as_its_type_holds_it(self, kind):
        """A code that single precision rounds is missing when counting and in products alike."""
        random = np.random.default_rng(5)
        X = random.normal(50, 10, size=(5000, 2)).astype(kind)
        X[:100, 0] = np.array(99.9).astype(kind)
        coded = dpcov.Numeric(lower=0, upper=1000, missing="center", missing_codes=[99.9])
        schema = dpcov.Schema(columns={"x0": coded, "x1": dpcov.Numeric(lower=0, upper=1000)})
        here, there = manifests(schema, local=X, device=torch.from_numpy(X))
        assert here.members == there.members

    @pytest.mark.parametrize(
        ("shape", "kind", "words"),
        [
            ((5,), "float64", "matrix"),
            ((5, 2), "complex128", "matrix"),
            ((0, 3), "int8", "no rows"),
        ],
    )
    def test_what_is_no_matrix_of_real_numbers_is_refused(self, shape, kind, words):
        with pytest.raises(DataError, match=words):
            dpcov.moments(torch.zeros(shape, dtype=getattr(torch, kind)), norm_bound=1.0)

    def test_a_device_that_rounds_is_refused_before_a_row_is_read(self, monkeypatch):
        def single(array):
            return array.numpy().astype(np.float32).astype(np.float64)

        rounding = replace(engine.torch_library(torch.device("cpu")), to_host=single)
        monkeypatch.setattr(engine, "torch_library", lambda device: rounding)
        with pytest.raises(UsageError, match="float64 exactly"):
            dpcov.moments(torch.full((5, 2), torch.nan), norm_bound=1.0)

    def test_eigendecompositions_on_the_device_agree_to_rounding(self, place):
        from dpcov.published.linalg.device import on_device

        random = np.random.default_rng(0)
        A = random.normal(size=(30, 30))
        A += A.T
        with on_device(str(place)):
            system = eigh(A)
            again = compose(*system)
        assert np.allclose(system.values, np.linalg.eigvalsh(A), atol=1e-12)
        assert np.allclose(again, A, atol=1e-12)
