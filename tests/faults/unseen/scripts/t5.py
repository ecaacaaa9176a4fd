# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""T5: several answers to one question shall be likely in their order; gradients of low rank."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import T5Config, T5ForConditionalGeneration

AUTOCAST = False
VOCAB, PAD, END, FIRST, LENGTH, CANDIDATES, BATCH, STEPS = 32, 0, 1, 2, 10, 4, 5, 4
MARGIN, ALPHA, ALSO = 0.1, 0.6, 0.5


class GaLore(torch.optim.Optimizer):
    """Adam of gradients in a few of their own directions, which are found anew now and then."""

    def __init__(self, params, lr, rank=6, every=2, scale=0.5, betas=(0.9, 0.99), eps=1e-6):
        super().__init__(
            params, {"lr": lr, "rank": rank, "every": every, "scale": scale, "betas": betas, "eps": eps}
        )

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                state, grad = self.state[p], p.grad
                step = state["step"] = state.get("step", 0) + 1
                is_low = p.ndim == 2 and min(p.shape) > group["rank"]
                if is_low and step % group["every"] == 1:
                    state["sides"] = torch.linalg.svd(grad, full_matrices=False).U[:, : group["rank"]]
                if is_low:
                    grad = state["sides"].T @ grad
                if "mean" not in state:
                    state.update(mean=torch.zeros_like(grad), square=torch.zeros_like(grad))
                state["mean"].lerp_(grad, 1 - one)
                state["square"].lerp_(grad.square(), 1 - two)
                way = state["mean"] / (1 - one**step)
                way = way / ((state["square"] / (1 - two**step)).sqrt() + group["eps"])
                if is_low:
                    way = group["scale"] * (state["sides"] @ way)
                p.sub_(way, alpha=group["lr"])


def config():
    return T5Config(
        vocab_size=VOCAB,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_decoder_layers=1,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=12,
        dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
        initializer_factor=0.6,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=PAD,
    )


def tasks(generator):
    """What is asked for are the words that come in order, and each next answer has one word more wrong."""
    long = torch.randint(5, LENGTH, (BATCH, 1, 1), generator=generator)
    asked = torch.randint(FIRST, VOCAB, (BATCH, LENGTH), generator=generator)
    at = torch.arange(LENGTH)
    answers = asked.sort(dim=1).values.unsqueeze(1).repeat(1, CANDIDATES, 1)
    wrong = torch.randint(FIRST, VOCAB, answers.shape, generator=generator)
    order = torch.rand(BATCH, 1, LENGTH, generator=generator).argsort(dim=2)
    answers = torch.where(order < torch.arange(CANDIDATES).unsqueeze(1), wrong, answers)
    return asked, answers.masked_fill(at == long, END).masked_fill(at > long, PAD)


def scores(model, asked, answers):
    """The mean log of words of each answer; longer ones are not told less likely."""
    seen = model.encoder(input_ids=asked).last_hidden_state.repeat_interleave(CANDIDATES, dim=0)
    flat = answers.flatten(0, 1)
    before = F.pad(flat[:, :-1], (1, 0), value=PAD)
    logits = model(encoder_outputs=(seen,), decoder_input_ids=before, use_cache=False).logits
    logs = logits.float().log_softmax(dim=2).gather(2, flat.unsqueeze(2)).squeeze(2)
    there = (flat != PAD).float()
    found = (logs * there).sum(dim=1) / there.sum(dim=1) ** ALPHA
    return found.view(BATCH, CANDIDATES), logs.view_as(answers)[:, 0], there.view_as(answers)[:, 0]


def out_of_order(found):
    """A worse one shall be less likely by more, the more places it is behind."""
    lost = 0.0
    for better in range(CANDIDATES - 1):
        for worse in range(better + 1, CANDIDATES):
            lost = lost + F.relu(found[:, worse] - found[:, better] + MARGIN * (worse - better)).mean()
    return lost


torch.set_num_threads(1)
torch.manual_seed(1504)
model = T5ForConditionalGeneration(config())
# model built
optimizer = GaLore(model.parameters(), lr=1e-2)
generator = torch.Generator().manual_seed(15104)
for step in range(STEPS):
    asked, answers = tasks(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found, logs, there = scores(model, asked, answers)
    order = out_of_order(found)
    likely = -(logs * there).sum() / there.sum()
    optimizer.zero_grad()
    (order + ALSO * likely).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    print(f"step {step} loss {order.item()!r} {likely.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
