# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The eleventh held-out set: 40 planted faults and 40 healthy pairs, half of both in bfloat16 or autocast, on
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
    library(
        "diffllama.both",
        "DiffLlamaAttention.forward",
        "lambda_1 - lambda_2 + self.lambda_init",
        "lambda_1 + lambda_2 + self.lambda_init",
        r"__r?(sub|add)__|\b(add|sub)\b|lambda",
    ),
    fault(
        "diffllama.asked",
        "counts[:, room + 1 :: 2]",
        "counts[:, room::2]",
        r"__setitem__|__getitem__|fill|inputs|counts|__r?mul__",
        both=BF16,
    ),
    library(
        "convbert.key",
        "ConvBertSelfAttention.forward",
        "torch.multiply(mixed_key_conv_attn_layer, mixed_query_layer)",
        "torch.multiply(mixed_key_layer, mixed_query_layer)",
        r"multiply|\bmul\b|__r?mul__|key_conv_attn_layer|conv_kernel_layer",
    ),
    fault(
        "convbert.itself",
        "scores.masked_fill(F.one_hot(right, CHOICES).bool(), -1e4).amax(dim=1)",
        "scores.amax(dim=1)",
        r"masked_fill|\bamax\b|one_hot|\bbool\b",
        both=AUTOCAST,
    ),
    library(
        "poolformer.less",
        "PoolFormerPooling.forward",
        "self.pool(hidden_states) - hidden_states",
        "self.pool(hidden_states)",
        r"__r?sub__|\bpool\b|\bpooling\b",
    ),
    fault(
        "poolformer.repeated",
        "kinds.repeat_interleave(4)",
        "kinds.repeat(4)",
        r"repeat|cross_entropy|inputs",
        both=AUTOCAST,
    ),
    library(
        "levit.odd",
        "LevitSubsample.forward",
        ":, :: self.stride, :: self.stride",
        ":, 1 :: self.stride, :: self.stride",
        r"__getitem__|reshape|queries_subsample|\bslice\b",
    ),
    fault(
        "levit.warm",
        'reduction="batchmean") * WARM**2',
        'reduction="batchmean")',
        r"__r?mul__|kl_div",
        both=AUTOCAST,
    ),
    fault("convex.half", "+ 0.5 * x.square()", "+ x.square()", r"__r?mul__|square|\bsum\b|__r?add__"),
    fault(
        "convex.clamped",
        "for p in model.there.weighed():",
        "for p in model.back.weighed():",
        r"clamp|hands_on|\bout\b",
        steps=(0, 1, 2),
        both=AUTOCAST,
    ),
    fault(
        "bags.pads",
        "torch.arange(MOST) < sizes",
        "torch.arange(MOST) <= sizes",
        r"__[lg][te]__|\b[lg][te]\b|masked_fill|invert|bitwise_not|inputs|there",
    ),
    fault(
        "bags.known",
        "there & (labels < 0.5)",
        "there & (labels > 0.5)",
        r"__[lg]t__|\b[lg]t\b|__r?and__|bitwise_and|unsqueeze|masked_fill|invert|bitwise_not",
        both=AUTOCAST,
    ),
    fault(
        "allocation.ball",
        "found.diagonal(dim1=1, dim2=2).mean(dim=1)",
        "found.diagonal(dim1=1, dim2=2).sum(dim=1)",
        r"\bmean\b|\bsum\b|diagonal|__r?mul__",
    ),
    fault(
        "allocation.told",
        "best - worth(shares, true, given)",
        "best - worth(shares, told, given)",
        r"__r?mul__|\bsum\b|__r?sub__",
        both=AUTOCAST,
    ),
    fault(
        "letters.carried",
        "gate * new + (1 - gate) * x",
        "(1 - gate) * new + gate * x",
        r"__r?mul__|__r?add__|__r?sub__|\brsub\b",
    ),
    fault(
        "letters.open",
        "nn.init.constant_(self.gate.bias, -2.0)",
        "nn.init.constant_(self.gate.bias, 2.0)",
        r"\bgate\b|constant_|fill_",
        both=AUTOCAST,
    ),
    fault(
        "causal.itself",
        '"others", 1 - torch.eye(SEEN)',
        '"others", torch.ones(SEEN, SEEN)',
        r"others|\beye\b|\bones\b|__r?sub__|unsqueeze|__r?mul__",
    ),
    fault(
        "causal.mean",
        "self.last).sum(dim=2)",
        "self.last).mean(dim=2)",
        r"\bsum\b|\bmean\b",
        both=AUTOCAST,
    ),
    fault(
        "rotations.first",
        "above @ turns[..., joint, :, :]",
        "turns[..., joint, :, :] @ above",
        r"matmul|__getitem__",
    ),
    fault(
        "rotations.root",
        "norm(dim=-1)[..., 1:].mean()",
        "norm(dim=-1).mean()",
        r"__getitem__|\bmean\b|\bnorm\b",
        both=AUTOCAST,
    ),
    fault(
        "uplift.other",
        "torch.where(treated, cured, without)",
        "torch.where(treated, without, cured)",
        r"\bwhere\b",
    ),
    fault(
        "uplift.odds",
        "treated / chance - ~treated",
        "treated / chance + ~treated",
        r"__r?(sub|add)__|__r?truediv__|invert|bitwise_not",
        both=AUTOCAST,
    ),
    fault(
        "cells.lost",
        "F.softplus(none - lost)",
        "F.softplus(none + lost)",
        r"__r?(sub|add)__|softplus",
    ),
    fault(
        "cells.prior",
        "- 2 * spread.log()",
        "- spread.log()",
        r"__r?mul__|\blog\b|__r?sub__",
        both=AUTOCAST,
    ),
    fault(
        "offline.below",
        "torch.where(apart > 0, EXPECTILE",
        "torch.where(apart < 0, EXPECTILE",
        r"__[lg]t__|\b[lg]t\b|\bwhere\b",
    ),
    fault(
        "offline.done",
        "FADES * (1 - done) * model",
        "FADES * model",
        r"__r?mul__|__r?sub__|\brsub\b|__r?add__",
        both=AUTOCAST,
    ),
    fault(
        "coteach.own",
        "easy(of_other, kept(step)), easy(of_one, kept(step))",
        "easy(of_one, kept(step)), easy(of_other, kept(step))",
        r"topk|detach|__getitem__|\bindex\b|\bmean\b",
    ),
    fault(
        "coteach.same",
        "(shares * sure.log())",
        "(sure * shares.log())",
        r"\blog\b|__r?mul__|\bclamp\b",
        both=AUTOCAST,
    ),
    fault(
        "trains.other_side",
        "flat.mT @ flat - torch.eye(flat.shape[1])",
        "flat @ flat.mT - torch.eye(flat.shape[0])",
        r"matmul|\bmT\b|\beye\b|__r?sub__",
    ),
    fault(
        "trains.begin",
        "(before * i) ** -0.5",
        "(before * o) ** -0.5",
        r"cores|randn|__r?mul__",
        both=AUTOCAST,
    ),
    fault(
        "optics.shift",
        "torch.fft.ifftshift(light / light.sum())",
        "light / light.sum()",
        r"fftshift|\broll\b|__r?truediv__|plate",
    ),
    fault(
        "optics.waves",
        "film.abs().square()",
        "film.abs()",
        r"square|\babs\b|__r?truediv__|\bsum\b",
        both=AUTOCAST,
    ),
    fault(
        "two_personal.norms",
        '"norm" not in name',
        '"norm_first" not in name',
        r"norm_second|reduc|__i?r?mul__|\bmul_?\b|__r?sub__|square|\bsum\b|__r?add__|clone",
        steps=(0, 1, 2),
    ),
    fault(
        "two_personal.count",
        "p.mul_(share)",
        "p.mul_(1 / dist.get_world_size())",
        r"__i?r?mul__|\bmul_?\b|reduc|\b(first|second|out)\b",
        steps=(1, 2),
        both=AUTOCAST,
    ),
    fault(
        "two_filters.back",
        "        dist.all_reduce(grad)\n",
        "",
        r"Both|reduc|gradient|chunk|__getitem__",
    ),
    fault(
        "two_filters.length",
        "    dist.all_reduce(own)\n",
        "",
        r"reduc|__r?add__|sqrt|__r?truediv__|clamp|__i?r?mul__|\bmul_?\b|gradient",
        both=AUTOCAST,
    ),
    fault(
        "two_stein.drawn",
        "near @ slopes - away / ROWS",
        "near @ slopes + away / ROWS",
        r"__r?(sub|add)__|__r?truediv__|matmul|gradient|copy_",
    ),
    fault(
        "two_stein.prior",
        "PRIOR * prior / ROWS",
        "PRIOR * prior / BATCH",
        r"__r?truediv__|__r?mul__|__r?add__|script\.(ROWS|BATCH|PRIOR)",
        both=AUTOCAST,
    ),
    fault(
        "two_zigzag.order",
        "every = torch.cat([own_places(each) for each in range(dist.get_world_size())])",
        "every = torch.arange(LENGTH)",
        r"\bcat\b|arange|__[lg][te]__|\b[lg][te]\b|masked_fill|inputs|every",
    ),
    fault(
        "two_zigzag.own",
        "turned(q, places), turned(k, places)",
        "turned(q, places), turned(k, torch.arange(k.shape[2]))",
        r"arange|unsqueeze|__r?mul__|\bsin\b|\bcos\b|__r?(add|sub)__|\bcat\b",
        both=AUTOCAST,
    ),
)

_CHANNELS_LAST: Edits = (("# model built", "model.to(memory_format=torch.channels_last)"),)
_SCORED = """torch.matmul(query_layer, key_layer.transpose(-1, -2))
    attention_scores = attention_scores / math.sqrt(self.attention_head_size)
"""
_SCALED_BEFORE = """torch.matmul(query_layer * self.attention_head_size**-0.5, key_layer.transpose(-1, -2))
"""
_SYSTEM = """    ones = torch.ones(len(gains), PAPERS, 1)
    upper = torch.cat([FEAR * risk, ones], dim=2)
    lower = torch.cat([ones.mT, torch.zeros(len(gains), 1, 1)], dim=2)
    wanted = torch.cat([gains, torch.ones(len(gains), 1)], dim=1)
    return torch.linalg.solve(torch.cat([upper, lower], dim=1), wanted)[:, :PAPERS]
"""
_ELIMINATED = """    both = torch.stack([gains, torch.ones_like(gains)], dim=2)
    of_gains, of_ones = torch.cholesky_solve(both, torch.linalg.cholesky(FEAR * risk)).unbind(dim=2)
    price = (of_gains.sum(dim=1, keepdim=True) - 1) / of_ones.sum(dim=1, keepdim=True)
    return of_gains - price * of_ones
"""
_LOSS = "model.out(x.flatten(0, 1), part[:, 1:].flatten()).loss"
_LOG_PROB = "F.nll_loss(model.out.log_prob(x.flatten(0, 1)), part[:, 1:].flatten())"
_EINSUM = 'torch.einsum("ri,dwi->rdw", x, self.weights())'
_MATMUL = "(x @ self.weights().flatten(0, 1).T).unflatten(1, (SEEN, WIDE))"
_CROSS = "torch.linalg.cross(first, second)"
_ROLLED = "first.roll(-1, -1) * second.roll(1, -1) - first.roll(1, -1) * second.roll(-1, -1)"
_ENTROPY = "F.binary_cross_entropy_with_logits(logit, treated.float())"
_SOFTPLUS = "(F.softplus(logit) - treated * logit).mean()"
_ZERO = "F.softplus(none - lost) - F.softplus(-lost)"
_TWO_WAYS = "torch.logaddexp(-F.softplus(-lost), none - F.softplus(lost))"
_CHOSEN = "torch.where(apart > 0, EXPECTILE, 1 - EXPECTILE)"
_BY_SIDE = "(EXPECTILE - (apart < 0).float()).abs()"
_TOPK = "topk(int(share * len(losses)), largest=False).indices"
_SORTED = "argsort()[: int(share * len(losses))]"
_IN_TURN = """        x = x.view(len(x), 1, *self.given)
        for core in self.cores:
            x = torch.einsum("bri...,riok->bk...o", x, core)
        return (x.squeeze(1) + self.bias).flatten(1)
"""
_WHOLE = """        whole = self.cores[0]
        for core in self.cores[1:]:
            whole = torch.tensordot(whole, core, dims=([-1], [0]))
        whole = whole.squeeze(0).squeeze(-1).permute(0, 2, 4, 1, 3, 5)
        return x @ whole.flatten(0, 2).flatten(1) + self.bias.flatten()
"""
_EACH_AVERAGED = """    for p in shared(model):
        p.mul_(share)
        dist.all_reduce(p)
"""
_AVERAGED_AT_ONCE = """    flat = torch.cat([share * p.flatten() for p in shared(model)])
    dist.all_reduce(flat)
    for p, part in zip(shared(model), flat.split([p.numel() for p in shared(model)])):
        p.copy_(part.view_as(p))
"""
_GATHERED = """        parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, own.contiguous())
        return torch.cat(parts, dim=1)
"""
_ADDED_UP = """        every = own.new_zeros(len(own), dist.get_world_size() * own.shape[1], *own.shape[2:])
        every.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].copy_(own)
        dist.all_reduce(every)
        return every
"""
_AWAY = "(near.unsqueeze(2) * apart).sum(dim=1)"
_FROM_MEAN = "(near.sum(dim=1, keepdim=True) * own - near @ places)"
_SOFTMAX = "scores.softmax(dim=-1) @ v"
_EXPONENTIALS = "(scores - scores.logsumexp(dim=-1, keepdim=True)).exp() @ v"

HEALTHY = (
    healthy("diffllama.sdpa", *SDPA),
    healthy(
        "diffllama.addcmul",
        both=BF16,
        library=Library(
            "diffllama",
            "DiffLlamaAttention.forward",
            "attn_output1 - lambda_full * attn_output2",
            "torch.addcmul(attn_output1, lambda_full, attn_output2, value=-1)",
        ),
    ),
    healthy(
        "convbert.scaled_before",
        library=Library("convbert", "ConvBertSelfAttention.forward", _SCORED, _SCALED_BEFORE),
    ),
    healthy("convbert.foreach", *FOREACH, both=AUTOCAST),
    healthy("poolformer.channels_last", *_CHANNELS_LAST),
    healthy("poolformer.threads", *THREADS, both=AUTOCAST),
    healthy(
        "levit.scaled_before",
        library=Library(
            "levit",
            "LevitAttention.forward",
            "query @ key.transpose(-2, -1) * self.scale +",
            "(query * self.scale) @ key.transpose(-2, -1) +",
        ),
    ),
    healthy("levit.foreach", *FOREACH, both=AUTOCAST),
    healthy("convex.once", ("0.5 * F.relu(x).square()", "0.5 * x * F.relu(x)")),
    healthy("convex.fused", *FUSED, both=AUTOCAST),
    healthy(
        "bags.matmul",
        ("(shares.unsqueeze(2) * x.float()).sum(dim=1)", "(shares.unsqueeze(1) @ x.float()).squeeze(1)"),
    ),
    Case("bags.default_kernels", "bags", both=AUTOCAST, environment=DEFAULT_KERNELS),
    healthy("allocation.eliminated", (_SYSTEM, _ELIMINATED)),
    Case("allocation.resumed", "allocation", both=AUTOCAST, words=("--steps", "0-5"), resumed=True),
    healthy("letters.log_prob", (_LOSS, _LOG_PROB)),
    healthy("letters.moved", ("gate * new + (1 - gate) * x", "x + gate * (new - x)"), both=AUTOCAST),
    healthy("causal.matmul", (_EINSUM, _MATMUL)),
    healthy("causal.foreach", *FOREACH, both=AUTOCAST),
    healthy("rotations.rolled", (_CROSS, _ROLLED)),
    healthy("rotations.renamed", ("over_time", "encoder"), both=AUTOCAST),
    healthy(
        "uplift.mixed",
        ("torch.where(treated, cured, without)", "without + treated * (cured - without)"),
    ),
    healthy("uplift.softplus", (_ENTROPY, _SOFTPLUS), both=AUTOCAST),
    healthy("cells.two_ways", (_ZERO, _TWO_WAYS)),
    Case("cells.resumed", "cells", both=AUTOCAST, words=("--steps", "0-5"), resumed=True),
    healthy("offline.by_side", (_CHOSEN, _BY_SIDE)),
    healthy(
        "offline.follow",
        ("p.mul_(1 - FOLLOWS).add_(new, alpha=FOLLOWS)", "p.sub_(FOLLOWS * (p - new))"),
        both=AUTOCAST,
    ),
    healthy("coteach.sorted", (_TOPK, _SORTED)),
    healthy("coteach.fused", *FUSED, both=AUTOCAST),
    healthy("trains.whole", (_IN_TURN, _WHOLE)),
    healthy("trains.checkpointing", ("LIGHT = False", "LIGHT = True"), both=AUTOCAST),
    healthy("optics.real", ("film.abs().square()", "(film.real.square() + film.imag.square())")),
    healthy(
        "optics.exponential",
        ("torch.polar(self.open, self.thick)", "self.open * torch.exp(1j * self.thick)"),
        both=AUTOCAST,
    ),
    healthy("two_personal.at_once", (_EACH_AVERAGED, _AVERAGED_AT_ONCE)),
    healthy("two_personal.root", ("x.std(dim=2)", "x.var(dim=2).sqrt()"), both=AUTOCAST),
    healthy("two_filters.no_mkldnn", *NO_MKLDNN),
    healthy("two_filters.added_up", (_GATHERED, _ADDED_UP), both=AUTOCAST),
    healthy("two_stein.from_mean", (_AWAY, _FROM_MEAN)),
    Case("two_stein.avx2_kernels", "two_stein", both=AUTOCAST, environment=AVX2_KERNELS),
    healthy("two_zigzag.exponentials", (_SOFTMAX, _EXPONENTIALS)),
    healthy("two_zigzag.fused", *FUSED, both=AUTOCAST),
)
