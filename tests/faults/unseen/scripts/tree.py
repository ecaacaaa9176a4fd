# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""LSTMs over trees of sentences: a node is made of the sum of its children, and forgets each by itself."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE = torch.float32
WORDS, WIDTH = 40, 24


class Node(nn.Module):
    def __init__(self):
        super().__init__()
        self.of_word, self.of_children = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.forget_word, self.forget_child = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, hs, cs):
        total = hs.sum(0, keepdim=True)
        i, o, u = (self.of_word(x) + self.of_children(total)).chunk(3, -1)
        forget = torch.sigmoid(self.forget_word(x) + self.forget_child(hs))
        c = torch.sigmoid(i) * torch.tanh(u) + (forget * cs).sum(0, keepdim=True)
        return torch.sigmoid(o) * torch.tanh(c), c


class Tree(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.node, self.head = nn.Embedding(WORDS, WIDTH), Node(), nn.Linear(WIDTH, 5)

    def below(self, x, children, at):
        found = [self.below(x, children, child) for child in children[at]]
        nothing = x.new_zeros(1, WIDTH)
        hs = torch.cat([h for h, _ in found]) if found else nothing
        cs = torch.cat([c for _, c in found]) if found else nothing
        return self.node(x[at : at + 1], hs, cs)

    def forward(self, words, children):
        return self.head(self.below(self.embed(words), children, 0)[0])


def drawn_tree(generator, size=8):
    children = [[] for _ in range(size)]
    for child in range(1, size):
        children[int(torch.randint(child, (1,), generator=generator))].append(child)
    return torch.randint(WORDS, (size,), generator=generator), children


torch.set_num_threads(1)
torch.manual_seed(66)
model = Tree().to(DTYPE)
# model built
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, foreach=False)
generator = torch.Generator().manual_seed(1150)
called = model
for step in range(3):
    trees = [drawn_tree(generator) for _ in range(3)]
    wanted = torch.randint(5, (3,), generator=generator)
    logits = torch.cat([called(*tree) for tree in trees])
    loss = F.cross_entropy(logits.float(), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
