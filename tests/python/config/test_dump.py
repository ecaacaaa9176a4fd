# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The sections of the data dump: what each key allows, and how keys, task and level go together."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msprobe import InvalidArgument
from msprobe.config import Config, DumpConfig, load_config
from msprobe.config.online_check import Meeting

TASKS = ("statistics", "tensor", "structure", "overflow_check")
WithFilters = ("statistics", "tensor", "overflow_check")
DIRECTIONS = ("forward", "backward", "input", "output")

Load = Callable[..., Config]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """write(task, section, **top-level keys)"""

    def to_file(task: str, section: Any = None, **keys: Any) -> Path:
        content = {"task": task, "dump_path": str(tmp_path / "dump"), **keys}
        if section is not None:
            content[task] = section
        path = tmp_path / "config.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    return to_file


@pytest.fixture
def load(write: Callable[..., Path]) -> Load:
    def from_file(task: str, section: Any = None, **keys: Any) -> Config:
        return load_config(write(task, section, **keys))

    return from_file


@pytest.fixture
def rejected(write: Callable[..., Path]) -> Callable[..., str]:
    """The message of the refusal, without file and line."""

    def message(task: str, section: Any = None, **keys: Any) -> str:
        path = write(task, section, **keys)
        with pytest.raises(InvalidArgument) as caught:
            load_config(path)
        text = str(caught.value)
        assert text.startswith(f"{path}: ")
        assert "\n" not in text
        return re.sub("^line [0-9]+: ", "", text.removeprefix(f"{path}: "))

    return message


def defaults(task: str) -> Any:
    return load_config(None, task=task, dump_path="x").section


class TestDefaults:
    @pytest.mark.parametrize("task", TASKS)
    @pytest.mark.parametrize("section", [None, {}])
    def test_nothing_but_the_task_is_needed(self, load, task, section, caplog):
        config = load(task, section)
        assert config.section == DumpConfig(
            scope=(), list=(), tensor_list=(), data_mode=("forward", "backward", "input", "output"),
            summary_mode="statistics", sketch=True, tensor_format="pt", overflow_nums=1, api_set="default",
            json="at_stop", parameters=False, diagnosis=(), stacks=True,
        )  # fmt: skip
        assert config.level == ("mix" if task == "structure" else "L1")
        assert caplog.text == ""

    def test_the_default_file_of_the_existing_tool(self, load, caplog):
        keys = {
            "rank": [], "step": [], "level": "L1", "enable_dataloader": False, "async_dump": False,
            "tensor": {"scope": [], "list": [], "data_mode": ["all"], "file_format": "npy"},
            "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"},
            "overflow_check": {"overflow_nums": 1, "check_mode": "all"},
            "structure": {"scope": [], "list": [], "data_mode": ["all"]},
            "run_ut": {"white_list": [], "black_list": [], "error_data_path": "./"},
            "grad_probe": {"grad_level": "L1", "param_list": [], "bounds": [-1, 0, 1]},
            "free_benchmark": {"scope": [], "list": [], "fuzz_device": "npu"},
        }  # fmt: skip
        for task in ("tensor", "statistics", "overflow_check"):
            assert load(task, **keys).section == defaults(task)
        keys["level"] = "mix"
        assert load("structure", **keys).section == defaults("structure")
        assert caplog.text == ""

    @pytest.mark.parametrize("task", TASKS)
    def test_null_is_not_given(self, load, task, caplog):
        keys = (
            "scope", "list", "tensor_list", "data_mode", "summary_mode", "file_format", "tensor_format",
            "overflow_nums", "check_mode", "api_set", "json", "parameters", "diagnosis", "stacks",
            "online_run_ut", "host",
        )  # fmt: skip
        assert load(task, dict.fromkeys(keys)).section == defaults(task)
        assert caplog.text == ""

    @pytest.mark.parametrize("value", [None, [], "x", 3])
    @pytest.mark.parametrize("task", TASKS)
    def test_the_section_must_be_an_object(self, write, task, value):
        path = write(task)
        path.write_text(json.dumps({**json.loads(path.read_text()), task: value}))
        with pytest.raises(InvalidArgument, match=f'"{task}": expected an object, found '):
            load_config(path)

    def test_other_sections_may_hold_anything(self, load):
        assert load("statistics", tensor=5, overflow_check=[], grad_probe=None).task == "statistics"


class TestArguments:
    def test_arguments_win_over_the_file(self, write, tmp_path):
        path = write("grad_probe", level="L1", step=[1], tensor={"list": ["relu"]}, grad_probe=3)
        config = load_config(path, task="tensor", dump_path=tmp_path / "x", level="L2", step=["2-3"])
        assert (config.task, config.level, config.steps) == ("tensor", "L2", (2, 3))
        assert config.dump_path == str(tmp_path / "x")
        assert config.section == replace(defaults("tensor"), list=("relu",))

    def test_the_level_given_as_an_argument_is_checked_against_the_section(self, write):
        with pytest.raises(InvalidArgument, match=r'json: line 1: "statistics\.scope": .*at level L0'):
            load_config(write("statistics", {"scope": ["Torch.a.0.forward"] * 2}), level="L0")
        with pytest.raises(InvalidArgument, match=r'^PrecisionDebugger\(\): "level": expected task tensor'):
            load_config(write("statistics"), level="L2")


class TestFilters:
    NOT_LISTS_OF_TEXT = ("relu", 3, {}, True, [3], [None], [["a"]], ["a", 1])

    @pytest.mark.parametrize("value", NOT_LISTS_OF_TEXT)
    @pytest.mark.parametrize(
        ("task", "key"),
        [*itertools.product(WithFilters, ("scope", "list")), ("statistics", "tensor_list")],
    )
    def test_lists_of_text(self, rejected, task, key, value):
        assert rejected(task, {key: value}).startswith(f'"{task}.{key}": expected a list of strings, found ')

    @pytest.mark.parametrize("task", WithFilters)
    def test_scope_and_list_together(self, load, task):
        scope = ["Functional.a.0.forward", "Functional.b.1.backward"]
        section = load(task, {"scope": scope, "list": ["conv", "relu"]}).section
        assert section.scope == tuple(scope)
        assert section.list == ("conv", "relu")

    def test_tensor_list(self, load):
        assert load("statistics", {"tensor_list": ["softmax"]}).section.tensor_list == ("softmax",)

    @pytest.mark.parametrize("length", [1, 3, 4])
    def test_a_scope_has_two_names(self, rejected, length):
        message = rejected("tensor", {"scope": ["Torch.a.0.forward"] * length})
        assert message.startswith(
            '"tensor.scope": expected the names of the first and the last record, found '
        )

    @pytest.mark.parametrize(
        ("level", "scope", "allowed"),
        [
            ("L0", ["Module.a.A.forward.0", "Module.b.B.forward.0"], True),
            ("L0", ["Module.a.A.forward.0", "Torch.b.0.forward"], False),
            ("L0", ["Torch.a.0.forward", "Module.b.B.forward.0"], False),
            ("L1", ["Torch.a.0.forward", "Tensor.b.0.forward"], True),
            ("L1", ["Torch.a.0.forward", "Module.b.B.forward.0"], False),
            ("L1", ["Module.a.A.forward.0", "Torch.b.0.forward"], False),
            ("mix", ["Module.a.A.forward.0", "Torch.b.0.forward"], True),
            ("mix", ["Torch.a.0.forward", "Module.b.B.forward.0"], True),
        ],
    )
    def test_the_names_of_a_scope_fit_the_level(self, load, rejected, level, scope, allowed):
        if allowed:
            assert load("statistics", {"scope": scope}, level=level).section.scope == tuple(scope)
        else:
            message = rejected("statistics", {"scope": scope}, level=level)
            assert message.startswith('"statistics.scope": expected names ')
            assert f"at level {level}" in message
            wrong = next(name for name in scope if name.startswith("Module.") == (level == "L1"))
            assert json.dumps(wrong) in message

    def test_data_mode_agrees_with_what_each_word_means(self, load):
        for count in range(5):
            for words in itertools.permutations(DIRECTIONS, count):
                mode = load("statistics", {"data_mode": list(words)}).section.data_mode
                assert list(mode) == [word for word in DIRECTIONS if word in mode]
                either = {"forward", "backward"} & set(words) or {"forward", "backward"}
                side = {"input", "output"} & set(words) or {"input", "output"}
                assert set(mode) == either | side

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ("forward", 'expected a list out of forward, backward, input, output, or ["all"], found "for'),
            ("all", "expected a list out of forward"),
            ([1], "expected a list out of forward"),
            (["all", "forward"], 'expected "all" alone in the list, found '),
            (["forward", "sideways"], 'found "sideways" in it'),
            ([*DIRECTIONS, "forward"], "expected at most 4 entries, found "),
        ],
    )
    @pytest.mark.parametrize("task", WithFilters)
    def test_bad_data_modes(self, rejected, task, value, problem):
        message = rejected(task, {"data_mode": value})
        assert message.startswith(f'"{task}.data_mode": ')
        assert problem in message


class TestWords:
    CASES = (
        ("statistics", "summary_mode", ("statistics", "md5", "xor")),
        ("tensor", "summary_mode", ("statistics", "md5", "xor")),
        ("overflow_check", "check_mode", ("all", "aicore", "atomic")),
        *((task, "tensor_format", ("pt", "npy")) for task in WithFilters),
        *((task, "api_set", ("default", "all")) for task in TASKS),
        *((task, "json", ("at_stop", "packed", "deferred")) for task in TASKS),
    )

    @pytest.mark.parametrize(("task", "key", "allowed"), CASES)
    def test_every_word(self, load, task, key, allowed, caplog):
        without_effect = {"xor": "md5", "aicore": "all", "atomic": "all"}
        for word in allowed:
            caplog.clear()
            config = load(task, {key: word})
            assert (caplog.text != "") == (word in without_effect)
            if key == "check_mode":
                continue
            read = without_effect.get(word, word)
            assert config.native.section[key] == read
            assert getattr(config.section, key, read) == read

    @pytest.mark.parametrize("value", ["xyz", "", 1, False, ["md5"], {}])
    @pytest.mark.parametrize(("task", "key", "allowed"), CASES)
    def test_anything_else(self, rejected, task, key, allowed, value):
        message = rejected(task, {key: value})
        assert message.startswith(f'"{task}.{key}": ')
        assert f"expected one of {', '.join(allowed)}, found {json.dumps(value)}" in message

    @pytest.mark.parametrize("value", ["npy", "bin", None])
    def test_file_format_changes_nothing(self, load, value):
        assert load("tensor", {"file_format": value}).section == defaults("tensor")

    @pytest.mark.parametrize("value", ["pt", "", 1, ["npy"], False])
    def test_bad_file_formats(self, rejected, value):
        assert rejected("tensor", {"file_format": value}) == (
            '"tensor.file_format": file_format is invalid, expected one of npy, bin, found '
            + json.dumps(value)
        )

    def test_the_phrase_for_a_bad_check_mode_is_kept(self, rejected):
        assert "check_mode is invalid" in rejected("overflow_check", {"check_mode": "x"})


class TestOverflowNums:
    @pytest.mark.parametrize("value", [1, 3, -1, 10**9])
    def test_numbers(self, load, value):
        assert load("overflow_check", {"overflow_nums": value}).section.overflow_nums == value

    @pytest.mark.parametrize("value", [0, -2, -(10**9)])
    def test_out_of_range(self, rejected, value):
        assert rejected("overflow_check", {"overflow_nums": value}) == (
            f'"overflow_check.overflow_nums": overflow_nums should be -1 or positive integer, found {value}'
        )

    @pytest.mark.parametrize("value", ["1", 1.0, True, [1], ""])
    def test_not_an_integer(self, rejected, value):
        message = rejected("overflow_check", {"overflow_nums": value})
        assert message.startswith(
            '"overflow_check.overflow_nums": overflow_num is invalid, expected an integer'
        )


class TestOnlineCheck:
    OFF: ClassVar = {
        "nfs_path": 3,
        "host": [],
        "port": "x",
        "tls_path": {},
    }

    def test_nothing_is_looked_at_while_it_is_off(self, load, caplog):
        assert load("tensor", {"online_run_ut": False, **self.OFF}).section == defaults("tensor")
        assert load("tensor", self.OFF).section == defaults("tensor")
        assert caplog.text == ""

    def test_on(self, load):
        section = {"online_run_ut": True, "host": "127.0.0.1", "port": 4000}
        assert load("tensor", section).section.online == Meeting(host="127.0.0.1", port=4000)

    @pytest.mark.parametrize("value", ["true", 1, []])
    def test_neither(self, rejected, value):
        assert rejected("tensor", {"online_run_ut": value}).startswith(
            '"tensor.online_run_ut": expected true or false, found '
        )


class TestOurKeys:
    @pytest.mark.parametrize("task", TASKS)
    def test_stacks(self, load, task):
        assert load(task, {"stacks": False}).section.stacks is False
        assert load(task, extra_info=False).section.stacks is False
        assert load(task, {"stacks": True}, extra_info=False).section.stacks is True

    @pytest.mark.parametrize("task", WithFilters)
    def test_parameters(self, load, task):
        assert load(task, {"parameters": True}).section.parameters is True

    @pytest.mark.parametrize(
        ("task", "key"), [*((t, "stacks") for t in TASKS), *((t, "parameters") for t in WithFilters)]
    )
    @pytest.mark.parametrize("value", ["yes", 0, 1, []])
    def test_bad_switches(self, rejected, task, key, value):
        expected = f'"{task}.{key}": expected true or false, found {json.dumps(value)}'
        assert rejected(task, {key: value}) == expected

    ALL = ("inputs", "parameters", "gradients", "optimizer", "rng", "modules", "determinism")

    @pytest.mark.parametrize("task", TASKS)
    def test_diagnosis(self, load, task):
        for value, expected in (
            ([], ()),
            (["all"], self.ALL),
            (list(reversed(self.ALL)), self.ALL),
            (["rng", "inputs", "rng"], ("inputs", "rng")),
        ):
            assert load(task, {"diagnosis": value}).section.diagnosis == expected

    @pytest.mark.parametrize("value", ["all", True, {}, ["weather"], ["all", "rng"], [3], ["rng"] * 8])
    @pytest.mark.parametrize("task", TASKS)
    def test_bad_diagnosis(self, rejected, task, value):
        assert rejected(task, {"diagnosis": value}).startswith(f'"{task}.diagnosis": expected ')


class TestKeys:
    @pytest.mark.parametrize("task", TASKS)
    def test_a_mistyped_key(self, rejected, task):
        assert rejected(task, {"api_sets": 1}) == f'"{task}.api_sets": unknown key: did you mean "api_set"?'

    def test_a_key_of_the_section_at_the_top(self, rejected):
        assert rejected("statistics", list=["relu"]) == (
            '"list": expected inside of "statistics", found at the top level'
        )

    @pytest.mark.parametrize("task", TASKS)
    def test_an_unknown_key_is_ignored_with_a_warning(self, load, write, task, caplog):
        assert load(task, {"colour": 1}).section == defaults(task)
        assert caplog.messages == [f'{write(task)}: line 1: "{task}.colour": the unknown key is ignored']

    def test_a_key_of_another_task_changes_nothing_and_says_so(self, load, write, caplog):
        assert load("structure", {"list": ["relu"], "summary_mode": "md5"}).section == defaults("structure")
        path = write("structure")
        assert caplog.messages == [
            f'{path}: line 1: "structure.{key}": task structure does not use this key'
            for key in ("list", "summary_mode")
        ]

    def test_keys_of_other_frameworks_are_ignored_and_say_so(self, load, caplog):
        load("statistics", {"device": "host", "precision": "high"})
        assert [text.split(": ")[2:4] for text in caplog.messages] == [
            ['"statistics.device"', "the key is ignored"],
            ['"statistics.precision"', "the key is ignored"],
        ]


class TestLevels:
    @pytest.mark.parametrize("task", WithFilters)
    @pytest.mark.parametrize("level", ["L0", "L1", "mix", "debug"])
    def test_every_level(self, load, task, level):
        assert load(task, level=level).level == level

    @pytest.mark.parametrize("level", ["", None])
    def test_the_default_level(self, load, level):
        assert load("statistics", level=level).level == "L1"
        assert load("structure", level=level).level == "mix"

    @pytest.mark.parametrize("level", ["L0", "mix"])
    def test_levels_of_structure(self, load, level, caplog):
        assert load("structure", level=level).level == level
        assert caplog.text == ""

    @pytest.mark.parametrize("level", ["L1", "L2", "debug"])
    def test_other_levels_of_structure_become_mix(self, load, write, level, caplog):
        assert load("structure", level=level).level == "mix"
        assert caplog.messages == [
            f'{write("structure")}: line 1: "level": task structure needs level L0 or mix, found {level}: '
            "mix is used"
        ]

    def test_level_l2(self, load):
        section = load("tensor", {"list": ["Torch.softmax.0.forward"]}, level="L2").section
        assert section.list == ("Torch.softmax.0.forward",)

    @pytest.mark.parametrize("names", [[], ["a", "b"], None])
    def test_level_l2_needs_one_name(self, rejected, names):
        message = rejected("tensor", {"list": names}, level="L2")
        assert message.startswith('"tensor.list": expected exactly one name at level L2, found ')

    def test_level_l2_allows_no_scope(self, rejected):
        section = {"list": ["a"], "scope": ["Torch.a.0.forward", "Torch.b.0.forward"]}
        assert rejected("tensor", section, level="L2").startswith('"tensor.scope": expected no scope')

    @pytest.mark.parametrize("task", ["statistics", "overflow_check"])
    def test_level_l2_is_for_task_tensor(self, rejected, task):
        assert rejected(task, {"list": ["a"]}, level="L2") == (
            f'"level": expected task tensor at level L2, found task {task}'
        )

    def test_level_debug_uses_no_filters(self, load, write, caplog):
        section = {"scope": ["Module.a", "Torch.b"], "list": ["a"], "tensor_list": ["b"]}
        assert load("statistics", section, level="debug").section == defaults("statistics")
        path = write("statistics")
        assert caplog.messages == [
            f'{path}: line 1: "statistics.{key}": level debug does not use this key' for key in section
        ]

    def test_level_debug_checks_filters_all_the_same(self, rejected):
        assert rejected("statistics", {"list": 3}, level="debug").startswith('"statistics.list": ')
        assert rejected("statistics", {"scope": ["a"]}, level="debug").startswith('"statistics.scope": ')


class TestAsyncDump:
    @pytest.mark.parametrize("level", ["L0", "L1", "mix"])
    def test_task_tensor_needs_a_list(self, load, rejected, level):
        assert load("tensor", {"list": ["a"]}, level=level, async_dump=True).async_dump
        message = rejected("tensor", level=level, async_dump=True)
        assert message.startswith('"tensor.list": expected at least one name with "async_dump"')

    def test_level_debug_drops_the_list(self, load):
        for section in ({}, {"list": ["a"]}):
            config = load("tensor", section, level="debug", async_dump=True)
            assert config.async_dump
            assert config.section == defaults("tensor")

    @pytest.mark.parametrize("task", ["statistics", "overflow_check", "structure"])
    def test_other_tasks_need_none(self, load, task):
        assert load(task, async_dump=True).async_dump
