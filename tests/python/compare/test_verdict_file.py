# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""verdict.json: strict JSON with the answer, its confidence and the lines of code."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from msprobe.compare.command import exit_code
from msprobe.compare.culprit import Frame, culprits_of, parse_frame
from msprobe.compare.verdict_file import verdict_json, write_verdict
from msprobe.files.left_out import LeftOut
from report_samples import STACK, Walk, finding, pair, result

DOCUMENT = Path(__file__).parents[3] / "docs/formats/verdict.md"


def refuse(word):
    raise AssertionError(f"{word} is no JSON")


def content(compared, culprits=None):
    culprits = culprits_of(compared.verdict, lambda _: STACK) if culprits is None else culprits
    return json.loads(verdict_json(compared, culprits), parse_constant=refuse)


def a_difference(**changes):
    blamed = finding(**changes)
    return result([pair(findings=[blamed], failing=3), pair(1)], [blamed])


def test_the_file_of_runs_that_differ():
    found = content(a_difference())
    assert found["format"] == 2
    assert found["status"] == "differ"
    assert found["sentence"] == (
        "First difference: step 0, gelu in blocks.0.mlp gives another result for equal inputs, "
        "called at net.py:12"
    )
    (culprit,) = found["culprits"]
    assert culprit["kind"] == "operator"
    assert culprit["metrics"] == {"distance": 1e-3, "explained": 1e-6}
    assert culprit["stack"][1] == {
        "file": "/home/me/my model/net.py",
        "line": 12,
        "function": "forward",
        "code": "y = self.fc(x)",
    }
    assert found["counts"] == {
        "steps": 2,
        "ranks": 1,
        "pairs": 2,
        "rows": 20,
        "matched": 20,
        "unmatched": 0,
        "only_in_reference": 0,
        "failing": 3,
    }
    assert [one["first_finding"] and one["first_finding"]["name"] for one in found["pairs"]] == [
        "Functional.gelu.3.forward",
        None,
    ]
    assert (found["first_step"], found["worst_rank"]) == (0, 0)
    assert found["inputs"]["reference"] == "/run/a"


def test_every_key_is_documented():
    text = DOCUMENT.read_text("utf-8")
    documented = set(re.findall(r"`([a-z_]+)`", text))

    def keys(value):
        if isinstance(value, dict):
            yield from value
            for name, entry in value.items():
                if name != "metrics":  # what is measured depends on the kind
                    yield from keys(entry)
        elif isinstance(value, list):
            for entry in value:
                yield from keys(entry)

    compared = a_difference()
    compared.left_out.append(LeftOut("step 3", "only in the reference"))
    assert set(keys(content(compared))) <= documented


def test_numbers_that_json_has_not_become_text():
    blamed = finding(explained=math.inf)
    found = content(result([pair(findings=[blamed])], [blamed]))
    assert found["culprits"][0]["metrics"] == {"distance": 1e-3, "explained": "Infinity"}
    walk = Walk([], largest=(math.inf, "x"), largest_gradient=(math.nan, "y"))
    (only,) = content(result([pair(walk=walk)], status="rounding"))["pairs"]
    assert (only["largest_difference"], only["largest_gradient_difference"]) == ("Infinity", "NaN")


def test_a_setting_has_its_two_values():
    found = content(a_difference(distance=math.inf, target_value="0.7", reference_value="1.0"))
    assert found["culprits"][0]["metrics"] == {"target": "0.7", "reference": "1.0"}
    assert content(a_difference(distance=math.inf))["culprits"][0]["metrics"] == {}


@pytest.mark.parametrize("name", ["\ufffe", "\x00\x1b[31m\n", "</script>", "\u2028", '"\\'])
def test_hostile_names_stay_names(name):
    found = content(a_difference(name=name, module=name, reason=name))
    assert found["culprits"][0]["name"] == name
    assert found["sentence"].isprintable()


def test_runs_that_are_equal():
    found = content(result([pair(), pair(0, 1)]))
    assert (found["status"], found["culprits"], found["first_step"]) == ("equal", [], None)
    assert found["sentence"] == (
        "The runs are equal: 20 rows of 1 step and 2 ranks, by statistics and sketches"
    )


def test_rounding_says_how_large_it_is_and_where():
    walk = Walk(
        [], largest=(2e-7, "Torch.add.1.forward.output.0"), largest_gradient=(3e-6, "a.weight"), unseen=2
    )
    compared = result([pair(walk=walk), pair(1)], status="rounding")
    assert compared.agree
    assert compared.sentence == (
        "The runs agree but for rounding: 20 rows of 2 steps and 1 rank, by statistics and sketches; 2 "
        "tensors hidden by NaN or infinities; off are results by at most 2e-07 "
        "(Torch.add.1.forward.output.0), gradients by at most 3e-06 (a.weight)"
    )


def test_a_difference_that_no_call_explains_names_the_stretch():
    stretch = {
        "last_agreeing": "Torch.add.3.forward.output.0",
        "first_differing": "Torch.mul.9.forward.output.0",
    }
    compared = result([pair()], status="differ", **stretch)
    assert not compared.agree
    assert content(compared)["status"] == "differ"
    assert compared.sentence == (
        "The runs differ by more than rounding, and no call explains it: somewhere after "
        "Torch.add.3.forward.output.0 and up to Torch.mul.9.forward.output.0"
    )


def test_the_sentence_tells_what_is_missing():
    missing = [LeftOut(f"step {step}", "only in the reference") for step in range(5)]
    apart = result([pair()], left_out=missing)
    assert not apart.agree
    assert content(apart)["status"] == "incomplete"
    assert apart.sentence.startswith("What could be compared agrees (10 rows of 1 step and 1 rank")
    assert apart.sentence.endswith("step 2 (only in the reference) and 2 more")
    blamed = finding()
    assert content(result([pair()], [blamed], left_out=missing))["status"] == "differ"
    alone = result([pair(rows=10, matched=7, reference_only=2)], status="rounding")
    assert alone.sentence.startswith("The runs agree but for rounding: 7 rows of 1 step")
    assert alone.sentence.endswith("; 5 more items are in one run only")
    harmless = result([pair()], left_out=[LeftOut("rank 3", "not asked for", is_difference=False)])
    assert content(harmless)["status"] == "equal"


@pytest.mark.parametrize(
    ("status", "missing", "code", "bitwise"),
    [("equal", False, 0, 0), ("rounding", False, 0, 1), ("differ", False, 1, 1), ("equal", True, 1, 1)],
)
def test_exit_codes(status, missing, code, bitwise):
    left_out = [LeftOut("step 3", "only in the reference")] if missing else []
    compared = result([pair()], status=status, left_out=left_out)
    assert exit_code(compared) == code
    assert exit_code(compared, bitwise=True) == bitwise


def test_the_file_is_written_completely(tmp_path):
    compared = a_difference()
    path = tmp_path / "verdict.json"
    write_verdict(path, compared, culprits_of(compared.verdict))
    assert path.read_text("ascii") == verdict_json(compared, culprits_of(compared.verdict))
    assert list(tmp_path.iterdir()) == [path]


# ---- confidence


def sure(place=0, **changes):
    return finding(**changes).confidence(place)


def test_what_is_compared_exactly_is_almost_certain():
    assert sure(kind="argument", distance=math.inf) == 0.95


def test_the_size_beyond_what_is_allowed_decides():
    assert sure(strength=1.0) == pytest.approx(0.5)
    assert 0.5 < sure(strength=1.5) < sure(strength=100.0) < sure(strength=1e9) <= 0.95


def test_in_noise_nothing_is_certain():
    assert sure(strength=1.0, exact_before=False) == pytest.approx(0.5)
    assert sure(strength=1e9, exact_before=False) == pytest.approx(0.9)


def test_what_rounding_hides_is_a_guess():
    assert sure(kind="argument", distance=math.inf, is_hidden=True) == 0.3


def test_later_candidates_are_less_sure_and_none_is_impossible():
    assert sure(place=1, distance=math.inf) == 0.475
    assert all(0 < sure(place=place, strength=1.0) <= 1 for place in range(40))


# ---- frames


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (STACK[1], Frame("/home/me/my model/net.py", 12, "forward", "y = self.fc(x)")),
        ("File a, b.py, line 3, in <lambda>, \n x", Frame("a, b.py", 3, "<lambda>", "x")),
        ("File a.py, line 3, in f", Frame("a.py", 3, "f", "")),
        ("something else", Frame(None, None, "", "something else")),
        ("File a.py, line many, in f, \n", Frame(None, None, "", "File a.py, line many, in f,")),
    ],
)
def test_frames_are_taken_apart(text, expected):
    assert parse_frame(text) == expected


def test_the_frames_of_the_user_come_first():
    (culprit,) = culprits_of(a_difference().verdict, lambda _: STACK)
    assert [frame.line for frame in culprit.top_frames(2)] == [12, 90]
    (elsewhere,) = culprits_of(a_difference().verdict, lambda _: STACK[:1])
    assert [frame.line for frame in elsewhere.top_frames(2)] == [7]


def test_the_line_of_a_library_stands_before_that_of_the_script():
    packages = "/x/lib/python3.11/site-packages"
    stack = [
        f"File {packages}/torch/nn/modules/linear.py, line 1, in forward, \n a",
        f"File {packages}/transformers/models/llama/modeling_llama.py, line 208, in forward, \n b",
        f"File {packages}/trl/trainer/grpo_trainer.py, line 900, in compute_loss, \n c",
        "File /home/me/train.py, line 12, in <module>, \n trainer.train()",
        "File /home/me/.venv/bin/msprobe, line 8, in <module>, \n sys.exit(main())",
    ]
    (culprit,) = culprits_of(a_difference().verdict, lambda _: stack)
    assert [frame.line for frame in culprit.top_frames(5)] == [208, 12]
    assert "at modeling_llama.py:208" in culprit.plain


MODULE = "Module.layers.2.rot.Rotary.forward.0"
FRAMES = ["File /home/me/model.py, line 30, in forward, \n x = self.rot(x)"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"kind": "missing_call", "name": MODULE, "module": "layers.2", "is_of_reference": True},
            "only the reference calls layers.2.rot at model.py:30",
        ),
        (
            {"kind": "missing_call", "name": MODULE[:-1] + "1", "is_of_reference": True},
            "only the reference calls layers.2.rot in blocks.0.mlp a second time at model.py:30",
        ),
        (
            {"kind": "extra_call", "name": "Tensor.tanh.4.forward", "module": "layers.2"},
            "only the target calls tanh in layers.2 at model.py:30",
        ),
        (
            {"kind": "module_attribute", "name": "layers.1.norm.eps", "target_value": "0.1",
             "reference_value": "1e-05"},
            "layers.1.norm.eps = 0.1 (reference: 1e-05)",
        ),
        (
            {"kind": "operator", "name": "Module.head.Linear.backward.0", "because": [("result", ["it"])]},
            "the backward of head differs by more than its inputs explain, called at model.py:30",
        ),
        (
            {"kind": "weight", "name": "head.weight", "because": [("parameter_differs", ["x"])]},
            "parameter x differs before anything was computed",
        ),
    ],
)  # fmt: skip
def test_a_culprit_is_said_in_plain_words(changes, said):
    distance = math.inf if "value" in str(changes) else 1e-3
    compared = a_difference(distance=distance, **changes)
    (culprit,) = culprits_of(compared.verdict, lambda _: FRAMES)
    assert culprit.plain == said
    assert compared.answer([culprit]) == f"First difference: step 0, {said}"


def test_values_have_the_digits_that_tell_them_apart():
    values = {"target_value": "0.30000001192092896", "reference_value": "0.3"}
    compared = a_difference(kind="module_attribute", name="drop.p", distance=math.inf, **values)
    (culprit,) = culprits_of(compared.verdict)
    assert culprit.plain == "drop.p = 0.30000001 (reference: 0.3)"
    values = {"target_value": "0.100000001", "reference_value": "1e-05"}
    compared = a_difference(kind="module_attribute", name="norm.eps", distance=math.inf, **values)
    (culprit,) = culprits_of(compared.verdict)
    assert culprit.plain == "norm.eps = 0.1 (reference: 1e-05)"
