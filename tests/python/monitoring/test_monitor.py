# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe.monitor: every quantity against torch, the training is the same, steps."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from training_sample import Net, make_training, train


def close_to(found: float, expected: float, rel: float = 1e-5) -> bool:
    return math.isclose(found, expected, rel_tol=rel, abs_tol=1e-12)


def kurtosis(x: Any) -> float:
    d = x.double()
    return float(d.numel() * (d**4).sum() / (d**2).sum() ** 2)


# ---- what is measured


def test_gradients_weights_and_moments_are_those_of_torch(start: Any, record: Any) -> None:
    net, optimizer = make_training()
    monitor = start(net, optimizer)
    expected: dict[str, list[float]] = {}

    def note(key: str, value: Any) -> None:
        expected.setdefault(key, []).append(float(value))

    def before(step: int) -> None:
        for name, p in net.named_parameters():
            note(f"gradient.norm/{name}", p.grad.double().norm())
            note(f"gradient.abs_max/{name}", p.grad.abs().max())
            note(f"gradient.kurtosis/{name}", kurtosis(p.grad))
            note(f"gradient.zeros/{name}", (p.grad.abs() < 1e-8).double().mean())
            note(f"gradient.nonfinite/{name}", 0)
        layer = torch.cat([p.grad.flatten() for n, p in net.named_parameters() if n.startswith("layers.1.")])
        note("gradient.norm/layers.1", layer.double().norm())
        note("gradient.kurtosis/layers.1", kurtosis(layer))
        whole = torch.cat([p.grad.flatten() for p in net.parameters()])
        note("gradient.norm", whole.double().norm())
        note("gradient.abs_max", whole.abs().max())

    def after(step: int) -> None:
        for name, p in net.named_parameters():
            note(f"weight.norm/{name}", p.detach().double().norm())
            note(f"moment.norm/{name}", optimizer.state[p]["exp_avg"].double().norm())
            note(f"second_moment.abs_max/{name}", optimizer.state[p]["exp_avg_sq"].abs().max())

    losses = train(net, optimizer, before=before, after=lambda step: None)
    monitor.close()
    # Behind the step: once more, with the state that the monitor saw.
    net2, optimizer = make_training()
    net = net2
    expected_before = dict(expected)
    expected.clear()
    train(net, optimizer, after=after)
    found = record()
    assert found.steps == [0, 1, 2, 3]
    for key, values in {**expected_before, **expected}.items():
        numbers = list(found[key].values())
        assert all(map(close_to, numbers, values)), (key, numbers, values)
    assert [round(x, 6) for x in found["loss"].values()] == [
        round(a + b, 6) for a, b in zip(losses[::2], losses[1::2])
    ]
    assert set(found["learning_rate"].values()) == {1e-2}
    assert all(value > 0 for value in found["step_seconds"].values())
    assert found.series["gradient.norm/layers.1"].scope == "layer"
    assert found.series["gradient.norm/layers.1"].layer == 1
    assert found.series["gradient.norm/layers.1.fc.weight"].layer == 1
    assert found.series["gradient.norm"].scope == "model"


def test_updates_and_directions(start: Any, record: Any) -> None:
    net, optimizer = make_training()
    monitor = start(net, optimizer, quantities=["update", "direction"])
    rows: list[dict[str, float]] = []
    last: dict[str, Any] = {}

    def before(step: int) -> None:
        row = {}
        for name, p in net.named_parameters():
            moment = optimizer.state[p]["exp_avg"] if step else None
            if moment is not None:
                signs = (p.grad.sign() * moment.sign()).sum() / p.numel()
                row[f"gradient_moment.agreement/{name}"] = float((signs + 1) / 2)
                row[f"gradient_moment.cosine/{name}"] = float(
                    torch.cosine_similarity(p.grad.double().flatten(), moment.double().flatten(), 0)
                )
                row[f"gradient_change.cosine/{name}"] = float(
                    torch.cosine_similarity(p.grad.double().flatten(), last[name].double().flatten(), 0)
                )
            last[name] = p.grad.clone()
            last[f"w/{name}"] = p.detach().clone()
        rows.append(row)

    def after(step: int) -> None:
        for name, p in net.named_parameters():
            change = (p.detach() - last[f"w/{name}"]).double().norm()
            rows[-1][f"update.distance/{name}"] = float(change)
            before_norm = last[f"w/{name}"].double().norm()
            rows[-1][f"update.ratio/{name}"] = float(change / before_norm) if before_norm else math.nan

    train(net, optimizer, before=before, after=after)
    monitor.close()
    found = record()
    for step, row in enumerate(rows):
        for key, value in row.items():
            if math.isnan(value):  # the ratio to weights that are all zero
                assert step not in found[key], key
            else:
                assert close_to(found[key][step], value, 1e-4), key
    assert 0 not in found["gradient_change.cosine/fc1.weight"]
    assert "update.ratio/layers.0" in found.series


def test_activations_and_their_gradients(start: Any, record: Any) -> None:
    net, optimizer = make_training()
    seen: dict[str, list[Any]] = {}
    grads: dict[str, list[Any]] = {}
    handles = [
        module.register_forward_hook(
            lambda m, a, out, name=name: seen.setdefault(name, []).append(out.detach().clone())
        )
        for name, module in net.named_modules()
        if name and not isinstance(module, nn.ModuleList)
    ]
    handles += [
        module.register_full_backward_hook(
            lambda m, i, o, name=name: grads.setdefault(name, []).append(o[0].clone())
        )
        for name, module in net.named_modules()
        if name and not isinstance(module, nn.ModuleList)
    ]
    with pytest.warns(UserWarning, match="Full backward hook"):
        train(net, optimizer, steps=1)
    for handle in handles:
        handle.remove()
    net, optimizer = make_training()
    monitor = start(net, optimizer, quantities=["activation", "activation_gradient"])
    train(net, optimizer, steps=1)
    monitor.close()
    found = record()
    assert {key.partition("/")[2] for key in found.keys("activation.rms")} == {*seen, ""}
    for name, values in seen.items():
        both = torch.cat(values)  # the micro batches of a step are one
        assert close_to(found[f"activation.rms/{name}"][0], float(both.double().square().mean().sqrt()))
        assert close_to(found[f"activation.abs_max/{name}"][0], float(both.abs().max()))
        assert close_to(found[f"activation.kurtosis/{name}"][0], kurtosis(both))
        both = torch.cat(grads[name])
        assert close_to(
            found[f"activation_gradient.rms/{name}"][0], float(both.double().square().mean().sqrt())
        )
    assert found.series["activation.rms/layers.0.fc"].layer == 0
    assert found.series["activation.rms/layers.0.fc"].scope == "module"


class Attention(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.kind = kind

    def forward(self, x: Any) -> Any:
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, 2, 4).permute(2, 0, 3, 1, 4)
        if self.kind == "sdpa":
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        elif self.kind == "mask":
            open_ = torch.tril(torch.ones(s, s, dtype=torch.bool))
            y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=open_)
        else:
            scores = q @ k.transpose(-2, -1) / 2
            scores = scores.masked_fill(~torch.tril(torch.ones(s, s, dtype=torch.bool)), float("-inf"))
            y = nn.functional.softmax(scores, dim=-1) @ v
        return y.transpose(1, 2).reshape(b, s, 8)

    def expected(self, x: Any) -> tuple[float, float, float]:
        b, s, _ = x.shape
        q, k, _ = self.qkv(x).view(b, s, 3, 2, 4).permute(2, 0, 3, 1, 4).double()
        scores = q @ k.transpose(-2, -1) / 2
        scores = scores.masked_fill(~torch.tril(torch.ones(s, s, dtype=torch.bool)), float("-inf"))
        p = scores.softmax(-1)
        entropy = -(p * torch.where(p > 0, p.log(), 0)).sum(-1)
        return scores.amax().item(), entropy.mean().item(), entropy.min().item()


@pytest.mark.parametrize("kind", ["sdpa", "mask", "softmax"])
def test_attention(kind: str, start: Any, record: Any) -> None:
    torch.manual_seed(0)
    net = nn.ModuleDict({"attention": Attention(kind)})
    net.forward = lambda x: net["attention"](x)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor = start(net, optimizer, quantities=["attention"], attention_queries=0)
    x = torch.randn(2, 5, 8)
    expected = net["attention"].expected(x.detach())
    net(x).square().sum().backward()
    optimizer.step()
    monitor.close()
    found = record()
    keys = ("attention_logit.max", "attention_entropy.mean", "attention_entropy.min")
    for key, value in zip(keys, expected):
        assert found[f"{key}/attention"][0] == pytest.approx(value, rel=1e-5, abs=1e-6)


class Experts(nn.Module):
    """A layer of experts as many models have it: a linear router beside a list."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 4, bias=False)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.top_k = 2

    def forward(self, x: Any) -> Any:
        weights, chosen = self.gate(x).softmax(-1).topk(self.top_k)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            for place in range(self.top_k):
                mask = chosen[:, place] == number
                y[mask] += weights[mask, place, None] * expert(x[mask])
        return y


def test_loads_of_experts(start: Any, record: Any) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), Experts())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor = start(net, optimizer, quantities=["experts"])
    counts = torch.zeros(4)
    best = []
    for _ in range(2):
        x = torch.randn(50, 8)
        p = net[1].gate(net[0](x)).softmax(-1).detach()
        counts += torch.bincount(p.topk(2).indices.flatten(), minlength=4)
        best.append(p.max(-1).values)
        net(x).square().sum().backward()
    optimizer.step()
    monitor.close()
    found = record()
    mean = counts.mean()
    assert found["expert_load.largest/1.gate"][0] == pytest.approx(float(counts.max() / mean))
    assert found["expert_load.smallest/1.gate"][0] == pytest.approx(float(counts.min() / mean))
    assert found["expert_load.dead/1.gate"][0] == 0
    share = counts / counts.sum()
    assert found["expert_load.entropy/1.gate"][0] == pytest.approx(
        float(-(share * share.log()).sum() / math.log(4))
    )
    over = (counts - 1.25 * mean).clamp_min(0).sum() / counts.sum()
    assert found["expert_load.dropped/1.gate"][0] == pytest.approx(float(over))
    assert found["router_probability.mean/1.gate"][0] == pytest.approx(float(torch.cat(best).mean()))


def test_spectra_at_their_own_cadence(start: Any, record: Any) -> None:
    net, optimizer = make_training()
    monitor = start(
        net, optimizer, quantities=["matrix"], matrix_every=2, matrices=["layers.*.weight", "fc1.weight"]
    )
    expected = []

    def after(step: int) -> None:
        expected.append(torch.linalg.svdvals(net.fc1.weight.detach().double()))

    train(net, optimizer, after=after)
    monitor.close()
    found = record()
    assert sorted({key.partition("/")[2] for key in found.keys("matrix.")}) == [
        "fc1.weight", "layers.0.fc.weight", "layers.1.fc.weight",
    ]  # fmt: skip
    assert list(found["matrix.spectral_norm/fc1.weight"]) == [0, 2]
    for step in (0, 2):
        values = expected[step]
        assert found["matrix.spectral_norm/fc1.weight"][step] == pytest.approx(float(values[0]), rel=1e-6)
        rank = float((values**2).sum() / values[0] ** 2)
        assert found["matrix.stable_rank/fc1.weight"][step] == pytest.approx(rank, rel=1e-6)


def test_every_row_of_the_table_is_recorded(start: Any, record: Any) -> None:
    """Each quantity and metric of the table has a series when all are wanted, and the table is complete."""
    from msprobe.monitoring.quantities import QUANTITIES, table

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Attention("sdpa")
            self.experts_layer = Experts()

        def forward(self, x: Any) -> Any:
            return self.experts_layer(self.attention(x).flatten(0, 1))

    torch.manual_seed(0)
    net = Whole()
    optimizer = torch.optim.Adam(net.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    monitor = start(net, optimizer, quantities=["all"])
    for _ in range(2):
        scaler.scale(net(torch.randn(2, 5, 8)).square().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        monitor.add("accuracy", 0.5)
    monitor.close()
    found = record()
    kinds = {f"{one.quantity}.{one.metric}" if one.metric else one.quantity for one in found.series.values()}
    of_one_process = {key for key, *_ in table() if not key.startswith("communication.")}
    assert of_one_process == kinds
    assert found["custom/accuracy"] == {1: 0.5}
    assert set(found["loss_scale"].values()) == {4.0}
    assert len({one.name for one in QUANTITIES}) == len(QUANTITIES)
    for key, meaning, formula, _, cost, _ in table():
        assert meaning
        assert cost
        assert formula or key.partition(".")[0] in (
            "loss", "learning_rate", "loss_scale", "step_seconds", "custom", "matrix"
        )  # fmt: skip


# ---- the training is the same


@pytest.mark.parametrize("every", [1, 2])
def test_results_are_bit_equal_with_and_without(every: int, start: Any) -> None:
    net, optimizer = make_training()
    losses = train(net, optimizer)
    random = torch.get_rng_state()
    net2, optimizer2 = make_training()
    start(net2, optimizer2, quantities=["all"], every=every, matrix_every=1)
    assert train(net2, optimizer2) == losses
    assert torch.equal(torch.get_rng_state(), random)
    for a, b in zip(net.parameters(), net2.parameters()):
        assert torch.equal(a, b)


def test_nothing_is_hooked_behind_the_end(start: Any) -> None:
    call, backward = nn.Module._call_impl.__code__, torch.autograd.backward.__code__
    net, optimizer = make_training()
    monitor = start(net, optimizer, quantities=["all"])
    train(net, optimizer, steps=1)
    monitor.close()
    assert nn.Module._call_impl.__code__ is call
    assert torch.autograd.backward.__code__ is backward
    assert "step" not in vars(optimizer)
    assert torch._C._len_torch_function_stack() == 0


def test_in_steps_that_are_not_recorded_nothing_is_hooked_but_the_step(start: Any) -> None:
    functions = (nn.Module._call_impl, torch.autograd.backward, torch.amp.GradScaler.step)
    codes = [function.__code__ for function in functions]
    net, optimizer = make_training()
    start(net, optimizer, quantities=["all"], every=2)
    hooked = []

    def note(step: int) -> None:
        hooked.append([function.__code__ is not code for function, code in zip(functions, codes)])
        assert torch._C._len_torch_function_stack() == int(hooked[-1][0])

    train(net, optimizer, steps=4, before=note)
    assert [any(one) for one in hooked] == [True, False, True, False]
    assert "step" in vars(optimizer)


# ---- steps


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
