# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The fifth held-out set: 40 planted faults and 40 healthy pairs, half of both in bfloat16 or autocast, on
model kinds that nothing of this repository had before.

No rule or number may be chosen by what comes of these.
"""

from __future__ import annotations

from case import (
    AUTOCAST,
    AVX2_KERNELS,
    BF16,
    DEFAULT_KERNELS,
    FOREACH,
    NO_MKLDNN,
    NOISE,
    SDPA,
    THREADS,
    Case,
    Edits,
    fault,
    healthy,
)


def _first(*names: str) -> Edits:
    """The first of the constants that a line at the top of a script sets."""
    line = f"\n{', '.join(names)} = "
    return ((f"{line}False", f"{line}True"),)


_FLOW = _first("AUTOCAST", "RECOMPUTE")
_HOOK = _first("AUTOCAST", "COMPRESS")

FAULTS = (
    fault(
        "rwkv.bonus",
        "torch.exp(k[:, t] + bonus - top)",
        "torch.exp(k[:, t] - top)",
        r"__add__|__sub__|\bexp\b",
    ),
    fault("rwkv.shift", "(0, 0, 1, -1)", "(0, 0, 0, 0)", r"\bpad\b", both=AUTOCAST),
    fault(
        "rectified.modulated",
        "self.norm2(x) * (1 + scale2) + shift2",
        "self.norm2(x) * scale2 + shift2",
        r"__r?add__|__r?mul__|blocks\.0",
    ),
    fault("rectified.average", "kept.lerp_(now, 1 - 0.9)", "kept.lerp_(now, 0.9)", r"lerp", both=_FLOW),
    fault(
        "lora.scaling",
        "ALPHA / RANK\n",
        "ALPHA / RANK**0.5\n",
        r"__r?mul__|scaling|query_key_value(?!\.base)",
    ),
    fault("lora.rate", '"lr": 16 * LR', '"lr": LR', r"\blr\b|learning rate", both=BF16),
    fault(
        "matching.empty",
        "weight[-1] = 0.1",
        "weight[0] = 0.1",
        r"cross_entropy|(?<![\w.])weight\b|[Cc]riterion",
    ),
    fault(
        "matching.count",
        "count = sum(len(labels) for labels, _ in targets)",
        "count = len(targets)",
        r"__truediv__",
        both=AUTOCAST,
    ),
    fault(
        "tabular.offsets", "self.kinds(codes + self.offsets)", "self.kinds(codes)", r"__add__|kinds|embedding"
    ),
    fault(
        "tabular.uncertain",
        "torch.exp(-model.uncertain)",
        "torch.exp(model.uncertain)",
        r"__neg__|\bneg\b|\bexp\b",
        both=AUTOCAST,
    ),
    fault(
        "process.spread",
        "0.1 + 0.9 * F.softplus(spread)",
        "F.softplus(spread)",
        r"__r?mul__|__r?add__|softplus",
    ),
    fault(
        "process.drawn",
        "posterior.stddev * drawn",
        "posterior.variance * drawn",
        r"__mul__|\bpow\b|stddev|variance",
        both=AUTOCAST,
    ),
    fault("graphormer.directed", "permute(0, 3, 1, 2)", "permute(0, 3, 2, 1)", r"permute|__setitem__"),
    fault(
        "graphormer.padding",
        "        bias = bias.masked_fill(outside, -1e4)\n",
        "",
        r"masked_fill",
        both=AUTOCAST,
    ),
    fault(
        "tts.lengths",
        "torch.log(durations.float() + 1)",
        "torch.log(durations.float().clamp(min=1))",
        r"__add__|clamp|\blog\b",
    ),
    fault("tts.warmup", "WARMUP**-1.5", "WARMUP**-0.5", r"\blr\b|learning rate", both=AUTOCAST),
    fault("transducer.start", "F.pad(labels, (1, 0))", "F.pad(labels, (0, 1))", r"\bpad\b"),
    fault(
        "transducer.last",
        "-(alpha[each, frames - 1, lengths] + blank[each, frames - 1, lengths])",
        "-alpha[each, frames - 1, lengths]",
        r"__add__|__getitem__|__neg__|\bneg\b",
        both=_FLOW,
    ),
    fault(
        "kalman.transposed",
        "self.moves @ cov @ self.moves.mT",
        "self.moves @ cov @ self.moves",
        r"matmul|\bmT\b|transpose",
    ),
    fault(
        "kalman.noise",
        "torch.exp(log_variance) + 1e-3",
        "torch.exp(0.5 * log_variance) + 1e-3",
        r"__r?mul__|\bexp\b",
        both=AUTOCAST,
    ),
    fault(
        "dpo.prompt",
        "is_answer = inside[:, 1:] & (torch.arange(1, ids.shape[1]) >= PROMPT)",
        "is_answer = inside[:, 1:]",
        r"__r?and__|__mul__|__ge__|\bge\b",
    ),
    fault("dpo.reference", "(theirs[0] - theirs[1])", "(theirs[1] - theirs[0])", r"__sub__", both=BF16),
    fault("barlow.apart", "on + APART * off", "on + off", r"__r?mul__|__add__"),
    fault(
        "barlow.biases",
        "if p.ndim > 1:",
        "if p.ndim > 0:",
        r"^optimizer|\bnorm\b|__r?mul__",
        both=AUTOCAST,
    ),
    fault(
        "electra.replaced",
        "is_replaced = corrupted != ids",
        "is_replaced = is_hidden",
        r"__ne__|\bne\b|__getitem__|binary_cross_entropy",
    ),
    fault(
        "electra.tied",
        "        self.discriminator.electra.embeddings = self.generator.electra.embeddings\n",
        "",
        r"embeddings",
        both=AUTOCAST,
    ),
    fault(
        "retrieval.pooling",
        "(h * weights).sum(1) / weights.sum(1)",
        "h.mean(1)",
        r"__mul__|\bsum\b|\bmean\b|__truediv__",
    ),
    fault(
        "retrieval.labels",
        "2 * torch.arange(len(asked))",
        "torch.arange(len(asked))",
        r"arange|__r?mul__|cross_entropy",
        both=BF16,
    ),
    fault(
        "muon.window",
        "apart < WINDOW",
        "apart <= WINDOW",
        r"__l[te]__|\bl[te]\b|__r?and__|invert|masked_fill",
    ),
    fault("muon.scale", '-group["lr"] * scale', '-group["lr"]', r"^optimizer|\badd_", both=BF16),
    fault("warp.corners", "align_corners=True", "align_corners=False", r"grid_sample"),
    fault("warp.larger", "2 * F.interpolate", "F.interpolate", r"__r?mul__|interpolate", both=AUTOCAST),
    fault(
        "two_ring.places",
        "self.places(at)",
        "self.places(torch.arange(len(at)))",
        r"places|embedding\.1|arange",
    ),
    fault(
        "two_ring.backward",
        "return swapped(grad)",
        "return grad",
        r"Ring|layers\.1\.qkv|isend|irecv",
        both=AUTOCAST,
    ),
    fault("two_vocab.outside", "rows.masked_fill(outside.unsqueeze(-1), 0.0)", "rows", r"masked_fill|Summed"),
    fault(
        "two_vocab.partition",
        "Summed.apply(logits.exp().sum(-1)).log()",
        "logits.exp().sum(-1).log()",
        r"Summed|\blog\b|reduce",
        both=AUTOCAST,
    ),
    fault("two_hook.divisor", ".div_(dist.get_world_size())\n    sent", "\n    sent", r"div|reduc|gradients"),
    fault(
        "two_hook.early",
        "is_last = part == PARTS - 1",
        "is_last = part == 0",
        r"reduc|gradients|no_sync",
        both=_HOOK,
    ),
    fault(
        "two_halo.row",
        "beyond = swapped(x[:, :, -1:] if is_upper else x[:, :, :1])",
        "beyond = swapped(x[:, :, :1] if is_upper else x[:, :, -1:])",
        r"Halo|__getitem__|gather|\bcat\b",
    ),
    fault(
        "two_halo.count",
        "count = 2 * parts[0, 0].numel()",
        "count = parts[0, 0].numel()",
        r"__truediv__",
        both=AUTOCAST,
    ),
)

_STABLE = """    largest = torch.full_like(k[:, 0], -1e30)
    outs = []
    for t in range(k.shape[1]):
        top = torch.maximum(largest, k[:, t] + bonus)
        old, new = torch.exp(largest - top), torch.exp(k[:, t] + bonus - top)
        outs.append((old * numerator + new * v[:, t]) / (old * denominator + new))
        top = torch.maximum(largest - decay, k[:, t])
        old, new = torch.exp(largest - decay - top), torch.exp(k[:, t] - top)
        numerator, denominator = old * numerator + new * v[:, t], old * denominator + new
        largest = top
"""
_DIRECT = """    kept = torch.exp(-decay)
    outs = []
    for t in range(k.shape[1]):
        now, later = torch.exp(k[:, t] + bonus), torch.exp(k[:, t])
        outs.append((numerator + now * v[:, t]) / (denominator + now))
        numerator, denominator = kept * numerator + later * v[:, t], kept * denominator + later
"""
_BY_HAND = "y = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1) @ v"
_MERGED = "return F.linear(x, self.base.weight + self.scaling * (self.b @ self.a), self.base.bias)"
_SCORES = """        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        y = (scores + bias).softmax(dim=-1).to(v.dtype) @ v
"""
_ROWS = """    rows = [torch.repeat_interleave(row, times, dim=0) for row, times in zip(x, durations)]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)
"""
_ALIGNED = """    ends = durations.cumsum(1)
    at = torch.arange(int(ends[:, -1].max()))[:, None]
    path = (at >= (ends - durations)[:, None]) & (at < ends[:, None])
    return path.to(x.dtype) @ x
"""
_SOLVED = "gain = torch.linalg.solve(spread, self.sees @ cov).mT"
_JOSEPH = """left = torch.eye(STATE) - gain @ self.sees
        cov = left @ cov @ left.mT + gain @ noise @ gain.mT"""
_TWO_CALLS = "ours = log_probs(policy, *chosen), log_probs(policy, *rejected)"
_ONE_CALL = "ours = log_probs(policy, *(torch.cat(two) for two in zip(chosen, rejected))).chunk(2)"
_OFF = "off = (alike - torch.diag(alike.diagonal())).square().sum()"
_STEPS = "    optimizer.step()\n    print"
_EVALUATED = """    optimizer.step()
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        model(ids * inside, inside, is_hidden, gumbel)
    model.train()
    print"""
_IN_PARTS = """    asked, found = encoded(model, questions), encoded(model, passages)
    loss = contrast(asked, found)
    loss.backward()
    for ids, features in ((questions, asked), (passages, found)):
        for part, slope in zip(ids.split(PART), features.grad.split(PART)):
            (model(part) * slope).sum().backward()
"""
_WHOLE = """    loss = contrast(model(questions), model(passages))
    loss.backward()
"""
_WINDOWED = """        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -1e9)
        y = scores.softmax(-1) @ v
"""
_SHIFTED = """    height, width = a.shape[-2:]
    padded = F.pad(b, (RANGE, RANGE, RANGE, RANGE))
    found = []
    for row in range(2 * RANGE + 1):
        for column in range(2 * RANGE + 1):
            found.append((a * padded[:, :, row : row + height, column : column + width]).mean(1))
    return torch.stack(found, 1)
"""
_UNFOLDED = """    around = F.unfold(b, 2 * RANGE + 1, padding=RANGE)
    around = around.view(len(b), b.shape[1], -1, *b.shape[2:])
    return (a.unsqueeze(2) * around).mean(1)
"""
_PUT_TOGETHER = """        near, near_size = attended(q, k, v, own)
        far, far_size = attended(q, their_k, their_v, other)
        size = torch.logaddexp(near_size, far_size)
        y = near * torch.exp(near_size - size) + far * torch.exp(far_size - size)
"""
_AT_ONCE = """        keys, values = torch.cat([k, their_k], 2), torch.cat([v, their_v], 2)
        y, _ = attended(q, keys, values, torch.cat([own, other], 1))
"""
_LARGEST = """        largest = logits.detach().amax(-1)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        logits = logits - largest.unsqueeze(-1)
"""
_REDUCED = """    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
"""
_FLAT = """    flat = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    dist.all_reduce(flat)
    for parameter, part in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
        parameter.grad = part.view_as(parameter)
"""

HEALTHY = (
    healthy("rwkv.direct", (_STABLE, _DIRECT)),
    healthy("rwkv.threads", *THREADS, both=AUTOCAST),
    healthy("rectified.by_hand", ("y = F.scaled_dot_product_attention(q, k, v)", _BY_HAND)),
    healthy("rectified.recomputed", ("RECOMPUTE = True, False", "RECOMPUTE = True, True"), both=_FLOW),
    healthy(
        "lora.merged",
        ("return self.base(x) + F.linear(F.linear(x, self.a), self.b) * self.scaling", _MERGED),
    ),
    healthy("lora.sdpa", *SDPA, both=BF16),
    healthy("matching.no_mkldnn", *NO_MKLDNN),
    healthy(
        "matching.functional",
        ("(boxes[n, rows] - truth).abs().sum()", 'F.l1_loss(boxes[n, rows], truth, reduction="sum")'),
        both=AUTOCAST,
    ),
    Case("tabular.resumed", "tabular", words=("--steps", "0-5"), resumed=True),
    healthy("tabular.foreach", *FOREACH, both=AUTOCAST),
    healthy(
        "process.last_bit", ("    known =", "    x = torch.nextafter(x, torch.tensor(9.0))\n    known =")
    ),
    Case("process.default_kernels", "process", both=AUTOCAST, environment=DEFAULT_KERNELS),
    healthy(
        "graphormer.sdpa",
        (_SCORES, "        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))\n"),
    ),
    Case("graphormer.avx2", "graphormer", both=AUTOCAST, environment=AVX2_KERNELS),
    healthy("tts.aligned", (_ROWS, _ALIGNED)),
    healthy("tts.no_mkldnn", *NO_MKLDNN, both=AUTOCAST),
    healthy(
        "transducer.logsumexp", ("torch.logaddexp(kept, said)", "torch.stack([kept, said]).logsumexp(0)")
    ),
    healthy("transducer.recomputed", ("RECOMPUTE = True, False", "RECOMPUTE = True, True"), both=_FLOW),
    healthy("kalman.joseph", ("cov = cov - gain @ self.sees @ cov", _JOSEPH)),
    healthy(
        "kalman.inverse", (_SOLVED, "gain = cov @ self.sees.mT @ torch.linalg.inv(spread)"), both=AUTOCAST
    ),
    healthy("dpo.together", (_TWO_CALLS, _ONE_CALL)),
    healthy("dpo.sdpa", *SDPA, both=BF16),
    healthy(
        "barlow.channels_last",
        ("model = Twins()", "model = Twins().to(memory_format=torch.channels_last)"),
    ),
    healthy(
        "barlow.difference",
        (_OFF, "off = alike.square().sum() - alike.diagonal().square().sum()"),
        both=AUTOCAST,
    ),
    healthy("electra.evaluated", (_STEPS, _EVALUATED)),
    healthy("electra.noise", *NOISE, both=AUTOCAST),
    healthy("retrieval.whole", (_IN_PARTS, _WHOLE)),
    healthy("retrieval.parts", ("PART, TEMPERATURE = 4,", "PART, TEMPERATURE = 8,"), both=BF16),
    healthy(
        "muon.sdpa", (_WINDOWED, "        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)\n")
    ),
    healthy(
        "muon.order",
        ("    muon.step()\n    adam.step()\n", "    adam.step()\n    muon.step()\n"),
        both=BF16,
    ),
    Case("warp.resumed", "warp", words=("--steps", "0-5"), resumed=True),
    healthy("warp.unfolded", (_SHIFTED, _UNFOLDED), both=AUTOCAST),
    healthy("two_ring.joined", (_PUT_TOGETHER, _AT_ONCE)),
    healthy(
        "two_ring.stacked",
        ("Ring.apply(k), Ring.apply(v)", "Ring.apply(torch.stack([k, v])).unbind()"),
        both=AUTOCAST,
    ),
    healthy("two_vocab.unshifted", (_LARGEST, "")),
    healthy(
        "two_vocab.renamed",
        ("self.words", "self.table"),
        ("self.layers", "self.body"),
        ("Mixed", "Gated"),
        ("self.conv", "self.mix"),
        both=AUTOCAST,
    ),
    healthy("two_hook.stock", ("model.register_comm_hook(None, averaged)\n", "")),
    healthy(
        "two_hook.buckets",
        ("(Sentences())", "(Sentences(), bucket_cap_mb=0.01, gradient_as_bucket_view=True)"),
        both=_HOOK,
    ),
    healthy("two_halo.flat", (_REDUCED, _FLAT)),
    healthy(
        "two_halo.channels_last",
        ("# model built", "model.to(memory_format=torch.channels_last)"),
        both=AUTOCAST,
    ),
)
