# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""config.json: what is read, and one clear error for everything that is wrong."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
from msprobe import InvalidArgument, UnsupportedError
from msprobe.config import GradProbeConfig, load_config, load_own_config, load_section
from msprobe.native import core


def rejected(path: Path, **arguments: Any) -> str:
    """The message of the refusal, one line that names the file, without file and line."""
    with pytest.raises(InvalidArgument) as caught:
        load_config(path, **arguments)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return re.sub("^line [0-9]+: ", "", message.removeprefix(f"{path}: "))


class TestDefaults:
    def test_only_the_task_and_the_dump_path_are_needed(self, write_config, tmp_path):
        config = load_config(write_config())
        assert config.task == "grad_probe"
        assert config.dump_path == str(tmp_path / "probe")
        assert config.ranks == config.steps == ()
        assert config.level == "L1"
        assert config.section == GradProbeConfig("L1", (), (-1, 0, 1), "auto")

    def test_a_config_is_not_needed_when_arguments_say_enough(self, tmp_path):
        for no_path in (None, ""):
            config = load_config(no_path, task="grad_probe", dump_path=tmp_path / "x")
            assert config.dump_path == str(tmp_path / "x")
            assert config.section == GradProbeConfig("L1", (), (-1, 0, 1), "auto")

    def test_null_means_all_ranks_and_steps(self, write_config):
        config = load_config(write_config(rank=None, step=None))
        assert config.ranks == config.steps == ()

    def test_a_file_of_every_release_is_read_without_a_warning(self, write_config, caplog):
        path = write_config(
            level="mix", enable_dataloader=False, async_dump=False, dump_enable=True, extra_info=True,
            precision="low", risk_level="ALL", custom_op_namespaces=[], load={}, statistics={"list": 1},
            tensor=None, acc_check={}, overflow_check={}, run_ut={}, free_benchmark={},
        )  # fmt: skip
        assert load_config(path).level == "mix"
        assert caplog.text == ""


class TestArguments:
    def test_arguments_win_over_the_file(self, write_config, tmp_path):
        path = write_config(task="tensor", step=[7], level="L0")
        config = load_config(path, task="grad_probe", dump_path=str(tmp_path / "b"), step=["2-3"], level="L2")
        assert (config.task, config.dump_path, config.steps, config.level) == (
            "grad_probe", str(tmp_path / "b"), (2, 3), "L2",
        )  # fmt: skip

    def test_a_wrong_argument_is_named_as_such(self, write_config):
        with pytest.raises(InvalidArgument, match=r'^PrecisionDebugger\(\): "step": .*found "5-2"$'):
            load_config(write_config(), step=["5-2"])

    def test_a_config_path_of_a_wrong_type(self):
        with pytest.raises(InvalidArgument, match=r'"config_path": expected a path, found 3$'):
            load_config(3)  # type: ignore[arg-type]


class TestRankAndStep:
    @pytest.mark.parametrize("key", ["rank", "step"])
    def test_ranges_are_expanded_sorted_and_without_duplicates(self, write_config, key):
        config = load_config(write_config(**{key: [9, "2-4", 3, "0-0", 1_000_000]}))
        values = config.ranks if key == "rank" else config.steps
        assert values == (0, 2, 3, 4, 9, 1_000_000)

    def test_random_lists_agree_with_a_set(self, write_config):
        dice = random.Random(5)
        for _ in range(50):
            expected: set[int] = set()
            elements: list[int | str] = []
            for _ in range(dice.randrange(8)):
                first = dice.randrange(50)
                last = first + dice.randrange(6)
                expected.update(range(first, last + 1))
                elements.append(first if first == last else f"{first}-{last}")
            assert load_config(write_config(step=elements)).steps == tuple(sorted(expected))

    @pytest.mark.parametrize("key", ["rank", "step"])
    def test_numbers_may_be_texts(self, write_config, key):
        config = load_config(write_config(**{key: ["3", "1-2", 7]}))
        assert (config.ranks if key == "rank" else config.steps) == (1, 2, 3, 7)

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            (3, 'expected a list of integers and ranges "a-b", found 3'),
            ("0-3", "expected a list of integers"),
            ({}, "expected a list of integers"),
            ([1.0], "expected an integer or a range"),
            ([True], "expected an integer or a range"),
            ([None], "expected an integer or a range"),
            ([[1]], "expected an integer or a range"),
            (["3.0"], "expected an integer or a range"),
            (["-3"], "expected an integer or a range"),
            (["a"], "expected an integer or a range"),
            (["4-x"], "expected an integer or a range"),
            (["4-5-6"], "expected an integer or a range"),
            (["-1-4"], "expected an integer or a range"),
            (["\u0663-\u0664"], "expected an integer or a range"),
            (["9" * 5000 + "-1"], "expected an integer or a range"),
            (["6-4"], 'from the smaller to the larger number, found "6-4"'),
            ([-1], "expected numbers from 0 to 1000000, found -1"),
            ([1_000_001], "expected numbers from 0 to 1000000"),
            (["0-1000001"], "expected numbers from 0 to 1000000"),
        ],
    )
    @pytest.mark.parametrize("key", ["rank", "step"])
    def test_bad_lists(self, write_config, key, value, problem):
        message = rejected(write_config(**{key: value}))
        assert message.startswith(f'"{key}": ')
        assert problem in message


class TestTopLevel:
    @pytest.mark.parametrize("value", [5, "gradprobe", ["grad_probe"], True])
    def test_task_must_be_a_known_word(self, write_config, value):
        assert rejected(write_config(task=value)).startswith('"task": expected one of statistics, tensor')

    @pytest.mark.parametrize("task", ["run_ut", "acc_check", "diff_check", "nan_check", "exception_dump"])
    def test_a_task_not_built_yet_is_named(self, write_config, task):
        path = write_config(task=task)
        known = f'json: line 1: "task": {task} is no task of msprobe: .*(msprobe|task) [a-z_]+ .* monitor$'
        with pytest.raises(UnsupportedError, match=known):
            load_config(path)

    @pytest.mark.parametrize("task", [None, ""])
    def test_the_default_task(self, write_config, task):
        config = load_config(write_config(task=task))
        assert config.task == "statistics"
        assert config.section == load_config(None, dump_path="x").section

    @pytest.mark.parametrize("value", [None, ""])
    def test_a_missing_dump_path(self, write_config, value):
        assert "The dump_path not found." in rejected(write_config(dump_path=value))

    @pytest.mark.parametrize("value", [3, ["a"], "a\0b"])
    def test_a_dump_path_that_is_no_path(self, write_config, value):
        assert rejected(write_config(dump_path=value)).startswith('"dump_path": expected a path, found ')

    def test_a_dump_path_that_is_a_file(self, write_config, tmp_path):
        (tmp_path / "taken").touch()
        assert "expected a directory" in rejected(write_config(dump_path=str(tmp_path / "taken")))

    def test_a_dump_path_that_is_a_link(self, write_config, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path)
        assert "is a symbolic link" in rejected(write_config(dump_path=str(tmp_path / "link")))

    @pytest.mark.parametrize("value", ["L3", 7, ["L1"]])
    def test_level(self, write_config, value):
        assert rejected(write_config(level=value)).startswith(
            '"level": expected one of L0, L1, L2, mix, debug'
        )

    @pytest.mark.parametrize("key", ["enable_dataloader", "async_dump", "extra_info"])
    def test_switches(self, write_config, key):
        assert rejected(write_config(**{key: "yes"})) == f'"{key}": expected true or false, found "yes"'
        assert rejected(write_config(**{key: 1})) == f'"{key}": expected true or false, found 1'

    def test_switches_reach_the_result(self, write_config):
        assert not load_config(write_config()).enable_dataloader
        assert not load_config(write_config()).async_dump
        assert load_config(write_config(enable_dataloader=True)).enable_dataloader
        assert load_config(write_config(async_dump=True)).async_dump

    @pytest.mark.parametrize(
        ("key", "meant"), [("tasks", "task"), ("dump_paht", "dump_path"), ("ranks", "rank"), ("Step", "step")]
    )
    def test_a_mistyped_key(self, write_config, key, meant):
        assert rejected(write_config(**{key: 1})) == f'"{key}": unknown key: did you mean "{meant}"?'

    def test_a_key_of_the_section_at_the_top(self, write_config):
        assert rejected(write_config(grad_level="L2")) == (
            '"grad_level": expected inside of "grad_probe", found at the top level'
        )

    def test_other_unknown_keys_are_ignored_with_one_warning(self, write_config, caplog):
        path = write_config(colour="blue", xyz=1)
        load_config(path)
        assert caplog.messages == [f"{path}: unknown keys are ignored: colour, xyz"]


class TestGradProbeSection:
    @pytest.mark.parametrize("value", [None, [], "L1", 3])
    def test_must_be_an_object(self, write_config, tmp_path, value):
        path = write_config()
        path.write_text(json.dumps({**json.loads(path.read_text()), "grad_probe": value}))
        assert rejected(path).startswith('"grad_probe": expected an object, found ')

    @pytest.mark.parametrize("level", ["L0", "L1", "L2"])
    def test_levels(self, write_config, level):
        assert load_config(write_config({"grad_level": level})).section.grad_level == level

    @pytest.mark.parametrize("value", ["L3", "l1", 1, ["L1"], ""])
    def test_bad_levels(self, write_config, value):
        message = rejected(write_config({"grad_level": value}))
        assert message.startswith('"grad_probe.grad_level": grad_level must be one of L0, L1, L2, found ')

    @pytest.mark.parametrize(
        ("key", "expected"),
        [
            ("grad_levl", 'did you mean "grad_level"?'),
            ("bound", 'did you mean "bounds"?'),
        ],
    )
    def test_unknown_keys(self, write_config, key, expected):
        assert rejected(write_config({key: 1})).startswith(f'"grad_probe.{key}": unknown key: {expected}')

    def test_null_is_not_given(self, write_config):
        section = {"grad_level": None, "param_list": None, "bounds": None}
        assert load_config(write_config(section)).section == load_config(write_config()).section

    def test_other_keys_are_ignored_with_a_warning(self, write_config, caplog):
        path = write_config({"zzz": 1, "list": ["a"], "scope": []})
        load_config(path)
        assert caplog.messages == [
            f'{path}: line 1: "grad_probe.zzz": the unknown key is ignored',
            f'{path}: line 1: "grad_probe.list": task grad_probe does not use this key',
        ]

    def test_param_list(self, write_config):
        config = load_config(write_config({"param_list": ["b", "a.weight", "b"]}))
        assert config.section.param_list == ("b", "a.weight", "b")

    @pytest.mark.parametrize("value", ["a.weight", 3, {"a": 1}])
    def test_param_list_must_be_a_list(self, write_config, value):
        assert "param_list must be a list" in rejected(write_config({"param_list": value}))

    def test_param_list_must_hold_strings(self, write_config):
        assert rejected(write_config({"param_list": ["a", 3]})) == (
            '"grad_probe.param_list": expected a list of strings, found 3 in it'
        )

    @pytest.mark.parametrize(
        ("text", "labels"),
        [
            ("[-1, 0, 1]", ["-1", "0", "1"]),
            ("[-0.1, 0.0, 0.10]", ["-0.1", "0.0", "0.1"]),
            ("[1e-5, 1e6, 1e16]", ["1e-05", "1000000.0", "1e+16"]),
            ("[-9223372036854775808, 9223372036854775807]", ["-9223372036854775808", "9223372036854775807"]),
            ("[]", []),
        ],
    )
    def test_bounds_keep_the_spelling_of_python(self, write_config, text, labels):
        path = write_config({"bounds": "HERE"})
        path.write_text(path.read_text().replace('"HERE"', text))
        bounds = load_config(path).section.bounds
        assert [str(bound) for bound in bounds] == labels
        assert list(bounds) == json.loads(text)

    @pytest.mark.parametrize(
        ("text", "phrase"),
        [
            ("3", "bounds must be a list"),
            ('"all"', "bounds must be a list"),
            ('["0"]', "bounds element is not int or float"),
            ("[true]", "bounds element is not int or float"),
            ("[null]", "bounds element is not int or float"),
            ("[1e20]", "bounds element is out of int64 range"),
            ("[9223372036854775808]", "bounds element is out of int64 range"),
            ("[9223372036854775808.0]", "bounds element is out of int64 range"),
            ("[-9223372036854775809]", "bounds element is out of int64 range"),
            ("[1, 0]", "bounds list is not ascending"),
            ("[0, 0]", "bounds list is not ascending"),
            ("[0, 0.0]", "bounds list is not ascending"),
            ("[9223372036854775806, 9223372036854775807]", "bounds list is not ascending"),
        ],
    )
    def test_bad_bounds(self, write_config, text, phrase):
        path = write_config({"bounds": "HERE"})
        path.write_text(path.read_text().replace('"HERE"', text))
        message = rejected(path)
        assert message.startswith('"grad_probe.bounds": ')
        assert phrase in message


class TestFile:
    def test_missing(self, tmp_path):
        assert rejected(tmp_path / "none.json") == (
            "cannot read the configuration file: No such file or directory"
        )

    def test_a_directory(self, tmp_path):
        (tmp_path / "dir.json").mkdir()
        assert rejected(tmp_path / "dir.json") == "cannot read the configuration file: Is a directory"

    def test_the_line_of_what_is_wrong_is_named(self, tmp_path):
        path = tmp_path / "config.json"
        path.write_text('{"task": "tensor", "dump_path": "x",\n "tensor": {\n  "list": ["a",\n  3]}}')
        with pytest.raises(InvalidArgument, match=r'config.json: line 4: "tensor.list": .*, found 3 in it$'):
            load_config(path)
        path = tmp_path / "config.yaml"
        path.write_text("task: tensor\ndump_path: x\ntensor:\n  list: [a]\n  lists: 3\n")
        with pytest.raises(InvalidArgument, match=r'config.yaml: line 5: "tensor.lists": unknown key: '):
            load_config(path)

    def test_another_suffix(self, tmp_path):
        assert "that ends in .json" in rejected(tmp_path / "config.txt")

    def test_yaml_says_the_same(self, write_config, tmp_path):
        path = tmp_path / "config.yaml"
        path.write_text(f"# a comment\ntask: grad_probe\ndump_path: {tmp_path / 'probe'}\nstep: [1, 3-5]\n")
        assert load_config(path) == load_config(write_config(step=[1, "3-5"]))
        path.write_text("dump_path: x\nstep: {}")
        assert rejected(path) == '"step": expected a list of integers and ranges "a-b", found {}'
        path.write_text("task: grad_probe\ndump_path: x\ngrad_probe: {bounds: [.nan]}")
        assert rejected(path) == '"grad_probe.bounds": bounds element is out of int64 range, found nan'

    def test_a_symbolic_link(self, write_config, tmp_path):
        (tmp_path / "link.json").symlink_to(write_config())
        assert rejected(tmp_path / "link.json") == "expected a file, found a symbolic link"

    def test_a_named_pipe_does_not_hang(self, tmp_path):
        os.mkfifo(tmp_path / "pipe.json")
        assert rejected(tmp_path / "pipe.json") == "cannot read the configuration file: Invalid argument"

    def test_a_zero_byte_in_the_name(self):
        with pytest.raises(InvalidArgument, match="the name has a zero byte"):
            load_config("a\0.json")

    def test_a_name_that_is_not_utf8(self, tmp_path):
        path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.json")
        Path(path).write_text('{"dump_path": "x"}')
        assert load_config(path, dump_path=path + "_out").dump_path == path + "_out"

    def test_too_large(self, tmp_path):
        path = tmp_path / "large.json"
        with path.open("wb") as file:
            file.truncate((10 << 20) + 1)  # a hole: no disk is used
        assert rejected(path) == "expected at most 10 MiB, found 10485761 bytes"

    def test_a_byte_order_mark_is_fine(self, write_config):
        path = write_config()
        path.write_text(path.read_text(), encoding="utf-8-sig")
        assert load_config(path).task == "grad_probe"

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"", "line 1, column 1: expected JSON"),
            (b'{"task": \n x}', "line 2, column 2: expected JSON"),
            (b'{"a": "\xff"}', "byte 7: expected UTF-8 text"),
            (b"[1]", "expected an object, found a list"),
            (b'"text"', "expected an object, found text"),
            (b'{"task": "grad_probe", "task": "tensor"}', '"task": the key stands twice'),
            (b'{"grad_probe": {"bounds": [], "bounds": []}}', '"bounds": the key stands twice'),
            (b'{"a": ' + b"[" * 200_000, "nested too deeply"),
            (b'{"task": "grad_probe", "grad_probe": {"bounds": [NaN]}}', "line 1, column 50: expected JSON"),
            (b'{"a": ' + b"9" * 5000 + b"}", "expected JSON: "),
        ],
        ids=["empty", "broken", "not-utf8", "list", "text", "twice", "twice-inside", "deep", "nan", "digits"],
    )
    def test_not_a_configuration(self, tmp_path, content, problem):
        path = tmp_path / "config.json"
        path.write_bytes(content)
        assert rejected(path).startswith(problem)

    @pytest.mark.parametrize("content", [b"{", b'{"a": "\xff"}', b"[" * 200_000, b"9" * 5000])
    def test_what_is_no_json_is_also_a_runtime_error(self, tmp_path, content):
        path = tmp_path / "config.json"
        path.write_bytes(content)
        with pytest.raises(RuntimeError):
            load_config(path)
        assert rejected(path)


class TestTables:
    """The table of keys: cpp/src/config/tables.cpp."""

    def test_each_default_is_allowed(self, write_config, tmp_path, caplog):
        for task, _, is_available in core.config_tasks():
            if is_available:
                rows = [row for row in core.config_keys() if task in row["tasks"]]
                given = {row["name"]: row["default"] for row in rows}
                path = write_config(task=task, **{task: given})
                assert load_config(path).section == load_config(None, task=task, dump_path="x").section
        assert caplog.text == ""

    def test_rows_are_complete(self):
        tasks = {name for name, _, _ in core.config_tasks()}
        seen = set()
        for row in core.config_keys():
            assert {task.split(".")[0] for task in row["tasks"]} <= tasks
            for task in row["tasks"] or [""]:
                assert (task, row["name"]) not in seen
                seen.add((task, row["name"]))
            assert row["origin"] == "ignored" or row["meaning"].endswith(".")
            assert row["words"] or row["type"] not in ("word", "list of words")

    def test_the_page_shows_the_table(self):
        from msprobe.config.documentation import with_tables

        page = (Path(__file__).parents[3] / "docs/formats/config.md").read_text(encoding="utf-8")
        assert page.count("<!-- keys of: ") == 8
        assert with_tables(page) == page, "python -m msprobe.config.documentation docs/formats/config.md"

    def test_a_section_alone(self, write_config):
        path = write_config({"grad_level": "L2"}, task="tensor", dump_path=3)
        assert load_section(path, "grad_probe").grad_level == "L2"
        assert load_section(write_config(), "grad_probe").grad_level == "L1"
        with pytest.raises(InvalidArgument, match=r'line 1: "grad_probe.grad_level": .* one of L0'):
            load_section(write_config({"grad_level": 3}), "grad_probe")

    def test_a_file_with_the_keys_of_a_task_at_its_top(self, tmp_path):
        path = tmp_path / "own.yaml"
        path.write_text("grad_level: L2\nbounds: []\n")
        section = load_own_config(path, "grad_probe")
        assert section == GradProbeConfig("L2", (), (), "auto")
        path.write_text("grad_level: L2\nbounds: 3\n")
        with pytest.raises(InvalidArgument, match=r'own.yaml: line 2: "bounds": bounds must be a list'):
            load_own_config(path, "grad_probe")
