# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that activation checkpointing repeats, and the call of the forward that each of them repeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dump_support import Dump, debugger, run

ORDERS = {"as they came": (0, 1, 2), "mixed": (1, 2, 0)}


def micro_steps(directory: Path, reentrant: bool, order: str) -> None:
    """Three forwards, then their backwards. One module is in two regions, and twice in one of them."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared = nn.Linear(4, 4)
            self.own = nn.Linear(4, 4)

        def first(self, x: torch.Tensor) -> torch.Tensor:
            return self.shared(F.relu(self.shared(x) + 1))

        def second(self, x: torch.Tensor) -> torch.Tensor:
            return F.relu(self.own(x)) + self.shared(x)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = checkpoint(self.first, x, use_reentrant=reentrant)
            x = F.relu(self.own(x) + 0.5)  # in no region
            return checkpoint(self.second, x, use_reentrant=reentrant).sum()

    torch.manual_seed(0)
    model = Model()
    probe = debugger(directory, level="mix")
    probe.start(model)
    losses = [model(torch.randn(2, 4, requires_grad=True)) for _ in range(3)]
    with torch.no_grad():
        model.own(torch.randn(2, 4))  # repeated by nobody
    for number in ORDERS[order]:
        losses[number].backward()
    probe.stop()
    probe.step()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("reentrant", [False, True])
def test_repeated_calls_name_the_call_they_repeat(tmp_path, reentrant, order):
    run(micro_steps, tmp_path, reentrant, order, timeout=200)
    data = Dump(tmp_path).check().data
    forward = {name: record for name, record in data.items() if "is_recompute" in record}
    repeated = {name: record for name, record in forward.items() if record["is_recompute"]}
    modules = [name for name in repeated if name.startswith("Module.")]
    # Without reentrant autograd a repetition ends in the middle of the last call that is needed.
    assert len(modules) == 3 * (4 if reentrant else 2)
    originals = [record["recompute_of"] for record in repeated.values()]
    assert len(set(originals)) == len(originals)
    for name, record in repeated.items():
        assert list(record)[list(record).index("is_recompute") + 1] == "recompute_of"
        original = forward[record["recompute_of"]]
        assert not original["is_recompute"]
        for part in ("input_args", "output") if "output" in record else ("input_args",):
            assert values(original[part]) == values(record[part]), (name, record["recompute_of"])
    assert all("recompute_of" not in record for name, record in forward.items() if name not in repeated)


def values(part: list[Any]) -> list[Any]:
    return [[item["Max"], item["Min"], item["Norm"]] for item in part if item and "Max" in item]


def retained(directory: Path) -> None:
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    probe = debugger(directory, level="L0")
    probe.start(model)
    x = torch.randn(2, 4, requires_grad=True)
    inner = model[1]

    def outer(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(inner, model[0](x), use_reentrant=False)

    loss = checkpoint(outer, x, use_reentrant=False).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    probe.stop()
    probe.step()


def test_nested_regions_and_a_graph_that_is_kept(tmp_path):
    run(retained, tmp_path, timeout=200)
    data = Dump(tmp_path).check().data
    outer = {name: record for name, record in data.items() if name.startswith("Module.0.Linear.forward")}
    repeats = [record.get("recompute_of") for record in outer.values() if record["is_recompute"]]
    assert repeats
    assert set(repeats) == {"Module.0.Linear.forward.0"}
    for name, record in data.items():
        if "recompute_of" in record:
            assert values(data[record["recompute_of"]]["output"]) == values(record["output"]), name
