# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe rl_compare: log probabilities, weights, verdict, files and exit codes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from msprobe.cli import main
from msprobe.native import IoError, core
from msprobe.rl.findings import percent
from msprobe.rl.keys import in_order, is_exact, rollout_and_training
from rl_records import Save


def rollout(step: int, *, shift: float = 0.0) -> dict[str, Any]:
    rng = np.random.default_rng(step)
    tokens = rng.integers(0, 1000, (6, 10))
    log_probs = -rng.random((6, 10)) * 3
    training = log_probs + rng.normal(size=(6, 10)) * 0.01
    log_probs[4, 3] += shift
    mask = np.ones((6, 10), dtype=np.int64)
    mask[:, 8:] = 0
    log_probs[:, 8:] = 99  # padding, which the mask leaves out
    return {
        "prompts": tokens[:, :2],
        "responses": tokens,
        "response_mask": mask,
        "rollout_log_probs": log_probs,
        "old_log_probs": training,
        "advantages": rng.normal(size=(6, 10)),
    }


def run(*arguments: object) -> int:
    return main(["rl_compare", "--force", *map(str, arguments)])


def verdict(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "verdict.json").read_text())
    return content


def test_equal_records(save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left, right = (save(name, *(rollout(step) for step in range(3))) for name in "ab")
    assert run(left, right, "-o", tmp_path / "out", "--format", "junit") == 0
    said = capsys.readouterr().out
    assert said.startswith("The records agree: 18 arrays of 6 keys, 288 tokens of rollout and training\n")
    found = verdict(tmp_path / "out")
    assert (found["verdict"], found["first"], found["findings"]) == ("same", None, [])
    suite = ElementTree.parse(tmp_path / "out/junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("8", "0")


def test_a_planted_token_is_named(save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = save("a", *(rollout(step) for step in range(3)))
    steps = [rollout(step) for step in range(3)]
    wrong = steps[1]["responses"] = steps[1]["responses"].copy()
    was = wrong[2, 7]
    wrong[2, 7] = 5000
    steps[1]["advantages"] = steps[1]["advantages"] * 2  # what comes of it
    right = save("b", *steps)
    assert run(left, right, "-o", tmp_path / "out", "--format", "junit") == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first == (
        f"The records diverge in responses, step 1, rank 0, micro-step 0: sample 2, token 7: {was} and 5000"
    )
    found = verdict(tmp_path / "out")
    assert found["verdict"] == "differs"
    assert found["first"]["kind"] == "tokens"
    assert [one["key"] for one in found["findings"]] == ["responses", "advantages"]
    suite = ElementTree.parse(tmp_path / "out/junit.xml").getroot()[0]
    failed = [case.get("name") for case in suite.iter("testcase") if len(case)]
    assert failed == ["responses", "advantages"]


def test_rollout_and_training_of_one_record(
    save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = save("good", *(rollout(step) for step in range(3)))
    assert run(good, "-o", tmp_path / "out") == 0
    capsys.readouterr()
    bad = save("bad", rollout(0), rollout(1, shift=0.7), rollout(2, shift=0.7))
    assert run(bad, "-o", tmp_path / "out") == 1
    found = verdict(tmp_path / "out")
    (pair,) = found["rollout_and_training"]
    assert (pair["tokens"], pair["masked"], pair["beyond"]) == (144, 36, 2)
    assert pair["first"]["place"]["step"] == 1
    assert (pair["first"]["sample"], pair["first"]["token"]) == (4, 3)
    assert "step 1, rank 0, micro-step 0: sample 4, token 3" in capsys.readouterr().out.splitlines()[0]
    # The same pair, asked for by name; and without the mask.
    asked = "rollout_log_probs=old_log_probs"
    assert run(bad, "-o", tmp_path / "out", "--log-probs", asked, "--mask", "response_mask") == 1
    assert verdict(tmp_path / "out")["rollout_and_training"][0]["beyond"] == 2
    assert run(bad, "-o", tmp_path / "out", "--log-probs", asked, "--mask", "") == 1
    assert verdict(tmp_path / "out")["rollout_and_training"][0]["tokens"] == 180
    assert run(bad, "-o", tmp_path / "out", "--share", "0.02") == 0
    assert run(bad, "-o", tmp_path / "out", "--log-prob-tolerance", "1") == 0


def test_a_rollout_that_is_off_in_the_second_run_only(save: Save, tmp_path: Path) -> None:
    good = save("good", rollout(0))
    bad = save("bad", rollout(0, shift=2))
    assert run(good, bad, "-o", tmp_path / "out") == 1
    kinds = [one["kind"] for one in verdict(tmp_path / "out")["findings"]]
    assert kinds == ["log_probs", "rollout"]
    assert run(bad, bad, "-o", tmp_path / "out") == 0  # both have it


def test_log_probability_numbers_are_those_of_numpy(save: Save) -> None:
    rng = np.random.default_rng(2)
    a = -rng.random((50, 70)) * 5
    b = a + rng.normal(size=a.shape) * 0.3
    a[3, 4], b[5, 6] = np.nan, -np.inf
    a[7, 8] = b[7, 8] = np.nan
    record = save("r", {"left_log_probs": a, "right_log_probs": b})
    found = core.compare_log_probs(record, record, "left_log_probs", "right_log_probs", tolerance=0.25)
    d = (b - a)[np.isfinite(b - a)]
    p, q = np.exp(a)[np.isfinite(b - a)], np.exp(b)[np.isfinite(b - a)]
    assert found["tokens"] == a.size
    assert found["not_finite"] == 3
    assert found["beyond"] == (np.abs(d) > 0.25).sum() + 2
    assert found["sum_absolute"] == pytest.approx(np.abs(d).sum())
    assert found["max_absolute"] == np.abs(d).max()
    assert found["sum_k1"] == pytest.approx(-d.sum())
    assert found["sum_k3"] == pytest.approx((np.exp(d) - 1 - d).sum())
    assert found["sum_squared_ratio"] == pytest.approx((np.exp(d) ** 2).sum())
    assert found["max_probability_difference"] == pytest.approx(np.abs(p - q).max())
    assert found["sum_reference_target"] == pytest.approx((p * q).sum())
    edges = [-np.inf, *core.RL_RATIO_BOUNDS, np.inf]
    ratio = np.exp(d)
    counts = [int(((ratio > low) & (ratio <= high)).sum()) for low, high in zip(edges, edges[1:])]
    assert found["ratio_counts"] == counts
    beyond = np.argwhere(~(np.abs(b - a) <= 0.25) & ~(np.isnan(a) & np.isnan(b)))[0]
    assert [found["first"]["sample"], found["first"]["token"]] == beyond.tolist()


def test_what_only_one_record_has(save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = save("a", *({"x": torch.ones(2), "own": torch.ones(1)} for _ in range(3)))
    right = save("b", {"x": torch.ones(2)}, {"x": torch.ones(2)})
    assert run(left, right, "-o", tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert f"note: only {left} has the key own" in said
    assert "note: not compared: step 2 (only in the reference)" in said
    (left / "data/x/step1/rank0/micro_step0/x.npy").rename(left / "data/x/step1/rank0/micro_step0/x.1.npy")
    assert run(left, right, "-o", tmp_path / "out") == 1
    found = verdict(tmp_path / "out")
    assert found["verdict"] == "incomplete"
    assert [one["kind"] for one in found["findings"]] == ["missing", "missing"]
    assert capsys.readouterr().out.startswith(
        "No difference was seen, but: x: only the reference has 1 array"
    )


def test_values_within_the_tolerance_are_no_difference(save: Save, tmp_path: Path) -> None:
    x = torch.linspace(1, 2, 50)
    left, right = save("a", {"rewards": x}), save("b", {"rewards": x * 1.005})
    assert run(left, right, "-o", tmp_path / "out") == 0
    assert run(left, right, "-o", tmp_path / "out", "--tolerance", "0.001") == 1
    assert verdict(tmp_path / "out")["first"]["kind"] == "values"


def test_other_shapes_are_a_difference(save: Save, tmp_path: Path) -> None:
    left, right = save("a", {"x": torch.ones(2, 3)}), save("b", {"x": torch.ones(2, 4)})
    assert run(left, right, "-o", tmp_path / "out") == 1
    assert verdict(tmp_path / "out")["first"]["sentence"].startswith(
        "x: the shapes differ: [2, 3] and [2, 4]"
    )


def test_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    sent = {f"layer.{i}.weight": torch.randn(8, 8) for i in range(3)}
    torch.save(sent, tmp_path / "sent.pt")
    torch.save({name: w.bfloat16() for name, w in sent.items()}, tmp_path / "rounded.pt")
    assert run("--weights", tmp_path / "sent.pt", tmp_path / "sent.pt", "-o", tmp_path / "out") == 0
    assert run("--weights", tmp_path / "sent.pt", tmp_path / "rounded.pt", "-o", tmp_path / "out") == 0
    assert "3 of them but for rounding" in capsys.readouterr().out
    sent["layer.1.weight"][2, 3] += 0.5
    torch.save({name: w.bfloat16() for name, w in sent.items() if "2" not in name}, tmp_path / "stale.pt")
    assert run("--weights", tmp_path / "sent.pt", tmp_path / "stale.pt", "-o", tmp_path / "out") == 1
    found = verdict(tmp_path / "out")
    assert [one["name"] for one in found["weights"]["differing"]] == ["layer.1.weight", "layer.2.weight"]
    assert found["first"]["kind"] == "weights"


def test_weights_of_an_engine_that_joins_layers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    q, k, v, g, u = (torch.randn(n, 4) for n in (8, 2, 2, 6, 6))
    prefix = "model.layers.0."
    split = {"self_attn.q_proj": q, "self_attn.k_proj": k, "self_attn.v_proj": v, "mlp.gate_proj": g,
             "mlp.up_proj": u}  # fmt: skip
    joined = {"self_attn.qkv_proj": torch.cat([q, k, v]), "mlp.gate_up_proj": torch.cat([g, u])}
    for name, weights in (("sent", split), ("received", joined)):
        torch.save({f"{prefix}{key}.weight": w for key, w in weights.items()}, tmp_path / f"{name}.pt")
    both = (tmp_path / "sent.pt", tmp_path / "received.pt")
    assert run("--weights", *both, "-o", tmp_path / "out") == 1
    assert run("--weights", *both, "--mapping", "vllm", "-o", tmp_path / "out") == 0


def test_json_and_quiet(save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = save("a", {"x": torch.tensor([float("nan"), 1])})
    assert run(left, left, "-o", tmp_path / "out", "--json") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "same"
    assert run(left, left, "-o", tmp_path / "out", "--quiet") == 0
    assert capsys.readouterr().out == ""
    assert run(left, left, "-o", tmp_path / "csv", "--format", "csv") == 0
    assert (tmp_path / "csv/x.csv").exists()


def test_force_removes_the_tables_of_an_earlier_comparison(save: Save, tmp_path: Path) -> None:
    both = save("a", {"x": torch.ones(1), "odd[1]": torch.ones(1)})
    other = save("b", {"y": torch.ones(1)})
    out = tmp_path / "out"
    assert run(both, both, "-o", out) == 0
    (out / "mine.xlsx").write_text("")
    assert run(other, other, "-o", out, "--format", "csv") == 0
    assert {path.name for path in out.iterdir()} == {"mine.xlsx", "report.html", "verdict.json", "y.csv"}


def test_tables_are_results_too(
    save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record, out = save("a", {"x": torch.ones(1)}), tmp_path / "out"
    out.mkdir()
    (out / "x.xlsx").write_text("mine")
    assert main(["rl_compare", str(record), str(record), "-o", str(out)]) == 2
    assert "there are results already (x.xlsx)" in capsys.readouterr().err

    def fail(*_: object, **__: object) -> None:
        raise IoError("no space left")

    monkeypatch.setattr("msprobe.rl.outputs.write_outputs", fail)
    assert run(record, record, "-o", out) == 2
    assert [path.name for path in out.iterdir()] == ["x.xlsx"]
    assert (out / "x.xlsx").read_text() == "mine"


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"keys": 1}',
        '{"keys": [{"table": "../mine.csv"}, {"table": "x.csv"}, {"table": "a.txt"}]}',
    ],
)
def test_a_strange_earlier_verdict_removes_nothing_else(save: Save, tmp_path: Path, content: str) -> None:
    record, out = save("a", {"y": torch.ones(1)}), tmp_path / "out"
    (out / "x.csv").mkdir(parents=True)
    (out / "verdict.json").write_text(content)
    kept = [tmp_path / "mine.csv", out / "a.txt", out / "x.csv/mine"]
    for path in kept:
        path.write_text("")
    assert run(record, record, "-o", out) == 0
    assert all(path.exists() for path in kept)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "expected one or two records, or --weights SENT RECEIVED"),
        (["absent"], "absent does not exist"),
        (["{a}", "--log-probs", "x"], "expected KEY=KEY, found 'x'"),
        (["{a}", "--log-probs", "x=y"], "there is no key y, expected one of x"),
        (["{a}"], "expected the log probabilities of rollout and training, or a second record"),
        (["{a}", "{a}", "--tolerance", "-1"], "expected a number of 0 or more, found '-1'"),
        (["--weights", "absent", "absent"], "absent does not exist"),
        (["{a}", "{a}", "--mapping", "vllm"], "--mapping is for --weights"),
    ],
)
def test_wrong_command_lines(
    save: Save, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str, tmp_path: Path
) -> None:
    record = save("a", {"x": torch.ones(1)})
    words = [word.format(a=record) for word in arguments]
    try:
        code = run(*words, "-o", tmp_path / "out")
    except SystemExit as end:
        code = end.code  # type: ignore[assignment]
    assert code == 2
    assert reason in capsys.readouterr().err


def test_a_page_with_hostile_names_stays_whole(save: Save, tmp_path: Path) -> None:
    name = "</script><script>alert(1)</script>"
    left, right = save("a", {name: torch.ones(1)}), save("b", {name: torch.zeros(1)})
    assert run(left, right, "-o", tmp_path / "out") == 1
    assert (tmp_path / "out/report.html").read_text().count("<script") == 2


def test_order_and_kinds_of_keys() -> None:
    keys = ["prompts", "response_mask", "responses", "rollout_log_probs", "rewards", "old_log_probs",
            "ref_log_prob", "advantages", "loss", "a"]  # fmt: skip
    assert in_order(sorted(keys)) == keys
    assert [key for key in keys if is_exact(key)] == ["prompts", "response_mask", "responses"]
    assert rollout_and_training(keys) == ("rollout_log_probs", "old_log_probs")
    assert rollout_and_training(["ref_log_prob", "rollout_log_probs"]) is None


def test_mean_of_nothing(save: Save) -> None:
    record = save("r", {"left_log_probs": np.zeros((0, 4)), "right_log_probs": np.zeros((0, 4))})
    found = core.compare_log_probs(record, record, "left_log_probs", "right_log_probs")
    assert (found["tokens"], found["arrays"], found["first"]) == (0, 1, None)
    from msprobe.rl.result import log_prob_result

    assert math.isnan(log_prob_result(found, "a", "b", "").correlation)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (1, "100%"), (0.151, "15.1%"), (1e-12, "0.0001%"), (0.9996, "99.96%"), (1 - 1e-9, "99.99%")],
)
def test_shares_of_nearly_nothing_and_nearly_all(share: float, text: str) -> None:
    assert percent(share) == text
