# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe.monitor: every quantity against torch, the training is the same."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from training_sample import make_training, train


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


@pytest.mark.parametrize("weights", [True, False])
def test_attention_of_torch_itself(weights: bool, start: Any, record: Any) -> None:
    """Its function is written in Python, and calls methods that call methods of the same name."""
    torch.manual_seed(0)
    net = nn.ModuleDict({"attention": nn.MultiheadAttention(8, 2, batch_first=True)})
    x = torch.randn(2, 5, 8)
    plain = net["attention"](x, x, x, need_weights=weights)[0]
    projected = nn.functional.linear(x, net["attention"].in_proj_weight, net["attention"].in_proj_bias)
    q, k, _ = projected.detach().view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
    logits = q @ k.transpose(-2, -1) / 2
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor = start(net, optimizer, quantities=["attention"], attention_queries=0)
    result = net["attention"](x, x, x, need_weights=weights)[0]
    assert torch.equal(result, plain)
    result.square().sum().backward()
    optimizer.step()
    monitor.close()
    found = record()
    assert found["attention_logit.max/attention"][0] == pytest.approx(logits.max().item(), rel=1e-5)
    assert found["attention_logit.mean/attention"][0] == pytest.approx(
        logits.amax(-1).mean().item(), rel=1e-5
    )


def test_what_is_no_softmax_over_keys_is_left_out(start: Any, record: Any) -> None:
    class Pool(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score = nn.Linear(8, 1)

        def forward(self, x: Any) -> Any:
            return (self.score(x).softmax(1) * x).sum(1)

    net = nn.ModuleDict({"attention_pool": Pool()})
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor = start(net, optimizer, quantities=["training", "attention"])
    net["attention_pool"](torch.randn(2, 5, 8)).sum().backward()
    optimizer.step()
    monitor.close()
    found = record()
    assert found["loss"]
    assert not [key for key in found.keys("attention_logit.max") if found[key]]


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
    from msprobe.monitoring.quantities import quantities, table

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
    assert len({one.name for one in quantities()}) == len(quantities())
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
