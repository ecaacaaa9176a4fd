# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Faults in the source of `transformers`, and healthy pairs, through `msprobe run` and `msprobe diagnose`.

    python tests/faults/library/table.py OUT -o library.json            record what is missing, ask, judge
    python tests/faults/table.py --diff before.json library.json        which answers changed

Needs `transformers` in the environment (or in PYTHONPATH). The msprobe that records and is asked is that of
the interpreter; recordings stay in OUT, `--no-record` asks another msprobe about them. A run is a process
forked from one that has imported torch and transformers.

Columns: `{faults or healthy}/{dtype}/{quiet or noise}`, and `large/...`: width 1024, 24 layers, two steps.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import held_out  # noqa: E402
from commit import this_commit  # noqa: E402
from forking import forked  # noqa: E402
from judging import SAME  # noqa: E402
from sources import FAULTS  # noqa: E402

BF16 = ("--dtype", "bfloat16")
LARGE = ("--width", "1024", "--layers", "24", "--steps", "2", *BF16)


@dataclass(frozen=True)
class Pair:
    """What train.py is given on both sides, and the right answer."""

    name: str
    column: str
    reference: tuple[str, ...]
    target: tuple[str, ...]
    place: str = ""
    """Regular expression for the first cause; empty: healthy."""
    step: int = 0
    shown: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def is_healthy(self) -> bool:
        return not self.place


def _kind(what: str, model: str) -> str:
    return f"{what}, held out" if model in held_out.MODELS else what


def _faults() -> list[Pair]:
    found = []
    for fault in FAULTS:
        reference = (fault.model, "--dtype", fault.dtype)
        target = (*reference, "--fault", fault.name)
        column = f"{_kind('faults', fault.model)}/{fault.dtype}"
        found.append(Pair(fault.name, f"{column}/quiet", reference, target, fault.place, fault.step))
        if fault.is_rounding:
            continue
        noisy = (*target, "--noise", "5")
        found.append(
            Pair(f"{fault.name}.noise", f"{column}/noise", reference, noisy, fault.place, fault.step)
        )
    return found


# Healthy differences: (name, model, what both sides have, what the target has).
_HEALTHY = (
    ("llama_again", "llama", (), ()),
    ("llama_again_low", "llama", BF16, ()),
    ("llama_threads", "llama", (), ("--threads", "2")),
    ("llama_sdpa", "llama", (), ("--attention", "sdpa")),
    ("llama_sdpa_low", "llama", BF16, ("--attention", "sdpa")),
    ("llama_fused", "llama", (), ("--optimizer", "fused")),
    ("llama_foreach", "llama", BF16, ("--optimizer", "foreach")),
    ("llama_checkpointing", "llama", BF16, ("--checkpointing",)),
    ("llama_micro_batches", "llama", (), ("--micro-batches", "2")),
    ("llama_refactored", "llama", (), ("--refactored",)),
    ("llama_compile", "llama", (), ("--compile",)),
    ("mixtral_again_low", "mixtral", BF16, ()),
    ("mixtral_sdpa", "mixtral", (), ("--attention", "sdpa")),
    ("mixtral_threads", "mixtral", (), ("--threads", "2")),
    ("bert_sdpa", "bert", (), ("--attention", "sdpa")),
    ("bert_threads_low", "bert", BF16, ("--threads", "2")),
    ("bert_refactored", "bert", (), ("--refactored",)),
    ("resnet_channels_last", "resnet", (), ("--channels-last",)),
    ("resnet_no_mkldnn", "resnet", (), ("--no-mkldnn",)),
    ("vit_sdpa_low", "vit", BF16, ("--attention", "sdpa")),
    ("vit_micro_batches", "vit", (), ("--micro-batches", "2")),
    # of held_out.py
    ("gpt2_again", "gpt2", (), ()),
    ("gpt2_sdpa_low", "gpt2", BF16, ("--attention", "sdpa")),
    ("gpt2_checkpointing", "gpt2", (), ("--checkpointing",)),
    ("t5_again_low", "t5", BF16, ()),
    ("t5_threads", "t5", (), ("--threads", "2")),
    ("t5_micro_batches", "t5", (), ("--micro-batches", "2")),
    ("gemma2_again_low", "gemma2", BF16, ()),
    ("gemma2_foreach", "gemma2", (), ("--optimizer", "foreach")),
    ("mamba_again", "mamba", (), ()),
    ("mamba_threads_low", "mamba", BF16, ("--threads", "2")),
)


def _healthy() -> list[Pair]:
    found = []
    for name, model, both, more in _HEALTHY:
        reference = (model, *(both or ("--dtype", "float32")))
        column = f"{_kind('healthy', model)}/{reference[2]}"
        found.append(Pair(name, f"{column}/quiet", reference, (*reference, *more)))
        if "--compile" not in more:  # kernels of a compiled region are not seen by the noise
            found.append(
                Pair(f"{name}.noise", f"{column}/noise", reference, (*reference, *more, "--noise", "5"))
            )
    return found


def _large() -> list[Pair]:
    reference = ("llama", *LARGE)
    found = [
        Pair("large_again", "large/healthy", reference, (*reference, "--threads", "2")),
        Pair("large_sdpa", "large/healthy", reference, (*reference, "--attention", "sdpa")),
        Pair("large_noise", "large/healthy", reference, (*reference, "--noise", "5")),
    ]
    for fault in FAULTS:
        if fault.name in ("llama_gate", "llama_norm_eps", "llama_scaling", "llama_rotary_sign"):
            target = (*reference, "--fault", fault.name)
            found.append(
                Pair(f"large_{fault.name[6:]}", "large/faults", reference, target, fault.place, fault.step)
            )
    return found


PAIRS = (*_faults(), *_healthy(), *_large())


# ---- runs


def folder_of(out: Path, words: tuple[str, ...]) -> Path:
    return out / "runs" / re.sub(r"[^\w.]+", "_", " ".join(words))


def _to(log: Path) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)


def record(out: Path, words: tuple[str, ...]) -> int:
    """Through the command line, as a user does it."""
    folder = folder_of(out, words)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _to(folder.with_suffix(".log"))
    from msprobe.cli import main

    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() not in (HERE, HERE.parent)]
    for name in (
        "table",
        "sources",
        "held_out",
        "planting",
        "judging",
    ):  # of this program; the script imports its own
        sys.modules.pop(name, None)
    return main(["run", "-o", str(folder), str(HERE / "train.py"), *words])


def ask(out: Path, pair: Pair) -> int:
    answer = out / "answers" / pair.name
    shutil.rmtree(answer, ignore_errors=True)
    answer.mkdir(parents=True)
    _to(answer / "log")
    from msprobe.cli import main

    runs = [str(folder_of(out, words)) for words in (pair.reference, pair.target)]
    code = main(["diagnose", *runs, "-o", str(answer / "diagnosis"), "--quiet", "--force", "--no-graph"])
    sys.stderr.write(f"\nexit code {code}\n")
    return code


def is_recorded(out: Path, words: tuple[str, ...]) -> bool:
    try:
        content = json.loads((folder_of(out, words) / "run.rank0.json").read_text())
    except (OSError, ValueError):
        return False
    return content["outcome"] in ("ended", "exit code 0")


# ---- judging


def judged(out: Path, pair: Pair, seconds: float) -> dict[str, Any]:
    folder = out / "answers" / pair.name
    try:
        content = json.loads((folder / "diagnosis" / "diagnose.json").read_text())
    except (OSError, ValueError):
        said = (
            (folder / "log").read_text(errors="replace")[-300:]
            if (folder / "log").exists()
            else "not recorded"
        )
        return {"outcome": "failed", "status": "", "first": said, "seconds": seconds}
    causes = [content["cause"], *content["others"]] if content["cause"] else []
    texts = [
        " ".join(str(cause.get(key) or "") for key in ("stage", "name", "module", "record")).strip()
        for cause in causes
    ]
    right = [
        bool(pair.place and re.search(pair.place, text)) and causes[i].get("step") in (pair.step, None)
        for i, text in enumerate(texts)
    ]
    same = content["status"] in SAME
    if pair.is_healthy:
        outcome = "clear" if same else "incomplete" if content["status"] == "incomplete" else "accused"
    elif any(right):
        outcome = "first" if right[0] and not same else "named"
    else:
        outcome = "other" if causes else "same" if same else "unexplained"
    first = texts[0] if texts else content["sentence"]
    cell = {"outcome": outcome, "status": content["status"], "first": first, "seconds": round(seconds, 2)}
    if not pair.is_healthy:
        cell["counts"] = "yes"
    return cell


def text_of(cells: dict[str, dict[str, dict[str, Any]]]) -> str:
    lines = []
    for column in sorted(cells):
        items = cells[column]
        counts: dict[str, int] = {}
        for cell in items.values():
            counts[cell["outcome"]] = counts.get(cell["outcome"], 0) + 1
        lines.append(
            f"{column:26} {len(items):3}  "
            + ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
        )
    for column in sorted(cells):
        for name, cell in cells[column].items():
            if cell["outcome"] not in ("first", "clear"):
                lines.append(f"  {column:24} {name:26} {cell['outcome']:11} {cell['first'][:110]}")
    return "\n".join(lines)


_TOP = """# How often the verdict is right in models of a library

Made by one command, which plants {faults} faults in functions of `transformers`, one changed line each, and
records them and {healthy} healthy differences with `msprobe run`, in a script that knows nothing of it. Then
it asks `msprobe diagnose` and judges the answers:

    python tests/faults/library/table.py OUT -o RESULTS --page docs/verdict_library.md

`tests/faults/README.md` says more; `sources.py` and `held_out.py` in `tests/faults/library` have the changed
lines. Made at commit `{commit}` with transformers {transformers}. The other table:
[planted faults](verdict_table.md).

* Models: Llama with grouped queries, Mixtral, BERT with padding, ResNet, ViT; float32, or all in bfloat16.
* **held out**: GPT-2, T5, Gemma 2 and Mamba, whose faults were written after the rules of the verdict. Their
  rows say what to expect of a model that msprobe has never seen.
* **noise**: another device's rounding in every kernel of the target, forward, backward and optimizer.
* **healthy**: other threads, fused attention, fused and foreach optimizers, compile, checkpointing, another
  memory format, micro-batches, another script that does the same.
* **first**: the first cause is at the changed line. **named**: another of the causes is. **called the same**:
  it is said that the runs follow each other. **accused**: it is said of a healthy pair that they do not.

| what | dtype | noise | pairs | first | named | other cause | no cause | called the same | accused |
|---|---|---|---|---|---|---|---|---|---|
"""


def page_of(cells: dict[str, dict[str, dict[str, Any]]]) -> str:
    import transformers

    def pairs_of(kind: str) -> int:
        return len(
            {
                name.removesuffix(".noise")
                for c, items in cells.items()
                if c.startswith(kind)
                for name in items
            }
        )

    text = _TOP.format(
        faults=pairs_of("faults"), healthy=pairs_of("healthy"),
        commit=this_commit(), transformers=transformers.__version__,
    )  # fmt: skip
    for column in sorted(cells, key=lambda name: name.split("/")[::-1]):
        kind, dtype, mode = (*column.split("/"), "quiet")[:3]
        outcomes = [cell["outcome"] for cell in cells[column].values()]
        is_healthy = kind.startswith("healthy")
        of_faults = [outcomes.count(word) for word in ("first", "named", "other", "unexplained", "same")]
        row = [kind, dtype, "yes" if mode == "noise" else "no", len(outcomes)]
        row += ["", "", "", "", "", outcomes.count("accused")] if is_healthy else [*of_faults, ""]
        text += f"| {' | '.join(map(str, row))} |\n"
    wrong = [
        f"* `{column}`, {cell['outcome']}: {name}\n"
        for column in sorted(cells)
        for name, cell in cells[column].items()
        if cell["outcome"] not in ("first", "clear")
    ]
    return text + ("\n## Which ones\n\n" + "".join(wrong) if wrong else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("out", type=Path, help="folder of recordings and answers")
    add("-o", "--results", type=Path, default=Path("library.json"))
    add("--only", action="append", default=[], metavar="REGEX", help="pairs, or columns; may be repeated")
    add("--no-record", action="store_true")
    add("--no-ask", action="store_true", help="record only")
    add("--workers", type=int, default=2)
    add("--large", action="store_true", help="the large ones, too: minutes and gigabytes each")
    add("--page", type=Path, help="writes the page of the documentation")
    options = parser.parse_args()
    pairs = [p for p in PAIRS if options.large or not p.column.startswith("large")]
    if options.only:
        pairs = [p for p in pairs if any(re.search(one, f"{p.column} {p.name}") for one in options.only)]
    if not options.no_record:
        wanted = list(dict.fromkeys(words for pair in pairs for words in (pair.reference, pair.target)))
        jobs = [(options.out, words) for words in wanted if not is_recorded(options.out, words)]
        if jobs:
            _import_all()
        few = [job for job in jobs if "1024" not in job[1]]
        forked(few, record, options.workers, "recorded")
        forked([job for job in jobs if "1024" in job[1]], record, 1, "recorded, large")
    if options.no_ask:
        return 0
    ready = [p for p in pairs if is_recorded(options.out, p.reference) and is_recorded(options.out, p.target)]
    import msprobe.diagnose.parts  # noqa: F401

    seconds = forked([(options.out, pair) for pair in ready], ask, options.workers, "asked")
    cells: dict[str, dict[str, Any]] = {}
    if options.results.exists():
        cells = json.loads(options.results.read_text())["cells"]
    took = {pair.name: seconds[number] for number, pair in enumerate(ready)}
    for pair in pairs:
        cells.setdefault(pair.column, {})[pair.name] = judged(options.out, pair, took.get(pair.name, 0.0))
    options.results.write_text(json.dumps({"format": 1, "cells": cells}, indent=0) + "\n")
    print(text_of(cells))
    if options.page:
        options.page.write_text(page_of(cells))
    return 0


def _import_all() -> None:
    """What every run needs, once."""
    import msprobe.pytorch  # noqa: F401
    import torch._dynamo  # noqa: F401
    import transformers

    for name in (
        "LlamaForCausalLM",
        "MixtralForCausalLM",
        "BertForMaskedLM",
        "ResNetForImageClassification",
        "GPT2LMHeadModel",
        "T5ForConditionalGeneration",
        "Gemma2ForCausalLM",
        "MambaForCausalLM",
    ):
        getattr(transformers, name)
    transformers.ViTForImageClassification  # noqa: B018


if __name__ == "__main__":
    sys.exit(main())
