# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Rollouts, mixed targets and noise: data of a step that no model is given, or not alone. The option names
what is another one from step 1 on.
"""

import sys

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)


def policy_loss(model, inputs):
    chosen = model(inputs["states"]).log_softmax(-1).gather(1, inputs["actions"][:, None])[:, 0]
    return -((chosen - inputs["old_log_probs"]).exp() * inputs["advantages"]).mean()


for step in range(4):
    faults = sys.argv[1:] if step == 1 else []
    states, rewards = torch.randn(6, 4), torch.randn(6)
    if "--reward" in faults:
        rewards[2] += 1.0
    with torch.no_grad():
        log_probs = net(states).log_softmax(-1)
        actions = log_probs.exp().multinomial(1)[:, 0]
        old = log_probs.gather(1, actions[:, None])[:, 0]
    batch = {
        "states": states,
        "actions": actions,
        "old_log_probs": old,
        "advantages": rewards - rewards.mean(),
    }
    images, labels = torch.randn(6, 4), torch.eye(3)[torch.randint(0, 3, (6,))]
    share = 0.6 if "--mixup" in faults else 0.7
    mixed_labels = share * labels + (1 - share) * labels.flip(0)
    noise = torch.randn(6, 4) * (1.01 if "--noise" in faults else 1.0)
    noisy = 0.8 * images + 0.6 * noise
    loss = policy_loss(net, batch) + nn.functional.cross_entropy(net(noisy), mixed_labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
