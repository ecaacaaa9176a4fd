# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The fifteenth held-out set: 40 planted faults and 40 healthy pairs, half of both in bfloat16 or autocast,
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
    NOISE,
    SDPA,
    Case,
    Edits,
    Library,
    fault,
    healthy,
    library,
)

_SOFT = "        loss = as_said(logits, soft)\n"

FAULTS = (
    library(
        "gemma2.cap",
        "eager_attention_forward",
        "attn_weights = attn_weights * softcap",
        "attn_weights = attn_weights",
        r"__r?mul__|\bmul\b|__r?add__",
    ),
    fault(
        "gemma2.agrees",
        "way * agrees / agrees.mean().clamp(min=1e-3)",
        "way * agrees",
        r"^optimizer|\bmean\b|clamp|__r?truediv__|__r?mul__",
        steps=(0, 1),
        both=BF16,
    ),
    library(
        "hubert.late",
        "HubertSamePadLayer.forward",
        "hidden_states[:, :, : -self.num_pad_remove]",
        "hidden_states[:, :, self.num_pad_remove :]",
        r"__getitem__|\bpadding\b|gelu",
    ),
    fault(
        "hubert.part",
        "for p in model.sound.feature_extractor.parameters()",
        "for p in model.sound.feature_projection.parameters()",
        r"\bmul_|gradient|clip",
        both=AUTOCAST,
    ),
    fault(
        "vilt.spread",
        "(x - mean) / spread",
        "(x - mean) * spread",
        r"__r?truediv__|__r?mul__|inputs|pixel",
    ),
    fault(
        "vilt.decay",
        '"lr": 2e-2, "weight_decay": 0.0}',
        '"lr": 2e-2}',
        r"^optimizer|weight_decay|radam|\badd_?\b",
        both=AUTOCAST,
    ),
    library(
        "t5.sides",
        "T5Attention.compute_bias",
        "memory_position - context_position",
        "context_position - memory_position",
        r"__r?sub__|\bsub\b|__gt__|\bgt\b|\babs\b|\bmin\b",
    ),
    fault(
        "t5.margin",
        "MARGIN * (worse - better)",
        "MARGIN",
        r"__r?add__|relu",
        both=AUTOCAST,
    ),
    fault(
        "hypergraph.size",
        "(weight / size).unsqueeze(1)",
        "weight.unsqueeze(1)",
        r"__r?truediv__|unsqueeze|__r?mul__",
    ),
    fault(
        "hypergraph.back",
        'p.grad * (state["begin"] - p)',
        'p.grad * (p - state["begin"])',
        r"^optimizer|__r?sub__|__r?mul__|\bsum\b",
        steps=(1,),
        both=AUTOCAST,
    ),
    fault(
        "liquid.gap",
        "self.speed(z).float() * gap",
        "self.speed(z).float() / gap",
        r"__r?(mul|truediv)__|__r?add__",
    ),
    fault(
        "liquid.again",
        "    state = state.detach()\n",
        "    state = torch.zeros(BATCH, UNITS)\n",
        r"detach|zeros|__r?mul__|inputs",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault(
        "continuous.stages",
        "x + length * (first / 4 + 3 / 4 * second)",
        "x + length * (first / 2 + 1 / 2 * second)",
        r"__r?truediv__|__r?mul__",
    ),
    fault(
        "continuous.trace",
        "math.log(2 * math.pi) + trace",
        "math.log(2 * math.pi) - trace",
        r"__r?(add|sub)__|\bmean\b",
        both=AUTOCAST,
    ),
    fault(
        "supernet.last",
        "self.weight[:goes, : x.shape[1]]",
        "self.weight[-goes:, : x.shape[1]]",
        r"__getitem__|conv2d",
    ),
    fault(
        "supernet.zero",
        _SOFT,
        _SOFT + "        optimizer.zero_grad()\n",
        r"zero_grad|backward|gradient|clip",
        both=AUTOCAST,
    ),
    fault(
        "claims.rate",
        "rate = cost / time",
        "rate = cost",
        r"__r?truediv__|__r?mul__",
    ),
    fault(
        "claims.fades",
        "self.time.mul_(FADES).add_",
        "self.time.add_",
        r"\bmul_|\badd_|\btime\b|__r?truediv__",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault(
        "inducing.turned",
        "self.spread().T @ reach",
        "self.spread() @ reach",
        r"matmul|\bmm\b|\bT\b|square|\broot\b|tril",
        steps=(0, 1),
    ),
    fault(
        "inducing.all",
        ".sum() * (ALL / BATCH)",
        ".sum()",
        r"__r?mul__|\bsum\b|__r?sub__",
        both=AUTOCAST,
    ),
    fault(
        "marks.colours",
        "torch.tensor([0.299, 0.587, 0.114])",
        "torch.tensor([0.114, 0.587, 0.299])",
        r"\bbright\b|__r?mul__|buffer",
    ),
    fault(
        "marks.swapped",
        "torch.where(swapped, x, marked)",
        "torch.where(swapped, marked, x)",
        r"\bwhere\b",
        both=AUTOCAST,
    ),
    fault(
        "backbone.inverse",
        'torch.einsum("bixy,bijx->bijy", turns, moved)',
        'torch.einsum("bixy,bijy->bijx", turns, moved)',
        r"einsum",
    ),
    fault(
        "backbone.through",
        "            turns = turns.detach()\n",
        "",
        r"detach|einsum|__r?matmul__|backward|gradient",
        both=AUTOCAST,
    ),
    fault(
        "beams.conjugate",
        "waves, waves.conj(), mask",
        "waves.conj(), waves, mask",
        r"conj|einsum",
    ),
    fault(
        "beams.row",
        "ratio[:, :, :, 0]",
        "ratio[:, :, 0]",
        r"__getitem__|__r?truediv__",
        both=AUTOCAST,
    ),
    fault(
        "sphere.begin",
        "self.value * (self.first / BEGIN)",
        "self.value * self.first",
        r"__r?mul__",
    ),
    fault(
        "sphere.slow",
        "slow[p].mul_(SLOW).add_(p.grad, alpha=1 - SLOW)",
        "slow[p].mul_(1 - SLOW).add_(p.grad, alpha=SLOW)",
        r"\bmul_|\badd_",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault(
        "successor.power",
        "FADES**AHEAD * still",
        "FADES * still",
        r"__r?mul__",
    ),
    fault(
        "successor.follows",
        "slow.lerp_(p, FOLLOWS)",
        "slow.lerp_(p, 1 - FOLLOWS)",
        r"lerp",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault(
        "two_population.memory",
        'for key in ("exp_avg", "exp_avg_sq")',
        'for key in ("exp_avg",)',
        r"broadcast|exp_avg|^optimizer",
        steps=(1, 2),
    ),
    fault(
        "two_population.worst",
        "torch.cat(scores).argmin()",
        "torch.cat(scores).argmax()",
        r"argm|broadcast",
        steps=(1, 2),
        both=AUTOCAST,
    ),
    fault(
        "two_reduced.rows",
        "_, then = gradient(older, words[batch], clicked[batch])",
        "_, then = gradient(older, words, clicked)",
        r"__getitem__|__r?add__|inputs",
    ),
    fault(
        "two_reduced.sign",
        "flat = now - then + whole",
        "flat = now + then - whole",
        r"__r?(add|sub)__",
        both=AUTOCAST,
    ),
    fault(
        "two_widths.count",
        "sums / count.clamp(min=1)",
        "sums / dist.get_world_size()",
        r"clamp|__r?truediv__|\bwhere\b",
        steps=(1, 2),
    ),
    fault(
        "two_widths.absent",
        "logits.masked_fill(~present, 0.0)",
        "logits",
        r"masked_fill|__invert__|cross_entropy",
        both=AUTOCAST,
    ),
    fault(
        "two_rivals.columns",
        'torch.einsum("bij,bi->bj", found, theirs)',
        'torch.einsum("bij,bj->bi", found, theirs)',
        r"einsum",
    ),
    fault(
        "two_rivals.last",
        '                state["last"] = way\n',
        "",
        r"^optimizer|__r?sub__|\bsub_",
        steps=(1,),
        both=AUTOCAST,
    ),
    fault(
        "two_adapters.mean",
        "torch.linalg.svd(product / many,",
        "torch.linalg.svd(product,",
        r"svd|__r?truediv__",
        steps=(1, 2),
    ),
    fault(
        "two_adapters.size",
        "weight.norm(dim=1).detach()",
        "self.base.norm(dim=1)",
        r"\bnorm\b|detach|__r?truediv__",
        steps=(0, 1),
        both=AUTOCAST,
    ),
)

_CHANNELS_LAST: Edits = (("# model built", "model.to(memory_format=torch.channels_last)"),)
_RSQRT = "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)"
_SQRT = "x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.eps)"
_ANGLES = "told @ F.normalize(self.units.weight, dim=1).T"
_COSINES = "F.cosine_similarity(told.unsqueeze(2), self.units.weight, dim=3)"
_BCE = "F.binary_cross_entropy_with_logits(logits.float(), shares) * ANSWERS"
_SOFTPLUS = "(F.softplus(logits.float()) - shares * logits.float()).sum(dim=1).mean()"
_PAIRS = """    lost = 0.0
    for better in range(CANDIDATES - 1):
        for worse in range(better + 1, CANDIDATES):
            lost = lost + F.relu(found[:, worse] - found[:, better] + MARGIN * (worse - better)).mean()
    return lost
"""
_TABLE = """    behind = torch.arange(CANDIDATES) - torch.arange(CANDIDATES).unsqueeze(1)
    lost = F.relu(found.unsqueeze(1) - found.unsqueeze(2) + MARGIN * behind)
    return (lost * (behind > 0)).mean(dim=0).sum()
"""
_ADDED = "groups = torch.zeros(EDGES, y.shape[1]).index_add(0, edges, y[nodes])\n        groups"
_DENSE = """inside = torch.zeros(EDGES, NODES).index_put((edges, nodes), torch.ones(len(nodes)))
        groups = inside @ y
        groups"""
_BACK = "y = torch.zeros(NODES, y.shape[1]).index_add(0, nodes, groups[edges])"
_STEP = """p.addcdiv_(
                state["mean"], state["square"].sqrt() + far * group["eps"], value=-self.far * group["lr"]
            )"""
_SIZES = 'p.sub_(self.far * group["lr"] * state["mean"] / (state["square"].sqrt() + far * group["eps"]))'
_FOUR = """        soon, late = torch.tanh(self.soon(z)).float(), torch.tanh(self.late(z)).float()
        when = torch.sigmoid(self.speed(z).float() * gap + self.shift(z).float())
"""
_ONE = """        parts = (self.soon, self.late, self.speed, self.shift)
        weight, bias = torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
        soon, late, speed, shift = F.linear(z, weight, bias).chunk(4, dim=1)
        soon, late = torch.tanh(soon).float(), torch.tanh(late).float()
        when = torch.sigmoid(torch.addcmul(shift.float(), speed.float(), gap))
"""
_LOST = "log.mul(2 - POWER).exp() / (2 - POWER) - rate * log.mul(1 - POWER).exp() / (1 - POWER)"
_POWERS = "log.exp() ** (2 - POWER) / (2 - POWER) - rate * log.exp() ** (1 - POWER) / (1 - POWER)"
_FAR = "far = (one.unsqueeze(1) - two).square().sum(dim=2)"
_PRODUCTS = "far = one.square().sum(dim=1, keepdim=True) - 2 * one @ two.T + two.square().sum(dim=1)"
_DIVERGES = "return 0.5 * (spread.square().sum() + self.mean.square().sum() - POINTS) - log"
_LIBRARY = """one = torch.distributions.MultivariateNormal(self.mean, scale_tril=spread)
        two = torch.distributions.MultivariateNormal(torch.zeros(POINTS), torch.eye(POINTS))
        return torch.distributions.kl_divergence(one, two)"""
_WAVES = 'torch.einsum("ui,vj,bcyixj->bcyuxv", waves, waves, blocks)'
_IN_TURN = 'torch.einsum("ui,bcyixj->bcyuxj", waves, blocks) @ waves.T'
_SEEN = """    moved = points.unsqueeze(1) - places.unsqueeze(2)
    return torch.einsum("bixy,bijx->bijy", turns, moved)
"""
_APART = """    moved = torch.einsum("bixy,bjx->bijy", turns, points)
    return moved - torch.einsum("bixy,bix->biy", turns, places).unsqueeze(2)
"""
_PRODUCT = 'torch.einsum("bcft,bdft,bft->bfcd", waves, waves.conj(), mask.to(waves.dtype))'
_MATMUL = "(waves * mask.unsqueeze(1)).transpose(1, 2) @ waves.transpose(1, 2).mH"
_FUSED_ATTENTION = "F.scaled_dot_product_attention(q, k, v.float(), is_causal=True, scale=size)"
_SOFTMAX = """(q @ k.mT * size + torch.full((4, 4), -torch.inf).triu(1)).softmax(dim=3) @ v.float()"""
_FORWARDS = """    found, still = torch.zeros(BATCH, FEATURES), torch.ones(BATCH, 1)
    for at in range(AHEAD):
        found = found + FADES**at * still * model.seen(states[:, at + 1])
        still = still * (1 - ends[:, at : at + 1])
    sums"""
_LEADS = 'return found + FADES**AHEAD * still * torch.einsum("ba,baf->bf", shares, sums)'
_BACKWARDS = """found = torch.einsum("ba,baf->bf", shares, sums)
    for at in reversed(range(AHEAD)):
        found = model.seen(states[:, at + 1]) + FADES * (1 - ends[:, at : at + 1]) * found
    return found"""
_MEAN = "[x.mean(dim=2), x.amax(dim=2)]"
_SHARES = "[x @ torch.full((x.shape[2],), 1 / x.shape[2]), x.amax(dim=2)]"
_EACH = """    for p in model.parameters():
        dist.broadcast(p, source)
        for key in ("exp_avg", "exp_avg_sq"):
            dist.broadcast(optimizer.state[p][key], source)
"""
_FLAT = """    held = [p for p in model.parameters()]
    held += [optimizer.state[p][key] for p in held for key in ("exp_avg", "exp_avg_sq")]
    flat = torch.cat([tensor.flatten() for tensor in held])
    dist.broadcast(flat, source)
    for tensor, part in zip(held, flat.split([tensor.numel() for tensor in held])):
        tensor.copy_(part.view_as(tensor))
"""
_SQUARES = "0.5 * (factors.sum(dim=1).square() - factors.square().sum(dim=1)).sum(dim=1)"
_EACH_PAIR = "(factors @ factors.mT).triu(1).sum(dim=(1, 2))"
_ACT = "def first(whole, shape):\n"
_SWISH = '''def swish(x):
    """By a line that is cut at both ends."""
    return x * F.relu6(x + 3) / 6


'''
_AWAY = "sum((p - first(common, p.shape)).square().sum() for p, common in zip(model.parameters(), whole))"
_AWAY_FLAT = """torch.cat(
        [(p - first(common, p.shape)).flatten() for p, common in zip(model.parameters(), whole)]
    ).square().sum()"""
_SEEKS = 'torch.einsum("bij,bj->bi", found, theirs)'
_HIDES = 'torch.einsum("bij,bi->bj", found, theirs)'
_THIN = """(
            F.linear(x, self.base) + (ALPHA / RANK) * F.linear(F.linear(x, self.down), self.up)
        )"""

HEALTHY = (
    healthy("gemma2.root", library=Library("gemma2", "Gemma2RMSNorm._norm", _RSQRT, _SQRT)),
    healthy("gemma2.checkpointing", *CHECKPOINTING, both=BF16),
    healthy("hubert.cosines", (_ANGLES, _COSINES)),
    healthy("hubert.sdpa", *SDPA, both=AUTOCAST),
    healthy("vilt.softplus", (_BCE, _SOFTPLUS)),
    Case("vilt.default_kernels", "vilt", both=AUTOCAST, environment=DEFAULT_KERNELS),
    healthy("t5.table", (_PAIRS, _TABLE)),
    healthy("t5.noise", *NOISE, both=AUTOCAST),
    healthy("hypergraph.dense", (_ADDED, _DENSE), (_BACK, "y = inside.T @ groups")),
    healthy("hypergraph.sizes", (_STEP, _SIZES), both=AUTOCAST),
    healthy("liquid.lerp", ("soon * (1 - when) + when * late", "torch.lerp(soon, late, when)")),
    healthy("liquid.one", (_FOUR, _ONE), both=AUTOCAST),
    healthy(
        "continuous.lerp",
        ("(first / 4 + 3 / 4 * second)", "torch.lerp(first, second, 3 / 4)"),
        ("(first_sums / 4 + 3 / 4 * second_sums)", "torch.lerp(first_sums, second_sums, 3 / 4)"),
    ),
    healthy("continuous.noise", *NOISE, both=AUTOCAST),
    healthy("supernet.channels_last", *_CHANNELS_LAST),
    healthy(
        "supernet.together",
        ("    loss.backward()\n    soft", "    whole = loss\n    soft"),
        ("        loss.backward()\n", "        whole = whole + loss\n"),
        ("    nn.utils.clip_grad_norm_", "    whole.backward()\n    nn.utils.clip_grad_norm_"),
        both=AUTOCAST,
    ),
    healthy("claims.powers", (_LOST, _POWERS)),
    healthy(
        "claims.one_hot",
        ("torch.zeros(CARS).index_add(0, car, time * log.exp())", "which @ (time * log.exp())"),
        ("torch.zeros(CARS).index_add(0, car, cost)", "which @ cost"),
        ("    told = ", "    which = F.one_hot(car, CARS).float().T\n    told = "),
        both=AUTOCAST,
    ),
    healthy("inducing.products", (_FAR, _PRODUCTS)),
    healthy("inducing.library", (_DIVERGES, _LIBRARY), both=AUTOCAST),
    healthy("marks.in_turn", (_WAVES, _IN_TURN)),
    healthy("marks.fused", *FUSED, both=AUTOCAST),
    healthy("backbone.apart", (_SEEN, _APART)),
    healthy("backbone.noise", *NOISE, both=AUTOCAST),
    healthy(
        "beams.cholesky",
        ("torch.linalg.solve(noise, voice)", "torch.cholesky_solve(voice, torch.linalg.cholesky(noise))"),
    ),
    healthy("beams.matmul", (_PRODUCT, _MATMUL), both=AUTOCAST),
    healthy("sphere.softmax", (_FUSED_ATTENTION, _SOFTMAX)),
    healthy("sphere.foreach", *FOREACH, both=AUTOCAST),
    healthy("successor.backwards", (_FORWARDS, "    sums"), (_LEADS, _BACKWARDS)),
    healthy("successor.noise", *NOISE, both=AUTOCAST),
    healthy("two_population.shares", (_MEAN, _SHARES)),
    healthy("two_population.flat", (_EACH, _FLAT), both=AUTOCAST),
    healthy("two_reduced.pairs", (_SQUARES, _EACH_PAIR)),
    healthy("two_reduced.noise", *NOISE, both=AUTOCAST),
    healthy("two_widths.swish", ("F.hardswish(", "swish("), (_ACT, _SWISH + _ACT)),
    healthy("two_widths.flat", (_AWAY, _AWAY_FLAT), both=AUTOCAST),
    healthy(
        "two_rivals.matmul",
        (_SEEKS, "(found @ theirs.unsqueeze(2)).squeeze(2)"),
        (_HIDES, "(found * theirs.unsqueeze(2)).sum(dim=1)"),
    ),
    healthy(
        "two_rivals.added",
        ('["mean"].lerp_(p.grad, 1 - one)', '["mean"].mul_(one).add_(p.grad, alpha=1 - one)'),
        (
            '["square"].lerp_(p.grad.square(), 1 - two)',
            '["square"].mul_(two).addcmul_(p.grad, p.grad, value=1 - two)',
        ),
        both=AUTOCAST,
    ),
    healthy("two_adapters.thin", ("F.linear(x, weight)", _THIN)),
    healthy("two_adapters.fused", *FUSED, both=AUTOCAST),
)
