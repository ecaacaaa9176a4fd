# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The third held-out set: 40 planted faults and 40 healthy pairs, half of both in bfloat16 or autocast, on
model kinds that nothing of this repository had before.

No rule or number may be chosen by what comes of these.
"""

from __future__ import annotations

from case import (
    AUTOCAST,
    AVX2_KERNELS,
    BF16,
    COMPILED,
    DEFAULT_KERNELS,
    FOREACH,
    FUSED,
    NO_MKLDNN,
    NOISE,
    THREADS,
    Case,
    fault,
    healthy,
    kernels,
)

_UNCONNECTED = """every = [torch.empty_like(read) for _ in range(2)]
        dist.all_gather(every, read.detach().contiguous())
        every[rank] = read
        everything = torch.cat(every)"""

FAULTS = (
    fault("spline.activation", "F.silu(x)", "F.relu(x)", r"silu|relu"),
    fault(
        "spline.coupled",
        "torch.optim.AdamW(model.parameters()",
        "torch.optim.Adam(model.parameters()",
        r"^optimizer",
        both=AUTOCAST,
    ),
    fault("ode.weights", "(k1 + 2 * k2 +", "(k1 + k2 +", r"__r?mul__|__add__"),
    fault("ode.time", "k2 = self.field(t + dt / 2,", "k2 = self.field(t,", r"field|__add__", both=AUTOCAST),
    fault("capsules.routing", "F.softmax(logits, dim=2)", "F.softmax(logits, dim=1)", r"softmax"),
    fault("capsules.absent", "0.5 * absent", "absent", r"__r?mul__", both=AUTOCAST),
    fault("fourier.ortho", "rfft(x.float())", 'rfft(x.float(), norm="ortho")', r"rfft|waves\.0|einsum"),
    fault(
        "fourier.whole",
        "((y - wanted).flatten(1).norm(dim=1) / wanted.flatten(1).norm(dim=1)).mean()",
        "(y - wanted).norm() / wanted.norm()",
        r"\bnorm\b|flatten",
        both=AUTOCAST,
    ),
    fault("points.identity", "return found + torch.eye(self.size)", "return found", r"turn1|__add__|\beye\b"),
    fault(
        "points.orthogonal",
        "turned @ turned.transpose(1, 2)",
        "turned @ turned",
        r"transpose|matmul",
        both=AUTOCAST,
    ),
    fault(
        "sets.padding",
        "expand(len(x), -1, -1), x, outside)",
        "expand(len(x), -1, -1), x)",
        r"blocks\.0\.inwards",
    ),
    fault(
        "sets.mean",
        "self.head((h * inside).sum(1) / inside.sum(1))",
        "self.head(h.mean(1))",
        r"__mul__|\bmean\b|\bsum\b|__truediv__",
        both=BF16,
    ),
    fault(
        "vqvae.commitment",
        "F.mse_loss(flat, near.detach())",
        "F.mse_loss(flat.detach(), near)",
        r"mse_loss|detach",
    ),
    fault("vqvae.decay", "decay=0.95", "decay=0.5", r"mul_|add_|decay", both=AUTOCAST),
    fault("tabnet.prior", "(1.5 - mask)", "(1.0 - mask)", r"__r?sub__"),
    fault(
        "tabnet.residual",
        "(self.second(h) + h) * 0.5**0.5",
        "(self.second(h) + h)",
        r"looks\.0|__mul__",
        both=AUTOCAST,
    ),
    fault("nbeats.backcast", "            x = x - past\n", "", r"__r?sub__"),
    fault(
        "nbeats.denominator",
        "(ahead.abs() + wanted.abs()).detach()",
        "ahead.abs() + wanted.abs()",
        r"detach|__add__|requires_grad",
        both=AUTOCAST,
    ),
    fault("deepar.size", "keepdim=True) + 1", "keepdim=True)", r"__add__"),
    fault(
        "deepar.leak",
        "series[:, time - 1, None]",
        "series[:, time, None]",
        r"__getitem__|__truediv__",
        both=BF16,
    ),
    fault("speech.blank", "blank=0", "blank=8", r"ctc_loss"),
    fault("speech.window", "torch.hann_window(size)", "torch.ones(size)", r"window", both=AUTOCAST),
    fault("pinn.viscosity", "0.01 / math.pi * derivative", "0.01 * derivative", r"__r?mul__"),
    fault("pinn.detached", "u * u_x", "u.detach() * u_x", r"detach|__mul__", both=AUTOCAST),
    fault(
        "maml.first_order",
        "create_graph=True",
        "create_graph=False",
        r"requires_grad|__r?mul__|__sub__|autograd",
    ),
    fault("maml.rounds", "INNER = 2", "INNER = 1", r"INNER|missing call", both=AUTOCAST),
    fault(
        "moco.momentum",
        "mine.mul_(0.9).add_(other, alpha=0.1)",
        "mine.mul_(0.5).add_(other, alpha=0.5)",
        r"mul_|add_|\bkey\b",
        steps=(0, 1),
    ),
    fault("moco.length", "F.normalize(self.key(b), dim=1)", "self.key(b)", r"normalize", both=AUTOCAST),
    fault("arcface.margin", "where(is_right, apart, cosine)", "where(is_right, apart, apart)", r"\bwhere\b"),
    fault(
        "arcface.squeeze",
        "x.mean((2, 3), keepdim=True)",
        "x.amax((2, 3), keepdim=True)",
        r"\bmean\b|amax|squeezed",
        both=BF16,
    ),
    fault("tree.forget", "self.forget_child(hs)", "self.forget_child(total)", r"forget_child"),
    fault("tree.output", "torch.sigmoid(o) * torch.tanh(c)", "torch.sigmoid(o) * c", r"tanh", both=BF16),
    fault("spiking.slope", "5 * x.abs()", "x.abs()", r"hidden2|Fired|__sub__|\babs\b"),
    fault("spiking.reset", "spike.detach()", "spike", r"__sub__|detach", both=AUTOCAST),
    fault("superres.divisor", "large) / PARTS", "large)", r"__truediv__"),
    fault("superres.scale", "0.2 * self.conv2", "self.conv2", r"blocks\.0|__r?mul__", both=BF16),
    fault("two_siglip.offset", "+ 5 * rank", "+ 0 * rank", r"__add__|one_hot"),
    fault(
        "two_siglip.gathered",
        "everything = torch.cat(dist_nn.all_gather(read.contiguous()))",
        _UNCONNECTED,
        r"gather|\bcat\b|requires_grad|detach|empty_like",
        both=AUTOCAST,
    ),
    fault(
        "two_local.divisor",
        "            ours.grad /= dist.get_world_size()\n",
        "",
        r"div|reduc",
        steps=(1,),
    ),
    fault(
        "two_local.early",
        "step % EVERY == EVERY - 1",
        "step % EVERY == 0",
        r"extra call|reduc|copy_",
        both=AUTOCAST,
    ),
)

_WHOLE = """    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        ahead = called(x).float()
        size = (ahead.abs() + wanted.abs()).detach()
        loss = 2 * ((ahead - wanted).abs() / (size + 1e-3)).mean()
    optimizer.zero_grad()
    loss.backward()
"""
_IN_PARTS = """    optimizer.zero_grad()
    loss = torch.zeros(())
    for half in (slice(0, 6), slice(6, 12)):
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            ahead = called(x[half]).float()
            size = (ahead.abs() + wanted[half].abs()).detach()
            part = ((ahead - wanted[half]).abs() / (size + 1e-3)).mean()
        part.backward()
        loss += part.detach()
"""
_LIKELIHOOD = """    z = (x.float() - place) / spread
    gammas = torch.lgamma((freedom + 1) / 2) - torch.lgamma(freedom / 2)
    tails = (freedom + 1) / 2 * torch.log1p(z.square() / freedom)
    return tails + torch.log(spread) + 0.5 * torch.log(torch.pi * freedom) - gammas
"""
_EACH_REDUCED = """            ours.grad = ours.detach() - parameter.detach()
            dist.all_reduce(ours.grad)
            ours.grad /= dist.get_world_size()
"""
_REDUCED_AT_ONCE = """            ours.grad = ours.detach() - parameter.detach()
        flat = torch.cat([ours.grad.flatten() for ours in shared])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for ours, part in zip(shared, flat.split([ours.numel() for ours in shared])):
            ours.grad.copy_(part.view_as(ours))
"""

HEALTHY = (
    healthy("spline.noise", *NOISE),
    healthy("spline.threads", *THREADS, both=AUTOCAST),
    healthy(
        "ode.refactored",
        ("z + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)", "z + (k1 + k4) * (dt / 6) + (k2 + k3) * (dt / 3)"),
    ),
    healthy("ode.foreach", *FOREACH, both=AUTOCAST),
    healthy(
        "capsules.refactored",
        (
            'torch.einsum("pwoi,bpi->bpwo", self.weight, u)',
            "(self.weight @ u[:, :, None, :, None]).squeeze(-1)",
        ),
    ),
    Case("capsules.default_kernels", "capsules", both=AUTOCAST, environment=DEFAULT_KERNELS),
    Case("fourier.resumed", "fourier", words=("--steps", "0-3"), resumed=True),
    Case("fourier.avx2", "fourier", both=AUTOCAST, environment=AVX2_KERNELS),
    healthy("points.no_mkldnn", *NO_MKLDNN),
    healthy(
        "points.renamed",
        ("self.turn1", "self.align"),
        ("self.turn2", "self.align_features"),
        ("self.norm1", "self.bn1"),
        ("self.norm2", "self.bn2"),
        both=AUTOCAST,
    ),
    healthy("sets.weights", ("need_weights=False", "need_weights=True")),
    healthy("sets.checkpointing", ("RECOMPUTE = False", "RECOMPUTE = True"), both=BF16),
    healthy(
        "vqvae.channels_last",
        ("model = Autoencoder()", "model = Autoencoder().to(memory_format=torch.channels_last)"),
        ("called(x)", "called(x.contiguous(memory_format=torch.channels_last))"),
    ),
    healthy("vqvae.fused", *FUSED, both=AUTOCAST),
    healthy("tabnet.noise", *NOISE),
    healthy("tabnet.foreach", *FOREACH, both=AUTOCAST),
    healthy("nbeats.compiled", *COMPILED),
    healthy("nbeats.in_parts", (_WHOLE, _IN_PARTS), both=AUTOCAST),
    healthy(
        "deepar.refactored",
        (
            _LIKELIHOOD,
            "    return -torch.distributions.StudentT(freedom, place, spread).log_prob(x.float())\n",
        ),
    ),
    healthy("deepar.threads", *THREADS, both=BF16),
    kernels("speech.default_kernels", DEFAULT_KERNELS),
    healthy("speech.no_mkldnn", *NO_MKLDNN, both=AUTOCAST),
    healthy("pinn.noise", *NOISE),
    healthy(
        "pinn.refactored",
        (
            "left.square().mean() + 10 * at_begin.square().mean()",
            "(left @ left) / 40 + 0.625 * at_begin.dot(at_begin)",
        ),
        both=AUTOCAST,
    ),
    kernels("maml.avx2", AVX2_KERNELS),
    healthy("maml.refactored", ("w - 0.05 * g for", "torch.sub(w, g, alpha=0.05) for"), both=AUTOCAST),
    Case("moco.resumed", "moco", words=("--steps", "0-3"), resumed=True),
    healthy(
        "moco.channels_last",
        ("model = Contrast()", "model = Contrast().to(memory_format=torch.channels_last)"),
        ("called(a, b)", "called(*(i.contiguous(memory_format=torch.channels_last) for i in (a, b)))"),
        both=AUTOCAST,
    ),
    healthy(
        "arcface.channels_last",
        ("Faces().to(DTYPE)", "Faces().to(DTYPE, memory_format=torch.channels_last)"),
        ("called(x, who)", "called(x.contiguous(memory_format=torch.channels_last), who)"),
    ),
    healthy("arcface.threads", *THREADS, both=BF16),
    healthy(
        "tree.renamed",
        ("self.of_word", "self.ioux"),
        ("self.of_children", "self.iouh"),
        ("self.forget_word", "self.fx"),
        ("self.forget_child", "self.fh"),
        ("self.node", "self.cell"),
    ),
    healthy("tree.noise", *NOISE, both=BF16),
    healthy("spiking.foreach", *FOREACH),
    healthy(
        "spiking.refactored",
        ("for now in spikes:", "for now in self.linear(spikes):"),
        ("charge + self.linear(now)", "charge + now"),
        both=AUTOCAST,
    ),
    healthy("superres.no_mkldnn", *NO_MKLDNN),
    Case("superres.avx2", "superres", both=BF16, environment=AVX2_KERNELS),
    healthy("two_siglip.threads", *THREADS),
    healthy("two_siglip.foreach", *FOREACH, both=AUTOCAST),
    healthy("two_local.refactored", (_EACH_REDUCED, _REDUCED_AT_ONCE)),
    healthy("two_local.fused", *FUSED, both=AUTOCAST),
)
