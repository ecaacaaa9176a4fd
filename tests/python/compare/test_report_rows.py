# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""report_rows(): the rows of a pair in columns, cut down to those that tell most."""

from __future__ import annotations

import json
import math

import pytest
from msprobe.compare.pair_result import ReportRows
from msprobe.compare.report import report_html
from msprobe.native import core
from report_samples import pair as pair_result
from report_samples import result

EPSILON = 2.0**-23


def tensor(value=1.0, *, dtype="torch.float32", shape=(4,), **changes):
    """Four times the same number."""
    norm = abs(value) * math.sqrt(math.prod(shape))
    entry = {"type": "torch.Tensor", "dtype": dtype, "shape": list(shape), "Max": value, "Min": value}
    return {**entry, "Mean": value, "Norm": norm, "requires_grad": False, **changes}


def call(output, *inputs):
    return {"input_args": list(inputs), "input_kwargs": {}, "output": [output]}


def opened(tmp_path, target, golden):
    paths = []
    for name, data in (("target", target), ("golden", golden)):
        path = tmp_path / name / "dump.json"
        path.parent.mkdir()
        content = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None}
        path.write_text(json.dumps({**content, "data": data}), "utf-8")
        paths.append(path)
    return core.open_dump_pair(*paths)


def refuse(word):
    raise AssertionError(f"{word} is no JSON")


def columns(report):
    content = json.loads(report.json, parse_constant=refuse)
    strings = content["strings"]
    assert len(set(strings)) == len(strings)
    for name, column in content.items():
        if name != "strings":
            assert len(column) == report.shown, name
    return content


def names(content):
    strings = content["strings"]
    return [strings[a] + strings[b] for a, b in zip(content["record"], content["item"])]


def others(content):
    def part(own, other):
        return [o if o == -2 else content["strings"][s if o == -1 else o] for s, o in zip(own, other)]

    records = part(content["record"], content["otherRecord"])
    items = part(content["item"], content["otherItem"])
    return [None if a == -2 else a + b for a, b in zip(records, items)]


def test_every_kind_of_row(tmp_path):
    flag = {"type": "bool", "value": True}
    target = {
        "Functional.relu.0.forward": call(tensor(1.0), tensor(1.0), flag),
        "Functional.gelu.0.forward": call(tensor(1.0 + 64 * EPSILON), tensor(1.0)),
        "Functional.silu.0.forward": call(tensor(math.nan), tensor(1.0)),
        "Functional.tanh.7.forward": call(tensor(2.0), tensor(2.0, shape=(2, 2))),
    }
    golden = {
        "Functional.relu.0.forward": call(tensor(1.0), tensor(1.0), {**flag, "value": False}),
        "Functional.gelu.0.forward": call(tensor(1.0), tensor(1.0)),
        "Functional.silu.0.forward": call(tensor(1.0), tensor(1.0)),
    }
    report = core.report_rows(opened(tmp_path, target, golden), 100)
    assert (report.rows, report.shown, report.differing, report.unmeasured) == (9, 9, 3, 2)
    assert report.worst == pytest.approx(62, rel=1e-3)  # 64, less what rounding two norms may have made
    content = columns(report)
    assert names(content) == [
        "Functional.relu.0.forward.input.0",
        "Functional.relu.0.forward.input.1",
        "Functional.relu.0.forward.output.0",
        "Functional.gelu.0.forward.input.0",
        "Functional.gelu.0.forward.output.0",
        "Functional.silu.0.forward.input.0",
        "Functional.silu.0.forward.output.0",
        "Functional.tanh.7.forward.input.0",
        "Functional.tanh.7.forward.output.0",
    ]
    assert others(content) == [*names(content)[:7], None, None]
    assert content["error"] == pytest.approx([0, -1, 0, 0, 62, 0, -1, -2, -2], rel=1e-3)
    assert content["row"] == [0, 1, 1, 1, 1, 1, 1, 1, 1]
    assert content["relative"][4] == pytest.approx(64 * EPSILON, rel=1e-3)
    assert content["match"] == [1, 1, 1, 1, 1, 1, 1, -1, -1]
    types = [content["strings"][index] for index in content["type"]]
    assert types[:2] == ["torch.float32 [4]", "<class 'bool'> []"]
    assert types[7] == "torch.float32 [2, 2]"


def test_what_only_the_reference_has_is_a_row_where_it_ran(tmp_path):
    target = {"Functional.relu.0.forward": call(tensor()), "Functional.silu.0.forward": call(tensor())}
    golden = {
        "Functional.relu.0.forward": call(tensor()),
        "Functional.gelu.0.forward": call(tensor(), tensor()),
        "Functional.silu.0.forward": call(tensor()),
    }
    report = core.report_rows(opened(tmp_path, target, golden), 100)
    content = columns(report)
    assert (report.rows, report.shown) == (4, 4)
    assert names(content) == [
        "Functional.relu.0.forward.output.0",
        "Functional.gelu.0.forward.input.0",
        "Functional.gelu.0.forward.output.0",
        "Functional.silu.0.forward.output.0",
    ]
    assert content["match"] == [1, -5, -5, 1]
    assert content["error"] == [0, -2, -2, 0]
    assert content["row"] == [0, 0, 0, 1]


def test_gradients_of_parameters_stand_behind_the_backward_of_their_module(tmp_path):
    def backward():
        return {"input": [tensor()], "output": [tensor()]}

    records = {
        "Module.a.Linear.forward.0": call(tensor()),
        "Module.a.Linear.parameters_grad": {"weight": [tensor()]},
        "Module.b.Linear.forward.0": call(tensor()),
        "Module.b.Linear.parameters_grad": {"weight": [tensor()]},
        "Module.b.Linear.backward.0": backward(),
        "Module.a.Linear.backward.0": backward(),
        "Functional.update.0.forward": call(tensor()),
    }
    content = columns(core.report_rows(opened(tmp_path, records, records), 100))
    said = [name.removeprefix("Module.") for name in names(content)]
    assert said == [
        "a.Linear.forward.0.output.0",
        "b.Linear.forward.0.output.0",
        "b.Linear.backward.0.input.0",
        "b.Linear.backward.0.output.0",
        "b.Linear.parameters_grad.weight",
        "a.Linear.backward.0.input.0",
        "a.Linear.backward.0.output.0",
        "a.Linear.parameters_grad.weight",
        "Functional.update.0.forward.output.0",
    ]
    assert [sum(content["row"][: i + 1]) for i in range(9)] == [0, 2, 4, 5, 3, 6, 7, 1, 8]


def test_a_counterpart_of_another_name(tmp_path):
    target = {"Functional.relu.1.forward": call(tensor(), tensor())}
    golden = {"Functional.relu.0.forward": call(tensor(dtype="torch.bfloat16"), tensor())}
    content = columns(core.report_rows(opened(tmp_path, target, golden), 100))
    assert names(content)[0] == "Functional.relu.1.forward.input.0"
    assert others(content)[0] == "Functional.relu.0.forward.input.0"
    assert content["match"][0] == 2
    assert content["otherType"][0] == -1
    assert content["strings"][content["otherType"][1]] == "torch.bfloat16 [4]"


def of_many(tmp_path, factors):
    """One output each; `factors`: how many rounding errors it is off, one of which may be that of a norm."""
    target, golden = ({}, {})
    for index, factor in enumerate(factors):
        name = f"Functional.op{index}.0.forward"
        target[name] = call(tensor(1.0 + factor * EPSILON))
        golden[name] = call(tensor(1.0))
    return opened(tmp_path, target, golden)


def rows(content):
    numbers, last = [], 0
    for difference in content["row"]:
        last += difference
        numbers.append(last)
    return numbers


def test_beyond_the_room_the_first_that_differ_and_the_worst_stay(tmp_path):
    factors = [0, 0, 2, 2, 2, 0, 9000, 5, 5, 70, 0]
    pair = of_many(tmp_path, factors)
    report = core.report_rows(pair, 5)
    assert (report.rows, report.shown, report.differing) == (11, 5, 7)
    content = columns(report)
    # Half of the room: rows 2 and 3; the rest: the farthest off.
    assert rows(content) == [2, 3, 6, 7, 9]
    assert content["error"] == pytest.approx([1, 1, 8999, 3, 68], rel=0.01)
    assert report.worst == pytest.approx(8999, rel=0.01)
    whole = columns(core.report_rows(pair, 11))
    assert rows(whole) == list(range(11))
    assert rows(columns(core.report_rows(pair, 10))) == [0, *range(1, 10)]
    assert rows(columns(core.report_rows(pair, 1))) == [6]
    assert columns(core.report_rows(pair, 0))["row"] == []


def test_rows_of_one_record_are_judged_together(tmp_path):
    """Results, colours and messages do not depend on which rows are shown."""
    target = {"Functional.relu.0.forward": call(tensor(100.0), tensor(1.0), tensor(1.0))}
    golden = {"Functional.relu.0.forward": call(tensor(1.0), tensor(1.0), tensor(1.0))}
    pair = opened(tmp_path, target, golden)

    def last(content):
        strings = content["strings"]
        texts = [strings[content[name][-1]] for name in ("result", "message")]
        return [*texts, content["colour"][-1], content["error"][-1]]

    whole, one = (columns(core.report_rows(pair, most)) for most in (10, 1))
    assert last(one) == last(whole)
    assert last(whole)[0] == "Warning"


HOSTILE = ["</script>", "\u2028\x00\x7f", "日本", '"\\', "@@ROWS@@", "", "__proto__"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(name, tmp_path):
    calls = {name: call(tensor(2.0)), "Torch.add.0.forward": call({"type": name, "value": name}, tensor())}
    native = core.report_rows(opened(tmp_path, calls, calls), 100)
    assert native.json.isascii()
    content = columns(native)
    assert names(content)[0].startswith(name)
    report = ReportRows(native.rows, native.shown, native.differing, 0, 0.0, native.json)
    page = report_html(result([pair_result(report=report)]), [])
    harmless = report_html(result([pair_result()]), [])
    assert page.count("</script") == harmless.count("</script") + 1  # that of the block of rows


def test_empty_dumps(tmp_path):
    report = core.report_rows(opened(tmp_path, {}, {}), 100)
    assert (report.rows, report.shown, report.differing, report.worst) == (0, 0, 0, 0)
    assert columns(report)["row"] == []


def test_numbers_beyond_all_bounds_stay_json(tmp_path):
    huge = tensor(1.7e308, dtype="torch.float64", Norm=math.inf)
    target = {
        "Torch.a.0.forward": call(huge),
        "Torch.b.0.forward": call(tensor(5e-324, dtype="torch.float64")),
    }
    golden = {"Torch.a.0.forward": call(tensor(-1.7e308)), "Torch.b.0.forward": call(tensor(0.0))}
    columns(core.report_rows(opened(tmp_path, target, golden), 100))
