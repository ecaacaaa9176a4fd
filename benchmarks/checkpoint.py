# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How fast are two checkpoints compared, from the command line to the last file, and next to a plain sum of
their bytes?

python benchmarks/checkpoint.py --reference-python PYTHON --plain-read LIBRARY --out DIR

The checkpoints are those of Megatron with tensor-parallel 2 and pipeline-parallel 2, with the files in the
page cache. mindstudio-probe takes turns, and must find the same.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import measure

_LEAST_RATE = 0.6  # of a plain sum
_LEAST_GAIN = 15
_MOST_MEMORY = 512  # MiB

_HIDDEN, _FFN, _VOCABULARY = 1024, 4096, 16384
_TENSOR, _PIPELINE = 2, 2


@dataclass(frozen=True)
class Case:
    name: str
    dtype: str
    gigabytes: float
    optimizer: bool = False
    reference: bool = True


_CASES = (
    Case("float32, 1 GB", "float32", 1),
    Case("bfloat16, 1 GB", "bfloat16", 1),
    Case("float32, 4 GB", "float32", 4),
    Case("bfloat16, 4 GB", "bfloat16", 4, reference=False),
    Case("float32, 0.5 GB, with an optimizer", "float32", 0.5, optimizer=True),
)


@dataclass
class Record:
    rates: dict[str, Any] = field(default_factory=dict)
    """By the number of threads: what checkpoint_worker.py says."""
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    peak_mib: float = 0
    their_peak_mib: float = 0


# ---- checkpoints


def _shapes(stage: int, layers: int) -> list[tuple[str, tuple[int, ...], bool]]:
    """Name, shape of a shard, whether every rank has a copy; of one pipeline stage."""
    h, t = _HIDDEN, _TENSOR
    shapes: list[tuple[str, tuple[int, ...], bool]] = []
    if stage == 0:
        shapes.append(("embedding.word_embeddings.weight", (_VOCABULARY // t, h), False))
    for layer in range(layers):
        name = f"decoder.layers.{layer}."
        shapes += [
            (name + "input_layernorm.weight", (h,), True),
            (name + "self_attention.linear_qkv.weight", (3 * h // t, h), False),
            (name + "self_attention.linear_qkv.bias", (3 * h // t,), False),
            (name + "self_attention.linear_proj.weight", (h, h // t), False),
            (name + "self_attention.linear_proj.bias", (h,), True),
            (name + "pre_mlp_layernorm.weight", (h,), True),
            (name + "mlp.linear_fc1.weight", (_FFN // t, h), False),
            (name + "mlp.linear_fc1.bias", (_FFN // t,), False),
            (name + "mlp.linear_fc2.weight", (h, _FFN // t), False),
        ]
    if stage == _PIPELINE - 1:
        shapes.append(("decoder.final_layernorm.weight", (h,), True))
        shapes.append(("output_layer.weight", (_VOCABULARY // t, h), False))
    return shapes


def _layers(case: Case) -> int:
    """In all stages together."""
    size = 2 if case.dtype == "bfloat16" else 4
    per_layer = 4 * _HIDDEN**2 + 2 * _HIDDEN * _FFN
    wanted = (case.gigabytes * 1e9 / 2 / size - 2 * _VOCABULARY * _HIDDEN) / per_layer
    return max(_PIPELINE, round(wanted / _PIPELINE) * _PIPELINE)


def write_checkpoints(folder: Path, case: Case) -> None:
    """folder/a and folder/b: all weights differ a little."""
    import types

    import torch

    layers = _layers(case)
    dtype = getattr(torch, case.dtype)
    args = types.SimpleNamespace(
        tensor_model_parallel_size=_TENSOR,
        pipeline_model_parallel_size=_PIPELINE,
        expert_model_parallel_size=1,
        num_experts=None,
        num_layers=layers,
    )
    for stage in range(_PIPELINE):
        for rank in range(_TENSOR):
            own, shared = (torch.Generator().manual_seed(seed) for seed in (100 + 10 * stage + rank, stage))
            sides: list[dict[str, torch.Tensor]] = [{}, {}]
            for name, shape, is_copy in _shapes(stage, layers // _PIPELINE):
                generator = shared if is_copy else own
                value = torch.randn(shape, generator=generator) * 0.02
                noise = torch.randn(shape, generator=generator) * 1e-4
                sides[0][name], sides[1][name] = value.to(dtype), (value + noise).to(dtype)
            for side, model in zip("ab", sides):
                content: dict[str, Any] = {
                    "args": args,
                    "checkpoint_version": 3.0,
                    "iteration": 100,
                    "model": model,
                }
                if case.optimizer:
                    states = {
                        i: {"exp_avg": value.float(), "exp_avg_sq": value.float() ** 2}
                        for i, value in enumerate(model.values())
                    }
                    content["optimizer"] = {"state": states, "param_groups": []}
                path = folder / side / "iter_0000100" / f"mp_rank_{rank:02d}_{stage:03d}/model_optim_rng.pt"
                path.parent.mkdir(parents=True, exist_ok=True)
                torch.save(content, path)
    for side in "ab":
        (folder / side / "latest_checkpointed_iteration.txt").write_text("100")


# ---- measuring


def _ours(python: str, folder: Path) -> measure.Finished:
    out = folder / "ours.json"
    out.unlink(missing_ok=True)
    words: list[Path | str] = ["ckpt", folder / "a", folder / "b", "-o", out, "--quiet", "--no-report"]
    done = measure.run([python, "-m", "msprobe", *words])
    if done.code != 1:
        raise RuntimeError(f"msprobe ckpt: exit code {done.code}, expected 1")
    return done


def _theirs(reference: str, folder: Path) -> measure.Finished:
    """It wants a module named megatron, which `-c` finds in the working directory."""
    out = folder / "theirs.json"
    out.unlink(missing_ok=True)
    (folder / "megatron").mkdir(exist_ok=True)
    (folder / "megatron/__init__.py").touch()
    words = ["-f", "pytorch", "config_check", "-c", str(folder / "a"), str(folder / "b"), "-o", str(out)]
    code = (
        f"import os, sys; os.chdir({str(folder)!r}); sys.argv = ['msprobe', *{words!r}]; "
        "from msprobe.msprobe import main; main()"
    )
    done = measure.run([reference, "-c", code])
    if not out.exists():
        raise RuntimeError(f"mindstudio-probe: exit code {done.code}, and no result")
    return done


def _check_agreement(folder: Path) -> None:
    ours, theirs = (json.loads((folder / f"{name}.json").read_text()) for name in ("ours", "theirs"))
    if ours.keys() != theirs.keys():
        raise RuntimeError("mindstudio-probe compares other parameters")
    for name, entry in theirs.items():
        for key in ("l2", "cos"):
            if not math.isclose(ours[name][key], entry[key], rel_tol=1e-3, abs_tol=1e-6):
                raise RuntimeError(f"{name}: {key} is {ours[name][key]}, mindstudio-probe says {entry[key]}")


def _rates(python: str, library: str, folder: Path, threads: int, rounds: int) -> Any:
    words: list[Path | str] = [library, folder / "a", folder / "b", str(threads), str(rounds)]
    done = measure.run([python, measure.HERE / "checkpoint_worker.py", *words])
    if done.code != 0:
        raise RuntimeError(f"checkpoint_worker.py: exit code {done.code}")
    return json.loads(done.output)


def _measure(case: Case, python: str, reference: str, library: str, folder: Path, rounds: int) -> Record:
    shutil.rmtree(folder, ignore_errors=True)
    write_checkpoints(folder, case)
    record = Record()
    cores = len(os.sched_getaffinity(0))
    for threads in sorted({1, cores}):
        record.rates[str(threads)] = _rates(python, library, folder, threads, rounds)
    for number in range(rounds):
        done = _ours(python, folder)
        record.ours.append(done.seconds)
        record.peak_mib = max(record.peak_mib, done.peak_mib)
        if case.reference and number < 2:
            done = _theirs(reference, folder)
            record.theirs.append(done.seconds)
            record.their_peak_mib = max(record.their_peak_mib, done.peak_mib)
    if case.reference:
        _check_agreement(folder)
    shutil.rmtree(folder)
    return record


# ---- report


def _row(case: Case, record: Record) -> list[str]:
    cells = [case.name]
    for found in record.rates.values():
        rate = found["bytes"] / statistics.median(found["all"]) / 1e9
        share = measure.median_ratio(found["sum"], found["all"])
        hashed = found["bytes"] / statistics.median(found["with_hash"]) / 1e9
        of_sum = measure.against(share, _LEAST_RATE, at_most=False)
        cells.append(f"{rate:.1f} GB/s, {of_sum}; with hash {hashed:.1f} GB/s")
    ours = statistics.median(record.ours)
    cells.append(measure.duration(ours))
    if record.theirs:
        theirs = statistics.median(record.theirs)
        cells.append(f"{measure.duration(theirs)}, {record.their_peak_mib:.0f} MiB")
        cells.append(measure.against(theirs / ours, _LEAST_GAIN, at_most=False))
    else:
        cells += ["", ""]
    bound = measure.bound(f"<= {_MOST_MEMORY}", holds=record.peak_mib <= _MOST_MEMORY)
    return [*cells, f"{record.peak_mib:.0f} MiB{bound}"]


def benchmark(python: str, reference: str, library: str, out: Path, rounds: int) -> str:
    rows, records = [], {}
    for case in _CASES:
        record = _measure(case, python, reference, library, out / "checkpoint", rounds)
        records[case.name] = asdict(record)
        rows.append(_row(case, record))
    threads = [f"{count} thread{'s' if count != '1' else ''}, of a plain sum" for count in record.rates]
    header = ["both checkpoints", *threads, "the command", "mindstudio-probe", "gain", "memory"]
    text = measure.table(header, rows)
    measure.write_results(out, "checkpoint", records, text)
    return text


def main() -> int:
    parser = measure.parser(__doc__)
    parser.add_argument("--plain-read", metavar="LIBRARY", required=True)
    options = parser.parse_args()
    python, library, out = options.reference_python, options.plain_read, options.out
    return measure.run_alone(
        "checkpoint", lambda: benchmark(sys.executable, python, library, out, options.rounds)
    )


if __name__ == "__main__":
    sys.exit(main())
