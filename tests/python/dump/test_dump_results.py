# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A captured training is the same training: to the last bit, to the last node, and with the same objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dump_support import LEVELS, Dump, captured, debugger, run

TASKS = {
    "statistics": {"task": "statistics"},
    "md5": {"task": "statistics", "section": {"summary_mode": "md5"}},
    "tensor": {"task": "tensor"},
    "structure": {"task": "structure"},
}


def differing_results(directory: Path, kind: str) -> dict[str, list[str]]:
    """What differs from the training without the tool, for each level and task."""
    from dump_models import train
    from msprobe import PrecisionDebugger

    without = train(kind)
    assert train(kind) == without  # or nothing below would mean anything
    found = {}
    for level in LEVELS:
        for task, configuration in TASKS.items():
            if task == "structure" and level == "L1":
                continue
            folder = directory / f"{level}_{task}"
            folder.mkdir()
            captured_training = train(kind, debugger=debugger(folder, level=level, **configuration))
            PrecisionDebugger._reset()
            found[f"{level} {task}"] = [key for key in without if captured_training[key] != without[key]]
            assert captured_training.keys() == without.keys()
            for step in range(3):
                dump = Dump(folder, step).check()
                assert task == "structure" or len(dump.names) > 10
    assert train(kind) == without
    return found


@pytest.mark.parametrize("kind", ["transformer", "cnn", "lstm"])
def test_losses_gradients_and_parameters_are_bit_equal(tmp_path, kind):
    found = run(differing_results, tmp_path, kind)
    assert len(found) == 11
    assert not any(found.values()), found


# ---- the graph


def graph_of(tensor: Any) -> list[str]:
    """The names of all nodes below a tensor, walked in one fixed order, with the edges."""
    numbers: dict[Any, int] = {}
    lines = []
    pending = [tensor.grad_fn]
    while pending:
        node = pending.pop()
        if node is None or node in numbers:
            continue
        numbers[node] = len(numbers)
        lines.append(node.name())
        pending += [following for following, _ in reversed(node.next_functions)]
    return lines


def graphs(directory: Path, kind: str, level: str) -> tuple[list[str], list[str]]:
    import torch
    from dump_models import build, loss_of

    model = build(kind)
    torch.manual_seed(3)
    without = graph_of(loss_of(model, kind, 0))
    model = build(kind)
    torch.manual_seed(3)
    with captured(directory, model, level=level):
        loss = loss_of(model, kind, 0)
        within = graph_of(loss)
        loss.backward()
    return without, within


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["transformer", "cnn", "lstm"])
def test_the_graph_has_the_same_nodes(tmp_path, kind, level):
    without, within = run(graphs, tmp_path, kind, level)
    assert within == without
    assert len(without) > 10


# ---- the objects


def identities(directory: Path) -> None:
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import relu
    from torch.nn.functional import gelu, softmax

    watched = {
        "F.gelu": lambda: F.gelu,
        "F.relu": lambda: F.relu,
        "F.softmax": lambda: F.softmax,
        "F.linear": lambda: F.linear,
        "F.scaled_dot_product_attention": lambda: F.scaled_dot_product_attention,
        "torch.relu": lambda: torch.relu,
        "torch.add": lambda: torch.add,
        "torch.split": lambda: torch.split,
        "Tensor.add": lambda: torch.Tensor.add,
        "Tensor.backward": lambda: torch.Tensor.backward,
        "torch.optim.SGD.step": lambda: torch.optim.SGD.step,
    }
    before = {name: get() for name, get in watched.items()}
    kinds = {name: type(value) for name, value in before.items()}

    def same() -> None:
        assert {name: get() for name, get in watched.items()} == before
        for name, get in watched.items():
            assert get() is before[name]
            assert type(get()) is kinds[name]
        assert relu is torch.relu
        assert gelu is F.gelu
        assert softmax is F.softmax

    same()
    x = torch.randn(3, requires_grad=True)
    with captured(directory, torch.nn.Linear(2, 2)):
        same()
        (relu(x) + gelu(x) + softmax(x, dim=0)).sum().backward()
        same()
    same()


def test_functions_keep_their_identity(tmp_path):
    run(identities, tmp_path)
    names = Dump(tmp_path).names
    assert {
        "Torch.relu.0.forward",
        "Functional.gelu.0.forward",
        "Functional.softmax.0.forward",
    } <= set(names)  # names imported before start() are recorded


def signatures(directory: Path) -> list[dict[str, Any]]:
    import copy
    import inspect
    import pickle

    import torch
    import torch.nn.functional as F  # noqa: N812

    def seen() -> dict[str, Any]:
        return {
            "document": F.softmax.__doc__,
            "defaults": F.softmax.__defaults__,
            "source": inspect.getsource(F.dropout),
            "pickled": pickle.loads(pickle.dumps(F.softmax)) is F.softmax,
            "pickled method": pickle.loads(pickle.dumps(torch.Tensor.add)) is torch.Tensor.add,
            "copied": copy.deepcopy(F.relu) is F.relu,
            "operator": torch.Tensor.__add__.__name__,
            "document of operator": torch.Tensor.__add__.__doc__,
            "equal to None": torch.ones(2).__eq__(None),
        }

    before = seen()
    with captured(directory, torch.nn.Linear(2, 2)):
        during = seen()
    return [before, during, seen()]


def test_functions_look_the_same_from_outside(tmp_path):
    before, during, after = run(signatures, tmp_path)
    assert during == before
    assert after == before


# ---- the fast paths


def fast_path(directory: Path, level: str, kind: str) -> tuple[list[str], list[str]]:
    """The operators that a module runs in eval, without and with the tool."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.manual_seed(0)
    x = torch.randn(2, 5, 16)
    if kind == "layer":
        model = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
        call = lambda: model(x)  # noqa: E731
    elif kind == "encoder":
        layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        model = torch.nn.TransformerEncoder(layer, 2).eval()
        mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
        call = lambda: model(x, src_key_padding_mask=mask)  # noqa: E731
    else:
        model = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
        call = lambda: model(x, x, x)[0]  # noqa: E731

    def operators() -> tuple[list[str], Any]:
        with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU]) as seen:
            result = call()
        return sorted(event.name for event in seen.events() if event.name.startswith("aten::")), result

    without, expected = operators()
    with captured(directory, torch.nn.ModuleList([model]), level=level):
        within, result = operators()
    assert torch.equal(result, expected)
    return without, within


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["layer", "encoder", "attention"])
@pytest.mark.filterwarnings("ignore")
def test_fast_paths_are_still_taken(tmp_path, kind, level):
    without, within = run(fast_path, tmp_path, level, kind)
    fast = (
        "aten::_transformer_encoder_layer_fwd"
        if kind != "attention"
        else "aten::_native_multi_head_attention"
    )
    assert fast in without
    assert within == without
