# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe.monitor: what is a step, and what a training does between two of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from children import CONTEXT, Child
from torch import nn
from training_sample import Net, make_training, train


def test_a_step_in_so_many_is_recorded(start: Any, record: Any) -> None:
    net, optimizer = make_training()
    start(net, optimizer, every=3, start=100).close()
    net, optimizer = make_training()
    monitor = start(net, optimizer, every=3, start=100)
    train(net, optimizer, steps=8)
    assert monitor.step == 108
    monitor.close()
    assert record().steps == [100, 103, 106]


def test_optimizers_are_found(start: Any, record: Any) -> None:
    net, optimizer = make_training()
    monitor = start(net)
    train(net, optimizer, steps=2)
    monitor.close()
    assert record().steps == [0, 1]


def test_an_optimizer_that_is_made_later_is_found(start: Any, record: Any) -> None:
    torch.manual_seed(0)
    net = Net()
    monitor = start(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    other = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    other.step()
    train(net, optimizer, steps=3)
    monitor.close()
    found = record()
    assert found.steps == [0, 1, 2]
    assert len(found["gradient.norm/fc1.weight"]) == 3


def test_layers_of_a_stage_have_the_numbers_of_the_whole_model(start: Any, record: Any) -> None:
    """As Megatron numbers them: the second of two stages has the layers 2 and 3."""
    net, optimizer = make_training()
    for number, layer in enumerate(net.layers, 3):
        layer.layer_number = number
    monitor = start(net, optimizer, quantities=["gradient", "activation"], targets=["layers.3", "fc1"])
    train(net, optimizer, steps=1)
    monitor.close()
    found = record()
    assert {key.partition("/")[2] for key in found.keys("activation.rms/")} == {
        "fc1", "layers.3", "layers.3.fc", "layers.3.norm",
    }  # fmt: skip
    assert found.series["gradient.norm/layers.3.fc.weight"].layer == 3


def test_two_optimizers_make_one_step(start: Any, record: Any) -> None:
    torch.manual_seed(0)
    net = Net()
    first = torch.optim.SGD([*net.fc1.parameters()], lr=0.1)
    second = torch.optim.Adam([p for n, p in net.named_parameters() if not n.startswith("fc1")])
    monitor = start(net, [first, second])
    for _ in range(3):
        net(torch.randn(3, 4)).square().sum().backward()
        first.step()
        second.step()
    monitor.close()
    found = record()
    assert found.steps == [0, 1, 2]
    assert len(found["gradient.norm/fc1.weight"]) == len(found["gradient.norm/fc2.weight"]) == 3
    assert found["learning_rate/0"] == {0: 0.1, 1: 0.1, 2: 0.1}


def test_optimizers_that_take_turns(start: Any, record: Any) -> None:
    torch.manual_seed(0)
    models = [nn.Linear(2, 2), nn.Linear(2, 1)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    monitor = start(models, optimizers)
    for turn in (0, 0, 1, 0, 1):
        models[1](models[0](torch.randn(2, 2))).sum().backward()
        optimizers[turn].step()
    monitor.close()
    found = record()
    assert found.steps == [0, 1, 2]
    assert set(found["gradient.norm/1.weight"]) == {1, 2}
    assert found.keys("gradient.norm/0.")


def test_a_training_that_goes_on_has_no_step_twice(start: Any, record: Any, tmp_path: Path) -> None:
    net, optimizer = make_training()
    monitor = start(net, optimizer)
    train(net, optimizer, steps=3)
    saved = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(saved, tmp_path / "checkpoint.pt")
    train(net, optimizer, steps=2)
    monitor.close()
    first = record()
    assert first.steps == [0, 1, 2, 3, 4]
    saved = torch.load(tmp_path / "checkpoint.pt")
    net, optimizer = make_training()
    net.load_state_dict(saved["net"])
    optimizer.load_state_dict(saved["optimizer"])
    monitor = start(net, optimizer)
    assert monitor.step == 3  # the state of the optimizer says so
    train(net, optimizer, steps=4)
    monitor.close()
    found = record()
    assert found.steps == [0, 1, 2, 3, 4, 5, 6]
    assert len(found["gradient.norm"]) == 7
    for step in (0, 1, 2):
        assert found["loss"][step] == first["loss"][step]


def test_an_earlier_record_is_kept(start: Any, record: Any, tmp_path: Path) -> None:
    for _ in range(3):
        net, optimizer = make_training()
        monitor = start(net, optimizer)
        train(net, optimizer, steps=1)
        monitor.close()
    assert {path.name for path in (tmp_path / "run").glob("monitor.db*")} == {
        "monitor.db", "monitor.db.1", "monitor.db.2",
    }  # fmt: skip


def test_files_beside_the_store_have_no_step_twice(start: Any, tmp_path: Path) -> None:
    limit = {"rule": "limit", "series": ["weight.norm"], "threshold": 1e-6, "warm_up": 1, "cooldown": 1}
    sinks = ["store", "csv"]

    def go(first: int, steps: int) -> None:
        net, optimizer = make_training()
        monitor = start(net, optimizer, start=first, sinks=sinks, rules=[limit])
        train(net, optimizer, steps=steps)
        monitor.close()

    def steps_of(name: str) -> list[int]:
        text = (tmp_path / "run" / name).read_text()
        if name.endswith("l"):
            return [json.loads(line)["step"] for line in text.splitlines()]
        rows = [line.split(",") for line in text.splitlines()]
        return [int(row[0]) for row in rows if row[1] == "gradient.norm"]

    go(0, 5)
    assert steps_of("monitor.csv") == [0, 1, 2, 3, 4]
    first_alarms = steps_of("alarms.jsonl")
    assert first_alarms
    go(3, 4)
    assert steps_of("monitor.csv") == [0, 1, 2, 3, 4, 5, 6]
    assert [step for step in steps_of("alarms.jsonl") if step < 3] == [s for s in first_alarms if s < 3]
    assert len(set(steps_of("alarms.jsonl"))) == len(steps_of("alarms.jsonl"))
    go(0, 1)  # another training: nothing of the first is taken for its own
    assert steps_of("monitor.csv") == [0]
    assert not (tmp_path / "run" / "alarms.jsonl").exists()
    assert steps_of("monitor.csv.1") == [0, 1, 2, 3, 4, 5, 6]
    assert (tmp_path / "run" / "alarms.jsonl.1").exists()


def _train_beside(folder: Path, first: int, told: Any, go: Any) -> None:
    import msprobe

    net, optimizer = make_training()
    with msprobe.monitor(net, optimizer, folder, sinks=["csv"], start=first):
        train(net, optimizer, steps=2)
        told.send("runs")
        assert go.recv() == "on"
        train(net, optimizer, steps=2)


@pytest.mark.parametrize("first", [0, 1], ids=["from the beginning", "going on"])
def test_two_trainings_in_one_folder_have_a_csv_each(first: int, start: Any, tmp_path: Path) -> None:
    heard, told = CONTEXT.Pipe(duplex=False)
    go, says = CONTEXT.Pipe(duplex=False)
    child = Child(_train_beside, tmp_path / "run", first, told, go)
    assert heard.recv() == "runs"
    net, optimizer = make_training()
    with start(net, optimizer, start=first, sinks=["csv"]):
        train(net, optimizer, steps=2)
        says.send("on")
        child.result()
        train(net, optimizer, steps=1)
    for name, steps in (("monitor.csv", 3), ("monitor.csv.1", 4)):
        rows = [line.split(",") for line in (tmp_path / "run" / name).read_text().splitlines()]
        assert [int(row[0]) for row in rows if row[1] == "gradient.norm"] == list(range(first, first + steps))


def test_a_step_that_a_scaler_leaves_out_is_none(start: Any, record: Any) -> None:
    net, optimizer = make_training()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    monitor = start(net, optimizer)
    losses = []
    for turn in range(4):
        optimizer.zero_grad()
        loss = net(torch.randn(3, 4)).square().mean()
        scaler.scale(loss).backward()
        if turn == 1:
            net.fc1.weight.grad[0, 0] = float("inf")
        else:
            losses.append(loss.item())
        scaler.step(optimizer)
        scaler.update()
    monitor.close()
    found = record()
    assert found.steps == [0, 1, 2]
    assert list(found["loss"].values()) == pytest.approx(losses)
    assert list(found["loss_scale"].values()) == [1024.0, 512.0, 512.0]
    assert not any(found["gradient.nonfinite"].values())


def test_gradients_are_those_of_all_micro_batches_and_activations_are_one(start: Any, record: Any) -> None:
    outputs: list[Any] = []
    norms = []
    net, optimizer = make_training()
    net.fc2.register_forward_hook(lambda module, args, out: outputs.append(out.detach().clone()))
    monitor = start(net, optimizer, quantities=["training", "gradient", "activation"])

    def before(step: int) -> None:
        norms.append(float(net.fc1.weight.grad.double().norm()))

    losses = train(net, optimizer, steps=2, before=before)
    monitor.close()
    found = record()
    for step in range(2):
        both = torch.cat(outputs[2 * step : 2 * step + 2]).double()
        assert found["activation.rms/fc2"][step] == pytest.approx(float(both.square().mean().sqrt()))
        assert found["gradient.norm/fc1.weight"][step] == pytest.approx(norms[step])
        assert found["loss"][step] == pytest.approx(sum(losses[2 * step : 2 * step + 2]))


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_module_that_is_computed_again_counts_once(reentrant: bool, start: Any, record: Any) -> None:
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(Net):
        def forward(self, x: Any) -> Any:
            x = self.fc1(x)
            for block in self.layers:
                x = checkpoint(block, x, use_reentrant=reentrant)
            return self.fc2(x)

    found = []
    for kind in (Net, Checkpointed):
        torch.manual_seed(0)
        net = kind()
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
        monitor = start(
            net, optimizer, quantities=["activation", "activation_gradient"], metrics=["norm", "numel"]
        )
        train(net, optimizer, steps=2)
        monitor.close()
        one = record()
        found.append({key: one[key] for key in one.series})
    assert found[0] == found[1]
    assert found[0]["activation.numel/layers.0.fc"] == {0: 36, 1: 36}


@pytest.mark.parametrize("scaled", [False, True])
def test_autocast(scaled: bool, start: Any, record: Any) -> None:
    net, optimizer = make_training()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=scaled)
    monitor = start(net, optimizer, quantities=["training", "gradient", "activation"])
    norms, losses, outputs = [], [], []
    net.fc1.register_forward_hook(lambda m, a, out: outputs.append(out.detach()))
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = net(torch.randn(3, 4)).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        losses.append(loss.item())
        norms.append(float(net.fc1.weight.grad.double().norm()))
        scaler.step(optimizer)
        scaler.update()
    monitor.close()
    found = record()
    assert list(found["loss"].values()) == pytest.approx(losses)
    assert list(found["gradient.norm/fc1.weight"].values()) == pytest.approx(norms)
    assert outputs[0].dtype == torch.bfloat16
    rms = [float(out.double().square().mean().sqrt()) for out in outputs]
    assert list(found["activation.rms/fc1"].values()) == pytest.approx(rms)
