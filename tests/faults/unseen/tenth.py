# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The tenth held-out set: 40 planted faults and 40 healthy pairs, half of both in bfloat16 or autocast, on
model kinds that nothing of this repository had before.

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
    Library,
    fault,
    healthy,
    library,
)

FAULTS = (
    fault(
        "xlnet.itself",
        "ranks.unsqueeze(2) <= ranks.unsqueeze(1)",
        "ranks.unsqueeze(2) < ranks.unsqueeze(1)",
        r"__l[te]__|\bl[te]\b|__r?and__|bitwise_and|perm_mask|inputs",
    ),
    library(
        "xlnet.bias",
        "XLNetRelativeAttention.rel_attn_core",
        "q_head + self.r_r_bias",
        "q_head + self.r_w_bias",
        r"__r?add__|einsum|r_[rw]_bias",
        both=AUTOCAST,
    ),
    library(
        "recurrent_gemma.gamma",
        "RecurrentGemmaRglru.forward",
        "SqrtBoundDerivative.apply(1 - a_square)",
        "SqrtBoundDerivative.apply(1 - recurrent_gate)",
        r"__r?sub__|\brsub\b|Sqrt|\bsqrt\b|\bexp\b|apply",
    ),
    fault(
        "recurrent_gemma.anew",
        "position_ids=at)",
        "position_ids=torch.arange(LENGTH).expand(BATCH, -1))",
        r"position_ids|arange|expand|inputs|__eq__",
        both=BF16,
    ),
    library(
        "nystromformer.largest",
        "NystromformerSelfAttention.iterative_inv",
        "torch.max(torch.sum(key, dim=-2))",
        "torch.max(torch.sum(key, dim=-1))",
        r"\bsum\b|\bmax\b|__r?truediv__|reciprocal|__r?mul__",
    ),
    fault(
        "nystromformer.last",
        "last = first + sizes - 1",
        "last = first + sizes",
        r"__r?(add|sub)__|cross_entropy|inputs",
        both=AUTOCAST,
    ),
    library(
        "focalnet.gates",
        "FocalNetModulation.forward",
        "ctx * gates[:, level : level + 1]",
        "ctx * gates[:, :1]",
        r"__getitem__|__r?mul__",
    ),
    fault(
        "focalnet.shares",
        "share * one + (1 - share) * other",
        "(1 - share) * one + share * other",
        r"__r?mul__|__r?add__",
        both=BF16,
    ),
    fault(
        "unrolled.ahead",
        "(time - 1) / after * (new - x)",
        "(after - 1) / after * (new - x)",
        r"__r?mul__|__r?add__|__r?sub__",
    ),
    fault(
        "unrolled.steep",
        "matrix_norm(sums, 2).square()",
        "matrix_norm(sums, 2)",
        r"\bback\b|square|matrix_norm|__r?truediv__|\bmT\b|\bT\b|__r?matmul__",
        both=AUTOCAST,
    ),
    fault(
        "events.silence",
        "dim=0) * gap.squeeze(1))",
        "dim=0))",
        r"__r?mul__|squeeze|trapezoid|trapz",
    ),
    fault(
        "events.rests",
        "return rest + (cell - rest) * torch.exp(-rate * gap)",
        "return rest + cell * torch.exp(-rate * gap)",
        r"__r?sub__|__r?mul__|__r?add__",
        both=AUTOCAST,
    ),
    fault(
        "parser.pads",
        "masked_fill(~there.unsqueeze(1), -1e4)",
        "masked_fill(~there.unsqueeze(2), -1e4)",
        r"masked_fill|unsqueeze|invert|bitwise_not|logical_not",
    ),
    fault(
        "parser.guessed",
        "at = heads.clamp(min=0).view",
        "at = arcs.argmax(dim=2).view",
        r"clamp|argmax|\bview\b|expand|gather",
        both=AUTOCAST,
    ),
    fault(
        "delta.unit",
        "F.normalize(k, dim=-1)",
        "F.normalize(k, dim=2)",
        r"normalize|\bnorm\b|vector_norm|__r?truediv__",
    ),
    fault(
        "delta.rows",
        "rows * p.grad.square()",
        "p.grad.square()",
        r"^optimizer|__r?mul__|square|lerp|clamp|__r?truediv__",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault("darts.edges", "self.chosen.softmax(dim=-1)", "self.chosen.softmax(dim=0)", r"softmax"),
    fault(
        "darts.judge",
        "judged = lost(*judge)",
        "judged = lost(*learn)",
        r"inputs|\bstem\b",
        both=AUTOCAST,
    ),
    fault(
        "compress.root",
        "torch.sqrt(lively) if self.back else torch.rsqrt(lively)",
        "torch.sqrt(lively) if self.back else torch.reciprocal(lively)",
        r"rsqrt|reciprocal|__r?mul__",
    ),
    fault(
        "compress.places",
        "/ (BATCH * SIDE * SIDE)",
        "/ (BATCH * CODE * SIDE * SIDE)",
        r"__r?truediv__|__r?add__",
        both=AUTOCAST,
    ),
    fault(
        "private.longer",
        "(CUT / (lengths + 1e-6)).clamp(max=1.0)",
        "CUT / (lengths + 1e-6)",
        r"clamp|__r?truediv__|reciprocal|einsum|gradient",
    ),
    fault(
        "private.noise",
        "NOISY * CUT * torch.randn",
        "NOISY * torch.randn",
        r"__r?mul__|randn|__r?add__|gradient",
        both=AUTOCAST,
    ),
    fault(
        "control.before",
        "[place + TICK * speed, speed, angle + TICK * turn, turn]",
        "[place + TICK * state[:, 1], speed, angle + TICK * state[:, 3], turn]",
        r"__r?mul__|__r?add__|__getitem__|stack",
    ),
    fault(
        "control.cut",
        "state, memory = state.detach(), memory.detach()",
        "memory = memory.detach()",
        r"detach|requires_grad|stack|unbind|gradient",
        both=AUTOCAST,
    ),
    fault(
        "dictionary.axis",
        "self.decoder.norm(dim=1, keepdim=True)",
        "self.decoder.norm(dim=0, keepdim=True)",
        r"\bnorm\b|decoder|encoder|__i?r?truediv__",
    ),
    fault(
        "dictionary.straight",
        "self.decoder.grad -= along * self.decoder",
        "self.decoder.grad += along * self.decoder",
        r"__i?r?(sub|add)__|__r?mul__|gradient|decoder",
        both=AUTOCAST,
    ),
    fault(
        "turns.round",
        "self.weight.roll(turn, dims=2)",
        "self.weight.roll(-turn, dims=2)",
        r"\broll\b|rot90|\bflip\b|transpose|flatten|conv2d",
    ),
    fault(
        "turns.decayed",
        '{"params": flat, "weight_decay": 0.0}',
        '{"params": flat, "weight_decay": 5e-2}',
        r"^optimizer|weight_decay|\bnorms\b|\bout\b",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault(
        "quarrels.sides",
        "against < 0",
        "against > 0",
        r"__[lg]t__|\b[lg]t\b|\bdot\b|__i?r?sub__|__r?mul__|__r?truediv__|gradient",
    ),
    fault(
        "quarrels.gates",
        "gate(x).float().softmax(dim=-1)",
        "gate(x).float().softmax(dim=0)",
        r"softmax",
        both=AUTOCAST,
    ),
    fault(
        "two_tokens.count",
        "        dist.all_reduce(count)\n",
        "        count = count * dist.get_world_size()\n",
        r"reduc|__i?r?mul__|__r?truediv__",
    ),
    fault(
        "two_tokens.epoch",
        "    sampler.set_epoch(epoch)\n",
        "",
        r"inputs|set_epoch|sampler|__getitem__|\bwords\b|randperm|pad_sequence",
        steps=(2,),
        both=AUTOCAST,
    ),
    fault(
        "two_scan.back",
        "return grad + more",
        "return grad",
        r"Give|__r?add__|recv|gradient|__getitem__",
    ),
    fault(
        "two_scan.places",
        "torch.arange(HALF) + dist.get_rank() * HALF",
        "torch.arange(HALF)",
        r"arange|__r?add__|\bplaces\b|embedding",
        both=AUTOCAST,
    ),
    fault(
        "two_bytes.lost",
        "self.lost = own - from_bytes(numbers, scale, len(own))",
        "self.lost = from_bytes(numbers, scale, len(own)) - own",
        r"__r?(sub|add)__|gradient|gather|reduc",
        steps=(0, 1),
    ),
    fault(
        "two_bytes.blocks",
        "amax(dim=1, keepdim=True)",
        "amax(dim=0, keepdim=True)",
        r"amax|clamp|__r?truediv__|round|\bto\b|gather|gradient",
        both=AUTOCAST,
    ),
    fault(
        "two_axes.along",
        "x = column(x.transpose(1, 2)).transpose(1, 2)",
        "x = column(x)",
        r"transpose|\bcolumns\b",
    ),
    fault(
        "two_axes.mean",
        "        dist.all_reduce(p.grad)\n",
        "        dist.all_reduce(p.grad)\n        p.grad /= dist.get_world_size()\n",
        r"reduc|__i?r?truediv__|\bdiv_?\b|gradient",
        both=AUTOCAST,
    ),
    fault(
        "two_critics.places",
        "p.copy_(every[1 - dist.get_rank()])",
        "p.copy_(every[dist.get_rank()])",
        r"critic|copy_|__getitem__|gather",
        steps=(1, 2),
    ),
    fault(
        "two_critics.hinge",
        "F.relu(1 + false)",
        "F.relu(1 - false)",
        r"__r?(add|sub)__|\brelu\b",
        both=AUTOCAST,
    ),
)

_CHANNELS_LAST: Edits = (("# model built", "model.to(memory_format=torch.channels_last)"),)
_SCANNED = """recurrent_gate[:, t].type(acc_dtype) * recurrent_states.to(recurrent_gate.device)
            recurrent_states = recurrent_states + hidden_states[:, t].type(acc_dtype)
"""
_SCANNED_AT_ONCE = """torch.addcmul(
                hidden_states[:, t].type(acc_dtype), recurrent_gate[:, t].type(acc_dtype), recurrent_states
            )
"""
_SIGN = "torch.sign(x) * F.relu(x.abs() - least)"
_TWO_SIDES = "F.relu(x - least) - F.relu(-x - least)"
_SOFTPLUS = "F.softplus(self.out(hidden).float() / scale)"
_OF_EXPONENTIALS = "torch.logaddexp(self.out(hidden).float() / scale, torch.zeros(KINDS))"
_EINSUM = 'torch.einsum("bwi,kij,bhj->bkwh", words, self.form, heads)'
_MATMUL = "words.unsqueeze(1) @ self.form @ heads.mT.unsqueeze(1)"
_ONE_BY_ONE = """    memory, found = q.new_zeros(*q.shape[:2], q.shape[-1], q.shape[-1]), []
    for at in range(q.shape[2]):
        key, value = k[:, :, at], v[:, :, at]
        wrong = value - torch.einsum("bhvk,bhk->bhv", memory, key)
        memory = memory + torch.einsum("bhv,bhk->bhvk", strength[:, :, at] * wrong, key)
        found.append(torch.einsum("bhvk,bhk->bhv", memory, q[:, :, at]))
    return torch.stack(found, dim=2)
"""
_SOLVED = """    before = torch.tril(strength * (k @ k.mT), -1) + torch.eye(q.shape[2])
    written = torch.linalg.solve_triangular(before, strength * v, upper=False, unitriangular=True)
    return torch.tril(q @ k.mT) @ written
"""
_SUMMED = "sum(share * function(x) for share, function in zip(shares, self.functions))"
_STACKED = 'torch.einsum("f,fbchw->bchw", shares, torch.stack([function(x) for function in self.functions]))'
_BY_CONVOLUTION = """        weights = self.weights.clamp(min=0)[..., None, None]
        lively = F.conv2d(x.square(), weights, self.least.clamp(min=1e-6))
"""
_BY_EINSUM = """        lively = torch.einsum("bchw,oc->bohw", x.square(), self.weights.clamp(min=0))
        lively = lively + self.least.clamp(min=1e-6).view(1, -1, 1, 1)
"""
_LENGTHS = "torch.stack([found[p].flatten(1).norm(dim=1) for p in params], dim=1).norm(dim=1)"
_OF_ALL = "torch.cat([found[p].flatten(1) for p in params], dim=1).norm(dim=1)"
_COSTS_AT_ONCE: Edits = (
    (
        "memory, total = state.new_zeros(len(state), WIDE), 0.0",
        "memory, costs = state.new_zeros(len(state), WIDE), []",
    ),
    ("total = total + FADES**at * cost(state, push).mean()", "costs.append(cost(state, push))"),
    ("return total / LONG", "return (torch.stack(costs).mean(dim=1) * FADES ** torch.arange(LONG)).mean()"),
)
_SCATTERED = "code = torch.zeros_like(before).scatter(1, rows, F.relu(values))"
_MASKED = "code = F.relu(before) * (before >= values[:, -1:])"
_KERNELS_TURNED = "F.conv2d(x, torch.rot90(self.weight, turn, (2, 3)), padding=1)"
_PICTURES_TURNED = (
    "torch.rot90(F.conv2d(torch.rot90(x, -turn, (2, 3)), self.weight, padding=1), turn, (2, 3))"
)
_FOUR = """        found = []
        for turn in range(4):
            weight = torch.rot90(self.weight.roll(turn, dims=2), turn, (3, 4))
            found.append(F.conv2d(x.flatten(1, 2), weight.flatten(1, 2), padding=1))
        return torch.stack(found, dim=2)
"""
_ONE = """        weights = [torch.rot90(self.weight.roll(turn, dims=2), turn, (3, 4)) for turn in range(4)]
        found = F.conv2d(x.flatten(1, 2), torch.cat(weights).flatten(1, 2), padding=1)
        return found.unflatten(1, (4, -1)).transpose(1, 2)
"""
_CROSS_ENTROPY = (
    'F.binary_cross_entropy_with_logits(logits, wanted, pos_weight=rare, reduction="none").mean(0)'
)
_BY_HAND = "-(rare * wanted * F.logsigmoid(logits) + (1 - wanted) * F.logsigmoid(-logits)).mean(0)"
_KEPT = "cell = keep * cell + (1 - keep) * new[:, at]"
_LERPED = "cell = torch.lerp(new[:, at], cell, keep)"
_IN_TURN = """    found = []
    for at in range(HALF):
        state = gate[:, at] * state + (1 - gate[:, at]) * new[:, at]
        found.append(state)
    return torch.stack(found, dim=1)
"""
_BY_SUMS = """    kept = gate.log().cumsum(dim=1).exp()
    return kept * (state.unsqueeze(1) + ((1 - gate) * new / kept).cumsum(dim=1))
"""
_GATHERED = """        dist.all_gather(every, numbers)
        dist.all_gather(scales, scale)
"""
_BROADCAST = """        every[dist.get_rank()].copy_(numbers)
        scales[dist.get_rank()].copy_(scale)
        for source in range(dist.get_world_size()):
            dist.broadcast(every[source], source)
            dist.broadcast(scales[source], source)
"""
_SCORES = """        scores = q @ k.mT / q.shape[-1] ** 0.5
        read = scores.softmax(dim=-1) @ v
"""
_FLASH = "        read = F.scaled_dot_product_attention(q, k, v)\n"
_EACH_REDUCED = """    for p in model.parameters():
        dist.all_reduce(p.grad)
"""
_REDUCED_AT_ONCE = """    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)
    for p, part in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
        p.grad = part.view_as(p)
"""

HEALTHY = (
    healthy(
        "xlnet.scaled_apart",
        library=Library(
            "xlnet",
            "XLNetRelativeAttention.rel_attn_core",
            "(ac + bd + ef) * self.scale",
            "ac * self.scale + (bd + ef) * self.scale",
        ),
    ),
    healthy("xlnet.foreach", *FOREACH, both=AUTOCAST),
    healthy("recurrent_gemma.sdpa", *SDPA),
    healthy(
        "recurrent_gemma.at_once",
        both=BF16,
        library=Library("recurrent_gemma", "RecurrentGemmaRglru._rnn_scan", _SCANNED, _SCANNED_AT_ONCE),
    ),
    healthy(
        "nystromformer.root",
        library=Library(
            "nystromformer",
            "NystromformerSelfAttention.forward",
            "query_layer / math.sqrt(math.sqrt(self.attention_head_size))",
            "query_layer * self.attention_head_size**-0.25",
        ),
    ),
    healthy("nystromformer.checkpointing", *CHECKPOINTING, both=AUTOCAST),
    healthy("focalnet.channels_last", *_CHANNELS_LAST),
    healthy(
        "focalnet.mean",
        both=BF16,
        library=Library(
            "focalnet",
            "FocalNetModulation.forward",
            "ctx.mean(2, keepdim=True).mean(3, keepdim=True)",
            "ctx.mean((2, 3), keepdim=True)",
        ),
    ),
    Case("unrolled.resumed", "unrolled", words=("--steps", "0-5"), resumed=True),
    healthy("unrolled.two_sides", (_SIGN, _TWO_SIDES), both=AUTOCAST),
    healthy("events.exponentials", (_SOFTPLUS, _OF_EXPONENTIALS)),
    Case("events.default_kernels", "events", both=AUTOCAST, environment=DEFAULT_KERNELS),
    healthy("parser.matmul", (_EINSUM, _MATMUL)),
    healthy("parser.fused", *FUSED, both=AUTOCAST),
    healthy("delta.solved", (_ONE_BY_ONE, _SOLVED)),
    healthy("delta.noise", *NOISE, both=AUTOCAST),
    healthy("darts.channels_last", *_CHANNELS_LAST),
    healthy("darts.stacked", (_SUMMED, _STACKED), both=AUTOCAST),
    healthy("compress.below", ("0.5 * torch.erfc(-x / math.sqrt(2))", "torch.special.ndtr(x)")),
    healthy("compress.einsum", (_BY_CONVOLUTION, _BY_EINSUM), both=AUTOCAST),
    healthy(
        "private.outer",
        ('torch.einsum("bo,bi->boi", back, given)', "back.unsqueeze(2) * given.unsqueeze(1)"),
    ),
    healthy("private.of_all", (_LENGTHS, _OF_ALL), both=AUTOCAST),
    Case("control.resumed", "control", words=("--steps", "0-5"), resumed=True),
    healthy("control.costs", *_COSTS_AT_ONCE, both=AUTOCAST),
    healthy("dictionary.masked", (_SCATTERED, _MASKED)),
    Case("dictionary.resumed", "dictionary", both=AUTOCAST, words=("--steps", "0-5"), resumed=True),
    healthy("turns.pictures", (_KERNELS_TURNED, _PICTURES_TURNED)),
    healthy("turns.one", (_FOUR, _ONE), both=AUTOCAST),
    healthy("quarrels.by_hand", (_CROSS_ENTROPY, _BY_HAND)),
    healthy("quarrels.foreach", *FOREACH, both=AUTOCAST),
    healthy(
        "two_tokens.buckets",
        (
            "DistributedDataParallel(model)",
            "DistributedDataParallel(model, bucket_cap_mb=0.01, gradient_as_bucket_view=True)",
        ),
    ),
    healthy("two_tokens.lerped", (_KEPT, _LERPED), both=AUTOCAST),
    healthy("two_scan.sums", (_IN_TURN, _BY_SUMS)),
    Case("two_scan.avx2_kernels", "two_scan", both=AUTOCAST, environment=AVX2_KERNELS),
    healthy("two_bytes.foreach", *FOREACH),
    healthy("two_bytes.in_turn", (_GATHERED, _BROADCAST), both=AUTOCAST),
    healthy("two_axes.sdpa", (_SCORES, _FLASH)),
    healthy("two_axes.at_once", (_EACH_REDUCED, _REDUCED_AT_ONCE), both=AUTOCAST),
    healthy("two_critics.no_mkldnn", *NO_MKLDNN),
    healthy("two_critics.fused", *FUSED, both=AUTOCAST),
)
