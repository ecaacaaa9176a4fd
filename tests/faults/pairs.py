# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Small pairs of runs that a verdict once got wrong, each with the right answer.

Every pair is one script, run twice: `script(True)` is the target. Most are asked of `msprobe compare`, in
each of the four ways to record; those with losses, gradients or an optimizer of `msprobe diagnose`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pair_scripts as scripts
import torch
from judging import DIFFER, SAME

RECORDINGS: dict[str, dict[str, Any]] = {
    "bare": {"task": "statistics", "level": "mix"},
    "diagnosis": {"task": "statistics", "level": "mix", "statistics": {"diagnosis": ["all"]}},
    "md5": {"task": "statistics", "level": "mix", "statistics": {"summary_mode": "md5"}},
    "tensor": {"task": "tensor", "level": "mix"},
}


@dataclass(frozen=True)
class Pair:
    name: str
    script: Callable[[bool], scripts.Training]
    statuses: tuple[str, ...] = DIFFER
    culprit: str = ""
    """Regular expression: in kind, name, module or operator of the first culprit."""
    mentions: str = ""
    """Regular expression: anywhere in the file of the answer."""
    recordings: tuple[str, ...] = tuple(RECORDINGS)
    """Empty: asked of msprobe diagnose, about runs of msprobe.capture()."""
    after: Callable[[Path], None] | None = None
    """What is done to the folder of the target's run."""

    @property
    def ways(self) -> tuple[str, ...]:
        return self.recordings or ("diagnose",)


PAIRS = (
    Pair("in_place", scripts.in_place, culprit="relu|blocks.1|in.place", mentions=r"relu"),
    Pair("in_place_sum", scripts.in_place_sum, culprit="relu|blocks.1|in.place", mentions=r"relu"),
    Pair(
        "in_place_module",
        scripts.in_place_module,
        culprit=r"relu|0\.act|__add__|in.?place",
        mentions=r"inplace|in place",
    ),
    Pair("where_hidden_by_relu", scripts.where, culprit=r"where|__lt__|mul__|blocks\.1"),
    Pair("where_unrecorded", scripts.where_unrecorded, culprit=r"relu|__add__|blocks\.1"),
    Pair(
        "shared_module_missing",
        scripts.shared((), (2,)),
        culprit=r"missing_call.*rotary\.\w+\.forward\.2.*layers\.2",
    ),
    Pair(
        "shared_module_extra",
        scripts.shared((2,), ()),
        culprit=r"extra_call.*rotary\.\w+\.forward\.2.*layers\.2",
    ),
    Pair(
        "shared_module_elsewhere",
        scripts.shared((3,), (1,)),
        culprit=r"missing_call.*rotary\.\w+\.forward\.1.*layers\.1",
        mentions=r"extra_call",
    ),
    Pair(
        "shared_module_diagnosed",
        scripts.shared((), (2, 3)),
        recordings=(),
        culprit=r"rotary\.\w+\.forward\.2.*layers\.2",
        mentions=r"only the reference calls layers\.0\.rotary in layers\.2 a third time",
    ),
    Pair("argument_float32", scripts.scaled(torch.float32), culprit=r"__mul__"),
    Pair("argument_bfloat16", scripts.scaled(torch.bfloat16), culprit=r"__mul__"),
    Pair("negated_bfloat16", scripts.negated, culprit=r"__neg__|neg|blocks\.1"),
    Pair("input_bfloat16", scripts.larger_input, culprit=r"input_data|argument|first|linear\.0"),
    Pair("weight_larger_bfloat16", scripts.weight(1.9, torch.bfloat16), culprit=r"blocks\.1\.up|linear\.3"),
    Pair("weight_smaller_bfloat16", scripts.weight(0.6, torch.bfloat16), culprit=r"blocks\.1\.up|linear\.3"),
    Pair("eps_bfloat16", scripts.eps, culprit=r"blocks\.1\.norm|layer_norm\.1"),
    Pair("silu_bfloat16", scripts.silu, culprit=r"silu|gelu|blocks\.1"),
    Pair("subtracted_bfloat16", scripts.subtracted, culprit=r"__sub__|__mul__|__rmul__|blocks\.1"),
    Pair("weight_float16", scripts.weight(1.05, torch.float16), culprit=r"blocks\.1\.up|linear\.3"),
    Pair(
        "float_before_loss_weight",
        scripts.float_before_loss(scripts.weight(1.9, torch.bfloat16)),
        culprit=r"blocks\.1\.up|linear\.3",
    ),
    Pair(
        "float_before_loss_eps",
        scripts.float_before_loss(scripts.eps),
        culprit=r"blocks\.1\.norm|layer_norm\.1",
    ),
    Pair("float_before_loss_silu", scripts.float_before_loss(scripts.silu), culprit=r"silu|gelu|blocks\.1"),
    Pair(
        "float_before_loss_argument",
        scripts.float_before_loss(scripts.scaled(torch.bfloat16)),
        culprit=r"__mul__",
    ),
    Pair("one_nan", scripts.one_nan, culprit=r"blocks\.1|linear\.4|__add__"),
    Pair(
        "nan_elsewhere",
        scripts.nan_elsewhere,
        recordings=("md5", "tensor"),
        culprit=r"blocks\.1|linear\.4|__add__",
    ),
    Pair("float64", scripts.double, culprit=r"blocks\.1|linear\.4|__add__"),
    Pair("wide_softmax", scripts.wide_softmax, culprit=r"softmax"),
    Pair("other_dtype", scripts.other_dtype, culprit=r"Tensor\.to|blocks\.1"),
    Pair("additive_mask", scripts.additive_mask, culprit=r"mask|triu|__add__|attention"),
    Pair("scores_before_mask", scripts.scores_before_mask, culprit=r"softmax|__add__|attention"),
    Pair("mixed_with_noise", scripts.mixed_with_noise, statuses=SAME),
    Pair("loss_last_bit", scripts.healthy, statuses=SAME, recordings=(), after=scripts.last_bit_of_a_loss),
    Pair("noise_everywhere", scripts.noise_everywhere, statuses=SAME, recordings=()),
    Pair("fused_kernel", scripts.fused_kernel, statuses=SAME, recordings=()),
    Pair("mask_prepared_otherwise", scripts.mask_prepared_otherwise, statuses=SAME, recordings=()),
    Pair("micro_steps", scripts.micro_steps, statuses=SAME, recordings=()),
    Pair("order_of_norms", scripts.order_of_norms, statuses=SAME, recordings=()),
    Pair("mixed_with_noise_diagnosed", scripts.mixed_with_noise, statuses=SAME, recordings=()),
    Pair("epsilon_inside", scripts.rule("epsilon inside"), recordings=(), culprit=r"optimizer|update|rule"),
    Pair(
        "no_bias_correction",
        scripts.rule("no bias correction"),
        recordings=(),
        culprit=r"optimizer|update|rule",
    ),
    *(
        Pair(
            f"step_of_{name}",
            scripts.step_of(name, settings),
            recordings=(),
            culprit=r"optimizer|update|rule",
        )
        for name, settings in (
            ("SGD", {"lr": 0.1, "momentum": 0.9}),
            ("Adam", {"lr": 1e-3}),
            ("AdamW", {"lr": 1e-3}),
            ("Adafactor", {"lr": 1e-2}),
            ("Muon", {"lr": 1e-2}),
        )
    ),
    Pair(
        "unscaled_too_late",
        scripts.unscaled_too_late,
        recordings=(),
        culprit=r"^(?!.*key\.bias).*(clip|gradient)",
    ),
    Pair("parameter_missing", scripts.extra_bias, recordings=(), culprit=r"mlp\.up"),
    Pair("training_flag", scripts.training_flag, recordings=(), culprit=r"first.*|training"),
    Pair(
        "where_hidden_by_relu_diagnosed",
        scripts.where,
        recordings=(),
        culprit=r"where|__lt__|mul__|blocks\.1",
    ),
    Pair(
        "weight_diagnosed_bfloat16",
        scripts.weight(0.6, torch.bfloat16),
        recordings=(),
        culprit=r"blocks\.1\.up|linear\.3",
    ),
)
BY_PAIR = {pair.name: pair for pair in PAIRS}


# ---- recording one side, in a process of its own


def record(name: str, way: str, *, target: bool, folder: Path) -> None:
    torch.set_num_threads(1)
    training = BY_PAIR[name].script(target)
    folder.mkdir(parents=True)
    if way == "diagnose":
        _captured(training, folder / "run")
    else:
        _dumped(training, folder, RECORDINGS[way])
    if target and BY_PAIR[name].after is not None:
        BY_PAIR[name].after(folder / "run")


def _captured(training: scripts.Training, output: Path) -> None:
    import msprobe

    with msprobe.capture(output=output, steps="all"):
        training.run(lambda model: None, lambda: None)


def _dumped(training: scripts.Training, folder: Path, config: dict[str, Any]) -> None:
    from msprobe import PrecisionDebugger

    path = folder / "config.json"
    path.write_text(json.dumps({**config, "dump_path": str(folder / "dump")}))
    probe = PrecisionDebugger(path)

    def stop() -> None:
        probe.stop()
        probe.step()

    training.run(probe.start, stop)
