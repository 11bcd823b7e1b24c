import copy
import hashlib
import importlib.util
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest
from scipy import stats

import dpcov
from dpcov.errors import NumericError, UsageError
from dpcov.noise import entropy
from dpcov.noise.continuous import exponentials, normals, uniforms
from dpcov.noise.entropy import BlockEntropy, SeededEntropy, SystemEntropy
from dpcov.noise.lattice import discrete_laplace, rounded_gaussian
from tests.statistical.goodness import assert_continuous_law

SOURCES = [SystemEntropy, lambda: SeededEntropy(5)]


@pytest.fixture(autouse=True)
def keys_of_the_system(monkeypatch):
    monkeypatch.setattr(entropy, "_new_key", lambda: os.urandom(32))


def test_a_seed_is_not_shown():
    assert repr(SeededEntropy(48_151_623)) == "SeededEntropy(...)"


def words_of_a_fork(source):
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            os.write(writer, source.words(64).tobytes())
        finally:
            os._exit(0)
    os.close(writer)
    words = np.frombuffer(os.read(reader, 512), dtype=np.uint64).tolist()
    os.close(reader)
    os.wait()
    assert len(words) == 64
    return words


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("recycled", [False, True])
def test_a_forked_child_never_repeats_the_parents_stream(recycled, monkeypatch):
    if recycled:
        monkeypatch.setattr(os, "getpid", lambda: 1)
    source = SystemEntropy()
    source.words(10)
    words = words_of_a_fork(source) + words_of_a_fork(source) + source.words(64).tolist()
    assert len(set(words)) == 192


def test_a_new_key_is_made_after_a_fork_alone(monkeypatch):
    keys = []
    monkeypatch.setattr(entropy, "_new_key", lambda: keys.append(os.urandom(32)) or keys[-1])
    monkeypatch.setattr(entropy, "_forks_survived", entropy._forks_survived)
    source = SystemEntropy()
    source.words(1), source.words(1)
    assert len(keys) == 1
    entropy._note_fork()
    source.words(1), source.words(1)
    assert len(keys) == 2


def draw_in_child(source, queue):
    queue.put(source.words(64).tolist())


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.thorough)])
def test_workers_that_share_a_source_draw_different_words(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("this system cannot start workers so")
    context = multiprocessing.get_context(method)
    source, queue = SystemEntropy(), context.Queue()
    source.words(10)
    workers = [context.Process(target=draw_in_child, args=(source, queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    words = [word for _ in workers for word in queue.get(timeout=240)] + source.words(64).tolist()
    for worker in workers:
        worker.join()
    assert len(set(words)) == 192


def test_copies_do_not_share_a_stream():
    source = SystemEntropy()
    source.words(10)
    copies = source, pickle.loads(pickle.dumps(source)), SystemEntropy()
    assert len({word for copy in copies for word in copy.words(64).tolist()}) == 192


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_seeded_source_is_not_copied(copied):
    with pytest.raises(UsageError, match="would repeat its noise"):
        copied(SeededEntropy(5))


@pytest.mark.parametrize("make", SOURCES)
def test_threads_draw_different_words(make):
    source, drawn = make(), []
    draw = lambda: drawn.append(source.words(20_000))  # noqa: E731
    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.unique(np.concatenate(drawn)).size == 160_000


@pytest.mark.parametrize("seed", [1.5, "1", None, -1])
def test_a_seed_must_be_an_integer(seed):
    with pytest.raises(UsageError):
        SeededEntropy(seed)


def test_a_cipher_that_writes_too_little_stops_the_draw(monkeypatch):
    class Lazy:
        def update_into(self, zeros, target):
            return len(target) - 1

    source = SeededEntropy(1)
    monkeypatch.setattr(source._stream, "_encryptor", Lazy())
    with pytest.raises(NumericError, match="nothing was drawn"):
        source.words(1)
    assert source.words(0).size == 0


def test_a_system_without_forks_is_fine(monkeypatch):
    monkeypatch.delattr(os, "register_at_fork", raising=False)
    spec = importlib.util.spec_from_file_location("entropy_without_forks", entropy.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.SeededEntropy(3).words(2).tolist() == SeededEntropy(3).words(2).tolist()


def stream(key, count):
    """The words of a ChaCha20 key, from the library itself."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    encryptor = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * count)), dtype="<u8").tolist()


def test_a_key_of_zeros_gives_the_published_stream(monkeypatch):
    # RFC 8439, appendix A.1, test vector 1.
    published = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    monkeypatch.setattr(os, "urandom", lambda count: bytes(count))
    assert SystemEntropy().words(4).astype("<u8").tobytes() == published


@pytest.mark.parametrize("counts", [(7,), (5, 0, 123, 1, 200), (128, 128), ((1 << 15) + 3, 9)])
def test_system_words_are_those_of_one_key_after_the_other(counts, monkeypatch):
    keys = []
    monkeypatch.setattr(entropy, "_BYTES_PER_KEY", 1024)
    monkeypatch.setattr(
        os, "urandom", lambda count: keys.append(bytes([len(keys) % 251]) * count) or keys[-1]
    )
    source = SystemEntropy()
    words = [word for count in counts for word in source.words(count).tolist()]
    assert {len(key) for key in keys} == {32}
    assert len(keys) == -(-sum(counts) // 128)
    assert words == [word for key in keys for word in stream(key, 128)][: sum(counts)]


@pytest.mark.parametrize("counts", [(3,), (40_000, 2, 65_536, 5)])
def test_seeded_words_are_those_of_the_hash_of_the_seed(counts):
    source = SeededEntropy(12)
    assert source.words(0).dtype == np.uint64
    words = [word for count in counts for word in source.words(count).tolist()]
    assert words == stream(hashlib.sha256(b"12").digest(), sum(counts))


def test_a_buffer_hands_out_the_source_word_by_word():
    buffered = BlockEntropy(SeededEntropy(5), size=7)
    sizes = [3, 0, 5, 20, 1, 7, 8]
    found = np.concatenate([buffered.words(size) for size in sizes])
    assert np.array_equal(found, SeededEntropy(5).words(sum(sizes)))


@pytest.mark.parametrize("source", [SystemEntropy(), SeededEntropy(5)])
def test_what_is_drawn_in_blocks_protects_nobody(source):
    facts = {"norm_bound": 1.0, "budget": dpcov.Budget(rho=1), "entropy": BlockEntropy(source)}
    assert not dpcov.second_moment(np.eye(3), **facts).is_private


SMALL = [1, 3, 0, 700, 2, 1500, 40]
LAWS = {
    "rounded gaussian": lambda size, source: rounded_gaussian(2**40, size, source),
    "discrete laplace": lambda size, source: discrete_laplace(2**20, size, source),
    "uniform": uniforms,
    "exponential": exponentials,
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_small_draws_from_blocks_are_one_large_draw_of_the_sampler_in_order(law):
    source = BlockEntropy(SeededEntropy(5))
    found = np.concatenate([law(size, source) for size in SMALL])
    assert np.array_equal(found, law(entropy._BLOCK, SeededEntropy(5))[: sum(SMALL)])
    assert law(3, source).dtype == law(3, SeededEntropy(5)).dtype


def test_blocks_of_several_laws_repeat_nothing_and_keep_their_laws():
    source, size = BlockEntropy(SeededEntropy(6)), 30_000
    drawn = [
        [law(3, source) for law in (normals, exponentials, uniforms)] for _ in range(size // 3)
    ]
    normal, exponential, uniform = (np.concatenate(each) for each in zip(*drawn, strict=True))
    for found, law in ((normal, "norm"), (exponential, "expon"), (uniform, "uniform")):
        assert len(np.unique(found)) == size
        assert_continuous_law(found, getattr(stats, law).cdf)
    assert np.abs(np.corrcoef([normal, exponential, uniform]) - np.eye(3)).max() < 0.04
