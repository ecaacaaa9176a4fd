# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is kept of a large graph between starts, and what may happen to it."""

from __future__ import annotations

import os
import time

import pytest
from msprobe.native import FormatError, IoError, core
from msprobe.viewer import digest_cache
from msprobe.viewer.digest import build
from msprobe.viewer.digest_cache import DigestCache
from msprobe.viewer.library import Making
from msprobe.viewer.result_file import open_result
from msprobe.viewer.surroundings import cache_folder
from viewer_samples import Node, write


@pytest.fixture
def made(monkeypatch):
    """How often a digest was made; in this process, as the test counts it."""
    times = []

    def make(self):
        times.append(self._path)
        build(self._graph.result, 0, 0, self._path)

    monkeypatch.setattr("msprobe.viewer.library._SMALL", 3)
    monkeypatch.setattr(Making, "_make_beside", make)
    return times


def read(asking, path):
    ask = asking(path)
    end = time.monotonic() + 60
    while "pending" in (found := ask("list", sort="difference", ascending=False)):
        assert time.monotonic() < end
        time.sleep(0.01)
    return [(node["name"], node["ulps"]) for node in found["nodes"]], ask("findings")


def kept():
    return [path for path in cache_folder().iterdir() if path.suffix == ".digest"]


def test_values_are_read_once_and_kept_away_from_the_result(tmp_path, asking, made):
    folder = tmp_path / "results"
    folder.mkdir()
    path = write(folder / "a.vis.db")
    first = read(asking, path)
    assert read(asking, path) == first
    assert len(made) == 1
    assert [one.name for one in folder.iterdir()] == ["a.vis.db"]
    assert len(kept()) == 1
    assert kept()[0].stat().st_mode & 0o077 == 0
    assert cache_folder().stat().st_mode & 0o077 == 0


def test_a_file_that_was_written_again_is_read_again(tmp_path, asking, made):
    path = write(tmp_path / "a.vis.db")
    read(asking, path)
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    read(asking, path)
    assert len(made) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:40],
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data[:5000] + bytes([data[5000] ^ 1]) + data[5001:],
        lambda data: b"x" + data[1:],
        lambda data: data + b"more",
    ],
)
def test_a_damaged_digest_is_made_again(tmp_path, asking, made, damage):
    path = write(tmp_path / "a.vis.db")
    first = read(asking, path)
    (one,) = kept()
    one.write_bytes(damage(one.read_bytes()))
    assert read(asking, path) == first
    assert len(made) == 2
    assert read(asking, path) == first  # and it is kept again
    assert len(made) == 2


def test_what_is_done_to_the_cache_disturbs_no_viewer_that_runs(tmp_path, asking, made):
    path = write(tmp_path / "a.vis.db")
    read(asking, path)
    ask = asking(path)
    while "pending" in ask("findings"):
        time.sleep(0.01)
    for one in kept():
        one.write_bytes(b"gone")
    assert ask("list", text="linear")["total"] == 12


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, asking, made):
    (tmp_path / "cache").write_text("a file, not a folder")
    path = write(tmp_path / "a.vis.db")
    assert read(asking, path) == read(asking, path)
    assert len(made) == 2


def test_a_file_that_is_being_written_is_not_kept(tmp_path):
    path = write(tmp_path / "a.vis.db")
    result = open_result(path)
    result._source = tmp_path / "copy.db"  # as with a log beside the file
    (tmp_path / "digest").write_bytes(b"content")
    DigestCache(result, 0, 0).keep(tmp_path / "digest")
    assert not cache_folder().exists()


def test_the_oldest_go_when_the_cache_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(digest_cache, "_MOST_BYTES", 2500)
    (tmp_path / "digest").write_bytes(bytes(1000))
    caches = [DigestCache(open_result(write(tmp_path / f"{name}.vis.db")), 0, 0) for name in "abc"]
    for age, cache in zip((30, 20, 10), caches):
        cache.keep(tmp_path / "digest")
        used = time.time() - age
        os.utime(cache._path, (used, used))
        if age == 20:
            assert caches[0].fetch(tmp_path / "into")  # used now: the second one is the oldest
    assert [cache.fetch(tmp_path / "into") for cache in caches] == [True, False, True]
    assert (tmp_path / "into").read_bytes() == bytes(1000)


def test_a_digest_that_cannot_be_made_says_why(tmp_path):
    path = write(tmp_path / "a.vis.db")
    result = open_result(path)
    with pytest.raises(IoError, match="nowhere/d"):
        build(result, 0, 0, tmp_path / "nowhere/d")
    (tmp_path / "foreign").write_bytes(b"text " * 1000)
    with pytest.raises(FormatError, match="foreign: the file is damaged"):
        core.write_digest(tmp_path / "foreign", 0, 0, tmp_path / "d")
    short = tmp_path / "short.vis.db"
    short.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(FormatError, match=r"short\.vis\.db: the file is damaged"):
        core.write_digest(short, 0, 0, tmp_path / "d")


def test_the_making_of_a_digest_can_be_ended(tmp_path):
    many = Node("DefaultModel", [Node(f"a.{number}") for number in range(3000)])
    path = write(tmp_path / "a.vis.db", {(0, 0): (many, None)})

    def stop(done, of):
        raise RuntimeError(f"{done} of {of}")

    with pytest.raises(RuntimeError, match="2000 of"):
        build(open_result(path), 0, 0, tmp_path / "d", stop)
