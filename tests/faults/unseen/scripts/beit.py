# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""BEiT: blocks of a picture are hidden, and which word each patch was is told; learns by NovoGrad."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import BeitConfig, BeitForMaskedImageModeling

AUTOCAST = False
SIDE, PATCH, BOOK, BATCH, STEPS, HIDDEN = 24, 4, 32, 6, 4, 14


class NovoGrad(torch.optim.Optimizer):
    """Each gradient is divided by the length that those of its layer have had; then it gets a momentum."""

    def __init__(self, params, lr, betas=(0.9, 0.5), eps=1e-8, weight_decay=1e-2):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                square = p.grad.square().sum()
                if not state:
                    state["long"] = square.clone()
                    state["mean"] = torch.zeros_like(p)
                state["long"].mul_(two).add_(square, alpha=1 - two)
                way = p.grad / (state["long"].sqrt() + group["eps"])
                way = way + group["weight_decay"] * p
                state["mean"].mul_(one).add_(way)
                p.sub_(state["mean"], alpha=group["lr"])


def config():
    return BeitConfig(
        vocab_size=BOOK,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=SIDE,
        patch_size=PATCH,
        num_channels=3,
        use_mask_token=True,
        use_relative_position_bias=True,
        layer_scale_init_value=0.3,
        drop_path_rate=0.0,
        initializer_range=0.15,
        attn_implementation="eager",
    )


def pictures(generator):
    """Stripes and spots of some colours."""
    at = torch.arange(SIDE) / SIDE
    wave = torch.randn(BATCH, 2, 1, 1, generator=generator) * 8
    look = torch.sin(wave[:, 0] * at + wave[:, 1] * at.unsqueeze(1)).unsqueeze(1)
    spots = F.avg_pool2d(torch.randn(BATCH, 3, SIDE, SIDE, generator=generator), 5, stride=1, padding=2)
    return torch.randn(BATCH, 3, 1, 1, generator=generator) * look + 2 * spots


def words(x, book):
    """Of each patch the nearest word, whichever light it is in."""
    patches = F.unfold(x, PATCH, stride=PATCH).transpose(1, 2)
    patches = F.layer_norm(patches, patches.shape[-1:])
    return torch.cdist(patches, book.expand(BATCH, -1, -1)).argmin(dim=2)


def blocks(generator):
    """Rectangles, until enough patches are hidden."""
    many = SIDE // PATCH
    hidden = torch.zeros(BATCH, many, many, dtype=torch.bool)
    for one in hidden:
        while one.sum() < HIDDEN:
            high, wide, down, right = torch.randint(0, many - 1, (4,), generator=generator).tolist()
            one[down : down + high + 1, right : right + wide + 1] = True
    return hidden.flatten(1)


torch.set_num_threads(1)
torch.manual_seed(1401)
model = BeitForMaskedImageModeling(config())
# model built
optimizer = NovoGrad(model.parameters(), lr=2e-2)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 2) / 4))
book = F.layer_norm(torch.randn(BOOK, 3 * PATCH**2, generator=torch.Generator().manual_seed(1)), (48,))
generator = torch.Generator().manual_seed(14101)
for step in range(STEPS):
    x = pictures(generator)
    wanted, hidden = words(x, book), blocks(generator)
    shown = x + 0.05 * torch.randn(x.shape, generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(pixel_values=shown, bool_masked_pos=hidden)
    logs = found.logits.float().log_softmax(dim=2)
    lost = -logs.gather(2, wanted.unsqueeze(2)).squeeze(2)
    loss = (lost * hidden).sum(dim=1).div(hidden.sum(dim=1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
