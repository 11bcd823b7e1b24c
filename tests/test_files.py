import errno
import os
import shutil
import signal
import subprocess
import sys
from unittest import mock

import pytest

from dpcov import files as output
from dpcov.errors import MovedError, ReleaseError
from dpcov.files import ReservedFile, write_file

ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def fails_with(number):
    def fail(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    return fail


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("reserved", [0, 3, 7, 10**6])
def test_more_or_less_than_the_reserved_space_may_be_written(tmp_path, reserved):
    with ReservedFile(tmp_path / "a", reserved) as file:
        assert names(tmp_path) != ["a"]
        file.write(b"content")
    assert (tmp_path / "a").read_bytes() == b"content"
    assert names(tmp_path) == ["a"]


def test_space_is_taken_before_anything_is_written(tmp_path):
    with ReservedFile(tmp_path / "a", 10**6):
        (part,) = tmp_path.iterdir()
        assert part.stat().st_blocks * 512 >= 10**6


def test_nothing_is_left_if_nothing_is_written(tmp_path):
    with ReservedFile(tmp_path / "a", 1000):
        pass
    with pytest.raises(KeyboardInterrupt), ReservedFile(tmp_path / "a", 1000):
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_nothing_is_left_by_an_interrupt_before_the_block_is_entered(tmp_path, monkeypatch):
    ReservedFile(tmp_path / "a", 100)
    assert names(tmp_path) == []
    monkeypatch.setattr(output, "_take_space", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt) as kept:
        ReservedFile(tmp_path / "a", 100)
    # Somebody may hold the error, and with it the file that was being made.
    assert kept.value.__traceback__ is not None
    assert names(tmp_path) == []


def test_an_existing_file_is_kept(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(ReleaseError, match="exists already"):
        ReservedFile(tmp_path / "a")
    with pytest.raises(RuntimeError), ReservedFile(tmp_path / "a", 1000, overwrite=True):
        raise RuntimeError
    assert (tmp_path / "a").read_bytes() == b"old"
    write_file(tmp_path / "a", b"new", overwrite=True)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("can_link", [True, False])
def test_a_file_that_another_program_wrote_meanwhile_is_kept(tmp_path, monkeypatch, can_link):
    if not can_link:
        monkeypatch.setattr(os, "link", fails_with(errno.EPERM))
        write_file(tmp_path / "b.dpcov", b"alone")
        (tmp_path / "b.dpcov").unlink()
    (tmp_path / "a-2.dpcov").write_bytes(b"another")
    told = pytest.raises(MovedError, match=r"a\.dpcov .*is kept.*in .*a-3\.dpcov")
    with told as caught, ReservedFile(tmp_path / "a.dpcov", 1000) as file:
        (tmp_path / "a.dpcov").write_bytes(b"theirs")
        file.write(b"ours")
    assert caught.value.path.read_bytes() == b"ours"
    assert (tmp_path / "a.dpcov").read_bytes() == b"theirs"
    assert names(tmp_path) == ["a-2.dpcov", "a-3.dpcov", "a.dpcov"]
    with ReservedFile(tmp_path / "c", 1000, overwrite=True) as file:
        (tmp_path / "c").write_bytes(b"theirs")
        file.write(b"ours")
    assert (tmp_path / "c").read_bytes() == b"ours"


@pytest.mark.parametrize("call", ["posix_fallocate", "fsync", "fdopen"])
@pytest.mark.parametrize("old", [None, b"old"])
def test_a_full_disk_leaves_everything_as_it_was(tmp_path, monkeypatch, call, old):
    if old is not None:
        (tmp_path / "a").write_bytes(old)
    before = names(tmp_path)
    monkeypatch.setattr(os, call, fails_with(errno.ENOSPC))
    with pytest.raises(ReleaseError, match=r"(?i)no space left.*try again") as caught:
        write_file(tmp_path / "a", b"content", overwrite=True)
    assert caught.value.__cause__ is None
    monkeypatch.undo()
    assert names(tmp_path) == before
    assert old is None or (tmp_path / "a").read_bytes() == old


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_file_systems_that_cannot_reserve_are_used_all_the_same(tmp_path, monkeypatch, number):
    monkeypatch.setattr(os, "posix_fallocate", fails_with(number))
    write_file(tmp_path / "a", b"content")
    assert (tmp_path / "a").read_bytes() == b"content"


@pytest.mark.skipif(not ROOT, reason="mounting a small file system needs root")
def test_a_really_full_disk_is_refused_at_once(tmp_path):
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let root mount")
    try:
        with pytest.raises(ReleaseError, match="no space left"):
            ReservedFile(tmp_path / "a", 10**6)
        with ReservedFile(tmp_path / "b", 20_000) as file:
            with pytest.raises(OSError, match="No space left"):
                (tmp_path / "filler").write_bytes(bytes(10**6))
            # The reserved space is still there although the disk is full by now.
            file.write(bytes(20_000))
        assert names(tmp_path) == ["b", "filler"]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_folders_that_cannot_be_written_are_refused(unprivileged):
    locked = unprivileged / "locked"
    locked.mkdir()
    for mode in (0o555, 0o000):
        locked.chmod(mode)
        with pytest.raises(ReleaseError, match="permission denied"):
            ReservedFile(locked / "a")
    locked.chmod(0o755)
    assert names(locked) == []


def test_targets_that_are_no_files_are_refused(tmp_path):
    for path, words in (
        (tmp_path, "is a directory"),
        (tmp_path / "absent" / "a", "does not exist"),
        (os.devnull, "not an ordinary file"),
        (tmp_path / ("a" * 400), "too long"),
        ("-", "name a file"),
    ):
        with pytest.raises(ReleaseError, match=words):
            ReservedFile(path, overwrite=True)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["a\0.dpcov", "y\ud800.dpcov"])
def test_names_that_the_system_cannot_have_are_refused_before_anything_is_written(tmp_path, name):
    with pytest.raises(ReleaseError, match="choose another"):
        ReservedFile(tmp_path / name)
    assert names(tmp_path) == []


_KILLED = """
import os, signal, sys
from dpcov.files import ReservedFile
with ReservedFile(sys.argv[1], 1000, overwrite=True):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_the_old_file(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    run = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path / "a")], capture_output=True)
    assert run.returncode == -signal.SIGKILL
    assert (tmp_path / "a").read_bytes() == b"old"
