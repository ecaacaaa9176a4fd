# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Training for 8 bits: weights and activations are rounded on the way, gradients go straight."""

import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812

AMP = False


class FakeQuant(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, low, high):
        q = torch.round(x / scale)
        ctx.save_for_backward((q >= low) & (q <= high))
        return torch.clamp(q, low, high) * scale

    @staticmethod
    def backward(ctx, grad):
        (inside,) = ctx.saved_tensors
        return grad * inside, None, None, None


fake_quant = FakeQuant.apply


class Observer(nn.Module):
    """The largest size seen so far, as a moving average."""

    def __init__(self, momentum=0.1):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("largest", torch.zeros(()))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        with torch.no_grad():
            now = x.detach().abs().max().float()
            if self.seen == 0:
                self.largest.copy_(now)
            else:
                self.largest.lerp_(now, self.momentum)
            self.seen += 1
        return fake_quant(x, self.largest.to(x.dtype) / 127, -128, 127)


class QuantConv(nn.Conv2d):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.observer = Observer()

    def forward(self, x):
        scale = self.weight.detach().abs().amax(dim=(1, 2, 3), keepdim=True) / 127
        w = fake_quant(self.weight, scale, -128, 127)
        return self._conv_forward(self.observer(x), w, self.bias)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = QuantConv(3, 12, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(12)
        self.conv2 = QuantConv(12, 24, 3, stride=2, padding=1)
        self.bn2 = nn.BatchNorm2d(24)
        self.fc = nn.Linear(24, 4)

    def forward(self, x):
        x = F.relu6(self.bn1(self.conv1(x)))
        x = F.relu6(self.bn2(self.conv2(x)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


torch.set_num_threads(1)
torch.manual_seed(418)
net = Net()
net.train()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, foreach=False)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
g = torch.Generator().manual_seed(4180)
for step in range(4):
    labels = torch.randint(4, (12,), generator=g)
    images = torch.randn(12, 3, 12, 12, generator=g)
    images[:, 0] += labels.view(-1, 1, 1) * 0.5
    with torch.autocast("cpu", torch.bfloat16, enabled=AMP):
        logits = net(images)
    loss = F.cross_entropy(logits.float(), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    cosine.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in net.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in net.buffers()))
