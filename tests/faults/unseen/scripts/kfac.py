# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Curvature of each layer as a product of two small matrices, of what comes in and of what goes back."""

import torch
from torch import nn

AUTOCAST = False
SEEN, WIDE, CODE, BATCH, STEPS, EVERY = 20, 16, 6, 40, 5, 2
DAMPING, KEEPS, FARTHEST, RATE = 0.03, 0.9, 1e-2, 0.3


class Model(nn.Module):
    """A narrow middle, and all of it again."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(SEEN, WIDE), nn.Linear(WIDE, CODE)
        self.three, self.four = nn.Linear(CODE, WIDE), nn.Linear(WIDE, SEEN)

    def forward(self, x):
        code = self.two(torch.tanh(self.one(x)))
        return self.four(torch.tanh(self.three(code))).float()


class Curvature:
    """Means of products of inputs and of gradients of each layer, and their inverses."""

    def __init__(self, model):
        self.layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
        self.inputs = {layer: torch.eye(layer.in_features + 1) for layer in self.layers}
        self.errors = {layer: torch.eye(layer.out_features) for layer in self.layers}
        self.inverses = {}
        for layer in self.layers:
            layer.register_forward_pre_hook(self.comes)
            layer.register_forward_hook(self.made)

    @torch.no_grad()
    @torch.autocast("cpu", enabled=False)
    def comes(self, layer, args):
        x = args[0].float()
        x = torch.cat([x, torch.ones(len(x), 1)], dim=1)
        self.inputs[layer].lerp_(x.T @ x / len(x), 1 - KEEPS)

    def made(self, layer, _, out):
        out.register_hook(lambda grad: self.goes(layer, grad))

    @torch.no_grad()
    def goes(self, layer, grad):
        """The gradient is of the mean, the matrix of single rows."""
        error = grad.float() * len(grad)
        self.errors[layer].lerp_(error.T @ error / len(error), 1 - KEEPS)

    @torch.no_grad()
    def inverted(self):
        """Both are damped, each in its share."""
        for layer in self.layers:
            a, g = self.inputs[layer], self.errors[layer]
            share = ((a.trace() / len(a)) / (g.trace() / len(g))).sqrt()
            some = DAMPING**0.5
            self.inverses[layer] = (
                torch.linalg.inv(a + some * share * torch.eye(len(a))),
                torch.linalg.inv(g + some / share * torch.eye(len(g))),
            )

    @torch.no_grad()
    def natural(self, rate):
        """Gradients become natural ones; all together no longer than is trusted."""
        far, moves = 0.0, []
        for layer in self.layers:
            a, g = self.inverses[layer]
            grad = torch.cat([layer.weight.grad, layer.bias.grad.unsqueeze(1)], dim=1)
            move = g @ grad @ a
            far = far + rate**2 * (move * grad).sum()
            moves.append(move)
        scale = (FARTHEST / (far + 1e-12)).sqrt().clamp(max=1.0)
        for layer, move in zip(self.layers, moves):
            layer.weight.grad.copy_(scale * move[:, :-1])
            layer.bias.grad.copy_(scale * move[:, -1])


def rows(mixing, generator):
    """Few numbers that many others follow from."""
    few = torch.randn(BATCH, CODE, generator=generator)
    return torch.sin(few @ mixing) + 0.05 * torch.randn(BATCH, SEEN, generator=generator)


torch.set_num_threads(1)
torch.manual_seed(1305)
model = Model()
# model built
curvature = Curvature(model)
optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.5, foreach=False)
mixing = torch.randn(CODE, SEEN, generator=torch.Generator().manual_seed(5))
generator = torch.Generator().manual_seed(13105)
for step in range(STEPS):
    x = rows(mixing, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        found = model(x)
    loss = 0.5 * (found - x).square().sum(dim=1).mean()
    optimizer.zero_grad()
    loss.backward()
    if step % EVERY == 0:
        curvature.inverted()
    curvature.natural(RATE)
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
