# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""ViLT: words and patches go through the same layers; answers that several people gave count in shares."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from transformers import ViltConfig, ViltForQuestionAnswering

AUTOCAST = False
SIDE, PATCH, VOCAB, LENGTH, ANSWERS, BATCH, STEPS = 16, 4, 24, 6, 6, 8, 4
PEOPLE = 3.0


def config():
    return ViltConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.15,
        max_position_embeddings=LENGTH,
        image_size=SIDE,
        patch_size=PATCH,
        num_channels=3,
        num_labels=ANSWERS,
    )


def looks(generator):
    """Pictures whose quarters have colours; which colour a quarter has is asked, in several words."""
    colours = torch.randint(0, 3, (BATCH, 2, 2), generator=generator)
    x = F.one_hot(colours, 3).float().permute(0, 3, 1, 2)
    x = F.interpolate(x, size=(SIDE, SIDE), mode="nearest")
    x = x + 0.2 * torch.randn(x.shape, generator=generator)
    place = torch.randint(0, 4, (BATCH,), generator=generator)
    long = torch.randint(3, LENGTH + 1, (BATCH,), generator=generator)
    there = torch.arange(LENGTH) < long.unsqueeze(1)
    ids = torch.randint(5, VOCAB, (BATCH, LENGTH), generator=generator)
    ids[:, 0] = 1 + place
    right = colours.flatten(1).gather(1, place.unsqueeze(1)).squeeze(1)
    return x, ids * there, there.long(), right


def said(right, generator):
    """How many of some people said what; three who agree are enough."""
    wrong = torch.randint(0, ANSWERS, (BATCH, 5), generator=generator)
    errs = torch.rand(BATCH, 5, generator=generator) < 0.3
    votes = F.one_hot(torch.where(errs, wrong, right.unsqueeze(1)), ANSWERS).sum(dim=1)
    return (votes / PEOPLE).clamp(max=1.0)


torch.set_num_threads(1)
torch.manual_seed(1503)
model = ViltForQuestionAnswering(config())
# model built
new = list(model.classifier.parameters())
old = [p for name, p in model.named_parameters() if not name.startswith("classifier")]
groups = [{"params": old}, {"params": new, "lr": 2e-2, "weight_decay": 0.0}]
optimizer = torch.optim.RAdam(groups, lr=4e-3, betas=(0.8, 0.9), weight_decay=0.05, foreach=False)
schedule = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=[6e-3, 3e-2], total_steps=STEPS + 1, cycle_momentum=False
)
generator = torch.Generator().manual_seed(15103)
for step in range(STEPS):
    x, ids, there, right = looks(generator)
    shares = said(right, generator)
    mean, spread = x.mean(dim=(2, 3), keepdim=True), x.std(dim=(2, 3), keepdim=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(input_ids=ids, attention_mask=there, pixel_values=(x - mean) / spread).logits
    loss = F.binary_cross_entropy_with_logits(logits.float(), shares) * ANSWERS
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.1)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
