# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The ninth held-out set: 40 planted faults and 40 healthy pairs, half of both in bfloat16 or autocast, on
model kinds that nothing of this repository had before.

No rule or number may be chosen by what comes of these.
"""

from __future__ import annotations

from case import (
    AUTOCAST,
    BF16,
    CHECKPOINTING,
    DEFAULT_KERNELS,
    FOREACH,
    FUSED,
    NO_MKLDNN,
    NOISE,
    SDPA,
    THREADS,
    Case,
    Edits,
    Library,
    fault,
    healthy,
    library,
)

FAULTS = (
    library(
        "deepseek_v3.leaning",
        "DeepseekV3TopkRouter.forward",
        "scores.gather(1, topk_indices)",
        "scores_for_choice.gather(1, topk_indices)",
        r"gather|\bgate\b|\bsum\b|__i?r?truediv__|__r?mul__",
        steps=(1,),
    ),
    fault(
        "deepseek_v3.push",
        "load.mean() - load",
        "load - load.mean()",
        r"__r?sub__|\bsign\b|__r?mul__|__i?r?add__|correction_bias",
        steps=(0, 1),
        both=BF16,
    ),
    library(
        "fnet.norm",
        "FNetOutput.forward",
        "self.LayerNorm(hidden_states + input_tensor)",
        "self.LayerNorm(hidden_states) + input_tensor",
        r"LayerNorm|layer_norm|__r?add__",
    ),
    fault(
        "fnet.asked",
        "ids.masked_fill(~asked, -100)",
        "ids.masked_fill(shown != MASK, -100)",
        r"masked_fill|__ne__|\bne\b|invert|bitwise_not|cross_entropy",
        both=AUTOCAST,
    ),
    library(
        "videomae.axis",
        "VideoMAEForPreTraining.forward",
        "frames.mean(dim=-2, keepdim=True)",
        "frames.mean(dim=-1, keepdim=True)",
        r"\bmean\b|__r?sub__",
    ),
    fault(
        "videomae.tubes",
        "hidden.repeat(1, FRAMES // TUBE)",
        "hidden.repeat_interleave(FRAMES // TUBE, dim=1)",
        r"repeat|inputs|bool_masked_pos|invert|bitwise_not|__getitem__",
        both=BF16,
    ),
    library(
        "esm.made_up",
        "EsmEmbeddings.forward",
        "(embeddings * (1 - mask_ratio_train) / (1 - mask_ratio_observed)[:, None, None])",
        "(embeddings * (1 - mask_ratio_train))",
        r"__r?truediv__|__r?sub__|__r?mul__|__getitem__|\bto\b|embeddings",
    ),
    fault(
        "esm.wrong",
        "torch.randint(FIRST, VOCAB, ids.shape",
        "torch.randint(0, VOCAB, ids.shape",
        r"randint|where|inputs|input_ids",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault(
        "hashgrid.corners",
        "torch.where(self.corners == 1, part, 1 - part)",
        "torch.where(self.corners == 1, 1 - part, part)",
        r"where|__r?sub__|\bprod\b",
    ),
    fault(
        "hashgrid.steep",
        "slopes.norm(dim=-1)",
        "slopes.square().sum(dim=-1)",
        r"norm|square|\bsum\b|\bpow\b|__r?sub__",
        both=AUTOCAST,
    ),
    fault("codec.left", "left = left - near.detach()", "left = x - near.detach()", r"__r?sub__"),
    fault(
        "codec.follows",
        "heard + follows + 0.25 * leads",
        "heard + 0.25 * follows + leads",
        r"__r?mul__|__r?add__",
        both=AUTOCAST,
    ),
    fault(
        "grammar.rules",
        "self.pair(self.phrases).float().log_softmax(dim=-1)",
        "self.pair(self.phrases).float().log_softmax(dim=0)",
        r"log_softmax",
    ),
    fault(
        "grammar.past",
        "return x + F.relu(self.second",
        "return F.relu(self.second",
        r"__r?add__|\brelu\b|to_begin|to_word|\broot\b|\bword\b",
        both=AUTOCAST,
    ),
    fault(
        "automata.turned",
        "torch.stack([itself, across, across.T])",
        "torch.stack([itself, across, across])",
        r"kernels|stack|conv2d|repeat|\bT\b|numpy_T",
    ),
    fault(
        "automata.wakes",
        "x + change * wakes",
        "x + change",
        r"__r?mul__|__r?add__",
        both=AUTOCAST,
    ),
    fault(
        "stereo.direction",
        "left[..., shift:] * right[..., : LONG - shift]",
        "left[..., : LONG - shift] * right[..., shift:]",
        r"__getitem__|__setitem__|__r?mul__",
    ),
    fault(
        "stereo.costs",
        "(-costs).softmax(dim=1)",
        "costs.softmax(dim=1)",
        r"__neg__|\bneg\b|softmax",
        both=AUTOCAST,
    ),
    fault(
        "iqn.shares",
        "shares.unsqueeze(2) - (apart",
        "shares.unsqueeze(1) - (apart",
        r"unsqueeze|__r?sub__|\babs\b",
    ),
    fault(
        "iqn.waves",
        "torch.arange(1, COSINES + 1)",
        "torch.arange(COSINES)",
        r"arange|__r?mul__|\bcos\b",
        both=AUTOCAST,
    ),
    fault(
        "deeponet.rods",
        "((found - wanted).norm(dim=1) / wanted.norm(dim=1)).mean()",
        "(found - wanted).norm() / wanted.norm()",
        r"norm|__r?truediv__|\bmean\b",
    ),
    fault(
        "deeponet.terms",
        "terms / math.sqrt(TERMS)",
        "terms",
        r"__r?truediv__|einsum|__r?add__",
        both=BF16,
    ),
    fault(
        "discrete.times",
        "generator=generator) < t[:, None]",
        "generator=generator) < t",
        r"__lt__|\blt\b|__getitem__|masked_fill|inputs",
    ),
    fault(
        "discrete.share",
        " * hidden / t[:, None]",
        " * hidden",
        r"__r?truediv__|__r?mul__|__getitem__|\bmean\b",
        both=AUTOCAST,
    ),
    fault(
        "trades.rests",
        "    model.eval()\n    with torch.no_grad",
        "    with torch.no_grad",
        r"training|(?i:batch_?norm)|\beval\b|\bnorm|running_|num_batches",
    ),
    fault(
        "trades.far",
        "torch.minimum(torch.maximum(bad, x - FAR), x + FAR).clamp(0, 1)",
        "bad.clamp(0, 1)",
        r"minimum|maximum|clamp|__r?sub__|__r?add__",
        both=AUTOCAST,
    ),
    fault(
        "elastic.squares",
        "total += slope.square() / 8",
        "total += slope / 8",
        r"square|\bpow\b|__r?truediv__|__i?r?add__",
        steps=(2, 3),
    ),
    fault(
        "elastic.anchors",
        "p.detach().clone()",
        "p.detach()",
        r"clone|detach|__r?sub__|square|\bpow\b",
        steps=(2, 3, 4),
        both=AUTOCAST,
    ),
    fault(
        "depths.order",
        "topk(KEPT, dim=1).indices.sort(dim=1).values",
        "topk(KEPT, dim=1).indices",
        r"\bsort\b|topk|gather|expand|unsqueeze",
    ),
    fault(
        "depths.weights",
        " * torch.sigmoid(weights.gather(1, rows)).unsqueeze(-1)",
        "",
        r"sigmoid|__r?mul__|gather|unsqueeze|scatter_add|\bto\b",
        both=AUTOCAST,
    ),
    fault(
        "two_signs.bit",
        "vote = torch.sign(kept)",
        "vote = kept.clone()",
        r"\bsign\b|clone|reduc|gradient|copy_",
    ),
    fault(
        "two_signs.keeps",
        "kept.lerp_(p.grad, 1 - KEEPS)",
        "kept.lerp_(p.grad, KEEPS)",
        r"lerp|\bsign\b|gradient",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault(
        "two_actor.ends",
        "GAMMA * values[at + 1] * goes_on - values[at]",
        "GAMMA * values[at + 1] - values[at]",
        r"__r?mul__|__r?add__|__r?sub__",
    ),
    fault(
        "two_actor.spread",
        "(advantage.std() + 1e-5)",
        "(advantage.var() + 1e-5)",
        r"\bstd\b|\bvar\b|__r?add__|__r?truediv__",
        both=AUTOCAST,
    ),
    fault(
        "two_graph.back",
        "        dist.all_reduce(grad)\n",
        "",
        r"AllNodes|reduc|chunk|split|__getitem__|gradient",
    ),
    fault(
        "two_graph.degrees",
        "degrees = known.sum(1)",
        "degrees = known[:, rank * half : (rank + 1) * half].sum(1)",
        r"\bsum\b|__getitem__|rsqrt|__r?mul__|inputs|unsqueeze",
        both=AUTOCAST,
    ),
    fault(
        "two_join.divided",
        "p.grad /= live",
        "p.grad /= dist.get_world_size()",
        r"__i?r?truediv__|\bdiv_?\b|reduc|gradient",
        steps=(3,),
    ),
    fault(
        "two_join.there",
        "(self.norm(x) * there)",
        "self.norm(x)",
        r"__r?mul__|\bmT\b|transpose|\bconv\b|conv1d",
        both=AUTOCAST,
    ),
    fault(
        "two_scaffold.drift",
        "p.grad += ours - mine",
        "p.grad += mine - ours",
        r"__r?sub__|__i?r?add__|gradient",
        steps=(2,),
    ),
    fault(
        "two_scaffold.rate",
        "/ (ALONE * RATE)",
        "/ ALONE",
        r"__r?truediv__|__r?add__",
        steps=(1, 2),
        both=AUTOCAST,
    ),
)

_CHANNELS_LAST: Edits = (("# model built", "model.to(memory_format=torch.channels_last)"),)
_CHANNELS_LAST_3D: Edits = (
    (
        "# model built",
        "[part.to(memory_format=torch.channels_last_3d) for part in (model.rough, model.fine)]",
    ),
)
_SQUARES_APART = "left.square().sum(-1, keepdim=True) - 2 * left @ book.T + book.square().sum(-1)"
_APART = "torch.cdist(left, book.expand(len(left), -1, -1))"
_OF_COMPLEX = "a, b = a.abs().clamp(min=1e-5), b.abs().clamp(min=1e-5)"
_OF_PARTS = "a, b = (torch.hypot(x.real, x.imag).clamp(min=1e-5) for x in (a, b))"
_BY_LOGS = """    both = a.unsqueeze(-1) + b.unsqueeze(-2)
    return torch.logsumexp((both.unsqueeze(1) + rules).flatten(2), dim=-1)
"""
_BY_PRODUCTS = """    high, other = a.detach().amax(-1, keepdim=True), b.detach().amax(-1, keepdim=True)
    both = torch.einsum("ni,pij,nj->np", (a - high).exp(), rules.exp(), (b - other).exp())
    return both.log() + high + other
"""
_BY_GROUPS = "        return F.conv2d(x, self.kernels.repeat(STATE, 1, 1, 1), padding=1, groups=STATE)\n"
_ONE_BY_ONE = """        each = F.conv2d(x.flatten(0, 1).unsqueeze(1), self.kernels, padding=1)
        return each.view(len(x), 3 * STATE, SIDE, SIDE)
"""
_WRITTEN = """        costs = left.new_zeros(len(left), WIDE, SHIFTS, HIGH, LONG)
        for shift in range(SHIFTS):
            costs[:, :, shift, :, shift:] = left[..., shift:] * right[..., : LONG - shift]
"""
_STACKED = """        costs = []
        for shift in range(SHIFTS):
            costs.append(F.pad(left[..., shift:] * right[..., : LONG - shift], (shift, 0)))
        costs = torch.stack(costs, dim=2)
"""
_HUBER = 'F.huber_loss(apart, torch.zeros_like(apart), reduction="none")'
_HUBER_BY_HAND = "torch.where(apart.abs() <= 1, 0.5 * apart.square(), apart.abs() - 0.5)"
_EINSUM = 'torch.einsum("rk,pk->rp", self.branch(heated), self.trunk(self.waves(places)))'
_MATMUL = "self.branch(heated) @ self.trunk(self.waves(places)).mT"
_KEPT = "            x = block(x, time)\n"
_RECOMPUTED = "            x = checkpoint(block, x, time, use_reentrant=False)\n"
_KL_DIV = 'F.kl_div(found.log_softmax(dim=-1), wanted.softmax(dim=-1), reduction="batchmean")'
_KL_BY_HAND = (
    "(wanted.softmax(-1) * (wanted.log_softmax(-1) - found.log_softmax(-1))).sum() / wanted.shape[0]"
)
_SPRINGS = """    total = 0.0
    for p, anchor, weight in zip(model.parameters(), anchors, weights):
        total = total + (weight * (p - anchor).square()).sum()
    return HOLD / 2 * total
"""
_ONE_SPRING = """    now, then, weight = (
        torch.cat([part.flatten() for part in parts]) for parts in (model.parameters(), anchors, weights)
    )
    return HOLD / 2 * torch.dot(weight, (now - then).square())
"""
_ADDED = "x.scatter_add(1, wide, change.to(x.dtype))"
_PUT_BACK = "x.scatter(1, wide, x.gather(1, wide) + change.to(x.dtype))"
_VOTED = "            dist.all_reduce(vote)\n"
_COUNTED = """            every = [torch.empty_like(vote) for _ in range(dist.get_world_size())]
            dist.all_gather(every, vote)
            vote = torch.stack(every).sum(0)
"""
_BROADCAST: Edits = (
    ("dist.send(tensor, 1)", "dist.broadcast(tensor, 0)"),
    ("dist.recv(tensor, 0)", "dist.broadcast(tensor, 0)"),
    ("dist.send(advantage, 0)", "dist.broadcast(advantage, 1)"),
    ("dist.recv(advantage, 1)", "dist.broadcast(advantage, 1)"),
)
_GATHERED_ACTS = "logs.gather(-1, acts.unsqueeze(-1)).squeeze(-1)"
_LIKELIHOOD = '-F.nll_loss(logs.flatten(0, 1), acts.flatten(), reduction="none").view(LONG, WORLDS)'
_BY_EDGES = "torch.zeros_like(begin).index_add(0, target, every[source] * weights.unsqueeze(-1))"
_BY_MATRIX = "torch.zeros(len(begin), NODES).index_put((target, source), weights) @ every"
_ALL_AT_ONCE = "        dist.all_gather(every, x.contiguous())\n"
_IN_TURN = """        every[dist.get_rank()].copy_(x)
        for source, part in enumerate(every):
            dist.broadcast(part, source)
"""
_GLU = "        h = F.glu(self.conv((self.norm(x) * there).mT), dim=1).mT\n"
_GATE_BY_HAND = """        value, gate = self.conv((self.norm(x) * there).mT).mT.chunk(2, dim=-1)
        h = value * torch.sigmoid(gate)
"""
_EACH_AVERAGED = """    found = []
    for tensor in tensors:
        tensor = tensor.clone()
        dist.all_reduce(tensor)
        found.append(tensor / dist.get_world_size())
    return found
"""
_AVERAGED_AT_ONCE = """    flat = torch.cat([tensor.flatten() for tensor in tensors])
    dist.all_reduce(flat)
    parts = (flat / dist.get_world_size()).split([tensor.numel() for tensor in tensors])
    return [part.view_as(tensor) for part, tensor in zip(parts, tensors)]
"""

HEALTHY = (
    healthy("deepseek_v3.sdpa", *SDPA),
    healthy("deepseek_v3.foreach", *FOREACH, both=BF16),
    healthy(
        "fnet.by_axes",
        library=Library(
            "fnet",
            "FNetBasicFourierTransform.forward",
            "self.fourier_transform(hidden_states).real",
            "fftn(hidden_states).real",
        ),
    ),
    healthy("fnet.checkpointing", *CHECKPOINTING, both=AUTOCAST),
    healthy("videomae.sdpa", *SDPA),
    healthy(
        "videomae.deviation",
        both=BF16,
        library=Library(
            "videomae",
            "VideoMAEForPreTraining.forward",
            "frames.var(dim=-2, unbiased=True, keepdim=True).sqrt()",
            "frames.std(dim=-2, unbiased=True, keepdim=True)",
        ),
    ),
    healthy("esm.sdpa", *SDPA),
    healthy(
        "esm.divided",
        both=AUTOCAST,
        library=Library(
            "esm",
            "EsmSelfAttention.forward",
            "query_layer * self.attention_head_size**-0.5",
            "query_layer / self.attention_head_size**0.5",
        ),
    ),
    healthy("hashgrid.embedding", ("table[rows]", "F.embedding(rows, table)")),
    healthy("hashgrid.fused", *FUSED, both=AUTOCAST),
    healthy("codec.apart", (_SQUARES_APART, _APART)),
    healthy("codec.hypot", (_OF_COMPLEX, _OF_PARTS), both=AUTOCAST),
    healthy("grammar.products", (_BY_LOGS, _BY_PRODUCTS)),
    Case("grammar.default_kernels", "grammar", both=AUTOCAST, environment=DEFAULT_KERNELS),
    Case("automata.resumed", "automata", words=("--steps", "0-5"), resumed=True),
    healthy("automata.one_by_one", (_BY_GROUPS, _ONE_BY_ONE), both=AUTOCAST),
    healthy("stereo.channels_last", *_CHANNELS_LAST_3D),
    healthy("stereo.stacked", (_WRITTEN, _STACKED), both=AUTOCAST),
    Case("iqn.resumed", "iqn", words=("--steps", "0-5"), resumed=True),
    healthy("iqn.huber", (_HUBER, _HUBER_BY_HAND), both=AUTOCAST),
    healthy("deeponet.matmul", (_EINSUM, _MATMUL)),
    healthy("deeponet.foreach", *FOREACH, both=BF16),
    healthy(
        "discrete.recomputed",
        (_KEPT, _RECOMPUTED),
        ("from torch import nn\n", "from torch import nn\nfrom torch.utils.checkpoint import checkpoint\n"),
    ),
    healthy("discrete.noise", *NOISE, both=AUTOCAST),
    healthy("trades.channels_last", *_CHANNELS_LAST),
    healthy("trades.by_hand", (_KL_DIV, _KL_BY_HAND), both=AUTOCAST),
    healthy("elastic.one_spring", (_SPRINGS, _ONE_SPRING)),
    healthy("elastic.foreach", *FOREACH, both=AUTOCAST),
    healthy("depths.sdpa", *SDPA),
    healthy("depths.put_back", (_ADDED, _PUT_BACK), both=AUTOCAST),
    healthy("two_signs.counted", (_VOTED, _COUNTED)),
    healthy("two_signs.fused", *FUSED, both=AUTOCAST),
    healthy("two_actor.broadcast", *_BROADCAST),
    healthy("two_actor.likelihood", (_GATHERED_ACTS, _LIKELIHOOD), both=AUTOCAST),
    healthy("two_graph.matrix", (_BY_EDGES, _BY_MATRIX)),
    healthy("two_graph.in_turn", (_ALL_AT_ONCE, _IN_TURN), both=AUTOCAST),
    healthy("two_join.threads", *THREADS),
    healthy("two_join.gate_by_hand", (_GLU, _GATE_BY_HAND), both=AUTOCAST),
    healthy("two_scaffold.no_mkldnn", *NO_MKLDNN),
    healthy("two_scaffold.at_once", (_EACH_AVERAGED, _AVERAGED_AT_ONCE), both=AUTOCAST),
)
