# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Packs: writing them so that they are complete or absent, and reading what strangers made."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import struct
import subprocess
import sys
import time
import warnings
import zipfile

import pytest
from config_check_packs import DATA, OURS, stats, write_pack
from msprobe import ConfigChecker, FormatError, InvalidArgument, IoError
from msprobe.config_check.comparison import compare_packs
from msprobe.config_check.packs import pack, parts
from msprobe.config_check.packs.pack_reader import read_pack
from msprobe.config_check.packs.pack_writer import PackWriter, Run


def entries_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


class TestWriting:
    def test_the_form_of_the_existing_tool(self, tmp_path):
        path = tmp_path / "new" / "folder" / "p.zip"
        PackWriter(path, Run("r"), "pytorch").append({"env": "{}", "pip": "a=1\n"})
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
            assert archive.testzip() is None
        assert [part.filename for part in parts] == ["msprobe/pack.json", "env", "pip"]
        for part in parts:
            assert part.date_time == (1980, 1, 1, 0, 0, 0)
            assert part.external_attr == 0o600 << 16
            assert part.compress_type == zipfile.ZIP_DEFLATED
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert [one.name for one in path.parent.iterdir()] == ["p.zip"]

    def test_processes_of_a_run_share_it_and_another_run_begins_anew(self, tmp_path):
        path = tmp_path / "p.zip"
        one, two = (PackWriter(path, Run("r"), "pytorch") for _ in range(2))
        two.append({pack.weights(0, 1): "{}"})  # rank 1 is first
        one.append({"env": "{}"})
        one.append({"env": '{"again": 1}'})
        assert set(entries_of(path)) == {"msprobe/pack.json", "weights/step0/rank1/weight.json", "env"}
        assert entries_of(path)["env"] == "{}"
        PackWriter(path, Run("s"), "pytorch").append({"pip": ""})
        assert set(entries_of(path)) == {"msprobe/pack.json", "pip"}

    def test_a_late_process_does_not_replace_the_next_pack(self, tmp_path):
        path = tmp_path / "p.zip"
        early, late = PackWriter(path, Run("r", 0), "pytorch"), PackWriter(path, Run("r", 1), "pytorch")
        early.append({"pip": ""})
        late.append({"env": "{}"})
        early.append({"pip": ""})
        assert set(entries_of(path)) == {"msprobe/pack.json", "env"}
        late.append({"pip": ""})
        assert set(entries_of(path)) == {"msprobe/pack.json", "env", "pip"}
        path.unlink()
        late.append({"pip": ""})
        assert set(entries_of(path)) == {"msprobe/pack.json", "pip"}

    def test_a_pack_of_the_existing_tool_is_replaced_and_anything_else_is_not(self, tmp_path):
        path = tmp_path / "p.zip"
        path.write_bytes((DATA / "dyn_a.zip").read_bytes())
        PackWriter(path, Run("r"), "pytorch").append({"env": "{}"})
        assert set(entries_of(path)) == {"msprobe/pack.json", "env"}
        for content in (b"my thesis", (DATA / "../../python/conftest.py").read_bytes()):
            path.write_bytes(content)
            with pytest.raises(InvalidArgument, match="no file or an earlier pack"):
                PackWriter(path, Run("r"), "pytorch")
            assert path.read_bytes() == content
        write_pack(path, {"env": "{}", "holiday.jpg": b"x"})
        with pytest.raises(InvalidArgument, match="left alone"):
            PackWriter(path, Run("r"), "pytorch")

    def test_a_full_disk_leaves_the_old_pack(self, tmp_path):
        code = """
import resource, sys, os
from msprobe import IoError
from msprobe.config_check.packs.pack_writer import PackWriter, Run
writer = PackWriter(sys.argv[1], Run("r"), "pytorch")
writer.append({"env": "{}"})
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
try:
    writer.append({"pip": os.urandom(9000).hex()})
except IoError as error:
    print(error.errno, error.filename)
"""
        path = tmp_path / "p.zip"
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
        assert done.stdout == f"27 {path}\n"
        assert set(entries_of(path)) == {"msprobe/pack.json", "env"}
        assert [one.name for one in tmp_path.iterdir()] == ["p.zip"]

    def test_killed_at_any_moment_it_is_the_old_or_the_new(self, tmp_path):
        code = """
import sys
from msprobe.config_check.packs.pack_writer import PackWriter, Run
writer = PackWriter(sys.argv[1], Run("r"), "pytorch")
print("ready", flush=True)
for step in range(10000):
    writer.append({f"weights/step{step}/rank0/weight.json": "x" * 5000})
"""
        path = tmp_path / "p.zip"
        source = random.Random(3)
        for _ in range(4):
            with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as process:
                process.stdout.readline()
                time.sleep(0.02 + source.random() * 0.1)
                process.send_signal(signal.SIGKILL)
            if path.exists():
                with zipfile.ZipFile(path) as archive:
                    assert archive.testzip() is None
        PackWriter(path, Run("r"), "pytorch").append({"env": "{}"})
        assert [one.name for one in tmp_path.iterdir()] == ["p.zip"]  # leftovers are gone

    def test_many_processes_at_once(self, tmp_path):
        code = """
import sys
from msprobe.config_check.packs.pack_writer import PackWriter, Run
writer = PackWriter(sys.argv[1], Run("r"), "pytorch")
for step in range(6):
    writer.append({f"weights/step{step}/rank{sys.argv[2]}/weight.json": "{}"})
"""
        path = tmp_path / "p.zip"
        processes = [subprocess.Popen([sys.executable, "-c", code, path, str(rank)]) for rank in range(5)]
        assert [process.wait() for process in processes] == [0] * 5
        assert len(entries_of(path)) == 1 + 5 * 6
        assert [one.name for one in tmp_path.iterdir()] == ["p.zip"]


def in_processes(path, ranks, processes, run="r", steps=3, ends=True):
    """Each of the ranks writes its part, in a process of its own."""
    for rank in ranks:
        child = os.fork()
        if child == 0:
            writer = PackWriter(path, Run(run), "pytorch", processes=processes)
            for step in range(steps):
                writer.append({pack.weights(step, rank): json.dumps({"w": stats(rank)})})
            if ends:
                writer.finish()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class TestParts:
    def test_the_last_process_joins_them(self, tmp_path):
        path = tmp_path / "p.zip"
        in_processes(path, range(3), 4)
        assert not path.exists()
        assert len(list((tmp_path / "p.zip.parts").iterdir())) == 3
        in_processes(path, [3], 4)
        assert [one.name for one in tmp_path.iterdir()] == ["p.zip"]
        expected = {pack.weights(step, rank) for step in range(3) for rank in range(4)}
        assert set(entries_of(path)) == {"msprobe/pack.json", *expected}
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            assert all(part.external_attr == 0o600 << 16 for part in archive.infolist())

    def test_a_second_process_that_thinks_it_is_the_last_one_keeps_the_pack(self, tmp_path, monkeypatch):
        path = tmp_path / "p.zip"
        in_processes(path, [0], 2)
        listed = parts.parts_of(path)
        in_processes(path, [1], 2)
        expected = entries_of(path)
        # It listed the parts before the other one removed them.
        monkeypatch.setattr(parts, "parts_of", lambda _: listed)
        parts.join_at_end(path, "r", listed[0].number, 1)
        assert entries_of(path) == expected
        assert [one.name for one in tmp_path.iterdir()] == ["p.zip"]

    def test_who_reads_the_pack_joins_what_did_not_end(self, tmp_path):
        in_processes(tmp_path / "p.zip", range(2), 4)
        in_processes(tmp_path / "p.zip", [2], 4, ends=False)
        whole = tmp_path / "whole.zip"
        for rank in range(3):
            PackWriter(whole, Run("r"), "pytorch").append(
                {pack.weights(step, rank): json.dumps({"w": stats(rank)}) for step in range(3)}
            )
        with read_pack(tmp_path / "p.zip") as joined, read_pack(whole) as other:
            assert set(joined.names()) == set(other.names())
            assert compare_packs(joined, other).agree
            assert not joined.problems

    def test_parts_of_an_earlier_run_are_not_among_them(self, tmp_path):
        path = tmp_path / "p.zip"
        in_processes(path, [0, 1], 2, run="first", steps=1)
        in_processes(path, [7], 2, run="killed", steps=1)
        in_processes(path, [0], 2, run="last", steps=1)
        with read_pack(path) as found:
            assert list(found.files("weights")) == [(0, 0)]
        in_processes(path, [1], 2, run="last", steps=1)
        assert set(entries_of(path)) == {"msprobe/pack.json", pack.weights(0, 0), pack.weights(0, 1)}
        assert [one.name for one in tmp_path.iterdir()] == ["p.zip"]

    def test_a_part_that_is_damaged_is_left_out_and_named(self, tmp_path):
        path = tmp_path / "p.zip"
        in_processes(path, range(3), 4)
        one, two, _ = sorted((tmp_path / "p.zip.parts").iterdir())
        one.write_bytes(one.read_bytes()[:100])
        content = bytearray(two.read_bytes())
        content[0] ^= 0xFF
        two.write_bytes(content)
        with read_pack(path) as found:
            assert len(found.files("weights")) == 3
            assert [str(one) in found.problems[0], str(two) in found.problems[1]] == [True, True]

    def test_a_process_writes_its_own_entries_alone(self, tmp_path):
        path = tmp_path / "p.zip"
        in_processes(path, range(12), 1000)
        found = sorted((tmp_path / "p.zip.parts").iterdir())
        assert max(part.stat().st_size for part in found) < 1.1 * min(part.stat().st_size for part in found)


class TestHostile:
    def refused(self, path, text, error=FormatError):
        with pytest.raises(error, match=text) as caught:
            read_pack(path)
        assert str(path) in str(caught.value)

    def test_no_file_and_no_zip(self, tmp_path):
        self.refused(tmp_path / "none.zip", "does not exist", InvalidArgument)
        self.refused(tmp_path, "is no file", InvalidArgument)
        for content in (b"", b"PK", b"PK\x05\x06", b"hello" * 100, os.urandom(3000)):
            (tmp_path / "p.zip").write_bytes(content)
            self.refused(tmp_path / "p.zip", "expected a pack")

    def test_cut_off_anywhere(self, tmp_path):
        content = (DATA / "dyn_a.zip").read_bytes()
        path = tmp_path / "p.zip"
        for size in range(0, len(content), 37):
            path.write_bytes(content[:size])
            self.refused(path, "expected a pack")

    def test_any_byte_may_be_wrong(self, tmp_path):
        content = (DATA / "dyn_a.zip").read_bytes()
        path = tmp_path / "p.zip"
        source = random.Random(5)
        for _ in range(300):
            broken = bytearray(content)
            for _ in range(source.randrange(1, 4)):
                broken[source.randrange(len(broken))] = source.randrange(256)
            path.write_bytes(broken)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    with read_pack(path) as left, read_pack(DATA / "dyn_b.zip") as right:
                        compare_packs(left, right)
                        left.extract(tmp_path / "out")
                except (FormatError, InvalidArgument, IoError):
                    pass

    def test_a_damaged_entry_is_left_out_and_the_rest_compared(self, tmp_path):
        content = bytearray((DATA / "dyn_a.zip").read_bytes())
        with zipfile.ZipFile(DATA / "dyn_a.zip") as archive:
            start = archive.getinfo("weights/step1/rank0/weight.json").header_offset
        content[start + 100] ^= 0xFF
        (tmp_path / "p.zip").write_bytes(content)
        with read_pack(tmp_path / "p.zip") as left, read_pack(DATA / "dyn_a.zip") as right:
            result = compare_packs(left, right)
        assert not result.agree
        (problem,) = result.problems
        assert "weights/step1/rank0/weight.json was left out: it is damaged" in problem
        assert [check.name for check in result.checks if not check.passed] == ["weights"]

    def test_an_entry_that_begins_before_the_file_is_left_out(self, tmp_path):
        """As after bytes were inserted into it."""
        content = (DATA / "dyn_a.zip").read_bytes()
        half = len(content) // 2
        (tmp_path / "p.zip").write_bytes(content[:half] + bytes(1000) + content[half:])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with read_pack(tmp_path / "p.zip") as left, read_pack(DATA / "dyn_a.zip") as right:
                assert not compare_packs(left, right).agree
                assert left.problems

    @pytest.mark.parametrize(
        "name",
        ["../../evil", "/etc/passwd", "weights/../../x", "C:\\x", "weights/step0/rank0/../weight.json"],
    )
    def test_paths_that_leave_the_folder(self, tmp_path, name):
        write_pack(tmp_path / "p.zip", {"env": {}, name: "evil"})
        with read_pack(tmp_path / "p.zip") as found:
            found.extract(tmp_path / "a" / "b")
            assert any("no part of a pack" in problem for problem in found.problems)
        assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "b", "env", "p.zip"]

    def test_fingerprints_stay_in_the_pack(self, tmp_path):
        print_of = "msprobe/fingerprints/weights/step0/rank0.json"
        write_pack(tmp_path / "p.zip", {**OURS, "env": {}, print_of: {}, "msprobe/seeds/rank0.json": {}})
        with read_pack(tmp_path / "p.zip") as found:
            found.extract(tmp_path / "a")
        assert {path.name for path in (tmp_path / "a").rglob("*")} == {
            "env", "msprobe", "pack.json", "seeds", "rank0.json"
        }  # fmt: skip

    def test_links_and_devices(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
            archive.writestr("env", "{}")
            for name, kind in (("pip", stat.S_IFLNK), ("random/rank0.json", stat.S_IFIFO)):
                info = zipfile.ZipInfo(name)
                info.external_attr = (kind | 0o777) << 16
                archive.writestr(info, "/etc/passwd")
        with read_pack(tmp_path / "p.zip") as found:
            found.extract(tmp_path / "out")
            assert "pip was left out: it is a symbolic link" in found.problems[0]
            assert "it is no regular file" in found.problems[1]
        assert [p.name for p in (tmp_path / "out").iterdir()] == ["env"]

    def test_bombs(self, tmp_path):
        path = tmp_path / "p.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("env", b"0" * (40 << 20))
        self.refused(path, "unpack to 41943040")

    def test_a_size_that_is_not_true(self, tmp_path):
        path = tmp_path / "p.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("pip", "x" * 5000)
        content = path.read_bytes()
        size = struct.pack("<L", 5000)
        path.write_bytes(content.replace(size, struct.pack("<L", 10)))
        with read_pack(path) as found:
            assert found.text("pip") is None
            assert "left out" in found.problems[0]

    def test_the_same_name_twice_the_last_counts(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            archive.writestr("pip", "numpy=1")
            archive.writestr("pip", "numpy=2")
        with read_pack(tmp_path / "p.zip") as found:
            assert found.text("pip") == "numpy=2"

    def test_a_foreign_zip(self, tmp_path):
        self.refused(write_pack(tmp_path / "p.zip", {"word/document.xml": "<a/>"}), "found none of them")
        self.refused(write_pack(tmp_path / "p.zip", {}), "found none of them")

    @pytest.mark.parametrize(
        "content",
        [
            "",
            "nonsense",
            "[1]",
            "null",
            '"x"',
            "[" * 100_000,
            '{"a":' * 100_000,
            "9" * 10_000,
            b"\xff\xfe\x00",
        ],
    )
    @pytest.mark.parametrize(
        "name",
        [
            "env",
            "dataset/step0/rank0/dataset.json",
            "weights/step0/rank0/weight.json",
            "hyperparameters/hyperparameters_static.json",
            "random/rank0.json",
            "msprobe/settings/rank0.json",
            "msprobe/pack.json",
        ],
    )
    def test_entries_that_are_no_json(self, tmp_path, name, content):
        good = {"env": {}, "pip": "", name: {}}
        write_pack(tmp_path / "a.zip", {**good, name: content})
        write_pack(tmp_path / "b.zip", good)
        with read_pack(tmp_path / "a.zip") as left, read_pack(tmp_path / "b.zip") as right:
            result = compare_packs(left, right)
            assert any(name in problem for problem in result.problems)
            assert not result.agree

    def test_values_of_any_kind(self, tmp_path):
        odd = [None, True, 0, -1, 10**400, 1e308, float("nan"), "", "text", [], [1, [2]], {}, {"a": {"b": 1}}]
        names = (
            "env", "dataset/step0/rank0/dataset.json", "weights/step0/rank0/weight.json",
            "hyperparameters/hyperparameters_static.json", "random/rank0.json", "msprobe/settings/rank0.json",
            "msprobe/seeds/rank0.json", "msprobe/fingerprints/weights/step0/rank0.json",
        )  # fmt: skip
        source = random.Random(11)

        def tree(depth):
            keys = (
                "a", "b", "max", "min", "mean", "norm", "count", "stack", "calls", "states", "lr", "wd",
                "collected", "torch", "api_key",
            )  # fmt: skip
            pick = source.choice
            return {
                key: tree(depth - 1)
                if depth and source.random() < 0.5
                else pick([*odd, stats(pick([1, 2.5]))])
                for key in source.sample(keys, 7)
            }

        for round_ in range(120):
            for side in "ab":
                write_pack(
                    tmp_path / f"{side}.zip",
                    {**(OURS if round_ % 3 else {}), **{name: tree(2) for name in names}},
                )
            paths = [str(tmp_path / f"{side}.zip") for side in "ab"]
            if round_ % 10 == 0:
                assert ConfigChecker.compare(*paths, str(tmp_path / "out")).checks
            else:
                with read_pack(paths[0]) as left, read_pack(paths[1]) as right:
                    assert compare_packs(left, right).checks

    def test_a_pack_of_a_newer_msprobe(self, tmp_path):
        entries = {"msprobe/pack.json": {"format": 99}, "env": {}, "msprobe/new.json": {}}
        with read_pack(write_pack(tmp_path / "p.zip", entries)) as found:
            assert "newer msprobe (format 99" in found.problems[-1]
            assert json.loads(found.text("env")) == {}

    def test_a_deep_tree_of_inputs_is_left_out(self, tmp_path):
        deep = {"args": {"0": stats(1)}}
        for _ in range(300):
            deep = {"x": deep}
        for side in "ab":
            write_pack(tmp_path / f"{side}.zip", {"dataset/step0/rank0/dataset.json": deep})
        with read_pack(tmp_path / "a.zip") as left, read_pack(tmp_path / "b.zip") as right:
            result = compare_packs(left, right)
        assert not result.agree
        assert [problem.endswith("deeper than 64 levels") for problem in result.problems] == [True, True]

    def test_another_compression_is_left_out(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
            archive.writestr("env", "{}")
            archive.writestr("pip", "numpy=1\n", zipfile.ZIP_BZIP2)
        with read_pack(tmp_path / "p.zip") as found:
            assert "pip was left out: it is compressed in another way" in found.problems[0]
            assert found.text("env") == "{}"
