# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A decision transformer: which act comes next, where so much reward is still wanted."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import DecisionTransformerConfig, DecisionTransformerModel

AUTOCAST = False
STATE, ACT, LENGTH, LONGEST, SCALE = 5, 2, 8, 40, 10.0


def walks(generator):
    """Walks to the middle, and what each step of them brought."""
    at = torch.randn(12, 1, STATE, generator=generator)
    states, actions, rewards = [], [], []
    for _ in range(LONGEST):
        act = torch.tanh(-0.5 * at[..., :ACT] + 0.3 * torch.randn(12, 1, ACT, generator=generator))
        states.append(at)
        actions.append(act)
        rewards.append(-at.square().mean(-1, keepdim=True))
        at = 0.95 * at + 0.2 * F.pad(act, (0, STATE - ACT))
    return (torch.cat(parts, 1) for parts in (states, actions, rewards))


def pieces(states, actions, rewards, generator):
    """A piece of each walk; what lies before its beginning is filled up and not looked at."""
    to_go = rewards.flip(1).cumsum(1).flip(1) / SCALE
    ends = torch.randint(3, LONGEST + 1, (len(states), 1), generator=generator)
    times = ends - LENGTH + torch.arange(LENGTH)
    inside, times = times >= 0, times.clamp(min=0)
    rows = torch.arange(len(states))[:, None]
    found = [(x[rows, times] * inside.unsqueeze(-1)) for x in (states, actions, rewards, to_go)]
    return (*found, times, inside)


torch.set_num_threads(1)
torch.manual_seed(603)
config = DecisionTransformerConfig(
    state_dim=STATE,
    act_dim=ACT,
    hidden_size=32,
    max_ep_len=LONGEST,
    n_layer=2,
    n_head=4,
    n_inner=64,
    n_positions=64,
    activation_function="relu",
    resid_pdrop=0.0,
    embd_pdrop=0.0,
    attn_pdrop=0.0,
    initializer_range=0.1,
)
model = DecisionTransformerModel(config)
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min((n + 1) / 4, 1))
generator = torch.Generator().manual_seed(63)
for step in range(3):
    states, actions, rewards, to_go, times, inside = pieces(*walks(generator), generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        out = model(
            states=states,
            actions=actions,
            rewards=rewards,
            returns_to_go=to_go,
            timesteps=times,
            attention_mask=inside.long(),
        )
    of_acts = F.mse_loss(out.action_preds.float()[inside], actions[inside])
    follows = inside[:, :-1]
    of_states = F.mse_loss(out.state_preds.float()[:, :-1][follows], states[:, 1:][follows])
    loss = of_acts + 0.1 * of_states
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {of_acts.item()!r} {of_states.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
