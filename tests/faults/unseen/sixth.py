# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The sixth held-out set: 40 planted faults and 40 healthy pairs, half of both in bfloat16, autocast or
float64, on model kinds that nothing of this repository had before.

No rule or number may be chosen by what comes of these.
"""

from __future__ import annotations

from case import (
    AUTOCAST,
    AVX2_KERNELS,
    BF16,
    CHECKPOINTING,
    DEFAULT_KERNELS,
    FOREACH,
    FUSED,
    NO_MKLDNN,
    NOISE,
    SDPA,
    Case,
    Edits,
    fault,
    healthy,
    library,
)

_DOUBLE: Edits = (("DTYPE = torch.float32", "DTYPE = torch.float64"),)

# The changed line of decision.returns runs before the first step is recorded: what it changed comes in as an
# input of the model, and that is a right answer. In s4d.circular the transforms are no records: of what the
# changed line calls, the product of both and its part are.
FAULTS = (
    fault(
        "modernbert.average",
        ', reduction="sum") / count',
        ") / PARTS",
        r"cross_entropy|__i?truediv__",
    ),
    library(
        "modernbert.gate",
        "ModernBertMLP.forward",
        "self.act(input) * gate",
        "input * self.act(gate)",
        r"\bact\b|(?i:gelu)|__mul__",
        both=BF16,
    ),
    fault("grpo.group", "rewards.mean(1, keepdim=True)", "rewards.mean()", r"\bmean\b|__sub__"),
    fault("grpo.divergence", "apart = theirs - ours", "apart = ours - theirs", r"__sub__", both=BF16),
    fault(
        "decision.returns",
        "rewards.flip(1).cumsum(1).flip(1)",
        "rewards.cumsum(1)",
        r"^data|returns_to_go|cumsum|\bflip\b|embed_return",
    ),
    fault(
        "decision.clipped",
        "clip_grad_norm_(model.parameters(), 0.25)",
        "clip_grad_norm_(model.parameters(), 25)",
        r"clip|max_norm",
        both=AUTOCAST,
    ),
    fault(
        "wav2vec2.temperature",
        "max(START * DECAY**step, LEAST)",
        "min(START * DECAY**step, LEAST)",
        r"gumbel_softmax|temperature|\btau\b|quantizer",
    ),
    library(
        "wav2vec2.diversity",
        "Wav2Vec2ForPreTraining.forward",
        "((num_codevectors - codevector_perplexity) / num_codevectors)",
        "(codevector_perplexity / num_codevectors)",
        r"__r?sub__|__r?truediv__|__r?mul__",
        both=AUTOCAST,
    ),
    fault("slots.axis", "scores.softmax(dim=1)", "scores.softmax(dim=2)", r"softmax"),
    fault(
        "slots.mean",
        "shares / shares.sum(dim=2, keepdim=True)",
        "shares / shares.sum(dim=1, keepdim=True)",
        r"\bsum\b|__truediv__",
        both=AUTOCAST,
    ),
    fault("dino.centre", "dim=0), 1 - KEPT)", "dim=0), KEPT)", r"lerp|centre", steps=(0, 1)),
    fault(
        "dino.sharpened",
        "((t - self.centre) / COLD)",
        "(t / COLD - self.centre)",
        r"__sub__|__truediv__",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault(
        "gflownet.border",
        "F.pad(at >= SIDE - 1",
        "F.pad(at > SIDE - 1",
        r"__g[et]__|\bg[et]\b|\bpad\b|masked_fill",
    ),
    fault(
        "gflownet.parents",
        "(after > 0).sum(-1)",
        "(places > 0).sum(-1)",
        r"__gt__|\bgt\b|\bsum\b|clamp",
        both=AUTOCAST,
    ),
    fault(
        "egnn.distance",
        "squared = apart.square().sum(-1, keepdim=True)",
        "squared = apart.norm(dim=-1, keepdim=True)",
        r"square|\bpow\b|\bsum\b|\bnorm\b",
    ),
    fault("egnn.begin", "layer.push[-1].weight, gain=0.1", "layer.push[-1].weight", r"push", both=AUTOCAST),
    fault(
        "hyperbolic.metric",
        "keepdim=True)) ** 2 / 4",
        "keepdim=True)) / 4",
        r"^optimizer|__r?pow__|\bpow\b|__truediv__",
    ),
    fault(
        "hyperbolic.double",
        "1 + 2 * (u - v)",
        "1 + (u - v)",
        r"__r?mul__|__truediv__|__r?add__|acosh",
        both=_DOUBLE,
    ),
    fault("s4d.circular", "n=2 * length", "n=length", r"fft|__mul__|__getitem__"),
    fault(
        "s4d.rate",
        '{"params": slow, "lr": 1e-3, ',
        '{"params": slow, ',
        r"\blr\b|learning rate",
        both=AUTOCAST,
    ),
    fault(
        "consistency.boundary",
        "((t - LEAST) ** 2 + DATA**2)",
        "(t**2 + DATA**2)",
        r"__sub__|__r?pow__|\bpow\b|square|__r?add__|__r?truediv__|__rdiv__|reciprocal",
    ),
    fault(
        "consistency.weight",
        "1 / (far - near)",
        "1 / far",
        r"__sub__|__r?truediv__|__rdiv__|reciprocal|__r?mul__",
        both=AUTOCAST,
    ),
    fault(
        "stylegan.demodulation",
        ".sum((2, 3, 4), keepdim=True)",
        ".sum((3, 4), keepdim=True)",
        r"\bsum\b|__r?add__|rsqrt|__r?mul__",
    ),
    fault("stylegan.lazy", "GAMMA / 2 * EVERY * slopes", "GAMMA / 2 * slopes", r"__r?mul__", both=AUTOCAST),
    fault("muzero.slope", "scaled(state, 0.5)", "scaled(state, 1.0)", r"__r?mul__|__r?add__|detach"),
    fault(
        "muzero.shares",
        "(1 - share).unsqueeze(-1))",
        "share.unsqueeze(-1))",
        r"scatter_add|__r?sub__|unsqueeze",
        both=AUTOCAST,
    ),
    fault("ranking.ranks", "stable=True).argsort(dim=-1)", "stable=True)", r"argsort"),
    fault(
        "ranking.gains",
        "(2.0**grades - 1) * inside",
        "grades * inside",
        r"__r?pow__|\bpow\b|__r?sub__|__r?mul__",
        both=AUTOCAST,
    ),
    fault(
        "fusion.quantiles", "(QUANTILES - 1) * gap", "(1 - QUANTILES) * gap", r"__r?sub__|__r?mul__|maximum"
    ),
    fault(
        "fusion.state",
        "self.decoder(after, state)",
        "self.decoder(after, begin)",
        r"decoder|(?i:lstm)\.1\b",
        both=AUTOCAST,
    ),
    fault("splats.spread", "longer @ longer.mT", "longer @ turn.mT", r"matmul|\bmT\b|transpose"),
    fault(
        "splats.through",
        "alpha * through[:, :-1]",
        "alpha * through[:, 1:]",
        r"__getitem__|__r?mul__",
        both=_DOUBLE,
    ),
    fault(
        "two_ulysses.slopes",
        "self.slopes.chunk(dist.get_world_size())[dist.get_rank()]",
        "self.slopes.chunk(dist.get_world_size())[0]",
        r"slopes|chunk|split|__getitem__|__neg__|\bneg\b|__r?mul__",
    ),
    fault(
        "two_ulysses.count",
        "    dist.all_reduce(count)\n",
        "",
        r"all_reduce|reduc|count|__i?truediv__",
        both=AUTOCAST,
    ),
    fault(
        "two_lowrank.feedback",
        "p.grad.flatten(1) + self.lost[name]",
        "p.grad.flatten(1)",
        r"__r?add__|flatten|lost|reduc|gradient",
        steps=(0, 1),
    ),
    fault(
        "two_lowrank.unsynced",
        "right = averaged(whole.T @ left)",
        "right = whole.T @ left",
        r"matmul|__truediv__|reduc|gradient",
        both=AUTOCAST,
    ),
    fault("two_tables.cross", "begin * cross(x) + x", "begin * cross(x) + begin", r"__r?add__|crosses"),
    fault(
        "two_tables.rows",
        "p.grad.square().mean(dim=1, keepdim=True)",
        "p.grad.square().sum(dim=1, keepdim=True)",
        r"^optimizer|\bmean\b|\bsum\b|\badd_|moved",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault(
        "two_sam.norms",
        "norm.usual, norm.momentum = norm.momentum, 0.0",
        "norm.usual = norm.momentum",
        r"momentum|running_(mean|var)|(?i:batch_?norm)|norms\.\d|buffer",
    ),
    fault(
        "two_sam.kept",
        "    optimizer.zero_grad()\n",
        "",
        r"zero_grad|gradient|accum",
        both=AUTOCAST,
    ),
)

_GATHERED = "return logits.log_softmax(-1).gather(-1, ids[:, PROMPT:, None]).squeeze(-1)"
_CROSSED = 'return -torch.nn.functional.cross_entropy(logits.mT, ids[:, PROMPT:], reduction="none")'
_CELL = "            slots = self.cell(found.flatten(0, 1).float(), slots.flatten(0, 1)).view_as(slots)\n"
_GATES = """            ours, theirs = slots.flatten(0, 1), found.flatten(0, 1).float()
            r, z, n = F.linear(theirs, self.cell.weight_ih, self.cell.bias_ih).chunk(3, dim=-1)
            old_r, old_z, old_n = F.linear(ours, self.cell.weight_hh, self.cell.bias_hh).chunk(3, dim=-1)
            z = torch.sigmoid(z + old_z)
            n = torch.tanh(n + torch.sigmoid(r + old_r) * old_n)
            slots = ((1 - z) * n + z * ours).view_as(slots)
"""
_FUSED_ATTENTION = "F.scaled_dot_product_attention(q, k, v)"
_BY_HAND = "((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v)"
_EACH = """        for kept, p in zip(teacher.parameters(), model.parameters()):
            kept.lerp_(p, 0.1)
"""
_AT_ONCE = "        torch._foreach_lerp_(list(teacher.parameters()), list(model.parameters()), 0.1)\n"
_JOINED = """        ours = h[:, :, None].expand(-1, -1, BODIES, -1)
        theirs = h[:, None].expand(-1, BODIES, -1, -1)
        m = self.message(self.edge(torch.cat([ours, theirs, squared, products], dim=-1)))
"""
_SPLIT = """        of_ours, of_theirs, of_both = self.edge.weight.split([WIDTH, WIDTH, 2], dim=1)
        both = nn.functional.linear(torch.cat([squared, products], dim=-1), of_both, self.edge.bias)
        ours, theirs = nn.functional.linear(h, of_ours), nn.functional.linear(h, of_theirs)
        m = self.message(ours[:, :, None] + theirs[:, None] + both)
"""
_ACOSH = "    return torch.acosh(1 + 2 * (u - v).square().sum(-1) / inner)\n"
_LOG = """    more = 2 * (u - v).square().sum(-1) / inner
    return torch.log1p(more + (more * (more + 2)).sqrt())
"""
_PUT = """    again = (others[:, 1:] == others[:, :1]).nonzero()
    logits = logits.index_put((again[:, 0], again[:, 1] + 1), torch.tensor(-1e9))
"""
_FILLED = """    again = F.pad(others[:, 1:] == others[:, :1], (1, 0))
    logits = logits.masked_fill(again, -1e9)
"""
_TRANSFORMED = """        length = u.shape[-1]
        kernel = torch.fft.rfft(self.kernel(length), n=2 * length)
        return torch.fft.irfft(torch.fft.rfft(u, n=2 * length) * kernel, n=2 * length)[..., :length]
"""
_RECURRENT = """        moved, read = self.kernel.discrete()
        kept, outs = moved.exp(), []
        state = torch.zeros(len(u), WIDTH, STATES, dtype=moved.dtype)
        for now in u.unbind(-1):
            state = kept * state + now.unsqueeze(-1)
            outs.append(2 * (read * state).sum(-1).real)
        return torch.stack(outs, dim=-1)
"""
_HUBER = "    return (gap.square().sum(-1) + c**2).sqrt() - c\n"
_FAR_FROM_ZERO = """    squared = gap.square().sum(-1)
    return squared / ((squared + c**2).sqrt() + c)
"""
_OF_EACH = """        weight = self.scale * self.weight * style[:, None, :, None, None]
        if self.demodulate:
            weight = weight * (weight.square().sum((2, 3, 4), keepdim=True) + 1e-8).rsqrt()
        y = x.reshape(1, -1, *x.shape[2:])
        y = F.conv2d(y, weight.flatten(0, 1), padding=self.padding, groups=len(x))
        return y.view(len(x), -1, *x.shape[2:])
"""
_OF_ALL = """        y = F.conv2d(x * style[:, :, None, None], self.scale * self.weight, padding=self.padding)
        if self.demodulate:
            size = self.scale**2 * style.square() @ self.weight.square().sum((2, 3)).T
            y = y * (size + 1e-8).rsqrt()[:, :, None, None]
        return y
"""
_SCATTERED = """    low = x.floor()
    share = x - low
    shares = torch.zeros(*x.shape, 2 * REACH + 1)
    below = (low + REACH).long()
    above = (below + 1).clamp(max=2 * REACH)
    shares.scatter_add_(-1, below.unsqueeze(-1), (1 - share).unsqueeze(-1))
    return shares.scatter_add(-1, above.unsqueeze(-1), share.unsqueeze(-1))
"""
_TRIANGLES = "    return F.relu(1 - (x.unsqueeze(-1) - torch.arange(-REACH, REACH + 1)).abs())\n"
_SUMMED = "return -(shares * logits.log_softmax(-1)).sum(-1)"
_CLASSES = 'return F.cross_entropy(logits.movedim(-1, 1), shares.movedim(-1, 1), reduction="none")'
_TWICE = "    return x.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)\n"
_INVERTED = """    order = x.argsort(dim=-1, descending=True, stable=True)
    return torch.empty_like(order).scatter_(-1, order, torch.arange(x.shape[-1]).expand_as(order))
"""
_MAXIMUM = "torch.maximum(QUANTILES * gap, (QUANTILES - 1) * gap)"
_CUMPROD = "torch.cumprod(torch.cat([torch.ones(len(places), 1), 1 - alpha], dim=1), dim=1)"
_ENDS = "        far = torch.einsum("
_ADJUGATE = """        a, b, d = spread[:, 0, 0], spread[:, 0, 1], spread[:, 1, 1]
        inverse = torch.stack([d, -b, -b, a], dim=-1).view(-1, 2, 2) / (a * d - b * b)[:, None, None]
        far = torch.einsum("""
_THREE = "(Exchange.apply(part, 2, 1).transpose(1, 2) for part in (q, k, v))"
_ONE = "Exchange.apply(torch.cat([q, k, v], dim=-1), 2, 1).transpose(1, 2).chunk(3, dim=-1)"
_SCORES = """        scores = (q @ k.mT).float() * q.shape[-1] ** -0.5 + bias
        y = (scores.softmax(-1).to(v.dtype) @ v).transpose(1, 2)
"""
_ONE_CALL = """        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype)).transpose(1, 2)
"""
_GRAM_SCHMIDT = """    columns = []
    for column in x.unbind(1):
        for other in columns:
            column = column - (other @ column) * other
        columns.append(column / (column.norm() + 1e-8))
    return torch.stack(columns, dim=1)
"""
_VECTORS = """        for name, p in model.named_parameters():
            if name not in self.thin:
                p.grad = averaged(p.grad)
                continue
"""
_FLAT = """        rest = [p for name, p in model.named_parameters() if name not in self.thin]
        flat = averaged(torch.cat([p.grad for p in rest]))
        for p, part in zip(rest, flat.split([len(p) for p in rest])):
            p.grad = part
        for name, p in model.named_parameters():
            if name not in self.thin:
                continue
"""
_LISTED = """        every = [torch.empty_like(ids) for _ in range(dist.get_world_size())]
        dist.all_gather(every, ids)
        mine = torch.cat(every).chunk("""
_INTO_ONE = """        every = torch.empty(dist.get_world_size() * len(ids), TABLES, BAG, dtype=ids.dtype)
        dist.all_gather_into_tensor(every, ids)
        mine = every.chunk("""
_REMEMBERED = """                self.state[p]["before"] = p.clone()
                p.add_(p.grad, alpha=group["rho"] / (size.item() + 1e-12))
"""
_CLIMBED = """                self.state[p]["up"] = p.grad * (group["rho"] / (size + 1e-12))
                p.add_(self.state[p]["up"])
"""

HEALTHY = (
    healthy("modernbert.sdpa", *SDPA),
    healthy("modernbert.checkpointing", *CHECKPOINTING, both=BF16),
    healthy("grpo.parts", ("EPOCHS, PARTS = 5, 14, 4, 2, 1", "EPOCHS, PARTS = 5, 14, 4, 2, 2")),
    healthy("grpo.crossed", (_GATHERED, _CROSSED), both=BF16),
    healthy("decision.fused", *FUSED),
    healthy("decision.foreach", *FOREACH, both=AUTOCAST),
    healthy("wav2vec2.sdpa", *SDPA),
    Case("wav2vec2.default_kernels", "wav2vec2", both=AUTOCAST, environment=DEFAULT_KERNELS),
    healthy("slots.gates", (_CELL, _GATES)),
    healthy(
        "slots.channels_last",
        ("# model built", "model.to(memory_format=torch.channels_last)"),
        both=AUTOCAST,
    ),
    healthy("dino.by_hand", (_FUSED_ATTENTION, _BY_HAND)),
    healthy("dino.average", (_EACH, _AT_ONCE), both=AUTOCAST),
    healthy(
        "gflownet.each_act",
        ("forward = policy(places)", "forward = torch.stack([policy(at) for at in places.unbind(1)], 1)"),
    ),
    healthy("gflownet.renamed", (".body", ".trunk"), ("log_z", "log_size"), both=AUTOCAST),
    Case("egnn.resumed", "egnn", words=("--steps", "0-5"), resumed=True),
    healthy("egnn.split", (_JOINED, _SPLIT), both=AUTOCAST),
    healthy("hyperbolic.log", (_ACOSH, _LOG)),
    healthy("hyperbolic.filled", (_PUT, _FILLED), both=_DOUBLE),
    healthy("s4d.recurrent", (_TRANSFORMED, _RECURRENT)),
    Case("s4d.avx2", "s4d", both=AUTOCAST, environment=AVX2_KERNELS),
    healthy("consistency.huber", (_HUBER, _FAR_FROM_ZERO)),
    healthy("consistency.noise", *NOISE, both=AUTOCAST),
    healthy("stylegan.of_all", (_OF_EACH, _OF_ALL)),
    healthy(
        "stylegan.rms",
        ("z * (z.square().mean(dim=1, keepdim=True) + 1e-8).rsqrt()", "F.rms_norm(z, (LATENT,), eps=1e-8)"),
        both=AUTOCAST,
    ),
    healthy("muzero.triangles", (_SCATTERED, _TRIANGLES)),
    healthy("muzero.classes", (_SUMMED, _CLASSES), both=AUTOCAST),
    healthy("ranking.inverted", (_TWICE, _INVERTED)),
    healthy("ranking.no_mkldnn", *NO_MKLDNN, both=AUTOCAST),
    Case("fusion.resumed", "fusion", words=("--steps", "0-5"), resumed=True),
    healthy("fusion.below", (_MAXIMUM, "(gap * (QUANTILES - (gap < 0).float()))"), both=AUTOCAST),
    healthy("splats.logs", (_CUMPROD, "torch.exp(F.pad(torch.log1p(-alpha), (1, 0)).cumsum(dim=1))")),
    healthy("splats.adjugate", (_ENDS, _ADJUGATE), ("torch.linalg.inv(spread)", "inverse"), both=_DOUBLE),
    healthy("two_ulysses.together", (_THREE, _ONE)),
    healthy("two_ulysses.sdpa", (_SCORES, _ONE_CALL), both=AUTOCAST),
    healthy("two_lowrank.qr", (_GRAM_SCHMIDT, "    return torch.linalg.qr(x).Q\n")),
    healthy("two_lowrank.flat", (_VECTORS, _FLAT), both=AUTOCAST),
    healthy(
        "two_tables.bags",
        ("table(mine[:, n]).mean(dim=1)", 'F.embedding_bag(mine[:, n], table.weight, mode="mean")'),
    ),
    healthy("two_tables.into_one", (_LISTED, _INTO_ONE), both=AUTOCAST),
    healthy(
        "two_sam.buckets",
        (
            "DistributedDataParallel(net)",
            "DistributedDataParallel(net, bucket_cap_mb=0.005, gradient_as_bucket_view=True)",
        ),
    ),
    healthy(
        "two_sam.down_again",
        (_REMEMBERED, _CLIMBED),
        ('p.copy_(self.state[p].pop("before"))', 'p.sub_(self.state[p].pop("up"))'),
        both=AUTOCAST,
    ),
)
