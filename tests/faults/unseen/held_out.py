# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The held-out sets: records one, checks that it is what it says, and asks about it once.

    python tests/faults/unseen/held_out.py OUT --set fifteenth
    python tests/faults/unseen/held_out.py OUT --set fifteenth --page docs/held_out.md

The first records and checks without asking, the second asks, too, and writes the page. The set "first" needs
`transformers`. A set is fair as long as nobody has seen an answer to it: no rule and no number of the verdict
may be chosen by what comes of it, and each pair is asked once. What stands on the page is spent: it is
neither recorded nor asked again, and its rows stay as they are.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from case import Case  # noqa: E402
from cases import SETS  # noqa: E402
from commit import this_commit  # noqa: E402
from judging import SAME  # noqa: E402
from recording import Run, folder_of, is_recorded, log_of, numbers_of, record, runs_of  # noqa: E402

HEALTHY_LIMIT = 0.02
"""Losses and weights of two healthy runs are closer than that, bfloat16 included."""


# ---- is the set what it says? Without the code under test.


def furthest(out: Path, runs: tuple[Run, Run]) -> float:
    """The largest relative difference of what both runs printed: losses, sums of weights and buffers."""
    ours, theirs = (numbers_of(log_of(out, run)) for run in runs)
    shared = [key for key in ours if key in theirs]
    assert shared, f"{runs[0].script}: nothing printed"
    pairs = [pair for key in shared for pair in zip(ours[key], theirs[key])]
    return max(abs(a - b) / max(abs(a), abs(b), 1e-30) for a, b in pairs)


def check(out: Path, cases: list[Case]) -> list[str]:
    """What is wrong with the set: a fault that changes nothing, a healthy pair that is none."""
    wrong = []
    for case in cases:
        distance = furthest(out, runs_of(case))
        print(f"{'healthy' if case.is_healthy else 'fault':8} {case.name:28} {distance:.2g}")
        if case.is_healthy and distance > HEALTHY_LIMIT:
            wrong.append(f"{case.name} is healthy, and differs by {distance:.2g}")
        if not case.is_healthy and distance == 0:
            wrong.append(f"{case.name} changes nothing that is printed")
    return wrong


# ---- asking


def ask(out: Path, case: Case) -> dict[str, Any]:
    answer = out / "answers" / case.name
    shutil.rmtree(answer, ignore_errors=True)
    answer.parent.mkdir(parents=True, exist_ok=True)
    runs = [str(folder_of(out, run)) for run in runs_of(case)]
    words = [sys.executable, "-m", "msprobe", "diagnose", *runs, "-o", str(answer), "--quiet", "--no-graph"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode not in (0, 1):
        return {"outcome": "failed", "status": "", "first": done.stderr.strip()[-200:]}
    return judged(case, json.loads((answer / "diagnose.json").read_text(encoding="utf-8")))


def judged(case: Case, content: dict[str, Any]) -> dict[str, Any]:
    causes = [content["cause"], *content["others"]] if content["cause"] else []
    texts = [
        " ".join(str(cause.get(key) or "") for key in ("stage", "name", "module", "record")).strip()
        for cause in causes
    ]
    right = [
        bool(case.place and re.search(case.place, text)) and cause.get("step") in (*case.steps, None)
        for cause, text in zip(causes, texts)
    ]
    same = content["status"] in SAME
    if case.is_healthy:
        outcome = "clear" if same else "incomplete" if content["status"] == "incomplete" else "accused"
    elif any(right):
        outcome = "first" if right[0] and not same else "named"
    else:
        outcome = "other" if causes else "same" if same else "unexplained"
    return {
        "outcome": outcome,
        "status": content["status"],
        "first": texts[0] if texts else content["sentence"],
    }


# ---- the page

_TOP = """# Held-out sets

Each is 40 planted faults and 40 healthy pairs on kinds of models that no rule and no number of the verdict
was tried on before. A set is committed before the rules change. Each pair is asked once, at the commit that
its row names, and is published as it came out. What was asked is spent: rules changed since with its answers
in view, and later answers to it say nothing of unseen models.

Made by one command; `tests/faults/unseen` has the scripts and every changed line:

    python tests/faults/unseen/held_out.py OUT --set fourth --page docs/held_out.md

**first**: the first cause is at the changed line. **named**: another of the causes is. **accused**: a
healthy pair is said to differ. **differs by**: the largest relative difference of losses and weights,
measured without msprobe.
"""

_KINDS = {
    "first": """a diffusion U-Net, Whisper, CLIP, a graph network, a GAN, a recommender, an LSTM over packed
sequences, PPO, Qwen3-MoE, Mamba-2, segmentation, and two processes with data, fully sharded, tensor,
optimizer-state, pipeline and expert parallelism""",
    "second": """a variational autoencoder, a normalizing flow, WaveNet, a radiance field, MLP-Mixer,
ConvNeXt, Swin, a Siamese network, sequence to sequence with additive attention, a conditional random field,
deep Q-learning, soft actor and critic, a world model, RetNet, distillation, a detector, video, spectral
norms, a Perceiver, a hypernetwork, a deep equilibrium, and two processes with batch norms of both, fully
sharded parameters in two precisions, and heads divided by hand""",
    "third": """splines on edges, a neural differential equation, capsules, a Fourier operator, clouds of
points, sets of several sizes, a code book, TabNet, N-BEATS, forecasts with their spread, speech, an equation
that is solved by its derivatives, learning to learn, momentum contrast, margins of angles, trees, spiking
neurons, larger pictures, and two processes that compare pictures with texts of both, or train alone and go
on from what both found. Two of its
recordings (points.renamed, nbeats.compiled) were empty, as the recorder was rebuilt meanwhile; they were
recorded again and asked at the same commit""",
    "fourth": """words by their neighbours, a Gaussian process, a mixture density network, a unitary network
of complex numbers, a neural Turing machine, a pointer network, an energy model, molecules and their forces,
survival, a knowledge graph, Transformer-XL, the style of pictures by L-BFGS, reversible blocks, domain
adaptation, prototypes of few examples, recurrent convolutions, a Boltzmann machine, weights that are
distributions, training for 8 bits, and a masked autoencoder. skipgram, survival, boltzmann and style were
first written without a module, with steps or gradients by hand, or with a picture as all that learns: of such
trainings `msprobe run` records nothing, and says so. Before anything was asked they were written anew, with a
module and an optimizer of torch, and three labels of faults whose line runs before the first step is recorded
were mended. No label was changed after the answers: of reversible.residual and domain.reversal the backward
call of the block and the product of the changed line are named, which their labels do not have""",
    "fifth": """RWKV learnt by Lion, a rectified flow of a diffusion transformer with an average, updates of
low rank of GPT-NeoX, sets of boxes that are matched, a transformer of tables with two uncertain tasks, a
neural process, a graph transformer, speech of text, a transducer, a Kalman filter, preferences of OLMo 2,
twins learnt by LARS, ELECTRA, retrieval whose large batch goes through in parts, a decoder of windows
learnt by Muon, optical flow, and two processes with halves of each text whose keys go round, halves of the
words, gradients of parts that a hook reduces, and halves of each picture with the row beyond""",
    "sixth": """ModernBERT, answers in groups of Granite, a decision transformer, wav2vec 2.0, slots that
compete for a picture, a student of its own average with registers, a generative flow, a graph network that
turns with what it sees, a tree in a ball of Poincaré, a diagonal state space, a consistency model, pictures
by style, MuZero, ranks by what a swap would cost, a temporal fusion transformer, a picture of soft ellipses,
and two processes whose halves of texts change places for heads, that send gradients as thin factors, that
have half of the tables each, and that climb alone before both learn""",
    "seventh": """PatchTST with values that are missing, SegFormer, BLOOM learnt by Adafactor, DeBERTa whose
two dropouts shall agree, LLaVA with a frozen eye, sessions of visitors by a recurrent network, a picture as
sines of sines, two painters with pools of older pictures, attention without a softmax learnt by Adan, a
Conformer, a soft mixture of experts, twin critics whose policy learns later, early exits of thin bottlenecks,
poses by hourglasses, views that share prototypes equally, a network that gets sparse, voices that are parted
whichever is which, and two processes that divide words between layers and columns within, that have no common
gradient and track it, and that take roots of half of the matrices each""",
    "eighth": """gpt-oss whose heads may look nowhere, LayoutLM, BART, depth by a DPT whatever the scale,
gates of logic, topics of texts, a cell that thinks as long as it wants, an energy of springs, a pendulum
that moves straight elsewhere, pictures point by point, agents that act alone and are judged together, an
AWD-LSTM, few labels and many pictures, holes that are filled, evidence by a Dirichlet distribution, layers
that learn alone, and two processes that do not wait for each other's gradients, that send the largest parts
of them, that are two students who learn from each other, and that know other things of the same people""",
    "ninth": """DeepSeek-V3 whose experts lean away from crowds, FNet, VideoMAE, ESM, distances to a shape by
tables of hashes, sound as numbers of few books, a grammar that nobody wrote, cells that grow a picture, how
far by two eyes, quantiles of what an act is worth, DeepONet, diffusion of words, pictures that shall not
mislead, one task after another, a mixture of depths, and two processes that vote by signs, of which one acts
and the other judges, that have half of the nodes of a graph each, of which one has fewer batches, and that
are told how they drift from each other""",
    "tenth": """XLNet, RecurrentGemma over texts that share a row, Nystromformer, FocalNet of mixed pictures,
a solver whose steps are layers, when what happens next, which word hangs on which, a memory that is corrected
and learnt by Sophia, a network that is looked for, pictures in few bits, gradients of single samples that are
cut and hidden in noise, a policy that learns through the laws of motion, a dictionary of what a network
thinks, kernels that turn with the picture, tasks whose gradients quarrel, and two processes that take a mean
over the words of both, that hand a recurrence on, that send gradients as bytes, that have rows and then
columns of pairs, and whose critics change places""",
    "eleventh": """DiffLlama, ConvBERT whose heads are kernels, PoolFormer of turned pictures, LeViT with a
teacher, how to carry a cloud to another by convex networks, bags of pictures, money that is shared out by a
quadratic program, words by their letters, what causes what without circles, how a body stands by its turns,
what a cure does to whom, counts of genes, acts out of what others did, networks that teach each other by what
is easy, trains of small matrices, a lens that learns with what reads its pictures, and two processes that
share all but their norms, that have half of the filters each, whose networks push each other away, and that
have the outer or the inner quarters of each text""",
    "twelfth": """ALBERT learnt by LAMB, CvT, Funnel, JetMoE, graphs that get coarser, kinds of which
most are rare, grades in an order, causes that hold everywhere, an instrument of harmonics and noise,
Hyena without a schedule, plays of an older policy, blocks that are told as another network sees them,
clauses that shall all be true, errors that go another way than the weights, a grid that pictures look
up their colours in, and two processes that a spring holds together, that try half of a generation each,
that hide from each other what they send, that change their temperatures, and whose step is as long as
their gradients are noisy""",
    "thirteenth": """MPNet learnt by AdaBelief, TimeSformer, MobileViT of pasted pictures, Cohere2, curvature
as products of two small matrices, strokes by their iterated sums, waves by lifting, units that add or
multiply, soft trees, a sorting network, acts out of wonder, shares that are held against an option,
causes that are there or not, messages of a code's bits and checks, people who label and err learnt by
Yogi, and two processes that send sketches, that turn fields to take waves of both sides, that have half
of a rod each, that send only the rows that were looked up and learn them by FTRL, and that agree how far
a conjugate gradient goes""",
    "fourteenth": """BEiT learnt by NovoGrad, Autoformer whose slow weights look ahead, Nemotron that
shall not say again what it said, ProphetNet, a memory of product keys, a state driven by a path,
guesses that are drawn anew, tasks that shall learn equally fast, slopes of how likely points are along
random directions, pieces of a picture by nearly a permutation learnt by SM3, series that are laid along
each other, what somebody wants by how he walks, groups that nobody named, pictures without norms, laws
of few terms, and two processes that add gradients where they are at right angles, that lend their
layers, of whose workers one lies, that pay for not agreeing, and that make orthogonal what they tell of
a cloud""",
    "fifteenth": """Gemma 2 learnt from answers that were found good or bad, HuBERT, ViLT whose answers count
in shares, T5 whose answers shall be likely in their order and whose gradients are of low rank, groups of
papers whose step finds its length, cells whose state relaxes in closed form, a flow without a break, a
network that is several of other widths, what a year of insurance costs, a Gaussian process of few points
that stand for all, messages in pictures that nobody sees, a chain that folds by frames, a voice by four
microphones, a decoder on a ball, where acts lead to in the long run, and two processes of which the worse
goes on from the better, that correct what a batch says by an older look at all, of which one has half of
the channels, that play against each other, and that put thin updates together""",
    "sixteenth": """RoFormer whose two strands shall say the same, PatchTSMixer, an Audio Spectrogram
Transformer, GPT-J that tells a middle and learns without a schedule, WavLM, a chain of spins, how high a
sound is without labels, things as points, a ball that is bent to a cloud, texts that are written or copied,
acts of one who knows how, numbers told one after the other, memories of meetings, rows that count as much
as they help, what is unusual in a series, and two processes that tell each other middles of kinds, of which
each has half of the units of an LSTM, that merge what they learnt by how much it matters, that deal their
pictures anew, and that keep one book of codes""",
}

_SUMMARY = """
| asked at | what | pairs | outcomes |
|---|---|---|---|
"""

Row = tuple[str, str, str, str]
"""Of a pair: differs by, outcome, asked at, first cause."""
_ROW = re.compile(r"^\| (\w+\.\w+) \| (\S+) \| (\w+) \| (\w+) \| (.*) \|$", re.MULTILINE)


def spent_rows(page: str) -> dict[str, Row]:
    return {
        name: (apart, outcome, commit, first) for name, apart, outcome, commit, first in _ROW.findall(page)
    }


def row_of(cell: dict[str, Any], distance: float, commit: str) -> Row:
    return f"{distance:.1g}", cell["outcome"], commit, cell["first"].replace("|", "\\|")[:160]


def page_of(rows: dict[str, Row]) -> str:
    """Of all that was asked, in the order of the sets."""
    asked = {name: [case for case in cases if case.name in rows] for name, cases in SETS.items()}
    return _TOP + "".join(_section(name, cases, rows) for name, cases in asked.items() if cases)


def _section(name: str, asked: list[Case], rows: dict[str, Row]) -> str:
    kinds = {True: "healthy pairs", False: "faults"}
    text = f"\n## The {name} set\n\n{_KINDS[name][0].upper()}{_KINDS[name][1:]}.\n{_SUMMARY}"
    for commit in dict.fromkeys(rows[case.name][2] for case in asked):
        for is_healthy, kind in kinds.items():
            found = [
                rows[case.name][1]
                for case in asked
                if case.is_healthy == is_healthy and rows[case.name][2] == commit
            ]
            counts = ", ".join(f"{found.count(word)} {word}" for word in sorted(set(found)))
            text += f"| `{commit}` | {kind} | {len(found)} | {counts} |\n"
    for is_healthy, kind in reversed(kinds.items()):
        text += f"\n### {kind.capitalize()} of the {name} set\n\n"
        text += "| pair | differs by | outcome | asked at | first cause, or the answer |\n"
        text += "|---|---|---|---|---|\n"
        for case in asked:
            if case.is_healthy == is_healthy:
                text += f"| {case.name} | {' | '.join(rows[case.name])} |\n"
    unasked = [case.name for case in SETS[name] if case.name not in rows]
    if unasked:
        text += (
            f"\n### Not asked of the {name} set\n\n{len(unasked)} of {len(SETS[name])} pairs were not "
            f"recorded in the time there was, and not asked; they are not spent: {', '.join(unasked)}.\n"
        )
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("out", type=Path, help="folder of recordings and answers")
    add("--set", choices=sorted(SETS), required=True, help="which of the sets")
    add("--only", metavar="REGEX", default="", help="these cases; never to be asked in parts")
    add("--workers", type=int, default=2)
    add("--recorded", action="store_true", help="only what is recorded; the page names what is not asked")
    add("--page", type=Path, help="asks about all that is not on it, once, and writes the page again")
    options = parser.parse_args()
    page = options.page
    rows = spent_rows(page.read_text(encoding="utf-8")) if page is not None and page.exists() else {}
    cases = [
        case for case in SETS[options.set] if re.search(options.only, case.name) and case.name not in rows
    ]
    out = options.out.resolve()
    if options.recorded:
        cases = [case for case in cases if all(is_recorded(out, run) for run in runs_of(case))]
    begin = time.monotonic()
    failed = record(out, cases, options.workers)
    print(f"recorded in {time.monotonic() - begin:.0f} s", file=sys.stderr)
    for run in failed:
        print(f"not recorded: {folder_of(out, run).with_suffix('.log')}", file=sys.stderr)
    if failed:
        return 1
    wrong = check(out, cases)
    print("\n".join(wrong), file=sys.stderr)
    if wrong or page is None:
        return 1 if wrong else 0
    if options.only:
        print("what is asked is not chosen: remove --only", file=sys.stderr)
        return 2
    commit = this_commit()
    with ThreadPoolExecutor(options.workers) as pool:
        cells = dict(zip((case.name for case in cases), pool.map(lambda case: ask(out, case), cases)))
    (out / "held_out.json").write_text(json.dumps(cells, indent=1) + "\n", encoding="utf-8")
    rows |= {case.name: row_of(cells[case.name], furthest(out, runs_of(case)), commit) for case in cases}
    page.write_text(page_of(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
