# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""An upgrade of torch, as a user does it: the same training under two versions, and with a fault on top.

    python tests/faults/library/upgrades.py OUT --torch 2.14=ENV/bin/python --torch 2.15=ENV/bin/python

The reference is recorded with this interpreter, the targets with the others; each environment has msprobe
built for its torch, and transformers of one version. Six models, each in float32 and bfloat16, healthy; ten
faults of sources.py planted in the target. `--page FILE` writes the result as a part of the documentation.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from sources import BY_NAME  # noqa: E402
from table import Pair, folder_of, is_recorded, judged  # noqa: E402

MODELS = ("llama", "mixtral", "bert", "resnet", "vit", "gpt2")
DTYPES = ("float32", "bfloat16")
FAULTS = (
    *("llama_scaling", "llama_rotary_sign", "llama_norm_eps", "mixtral_not_normalised", "mixtral_sigmoid"),
    *("bert_softmax_dim", "bert_positions", "resnet_order", "vit_tanh", "gpt2_residual"),
)


def pairs_of(version: str) -> list[Pair]:
    """The name of a run is what train.py is given, and the version behind that."""
    found = []
    for model in MODELS:
        for dtype in DTYPES:
            words = (model, "--dtype", dtype)
            target = (*words, f"@{version}")
            found.append(Pair(f"{version}.{model}_{dtype}", "healthy", (*words, "@here"), target))
    for name in FAULTS:
        fault = BY_NAME[name]
        words = (fault.model, "--dtype", fault.dtype)
        target = (*words, "--fault", name, f"@{version}")
        found.append(Pair(f"{version}.{name}", "faults", (*words, "@here"), target, fault.place, fault.step))
    return found


def record(out: Path, words: tuple[str, ...], interpreters: dict[str, str]) -> None:
    folder = folder_of(out, words)
    folder.parent.mkdir(parents=True, exist_ok=True)
    *given, version = words
    run = [interpreters[version[1:]], "-m", "msprobe", "run", "--force", "-o", str(folder)]
    with folder.with_name(f"{folder.name}.log").open("wb") as log:  # a version has a dot
        subprocess.run(
            [*run, str(HERE / "train.py"), *given], stdout=log, stderr=log, check=False, timeout=600
        )


def ask(out: Path, pair: Pair) -> dict[str, object]:
    answer = out / "answers" / pair.name / "diagnosis"
    answer.parent.mkdir(parents=True, exist_ok=True)
    runs = [str(folder_of(out, words)) for words in (pair.reference, pair.target)]
    words = ["diagnose", *runs, "-o", str(answer), "--quiet", "--force", "--no-graph"]
    with (answer.parent / "log").open("wb") as log:
        subprocess.run(
            [sys.executable, "-m", "msprobe", *words], stdout=log, stderr=log, check=False, timeout=300
        )
    return judged(out, pair, 0.0)


_TOP = """# Upgrades of torch

The same training of six models (Llama, Mixtral, BERT, ResNet, ViT, GPT-2; float32 and bfloat16) under
torch {here} and under another version, and ten faults planted under that version:

    python tests/faults/library/upgrades.py OUT{versions} --page docs/upgrades.md

On one processor, so with the same vector instructions. Of {healthy} healthy pairs {accused} are accused;
{equal} are equal in all that is recorded. Of {faults} faults the first cause is the changed line in {first}.

| pair | outcome | status, or the first cause |
|---|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("out", type=Path)
    add("--torch", action="append", required=True, metavar="NAME=PYTHON")
    add("--workers", type=int, default=2)
    add("--page", type=Path)
    options = parser.parse_args()
    interpreters = {"here": sys.executable, **dict(one.split("=", 1) for one in options.torch)}
    pairs = [pair for version in interpreters if version != "here" for pair in pairs_of(version)]
    wanted = dict.fromkeys(words for pair in pairs for words in (pair.reference, pair.target))
    missing = [words for words in wanted if not is_recorded(options.out, words)]
    with ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(lambda words: record(options.out, words, interpreters), missing))
        cells = list(pool.map(lambda pair: ask(options.out, pair), pairs))
    rows = [
        f"| {pair.name} | {cell['outcome']} | {str(cell['first'] or cell['status'])[:140]} |"
        for pair, cell in zip(pairs, cells)
    ]
    print(*rows, sep="\n")
    if options.page:
        import torch

        versions = "".join(f" --torch {name}=PYTHON" for name in interpreters if name != "here")
        healthy = [cell for pair, cell in zip(pairs, cells) if pair.is_healthy]
        top = _TOP.format(
            here=torch.__version__.partition("+")[0],
            versions=versions,
            healthy=len(healthy),
            accused=sum(cell["outcome"] != "clear" for cell in healthy),
            equal=sum(cell["status"] == "equal" for cell in healthy),
            faults=len(cells) - len(healthy),
            first=sum(cell["outcome"] == "first" for cell in cells),
        )
        options.page.write_text("\n".join([top + rows[0], *rows[1:], ""]), encoding="utf-8")
    wrong = [cell for cell in cells if cell["outcome"] not in ("clear", "first")]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
