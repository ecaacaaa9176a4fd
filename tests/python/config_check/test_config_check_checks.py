# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What each check says; among it every place where mindstudio-probe is wrong."""

from __future__ import annotations

import random
from typing import ClassVar

import pytest
from config_check_packs import OURS, check_of, stats
from msprobe.config_check.checks.check_hyperparameters import same_value
from msprobe.config_check.checks.check_result import sheet_number
from msprobe.config_check.checks.likelihood import LEVELS, table
from msprobe.files.left_out import lines

A_STEP = "step0/rank0"


def weights(**values):
    return {f"weights/{A_STEP}/weight.json": {name: stats(value) for name, value in values.items()}}


def dataset(tree, place=A_STEP):
    return {f"dataset/{place}/dataset.json": tree}


class TestEnvironment:
    def test_each_side_stands_under_its_name(self, compared):
        result = compared({"env": {"NCCL_ALGO": "Ring"}}, {"env": {}})
        assert check_of(result, "env").rows == [["NCCL_ALGO", "NCCL_ALGO", "Ring", "None", "error"]]

    @pytest.mark.parametrize("text", ["0", "False", "false", "off"])
    def test_a_text_that_says_the_default_is_the_default(self, compared, text):
        result = compared({"env": {"NCCL_DETERMINISTIC": text, "CUDA_LAUNCH_BLOCKING": "0"}}, {"env": {}})
        assert check_of(result, "env").passed
        assert check_of(result, "env").rows == []

    def test_another_kind_of_device_is_a_warning(self, compared):
        result = compared({"env": {"ASCEND_LAUNCH_BLOCKING": "1"}}, {"env": {"NCCL_ALGO": "Ring"}})
        assert check_of(result, "env").rows == [
            ["HCCL_ALGO", "NCCL_ALGO", "None", "Ring", "error"],
            ["HCCL_INTRA_ROCE_ENABLE", "only bench has this env", 0, None, "warning"],
            ["HCCL_INTRA_PCIE_ENABLE", "only bench has this env", 1, None, "warning"],
            ["ASCEND_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING", "1", 0, "error"],
        ]

    def test_variables_beyond_the_table(self, compared):
        bench = {"NVIDIA_TF32_OVERRIDE": "1", "HOME": "/a", "NCCL_DEBUG": "INFO"}
        result = compared({"env": bench}, {"env": {"HOME": "/b"}})
        assert check_of(result, "variables").rows == [
            ["NCCL_DEBUG", "INFO", None, "warning"],
            ["NVIDIA_TF32_OVERRIDE", "1", None, "error"],
        ]
        assert result.ranked[0].difference.name == "NVIDIA_TF32_OVERRIDE"
        assert not result.agree

    def test_a_warning_fails_nothing(self, compared):
        assert compared({"env": {"NCCL_DEBUG": "INFO"}}, {"env": {}}).agree


class TestPackages:
    def test_torch_and_megatron_are_found_by_the_names_of_their_distributions(self, compared):
        result = compared(
            {"pip": "torch=2.1\nmegatron-core=0.1\nx=1\n"}, {"pip": "torch=2.2\nmegatron_core=0.2\n"}
        )
        assert check_of(result, "pip").rows == [
            ["megatron", "0.1", "0.2", "error"],
            ["torch", "2.1", "2.2", "error"],
        ]

    def test_a_missing_package_is_none(self, compared):
        result = compared({"pip": "numpy=1\n"}, {"pip": "peft=2\n"})
        assert check_of(result, "pip").rows == [
            ["numpy", "1", "None", "error"],
            ["peft", "None", "2", "error"],
        ]

    def test_of_a_package_that_is_listed_twice_the_first_counts(self, compared):
        assert compared({"pip": "numpy=1\nnumpy=2\n"}, {"pip": "numpy=1\n"}).agree

    def test_broken_lines_do_no_harm(self, compared):
        assert compared({"pip": "\n===\nnumpy\nnumpy=1=2\n=3\n"}, {"pip": "numpy\n"}).agree


class TestWeights:
    def test_missing_weights_fail(self, compared):
        result = compared(weights(a=1, b=2), weights(a=1, c=2))
        check = check_of(result, "weights")
        assert [row[2:4] for row in check.rows] == [
            ["a", True],
            ["b", "only bench have"],
            ["c", "only cmp have"],
        ]
        assert not check.passed

    def test_a_run_of_fewer_steps_passes_with_a_note(self, compared):
        longer = {**weights(a=1), "weights/step1/rank0/weight.json": {"a": stats(2)}}
        result = compared(longer, weights(a=1))
        check = check_of(result, "weights")
        assert check.passed
        assert check.rows[1][:4] == [1, 0, "a", "only bench have"]
        assert result.agree
        assert lines(result.left_out) == ["step 1, rank 0, weights (only in the reference)"]
        assert check_of(compared(weights(a=1), longer), "weights").rows == check.rows[:1]

    def test_no_common_step_fails(self, compared):
        for kind, make in (("weights", weights(a=1)), ("dataset", dataset({"args": {"0": stats(1)}}))):
            other = {name.replace("step0", "step5"): tree for name, tree in make.items()}
            assert not check_of(compared(make, other), kind).passed

    def test_another_number_of_ranks_fails(self, compared):
        two = {**weights(a=1), "weights/step0/rank1/weight.json": {"a": stats(1)}}
        assert not check_of(compared(two, weights(a=1)), "weights").passed
        assert not check_of(compared(weights(a=1), two), "weights").passed

    def test_nan_is_equal_to_nan(self, compared):
        nan = float("nan")
        check = check_of(compared(weights(a=nan), weights(a=nan)), "weights")
        assert check.rows == [[0, 0, "a", True, None, None, None, None]]

    def test_infinities_have_words(self, compared):
        check = check_of(compared(weights(a=1.0), weights(a=float("inf"))), "weights")
        assert check.rows[0][3:] == [False, "inf", "inf", "inf", "inf"]

    def test_relative_differences_have_the_sign_of_bench_and_none_of_zero(self, compared):
        check = check_of(compared(weights(a=-2.0, b=0), weights(a=-1.0, b=1)), "weights")
        assert check.rows == [[0, 0, "a", False, *[-0.5] * 4], [0, 0, "b", False, *[None] * 4]]

    def test_weights_that_part_in_training_are_named_so(self, compared):
        left = {**weights(a=1), "weights/step1/rank0/weight.json": {"a": stats(2)}}
        right = {**weights(a=1), "weights/step1/rank0/weight.json": {"a": stats(3)}}
        (difference,) = compared(left, right).ranked
        assert difference.difference.name == "weights after the first step"
        assert difference.likelihood != "cause"


class TestFingerprints:
    def prints(self, kind, value, place=A_STEP):
        return {f"msprobe/fingerprints/{kind}/{place}.json": value}

    def test_the_same_statistics_in_another_order_differ(self, compared):
        sides = [
            {**OURS, **weights(a=1), **self.prints("weights", {"a": {"shape": [4], "crc32": crc}})}
            for crc in ("00000001", "00000002")
        ]
        check = check_of(compared(*sides), "weights")
        assert check.rows[0][3] is False
        assert "in single elements or their order" in check.differences[0].detail

    @pytest.mark.parametrize(("key", "left", "right"), [("dtype", "a", "b"), ("shape", [2, 3], [3, 2])])
    def test_type_and_shape(self, compared, key, left, right):
        sides = [
            {**OURS, **weights(a=1), **self.prints("weights", {"a": {key: value}})} for value in (left, right)
        ]
        assert f"in {key}" in check_of(compared(*sides), "weights").differences[0].detail

    def test_batches_in_another_order_are_recognised(self, compared):
        def side(order):
            found = dict(OURS)
            for step, batch in enumerate(order):
                found |= dataset({"args": {"0": stats(batch)}, "kwargs": {}}, f"step{step}/rank0")
                found |= self.prints("dataset", {"args.0": {"crc32": str(batch)}}, f"step{step}/rank0")
            return found

        result = compared(side([1, 2, 3]), side([2, 3, 1]))
        assert result.ranked[0].difference.name == "order of the data"
        assert compared(side([1, 2, 3]), side([2, 7, 1])).ranked[0].difference.name.startswith("order of")
        assert compared(side([1, 2]), side([5, 6])).ranked[0].difference.name == "tensors"

    def test_a_pack_of_the_other_tool_has_other_roundings(self, compared):
        ours = {**OURS, **weights(a=1.0)}
        theirs = weights(a=1.0)
        theirs[f"weights/{A_STEP}/weight.json"]["a"]["norm"] = 1.00001
        assert compared(ours, theirs).agree
        theirs[f"weights/{A_STEP}/weight.json"]["a"]["max"] = 1.00001
        assert not compared(ours, theirs).agree


class TestDataset:
    def test_nested_inputs(self, compared):
        tree = {"args": {"0": stats(1)}, "kwargs": {"meta": {"ids": stats(2), "text": ""}}}
        check = check_of(compared(dataset(tree), dataset(tree)), "dataset")
        assert [row[2] for row in check.rows] == ["args.0", "kwargs.meta.ids"]

    def test_a_tensor_against_none_is_a_row(self, compared):
        check = check_of(
            compared(dataset({"args": {"0": stats(1)}}), dataset({"args": {"0": ""}})), "dataset"
        )
        assert check.rows == [[0, 0, "args.0", False, None, None, None, None]]

    def test_an_argument_on_one_side_fails(self, compared):
        both = dataset({"args": {"0": stats(1), "1": stats(1)}}), dataset({"args": {"0": stats(1)}})
        for sides in (both, both[::-1]):
            check = check_of(compared(*sides), "dataset")
            assert check.rows[-1][2:4] == ["args.1", False]
            assert not check.passed

    def test_keys_called_like_statistics(self, compared):
        inner = {"max": stats(1), "min": stats(1), "mean": stats(1), "norm": stats(2)}
        check = check_of(compared(dataset({"kwargs": inner}), dataset({"kwargs": inner})), "dataset")
        assert [row[2] for row in check.rows] == [f"kwargs.{name}" for name in inner]


STATIC = "hyperparameters/hyperparameters_static.json"
DYNAMIC = "hyperparameters/hyperparameters_dynamic.json"


class TestHyperparameters:
    def rows(self, compared, bench, cmp):
        return check_of(compared({STATIC: bench}, {STATIC: cmp}), "hyperparameters").rows

    def test_how_names_are_matched(self, compared):
        rows = self.rows(
            compared,
            {"lr": 1, "wd": 1, "save": 1, "num-layers": 1, "train.epochs": 1, "xyz": 1},
            {
                "learning_rate": 2,
                "weight_decay": 2,
                "saves": 2,
                "num_layers": 2,
                "train.num_epochs": 2,
                "abc": 1,
            },
        )
        assert [row[1:3] + row[5:] for row in rows] == [
            ["Only in comparison", "abc", None, "warning"],
            ["lr", "learning_rate", "mapping", "error"],
            ["num-layers", "num_layers", "pure name", "error"],
            ["save", "saves", "similarity:0.8888888888888888", "error"],
            ["train.epochs", "train.num_epochs", "mapping", "error"],
            ["wd", "weight_decay", "mapping", "error"],
            ["xyz", "Only in benchmark", None, "warning"],
        ]

    def test_a_similar_name_does_not_take_that_of_another(self, compared):
        assert (
            self.rows(compared, {"adam_beta1": 1, "adam_beta2": 2}, {"adam_beta2": 2, "adam_beta1": 1}) == []
        )
        assert self.rows(compared, {"adam_beta": 9, "adam_beta1": 1}, {"adam_beta1": 1}) == [
            ["hyperparameters_static.json", "adam_beta", "Only in benchmark", 9, None, None, "warning"]
        ]

    @pytest.mark.parametrize(
        ("left", "right"),
        [("0.001", 1e-3), ("1", 1), ('"abc"', "abc"), ("True", True), (None, "None"), ("1e3", 1000)],
    )
    def test_the_same_in_other_spellings(self, left, right):
        assert same_value(left, right)
        assert same_value([left], [right])

    @pytest.mark.parametrize(
        ("left", "right"), [("1", True), ("a", "A"), (0, False), (1, 2), ([1], [1, 2]), ([1], 1), ("1_0", 10)]
    )
    def test_different_values(self, left, right):
        assert not same_value(left, right)

    def test_scripts_against_a_running_program(self, compared):
        result = compared({STATIC: {"lr": "0.1"}}, {DYNAMIC: {"lr": 0.2}})
        check = check_of(result, "hyperparameters")
        assert check.rows[0][0] == "hyperparameters_static.json / hyperparameters_dynamic.json"
        assert check.notes


class TestRandom:
    def calls(self, count, line=1, code="torch.rand(2)", file="/a/train.py"):
        return {"count": count, "stack": [f"File {file}, line {line}, in main, {code}"]}

    def side(self, *calls, op="torch.rand"):
        return {"random/rank0.json": {op: list(calls)}}

    def test_lines_and_folders_may_move(self, compared):
        assert compared(self.side(self.calls(2)), self.side(self.calls(2, 9, file="/b/train.py"))).agree

    def test_counts_and_places(self, compared):
        result = compared(self.side(self.calls(2)), self.side(self.calls(3)))
        assert check_of(result, "random").rows[0][4:] == [2, 3, False]
        result = compared(self.side(self.calls(2)), self.side(self.calls(2, code="draw()", file="other.py")))
        assert [row[4:] for row in check_of(result, "random").rows] == [[2, 0, False], [0, 2, False]]

    def test_as_many_calls_from_another_place_are_a_warning_that_names_it(self, compared):
        moved = self.calls(2, code="draw()", file="other.py")
        for op in ("torch.rand", "torch.manual_seed"):
            result = compared(self.side(self.calls(2), op=op), self.side(moved, op=op))
            assert result.agree
            (found,) = result.ranked
            assert (found.difference.name, found.difference.level) == ("called from another place", "warning")
            assert (
                found.difference.detail
                == f"{op} 2 -> 2 calls (2 places: train.py:1 in main -> other.py:1 in main)"
            )
            assert found.likelihood == "unlikely"

    def test_a_rank_of_one_side_is_not_compared(self, compared):
        one = self.side(self.calls(2))
        two = {**one, "random/rank1.json": {"torch.rand": [self.calls(2)]}}
        for sides, word in (((one, two), "target"), ((two, one), "reference")):
            result = compared(*sides)
            assert (result.agree, result.status) == (False, "incomplete")
            assert f"rank 1, random (only in the {word})" in result.sentence

    def test_as_many_calls_in_all_that_are_others_at_a_place_are_a_difference(self, compared):
        def side(first, second):
            return self.side(self.calls(first), self.calls(second, code="torch.rand(n, device=place)"))

        assert compared(side(1, 3), side(1, 3)).agree
        result = compared(side(1, 3), side(3, 1))
        assert not result.agree
        assert [one.difference.name for one in result.ranked] == ["random"]

    def test_operations_that_the_existing_tool_does_not_know_are_no_difference(self, compared):
        ours = {**OURS, **self.side(self.calls(1), op="torch.randperm")}
        assert compared(ours, {"random/rank0.json": {}}).agree
        assert not compared(ours, {**OURS, "random/rank0.json": {}}).agree

    def test_seeds(self, compared):
        def side(seed, state):
            calls = [{"call": "torch.manual_seed", "arguments": seed, "where": ""}]
            return {**OURS, "msprobe/seeds/rank0.json": {"calls": calls, "states": {"torch.cpu": state}}}

        assert compared(side("1", "a"), side("1", "a")).agree
        result = compared(side("1", "a"), side("2", "b"))
        assert check_of(result, "seeds").rows == [
            ["seed", "torch.manual_seed", 0, "1", "2", "error"],
            ["state at the first step", "torch.cpu", 0, "a", "b", "error"],
        ]
        assert result.ranked[0].likelihood == "cause"

    def test_generators_that_nobody_seeds_differ_in_every_run(self, compared):
        def side(state, *seeds):
            calls = [{"call": call, "arguments": "1", "where": ""} for call in seeds]
            return {**OURS, "msprobe/seeds/rank0.json": {"calls": calls, "states": {"python": state}}}

        assert compared(side("a"), side("b")).agree
        assert compared(side("a", "random.seed"), side("b")).ranked[0].difference.name == "seed"
        result = compared(side("a", "random.seed"), side("b", "random.seed"))
        assert result.ranked[0].difference.name == "state at the first step"
        assert not result.agree


class TestSettings:
    def side(self, tree, ranks=1, how="training"):
        entries = {f"msprobe/settings/rank{rank}.json": {"collected": how, **tree} for rank in range(ranks)}
        return {**OURS, **entries}

    def test_a_setting_that_differs_on_all_ranks_is_one_row(self, compared):
        result = compared(
            self.side({"torch": {"get_float32_matmul_precision": "highest"}}, 4),
            self.side({"torch": {"get_float32_matmul_precision": "high"}}, 4),
        )
        assert check_of(result, "settings").rows == [
            ["torch.get_float32_matmul_precision", "all", "highest", "high", "error"]
        ]
        assert result.ranked[0].likelihood == "cause"

    def test_one_rank_alone(self, compared):
        bench = self.side({"torch": {"x": 1}}, 2)
        cmp = {**bench, "msprobe/settings/rank1.json": {"collected": "training", "torch": {"x": 2}}}
        assert check_of(compared(bench, cmp), "settings").rows == [["torch.x", 1, "1", "2", "error"]]

    def test_a_pack_of_the_command_says_nothing_about_torch(self, compared):
        training = self.side({"torch": {"x": 1}, "versions": {"libc": "a"}})
        assert compared(training, self.side({"versions": {"libc": "a"}}, how="static")).agree

    def test_what_seldom_matters_is_a_warning(self, compared):
        result = compared(self.side({"versions": {"kernel": "1"}}), self.side({"versions": {"kernel": "2"}}))
        assert result.agree
        assert result.ranked[0].difference.level == "warning"


class TestTwoDevices:
    """A run on one kind of device against one on another."""

    TORCH: ClassVar = {
        "autocast.cpu": False,
        "autocast.cuda": False,
        "backends.mkldnn.matmul.fp32_precision": "none",
        "backends.mkldnn.conv.fp32_precision": "none",
        "backends.cuda.matmul.fp32_precision": "none",
        "backends.cuda.matmul.allow_tf32": False,
        "backends.cudnn.conv.fp32_precision": "none",
        "backends.cudnn.allow_tf32": False,
    }

    def side(self, device, **switches):
        switches = {name.replace("__", "."): value for name, value in switches.items()}
        settings = {
            "collected": "training",
            "torch": {**self.TORCH, **switches},
            "model": {"device": device},
        }
        return {**OURS, "msprobe/settings/rank0.json": settings}

    def rows(self, compared, reference, target):
        rows = check_of(compared(reference, target), "settings").rows
        return [row for row in rows if row[0] != "model.device"]

    def test_autocast_of_one_is_that_of_the_other(self, compared):
        cpu = self.side("cpu", autocast__cpu="torch.bfloat16")
        assert compared(cpu, self.side("cuda", autocast__cuda="torch.bfloat16")).agree
        assert ["torch.autocast.cpu / torch.autocast.cuda", "all", "torch.bfloat16", "false", "error"] in (
            self.rows(compared, cpu, self.side("cuda"))
        )

    def test_what_acts_on_one_of_them_has_no_counterpart(self, compared):
        result = compared(self.side("cpu"), self.side("cuda", backends__cudnn__benchmark=True))
        assert result.agree
        assert [one.difference.name for one in result.ranked] == [
            "model.device",
            "of another device: torch.backends.cudnn.benchmark",
        ]

    def test_what_acts_on_neither_is_no_difference(self, compared):
        result = compared(self.side("cpu"), self.side("cpu", backends__cuda__matmul__allow_tf32=True))
        assert result.agree

    @pytest.mark.parametrize(
        ("switches", "row"),
        [
            (
                {"backends__cuda__matmul__allow_tf32": True},
                "torch.backends.mkldnn.matmul.fp32_precision / torch.backends.cuda.matmul.fp32_precision",
            ),
            (
                {"backends__cudnn__conv__fp32_precision": "tf32"},
                "torch.backends.mkldnn.conv.fp32_precision / torch.backends.cudnn.conv.fp32_precision",
            ),
            (
                {"backends__fp32_precision": "tf32", "backends__cudnn__conv__fp32_precision": "ieee"},
                "torch.backends.mkldnn.matmul.fp32_precision / torch.backends.cuda.matmul.fp32_precision",
            ),
        ],
    )
    def test_float32_products_that_are_rounded_are_named_by_their_switch(self, compared, switches, row):
        rows = self.rows(compared, self.side("cpu"), self.side("cuda", **switches))
        assert [row, "all", "ieee", "tf32", "error"] in rows

    def test_both_may_round_alike(self, compared):
        ours = self.side("cpu", backends__mkldnn__matmul__fp32_precision="bf16")
        theirs = self.side("cuda", backends__cuda__matmul__fp32_precision="bf16")
        assert not [row for row in self.rows(compared, ours, theirs) if row[-1] == "error"]

    def test_the_device_of_a_pack_that_does_not_say_it(self, compared):
        """As before it was written down: by the generators that are in use."""

        def side(autocast, *states):
            pack = self.side("", **{f"autocast__{autocast}": "torch.bfloat16"})
            return {**pack, "msprobe/seeds/rank0.json": {"states": dict.fromkeys(states, "0")}}

        assert compared(side("cpu", "torch.cpu"), side("cuda", "torch.cpu", "torch.cuda:0")).agree

    def test_seeding_and_variables_of_one_device(self, compared):
        call = {"call": "torch.cuda.manual_seed_all", "arguments": "1", "where": ""}
        gpu = {
            **self.side("cuda"),
            "msprobe/seeds/rank0.json": {"calls": [call], "states": {}},
            "random/rank0.json": {"torch.cuda.manual_seed_all": [{"stack": ["a"], "count": 1}]},
            "env": {"NVIDIA_TF32_OVERRIDE": "0"},
        }
        cpu = {
            **self.side("cpu"),
            "msprobe/seeds/rank0.json": {"calls": [], "states": {}},
            "random/rank0.json": {},
            "env": {"MKL_CBWR": "COMPATIBLE"},
        }
        assert compared(cpu, gpu).agree
        assert not compared({**cpu, **self.side("cuda")}, gpu).agree


def test_every_check_has_a_last_rule_and_every_rule_a_reason():
    likelihood = table()
    for check in ("weights", "dataset", "seeds", "random", "hyperparameters", "settings", "env", "pip"):
        rule = likelihood.rule(check, "no name that any rule has")
        assert rule is not None
        assert rule.likelihood in LEVELS
        assert rule.reason
    assert likelihood.rule("variables", "HOME") is None


def test_checks_that_were_not_made_are_named(compared):
    assert compared({"env": {}}, {"env": {}}).notes == [
        "not compared, because a pack has none: packages, inputs, weights, hyper-parameters, random "
        "operations"
    ]


class TestAgainstPlainPython:
    """Inputs and weights of random shapes and values: the rows are what a few lines of Python say."""

    KEYS = ("a", "b", "max", "min", "mean", "norm", "x.y")

    def tree(self, source, depth):
        pick = source.choice
        odd = [
            None,
            True,
            0,
            -1,
            1e308,
            float("nan"),
            float("inf"),
            "",
            [],
            [1, {"a": 2}],
            {},
            10**300,
            5e-324,
        ]
        whole = {name: pick([0, 1.5, -2, 1e308, float("nan"), 3]) for name in ("max", "min", "mean", "norm")}
        return {
            key: self.tree(source, depth - 1)
            if depth and source.random() < 0.4
            else pick([whole, whole, *odd])
            for key in source.sample(self.KEYS, source.randrange(1, 6))
        }

    def leaves(self, tree, nested, prefix=""):
        found = {}
        for key, value in tree.items():
            name = f"{prefix}{key}"
            values = list(value.values()) if isinstance(value, dict) else []
            is_tensor = (
                sorted(map(str, value or {})) == ["max", "mean", "min", "norm"]
                and all(isinstance(one, (int, float)) for one in values)
                if isinstance(value, dict)
                else False
            )
            if is_tensor:
                found[name] = [value[one] for one in ("max", "min", "mean", "norm")]
            elif isinstance(value, dict) and nested:
                found.update(self.leaves(value, nested, f"{name}."))
            else:
                found[name] = None
        return found

    def rows(self, bench, cmp, kind):
        left, right = (self.leaves(tree, kind == "dataset") for tree in (bench, cmp))
        rows = []
        for name, values in left.items():
            if name not in right:
                rows.append([0, 0, name, "only bench have" if kind == "weights" else False, *[None] * 4])
            elif values is None or right[name] is None:
                if values is not right[name]:
                    rows.append([0, 0, name, False, *[None] * 4])
            else:
                pairs = [(float(a), float(b)) for a, b in zip(values, right[name])]
                equal = all(a == b or (a != a and b != b) for a, b in pairs)
                cells = [None if a == 0 else sheet_number(abs(a - b) / a) for a, b in pairs]
                rows.append([0, 0, name, equal, *cells])
        only = "only cmp have" if kind == "weights" else False
        return rows + [[0, 0, name, only, *[None] * 4] for name in right if name not in left]

    @pytest.mark.parametrize("kind", ["dataset", "weights"])
    def test_rows(self, compared, kind):
        source = random.Random(kind)
        entry = {"dataset": dataset, "weights": lambda tree: {f"weights/{A_STEP}/weight.json": tree}}[kind]
        for _ in range(150):
            bench, cmp = self.tree(source, 3), self.tree(source, 3)
            check = check_of(compared(entry(bench), entry(cmp)), kind)
            assert check.rows == self.rows(bench, cmp, kind), (bench, cmp)


class TestReplicas:
    """Ranks of one run that began with the same weights."""

    def side(self, *of_steps):
        """of_steps: for each step the weights of the ranks, a letter each."""
        return {
            **OURS,
            **{
                f"msprobe/fingerprints/weights/step{step}/rank{rank}.json": {
                    "w": ["torch.float32", [2], letter]
                }
                for step, letters in enumerate(of_steps)
                for rank, letter in enumerate(letters)
            },
        }

    @pytest.mark.parametrize(
        "healthy", [["aaaa", "bbbb", "cccc"], ["abab", "cdcd"], ["abcd", "efgh"], ["a", "b"]]
    )
    def test_equal_ranks_and_shards_are_left_alone(self, compared, healthy):
        assert compared(self.side(*healthy), self.side(*healthy)).parted_replicas == []

    def test_the_rank_that_is_off_is_named(self, compared):
        result = compared(self.side("aaaa", "bbbb"), self.side("aaaa", "bbbb", "ccdc"))
        (said,) = result.parted_replicas
        assert said.startswith(
            "target: ranks 0-3 began with the same weights; from step 2 on those of rank 2 "
        )
        assert said in result.notes

    def test_of_two_none_is_blamed(self, compared):
        (said,) = compared(self.side("aa", "bc"), self.side("aa")).parted_replicas
        assert said.endswith("from step 1 on those of ranks 0-1 are others")
