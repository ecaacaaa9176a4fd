# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The fourteenth held-out set: 40 planted faults and 40 healthy pairs, half of both in bfloat16 or autocast,
on model kinds that nothing of this repository had before.

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
    Case,
    Edits,
    Library,
    fault,
    healthy,
    library,
)

_BOTH_WAYS = """        grad = grad.clone()
        dist.all_reduce(grad)
        return grad
"""

FAULTS = (
    library(
        "beit.scale",
        "BeitLayer.forward",
        "self.lambda_1 * hidden_states",
        "self.lambda_2 * hidden_states",
        r"lambda_|__r?mul__|\bmul\b",
    ),
    fault(
        "beit.long",
        "p.grad.square().sum()",
        "p.grad.square().mean()",
        r"^optimizer|\bsum\b|\bmean\b",
        both=AUTOCAST,
    ),
    library(
        "autoformer.conjugate",
        "AutoformerAttention.forward",
        "query_states_fft * torch.conj(key_states_fft)",
        "query_states_fft * key_states_fft",
        r"conj|__r?mul__|\bmul\b|irfft",
    ),
    fault(
        "autoformer.away",
        "slow.add_(p - slow, alpha=FOLLOWS)",
        "slow.add_(slow - p, alpha=FOLLOWS)",
        r"__r?sub__|\badd_|copy_",
        steps=(1, 2),
        both=AUTOCAST,
    ),
    library(
        "nemotron.one",
        "NemotronLayerNorm1P.forward",
        "self.weight + 1.0",
        "self.weight",
        r"__r?add__|layer_?norm",
    ),
    fault(
        "nemotron.warm",
        'group["alpha"] * min(1.0, state["step"] / group["warm"])',
        'group["alpha"]',
        r"^optimizer|__r?mul__|__r?add__",
        both=BF16,
    ),
    library(
        "prophetnet.keys",
        "ProphetNetNgramSelfAttention.forward",
        "torch.cat([main_key_states, key], 2)",
        "torch.cat([key, main_key_states], 2)",
        r"\bcat\b|stack|einsum",
    ),
    fault(
        "prophetnet.round",
        "F.pad(wanted[:, ahead:], (0, ahead), value=-100)",
        "wanted.roll(-ahead, dims=1)",
        r"\bpad\b|roll|__getitem__|cross_entropy|flatten",
        both=AUTOCAST,
    ),
    fault(
        "product_keys.order",
        "one.indices.unsqueeze(3) * KEYS + two.indices.unsqueeze(2)",
        "one.indices.unsqueeze(2) * KEYS + two.indices.unsqueeze(3)",
        r"unsqueeze|__r?(mul|add)__|flatten|gather|embedding_bag",
    ),
    fault(
        "product_keys.often",
        "1 / torch.bincount(names, minlength=NAMES)[names].sqrt()",
        "1 / torch.bincount(names, minlength=NAMES)[names]",
        r"sqrt|__r?(truediv|mul)__|reciprocal|\bsum\b|__getitem__",
        both=AUTOCAST,
    ),
    fault(
        "controlled.columns",
        "p.grad.mean(dim=1, keepdim=True)",
        "p.grad.mean(dim=0, keepdim=True)",
        r"\bmean\b|__i?r?sub__|\bsub_?\b|gradient",
    ),
    fault(
        "controlled.unseen",
        "    x = x.gather(1, last)\n",
        "    x = x * seen\n",
        r"gather|__r?mul__|\bcat\b|inputs",
        both=AUTOCAST,
    ),
    fault(
        "particles.drawn",
        "(logs - mixed).gather(1, chosen)",
        "logs.gather(1, chosen)",
        r"__r?sub__|gather",
    ),
    fault(
        "particles.before",
        "model.weighed(guesses, heard[:, at])",
        "model.weighed(guesses, heard[:, at - 1])",
        r"__getitem__|hears|linear",
        both=AUTOCAST,
    ),
    fault(
        "balance.through",
        "(long.mean() * slow**PULL).detach()",
        "long.mean() * slow**PULL",
        r"detach|__r?sub__|backward|gradient|weights",
    ),
    fault(
        "balance.first",
        "    if first is None:\n",
        "    if first is None or step:\n",
        r"__r?truediv__|detach|clone",
        steps=(1,),
        both=AUTOCAST,
    ),
    fault(
        "score.mean",
        "0.5 * score.square().sum(dim=2)",
        "0.5 * score.square().mean(dim=2)",
        r"\bsum\b|\bmean\b|__r?mul__",
    ),
    fault(
        "score.same",
        "[p.grad.clone() for p in self.params]",
        "[p.grad for p in self.params]",
        r"clone|\bmul_|\badd_|gradient|clip",
        both=AUTOCAST,
    ),
    fault(
        "jigsaw.inverse",
        "sbij,bichw->sbjchw",
        "sbji,bichw->sbjchw",
        r"einsum",
    ),
    fault(
        "jigsaw.heat",
        "heat = max(0.3, heat * 0.8)",
        "heat = max(0.3, 0.8**step)",
        r"__r?truediv__",
        steps=(1,),
        both=AUTOCAST,
    ),
    fault(
        "dtw.later",
        "F.pad(x.diff(dim=1), (1, 0))",
        "F.pad(x.diff(dim=1), (0, 1))",
        r"\bpad\b|stack|diff",
    ),
    fault(
        "dtw.half",
        "laid(costs) - 0.5 * (laid",
        "laid(costs) - (laid",
        r"__r?mul__|__r?sub__",
        both=AUTOCAST,
    ),
    fault(
        "intents.places",
        "acts, places[..., 0], places[..., 1]]",
        "acts, places[..., 1], places[..., 0]]",
        r"__getitem__|\bsum\b",
    ),
    fault(
        "intents.even",
        "worth.diff(dim=2)",
        "worth.diff(dim=1)",
        r"diff|\babs\b",
        both=AUTOCAST,
    ),
    fault(
        "clusters.large",
        "shares.square() / shares.sum(dim=0)",
        "shares.square() / shares.sum(dim=1, keepdim=True)",
        r"\bsum\b|__r?truediv__",
    ),
    fault(
        "clusters.once",
        "    if step % EVERY == 0:\n",
        "    if step == 0:\n",
        r"kl_div|__getitem__|wanted|into|linear|square|extra call",
        steps=(2,),
        both=AUTOCAST,
    ),
    fault(
        "normfree.many",
        "(var * many).clamp(min=1e-4)",
        "var.clamp(min=1e-4)",
        r"__r?mul__|clamp|rsqrt",
    ),
    fault(
        "normfree.whole",
        "p.norm() if p.ndim < 2 else p.flatten(1).norm(dim=1).view(-1, *[1] * (p.ndim - 1))",
        "p.norm()",
        r"\bnorm\b|flatten|\bview\b|clamp|__r?mul__",
        both=AUTOCAST,
    ),
    fault(
        "laws.slope",
        "inner = y * (1 - y) * (speed",
        "inner = (1 - y) * (speed",
        r"__r?mul__",
    ),
    fault(
        "laws.negative",
        "self.law.abs() >= SMALL",
        "self.law >= SMALL",
        r"\babs\b|__ge__|\bge\b|\bmul_|there",
        steps=(1, 2),
        both=AUTOCAST,
    ),
    fault(
        "two_adasum.other",
        "first = 1 - common / (2 * one.square()",
        "first = 1 - common / (2 * two.square()",
        r"square|\bsum\b|__r?(mul|truediv)__",
    ),
    fault(
        "two_adasum.usual",
        "    usual += torch.bincount(kinds, minlength=KINDS)\n",
        "    usual = torch.bincount(kinds, minlength=KINDS).float()\n",
        r"bincount|__i?r?add__|\badd_?\b|\bfloat\b|\bsum\b|__r?(truediv|mul)__|cross_entropy",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault(
        "two_lends.strict",
        "goes.unsqueeze(1) > comes if strict",
        "goes.unsqueeze(1) >= comes if strict",
        r"mask|__r?mul__",
    ),
    fault(
        "two_lends.sum",
        "return grad / dist.get_world_size(), None",
        "return grad, None",
        r"__r?truediv__|Lent|backward|gradient",
        both=AUTOCAST,
    ),
    fault(
        "two_median.square",
        "near = 1 / far\n",
        "near = 1 / far.square()\n",
        r"square|__r?truediv__|reciprocal",
    ),
    fault(
        "two_median.through",
        "log.exp().detach() ** BETA",
        "log.exp() ** BETA",
        r"detach|__r?pow__|\bpow\b|backward|gradient",
        both=AUTOCAST,
    ),
    fault(
        "two_admm.owed",
        "owed.add_(relaxed - common)",
        "owed.add_(common - relaxed)",
        r"__r?sub__|\badd_",
        steps=(1, 2),
    ),
    fault(
        "two_admm.sparse",
        "SPARSE / (many * PRICE)",
        "SPARSE / PRICE",
        r"softshrink|copy_",
        steps=(1,),
        both=AUTOCAST,
    ),
    fault(
        "two_orthogonal.back",
        _BOTH_WAYS,
        "        return grad.clone()\n",
        r"reduc|Both|backward|gradient|__r?matmul__",
    ),
    fault(
        "two_orthogonal.rows",
        "grad.chunk(dist.get_world_size())[dist.get_rank()]",
        "grad.chunk(dist.get_world_size())[0]",
        r"chunk|__getitem__|Gathered|backward|gradient",
        both=AUTOCAST,
    ),
)

_CHANNELS_LAST: Edits = (("# model built", "model.to(memory_format=torch.channels_last)"),)
_LONG = 'state["long"].mul_(two).add_(square, alpha=1 - two)'
_ROLLED = "value_states.roll(shifts=-int(top_k_delays_index[i]), dims=1)"
_IN_TWO = """torch.cat(
                    value_states.split(
                        [int(top_k_delays_index[i]), time_length - int(top_k_delays_index[i])], dim=1
                    )[::-1],
                    dim=1,
                )"""
_SCORES = "torch.matmul(query, key_states.transpose(2, 3)) * scaling"
_SCALED = "torch.matmul(query * scaling, key_states.transpose(2, 3))"
_SMOOTHED = """F.cross_entropy(
            logits.float().flatten(0, 1), later.flatten(), ignore_index=-100, label_smoothing=SMOOTH
        )"""
_BY_HAND = """smoothed(logits.float().log_softmax(dim=-1), later)"""
_TOLD = "def told(streams, wanted):\n"
_HAND = '''def smoothed(logs, wanted):
    """A part of what is wanted is every word."""
    there = wanted != -100
    right = logs.gather(2, wanted.clamp(min=0).unsqueeze(2)).squeeze(2)
    lost = (1 - SMOOTH) * right + SMOOTH * logs.mean(dim=2)
    return -(lost * there).sum() / there.sum()


'''
_BAG = """F.embedding_bag(
                numbers.flatten(1), self.values.weight, mode="sum", per_sample_weights=shares.flatten(1)
            )"""
_READ = """torch.einsum("bhk,bhkd->bd", shares, self.values(numbers))"""
_DRIVEN = 'torch.einsum("bij,bj->bi", matrix.unflatten(1, (STATE, SEEN + 2)), path.slope(time))'
_MIXED = "torch.logaddexp(logs + math.log(MIX), torch.tensor(math.log((1 - MIX) / MANY)))"
_EXP = "(MIX * logs.exp() + (1 - MIX) / MANY).log()"
_ROWS = "logs = logs - logs.logsumexp(dim=3, keepdim=True)"
_COLUMNS = "logs = logs - logs.logsumexp(dim=2, keepdim=True)"
_CUT = """    x = x.unflatten(2, (-1, SMALL)).unflatten(4, (-1, SMALL))
    return x.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
"""
_UNFOLDED = "    return F.unfold(x, SMALL, stride=SMALL).mT.unflatten(2, (3, SMALL, SMALL))\n"
_THREE = "-SOFT * torch.logsumexp(torch.stack([one, two, three]) / -SOFT, dim=0)"
_TWICE = "-SOFT * torch.logaddexp(torch.logaddexp(one / -SOFT, two / -SOFT), three / -SOFT)"
_PARTS = "framed[:, 1 + down : 1 + down + SIDE, 1 + right : 1 + right + SIDE]"
_TURNED = "framed.roll((-down, -right), (1, 2))[:, 1 : 1 + SIDE, 1 : 1 + SIDE]"
_KL = 'F.kl_div(shares.log(), wanted[mine], reduction="batchmean")'
_KL_BY_HAND = "(wanted[mine] * (wanted[mine].log() - shares.log())).sum() / len(mine)"
_FAR = "(code.unsqueeze(1) - self.middles).square().sum(dim=2)"
_CDIST = 'torch.cdist(code, self.middles, compute_mode="donot_use_mm_for_euclid_dist").square()'
_EVEN = "(self.weight - mean) * scale"
_APART = "self.weight * scale - mean * scale"
_PAIRS = "code[:, PAIRS[0]] * code[:, PAIRS[1]]"
_OUTER = "(code.unsqueeze(2) * code.unsqueeze(1))[:, PAIRS[0], PAIRS[1]]"
_RENORM = "self.place.weight.renorm(2, 0, MOST)"
_SHORT = """self.place.weight * (MOST / self.place.weight.flatten(1).norm(dim=1)).clamp(max=1.0).view(
                -1, 1, 1, 1
            )"""
_GATHERED = """    dist.all_gather(both, flat)
"""
_IN_TURN = """    for sender, part in enumerate(both):
        part.copy_(flat)
        dist.broadcast(part, sender)
"""
_LINEAR = "F.linear(x, weight * self.mask, bias)"
_ADDED = "(F.linear(x, weight * self.mask) + bias)"
_WEIGHED = "(near / near.sum()) @ all_grads"
_SUMMED = "(near.unsqueeze(1) * all_grads).sum(dim=0) / near.sum()"
_SEEN = 'torch.einsum("kwp,bpt->bkwt", self.place, x)'
_SUM = "(self.place[:, :, :, None] * x[:, None, None]).sum(dim=3)"
_SHRUNK = "F.softshrink(mean, SPARSE / (many * PRICE))"
_SIGNED = "mean.sign() * (mean.abs() - SPARSE / (many * PRICE)).clamp(min=0)"
_SOLVED = "torch.linalg.solve_triangular(root, y.T, upper=False).T"
_INVERSE = "y @ torch.linalg.inv(root).T"

HEALTHY = (
    healthy("beit.sdpa", *SDPA),
    healthy("beit.lerp", (_LONG, 'state["long"].lerp_(square, 1 - two)'), both=AUTOCAST),
    healthy(
        "autoformer.in_two",
        library=Library("autoformer", "AutoformerAttention.forward", _ROLLED, _IN_TWO),
    ),
    healthy(
        "autoformer.lerp",
        ("slow.add_(p - slow, alpha=FOLLOWS)", "slow.lerp_(p, FOLLOWS)"),
        both=AUTOCAST,
    ),
    healthy(
        "nemotron.scaled",
        library=Library("nemotron", "eager_attention_forward", _SCORES, _SCALED),
    ),
    healthy("nemotron.checkpointing", *CHECKPOINTING, both=BF16),
    healthy("prophetnet.by_hand", (_SMOOTHED, _BY_HAND), (_TOLD, _HAND + _TOLD)),
    healthy("prophetnet.no_mkldnn", *NO_MKLDNN, both=AUTOCAST),
    healthy("product_keys.einsum", (_BAG, _READ)),
    healthy("product_keys.fused", *FUSED, both=AUTOCAST),
    healthy(
        "controlled.sum",
        (_DRIVEN, "(matrix.unflatten(1, (STATE, SEEN + 2)) * path.slope(time).unsqueeze(1)).sum(dim=2)"),
    ),
    healthy("controlled.noise", *NOISE, both=AUTOCAST),
    healthy("particles.exp", (_MIXED, _EXP)),
    healthy("particles.noise", *NOISE, both=AUTOCAST),
    healthy(
        "balance.product", ("(model.weights.detach() * losses).sum()", "(model.weights.detach() @ losses)")
    ),
    Case("balance.default_kernels", "balance", both=AUTOCAST, environment=DEFAULT_KERNELS),
    healthy("score.noise", *NOISE),
    healthy("score.foreach", *FOREACH, both=AUTOCAST),
    healthy(
        "jigsaw.log_softmax",
        (_ROWS, "logs = logs.log_softmax(dim=3)"),
        (_COLUMNS, "logs = logs.log_softmax(dim=2)"),
    ),
    healthy("jigsaw.unfolded", (_CUT, _UNFOLDED), both=AUTOCAST),
    healthy("dtw.twice", (_THREE, _TWICE)),
    healthy("dtw.fused", *FUSED, both=AUTOCAST),
    healthy("intents.diff", ("(worth[:, 1:] - worth[:, :-1]).abs()", "worth.diff(dim=1).abs()")),
    healthy("intents.turned", (_PARTS, _TURNED), both=AUTOCAST),
    healthy("clusters.cdist", (_FAR, _CDIST)),
    healthy("clusters.by_hand", (_KL, _KL_BY_HAND), both=AUTOCAST),
    healthy("normfree.channels_last", *_CHANNELS_LAST),
    healthy("normfree.apart", (_EVEN, _APART), both=AUTOCAST),
    healthy("laws.outer", (_PAIRS, _OUTER)),
    healthy("laws.noise", *NOISE, both=AUTOCAST),
    healthy("two_adasum.short", (_RENORM, _SHORT)),
    healthy("two_adasum.in_turn", (_GATHERED, _IN_TURN), both=AUTOCAST),
    healthy("two_lends.added", (_LINEAR, _ADDED)),
    healthy(
        "two_lends.to_all",
        ("dist.reduce(grad, ctx.owner)", "dist.all_reduce(grad)"),
        both=AUTOCAST,
    ),
    healthy("two_median.summed", (_WEIGHED, _SUMMED)),
    healthy("two_median.noise", *NOISE, both=AUTOCAST),
    healthy("two_admm.sum", (_SEEN, _SUM)),
    healthy("two_admm.signed", (_SHRUNK, _SIGNED), both=AUTOCAST),
    healthy("two_orthogonal.inverse", (_SOLVED, _INVERSE)),
    healthy("two_orthogonal.fused", *FUSED, both=AUTOCAST),
)
