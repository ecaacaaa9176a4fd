# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The seventh held-out set: 40 planted faults and 40 healthy pairs, half of both in bfloat16 or autocast, on
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
    fault(
        "patchtst.evaluated",
        "    model.train()\n    for step",
        "    for step",
        r"training|(?i:batch_?norm)|\beval\b|\btrain\b",
        steps=(2,),
    ),
    fault(
        "patchtst.observed",
        ", past_observed_mask=seen)",
        ")",
        r"observed|scaler|\bones",
        both=AUTOCAST,
    ),
    fault("segformer.corners", "align_corners=False", "align_corners=True", r"interpolate|upsample"),
    fault(
        "segformer.rare",
        "1 / counts.sqrt()",
        "1 / counts",
        r"sqrt|__r?truediv__|__rdiv__|reciprocal",
        both=AUTOCAST,
    ),
    fault("bloom.answers", "(lost * answers[:, 1:])", "(lost * answers[:, :-1])", r"__getitem__|__r?mul__"),
    library(
        "bloom.scale",
        "BloomAttention.forward",
        "alpha=self.inv_norm_factor",
        "alpha=1.0",
        r"baddbmm|alpha",
        both=BF16,
    ),
    fault("deberta_v2.batchmean", 'reduction="batchmean"', 'reduction="mean"', r"kl_div"),
    library(
        "deberta_v2.sign",
        "DisentangledSelfAttention.disentangled_attention_bias",
        "-r_pos + att_span",
        "r_pos + att_span",
        r"__neg__|\bneg\b|__r?add__|clamp|gather",
        both=BF16,
    ),
    fault(
        "llava.layer",
        "vision_feature_layer=-2",
        "vision_feature_layer=-1",
        r"vision_feature_layer|__getitem__|multi_modal_projector",
    ),
    fault(
        "llava.mean",
        "((lost * counts).sum(1) / counts.sum(1)).mean()",
        "(lost * counts).sum() / counts.sum()",
        r"\bsum\b|__r?truediv__|\bmean\b",
        both=AUTOCAST,
    ),
    fault("sessions.own", "scores.masked_fill(own, -1e9).softmax", "scores.softmax", r"masked_fill|softmax"),
    fault(
        "sessions.begins",
        "(~new).unsqueeze(-1)",
        "new.unsqueeze(-1)",
        r"invert|bitwise_not|logical_not|unsqueeze|__r?mul__",
        both=AUTOCAST,
    ),
    fault(
        "siren.begin",
        "math.sqrt(6 / before) / OMEGA",
        "math.sqrt(6 / before)",
        r"\b[12]\.linear|uniform_",
    ),
    fault(
        "siren.slopes",
        "slopes * 2 / (SIDE - 1)",
        "slopes * (SIDE - 1) / 2",
        r"__r?truediv__|__r?mul__",
        both=BF16,
    ),
    fault("cycle.same", "to_a(a), to_b(b)", "to_a(b), to_b(a)", r"to_[ab]"),
    fault(
        "cycle.critic",
        "judged(is_b(pool_b(as_b)), False)) / 2",
        "judged(is_b(pool_b(as_b)), False))",
        r"__r?truediv__|__r?add__",
        both=AUTOCAST,
    ),
    fault(
        "linear.future",
        "(q * k.cumsum(dim=2))",
        "(q * k.sum(dim=2, keepdim=True))",
        r"cumsum|\bsum\b|__r?mul__",
    ),
    fault(
        "linear.corrected",
        'state["mean"] / (1 - a ** state["step"])',
        'state["mean"]',
        r"^optimizer|__r?truediv__|__r?add__|\bmean\b",
        both=BF16,
    ),
    fault("conformer.half", "0.5 * called(self.after, x)", "called(self.after, x)", r"__r?mul__|__r?add__"),
    fault(
        "conformer.sizes",
        "((sizes + 1) // 2)",
        "(sizes // 2)",
        r"floor_?div|__r?add__|__ge__|\bge\b|unsqueeze",
        both=AUTOCAST,
    ),
    fault("soft_experts.axis", "given = logits.softmax(dim=1)", "given = logits.softmax(dim=2)", r"softmax"),
    fault(
        "soft_experts.share",
        "wanted[order]",
        "wanted",
        r"__getitem__|cross_entropy",
        both=AUTOCAST,
    ),
    fault("td3.lesser", "torch.minimum(", "torch.maximum(", r"minimum|maximum"),
    fault(
        "td3.followed",
        "slow.lerp_(fast, TAU)",
        "slow.lerp_(fast, 1 - TAU)",
        r"lerp|slow",
        steps=(1, 2),
        both=AUTOCAST,
    ),
    fault("exits.heat", " * HEAT**2", "", r"__r?mul__|kl_div"),
    fault(
        "exits.detached",
        "theirs.detach() / HEAT",
        "theirs / HEAT",
        r"detach|__r?truediv__|softmax|kl_div|heads\.2",
        both=AUTOCAST,
    ),
    fault("hourglass.hidden", "(lost * seen.unsqueeze(1))", "lost", r"__r?mul__|\bsum\b|unsqueeze"),
    fault(
        "hourglass.back",
        "x + y + self.back[n]",
        "x + self.back[n]",
        r"__r?add__|\bback\b",
        both=AUTOCAST,
    ),
    fault(
        "swav.queue",
        "torch.cat([z[:8].detach(), model.queue[:-8]])",
        "torch.cat([model.queue[:-8], z[:8].detach()])",
        r"\bcat\b|copy_|queue",
        steps=(0, 1, 2),
    ),
    fault(
        "swav.normed",
        "F.normalize(model.prototypes.weight, dim=1)",
        "F.normalize(model.prototypes.weight, dim=0)",
        r"normalize|copy_|prototypes",
        both=AUTOCAST,
    ),
    fault(
        "sparse.smallest",
        "(self.weight * self.mask).abs()",
        "(self.weight * self.mask)",
        r"\babs\b|flatten|topk|mask",
        steps=(0, 1),
    ),
    fault(
        "sparse.penalty",
        ".square().sum(-1).mean()",
        ".square().mean()",
        r"\bsum\b|\bmean\b|square",
        both=AUTOCAST,
    ),
    fault(
        "voices.scale",
        "(wanted.square().sum(-1, keepdim=True) + 1e-8)",
        "(found.square().sum(-1, keepdim=True) + 1e-8)",
        r"square|\bpow\b|\bsum\b|__r?add__|__r?truediv__|__r?mul__",
    ),
    fault(
        "voices.channels",
        "mean = x.mean((1, 2), keepdim=True)",
        "mean = x.mean(2, keepdim=True)",
        r"\bmean\b|norm",
        both=AUTOCAST,
    ),
    fault(
        "two_sequence.unsynced",
        "if not is_divided(name):\n            dist.all_reduce",
        "if not is_divided(name) and p.ndim > 1:\n            dist.all_reduce",
        r"reduc|gradient",
    ),
    fault(
        "two_sequence.backward",
        "return own_sum(gradient)",
        "return gradient.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].contiguous()",
        r"Gather|own_sum|reduc|chunk|split|__getitem__|contiguous|\bother\b",
        both=AUTOCAST,
    ),
    fault(
        "two_gossip.tracked",
        "mixed(tracked) + now",
        "tracked + now",
        r"send|recv|wait|__r?add__|__r?mul__|__r?sub__|gradient",
        steps=(1,),
    ),
    fault(
        "two_gossip.kept",
        "KEPT * vector + (1 - KEPT) * other",
        "KEPT * vector + KEPT * other",
        r"__r?mul__|__r?add__",
        both=AUTOCAST,
    ),
    fault(
        "two_shampoo.root",
        'inverse_root(state["left"], 4), inverse_root(state["right"], 4)',
        'inverse_root(state["left"], 2), inverse_root(state["right"], 2)',
        r"^optimizer|\bpow\b|__r?pow__|matmul|inverse_root",
    ),
    fault(
        "two_shampoo.owner",
        "dist.broadcast(way, self.owners[p])",
        "dist.broadcast(way, 0)",
        r"broadcast",
        both=AUTOCAST,
    ),
)

_CHANNELS_LAST: Edits = (("# model built", "model.to(memory_format=torch.channels_last)"),)
_GATHERED = "    right = logits.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)\n    lost = sizes - right +"
_CROSSED = '    lost = nn.functional.cross_entropy(logits.mT, ids[:, 1:], reduction="none") +'
_ONE_HOT = "F.one_hot(right, scores.shape[-1]).bool()"
_SCATTERED = "torch.zeros_like(scores, dtype=torch.bool).scatter(-1, right.unsqueeze(-1), True)"
_SCALED_AFTER = "torch.sin(OMEGA * self.linear(x))"
_SCALED_BEFORE = "torch.sin(nn.functional.linear(x, OMEGA * self.linear.weight, OMEGA * self.linear.bias))"
_APART = """        again_a, again_b = to_a(as_b), to_b(as_a)
        same_a, same_b = to_a(a), to_b(b)
"""
_TOGETHER = """        again_a, same_a = to_a(torch.cat([as_b, a])).chunk(2)
        again_b, same_b = to_b(torch.cat([as_a, b])).chunk(2)
"""
_ALONG = """        kept = (k.unsqueeze(-1) * v.unsqueeze(-2)).cumsum(dim=2)
        size = (q * k.cumsum(dim=2)).sum(-1, keepdim=True) + 1e-6
        y = (q.unsqueeze(-2) @ kept).squeeze(-2) / size
"""
_QUADRATIC = """        scores = (q @ k.mT).tril()
        y = scores @ v / (scores.sum(-1, keepdim=True) + 1e-6)
"""
_GLU = "        h = F.glu(self.up(self.norm(x).mT), dim=1).masked_fill("
_GATE = """        value, gate = self.up(self.norm(x).mT).chunk(2, dim=1)
        h = (value * torch.sigmoid(gate)).masked_fill("""
_SOFT = """    soft = (theirs.detach() / HEAT).softmax(dim=-1)
    return F.kl_div((ours / HEAT).log_softmax(dim=-1), soft, reduction="batchmean") * HEAT**2
"""
_BY_LOGS = """    soft = (theirs.detach() / HEAT).log_softmax(dim=-1)
    ours = (ours / HEAT).log_softmax(dim=-1)
    return F.kl_div(ours, soft, reduction="batchmean", log_target=True) * HEAT**2
"""
_HILL = "    return torch.exp(-(x.unsqueeze(-2) + y.unsqueeze(-1)) / (2 * SPREAD**2))\n"
_OF_BOTH = """    x, y = torch.exp(-x / (2 * SPREAD**2)), torch.exp(-y / (2 * SPREAD**2))
    return x.unsqueeze(-2) * y.unsqueeze(-1)
"""
_SINKHORN = """    q = torch.exp(scores.float() / SOFT).T
    q /= q.sum()
    for _ in range(ROUNDS):
        q /= q.sum(dim=1, keepdim=True) * q.shape[0]
        q /= q.sum(dim=0, keepdim=True) * q.shape[1]
    return (q * q.shape[1]).T
"""
_LOG_SINKHORN = """    q = (scores.float() / SOFT).T
    for _ in range(ROUNDS):
        q = q.log_softmax(dim=1)
        q = q.log_softmax(dim=0)
    return q.exp().T
"""
_BY_HAND = """        x = x.float()
        mean = x.mean((1, 2), keepdim=True)
        spread = (x - mean).square().mean((1, 2), keepdim=True)
        return (x - mean) * torch.rsqrt(spread + 1e-8) * self.gain + self.bias
"""
_GROUP_NORM = "        return F.group_norm(x.float(), 1, self.gain.flatten(), self.bias.flatten(), 1e-8)\n"
_LISTED = """    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts, dim=1)
"""
_INTO_ONE = """    every = torch.empty(dist.get_world_size() * len(x), *x.shape[1:], dtype=x.dtype)
    dist.all_gather_into_tensor(every, x.contiguous())
    return torch.cat(every.chunk(dist.get_world_size()), dim=1)
"""
_ONE_CALL = "        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)\n"
_SCORES = """        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        scores = (q @ k.mT * self.size**-0.5).masked_fill(later, float("-inf"))
        y = (scores.softmax(-1).to(v.dtype) @ v).transpose(1, 2).flatten(2)
"""
_SENT = """    other = torch.empty_like(vector)
    peer = 1 - dist.get_rank()
    todo = [dist.isend(vector, peer), dist.irecv(other, peer)]
    for work in todo:
        work.wait()
"""
_FROM_ALL = """    every = [torch.empty_like(vector) for _ in range(dist.get_world_size())]
    dist.all_gather(every, vector)
    other = every[1 - dist.get_rank()]
"""

HEALTHY = (
    healthy("patchtst.sdpa", *SDPA),
    healthy("patchtst.foreach", *FOREACH, both=AUTOCAST),
    healthy("segformer.channels_last", *_CHANNELS_LAST),
    healthy("segformer.rsqrt", ("1 / counts.sqrt()", "counts.float().rsqrt()"), both=AUTOCAST),
    healthy(
        "bloom.shifted",
        library=Library(
            "bloom",
            "build_alibi_tensor",
            "((attention_mask.cumsum(dim=-1) - 1) * attention_mask)",
            "(attention_mask.cumsum(dim=-1) * attention_mask)",
        ),
    ),
    healthy("bloom.crossed", (_GATHERED, _CROSSED), both=BF16),
    healthy("deberta_v2.checkpointing", *CHECKPOINTING),
    Case("deberta_v2.default_kernels", "deberta_v2", both=BF16, environment=DEFAULT_KERNELS),
    healthy("llava.sdpa", *SDPA),
    Case("llava.avx2", "llava", both=AUTOCAST, environment=AVX2_KERNELS),
    Case("sessions.resumed", "sessions", words=("--steps", "0-5"), resumed=True),
    healthy("sessions.scattered", (_ONE_HOT, _SCATTERED), both=AUTOCAST),
    healthy("siren.scaled", (_SCALED_AFTER, _SCALED_BEFORE)),
    healthy("siren.foreach", *FOREACH, both=BF16),
    healthy("cycle.no_mkldnn", *NO_MKLDNN),
    healthy("cycle.together", (_APART, _TOGETHER), both=AUTOCAST),
    healthy("linear.quadratic", (_ALONG, _QUADRATIC)),
    healthy(
        "linear.lerp",
        ('state["mean"].mul_(a).add_(p.grad, alpha=1 - a)', 'state["mean"].lerp_(p.grad, 1 - a)'),
        both=BF16,
    ),
    healthy("conformer.recomputed", ("RECOMPUTE = False", "RECOMPUTE = True")),
    healthy("conformer.gate", (_GLU, _GATE), both=AUTOCAST),
    healthy(
        "soft_experts.einsum",
        ("(given.mT @ x)", 'torch.einsum("bps,bpw->bsw", given, x)'),
        ("return taken @ made", 'return torch.einsum("bps,bsw->bpw", taken, made)'),
    ),
    healthy("soft_experts.fused", *FUSED, both=AUTOCAST),
    Case("td3.resumed", "td3", words=("--steps", "0-5"), resumed=True),
    healthy(
        "td3.average",
        ("slow.lerp_(fast, TAU)", "slow.mul_(1 - TAU).add_(fast, alpha=TAU)"),
        both=AUTOCAST,
    ),
    healthy("exits.channels_last", *_CHANNELS_LAST),
    healthy("exits.logs", (_SOFT, _BY_LOGS), both=AUTOCAST),
    healthy("hourglass.threads", *THREADS),
    healthy("hourglass.of_both", (_HILL, _OF_BOTH), both=AUTOCAST),
    healthy("swav.logs", (_SINKHORN, _LOG_SINKHORN)),
    Case("swav.avx2", "swav", both=AUTOCAST, environment=AVX2_KERNELS),
    healthy(
        "sparse.where",
        (
            "F.linear(x, self.weight * self.mask, self.bias)",
            "F.linear(x, torch.where(self.mask.bool(), self.weight, 0.0), self.bias)",
        ),
    ),
    healthy("sparse.foreach", *FOREACH, both=AUTOCAST),
    healthy("voices.no_mkldnn", *NO_MKLDNN),
    healthy("voices.group_norm", (_BY_HAND, _GROUP_NORM), both=AUTOCAST),
    healthy("two_sequence.into_one", (_LISTED, _INTO_ONE)),
    healthy("two_sequence.by_hand", (_ONE_CALL, _SCORES), both=AUTOCAST),
    healthy("two_gossip.from_all", (_SENT, _FROM_ALL)),
    healthy(
        "two_gossip.mish",
        ("F.mish(self.norm(self.first(x)))", "mish(self.norm(self.first(x)))"),
        ("def network():", "def mish(x):\n    return x * torch.tanh(F.softplus(x))\n\n\ndef network():"),
        both=AUTOCAST,
    ),
    healthy(
        "two_shampoo.buckets",
        (
            "DistributedDataParallel(net)",
            "DistributedDataParallel(net, bucket_cap_mb=0.005, gradient_as_bucket_view=True)",
        ),
    ),
    healthy("two_shampoo.expm1", ("(1 - likely.exp()) ** 2", "torch.expm1(likely) ** 2"), both=AUTOCAST),
)
