# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Style of one picture, content of another: L-BFGS moves the picture, the network is frozen."""

import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812

AUTOCAST = False


class Extractor(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))
        widths = [3, 16, 16, 32, 32]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip(widths, widths[1:]))

    def forward(self, x):
        x = (x - self.mean) / self.std
        found = []
        for n, conv in enumerate(self.convs):
            x = F.relu(conv(x))
            found.append(x)
            if n % 2:
                x = F.avg_pool2d(x, 2)
        return found


def gram(features):
    b, c, h, w = features.shape
    f = features.float().view(b, c, h * w)
    return torch.bmm(f, f.transpose(1, 2)) / (c * h * w)


def variation(x):
    return (x[..., 1:, :] - x[..., :-1, :]).abs().mean() + (x[..., 1:] - x[..., :-1]).abs().mean()


class Canvas(nn.Module):
    """The picture, and the frozen network that looks at it."""

    def __init__(self, net, start, content, style):
        super().__init__()
        self.net = net
        self.picture = nn.Parameter(start)
        with torch.no_grad():
            self.content = net(content)[3].float()
            self.grams = [gram(f) for f in net(style)]

    def forward(self):
        found = self.net(self.picture)
        style_loss = sum(F.mse_loss(gram(f), g) for f, g in zip(found, self.grams))
        content_loss = F.mse_loss(found[3].float(), self.content)
        return 100 * style_loss + content_loss + 0.01 * variation(self.picture)


torch.set_num_threads(1)
torch.manual_seed(411)
net = Extractor().requires_grad_(False).eval()
y, x = torch.meshgrid(torch.linspace(0, 1, 24), torch.linspace(0, 1, 24), indexing="ij")
content = torch.stack([y, x, (y - x).abs()]).unsqueeze(0)
style = (torch.sin(20 * (x + y)) * 0.5 + 0.5).expand(1, 3, -1, -1) * torch.rand(1, 3, 1, 1)
with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
    canvas = Canvas(net, content + 0.1 * torch.randn_like(content), content, style)
optimizer = torch.optim.LBFGS([canvas.picture], lr=0.5, max_iter=3, history_size=5)
for step in range(3):
    losses = []

    def closure():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            loss = canvas()
        loss.backward()
        losses.append(loss.item())  # noqa: B023
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        canvas.picture.clamp_(0, 1)
    print(f"step {step} loss {losses[0]!r}")
print("weights", canvas.picture.detach().double().abs().sum().item())
