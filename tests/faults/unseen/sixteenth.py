# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The sixteenth held-out set: 40 planted faults and 40 healthy pairs, half of both in bfloat16 or autocast,
on model kinds that nothing of this repository had before.

No rule or number may be chosen by what comes of these.
"""

from __future__ import annotations

from case import (
    AUTOCAST,
    BF16,
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

_TWICE = """            twice.append(torch.minimum(shares, before).sum(dim=1))
            before = before + shares
"""
_LATE_TWICE = """            before = before + shares
            twice.append(torch.minimum(shares, before).sum(dim=1))
"""
_OF_BOTH = """        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
"""

FAULTS = (
    library(
        "roformer.wide",
        "RoFormerSelfAttention.forward",
        "math.sqrt(self.attention_head_size)",
        "math.sqrt(self.all_head_size)",
        r"__r?truediv__|\bdiv\b",
    ),
    fault(
        "roformer.partner",
        ".logits.flip(1)[..., PARTNER]",
        ".logits.flip(1)",
        r"__getitem__|\bflip\b|\bfloat\b",
        both=AUTOCAST,
    ),
    library(
        "patchtsmixer.missing",
        "PatchTSMixerStdScaler.forward",
        "(((data - loc) * observed_indicator) ** 2)",
        "((data - loc) ** 2)",
        r"__r?mul__|\bmul\b|__r?pow__|\bpow\b",
    ),
    fault(
        "patchtsmixer.scale",
        "(found.prediction_outputs.float() - later) / found.scale.float()",
        "found.prediction_outputs.float() - later",
        r"__r?truediv__|\bfloat\b|huber_loss",
        both=AUTOCAST,
    ),
    library(
        "audio_spectrogram_transformer.order",
        "ASTEmbeddings.forward",
        "torch.cat((cls_tokens, distillation_tokens, embeddings), dim=1)",
        "torch.cat((embeddings, cls_tokens, distillation_tokens), dim=1)",
        r"\bcat\b",
    ),
    fault(
        "audio_spectrogram_transformer.depth",
        "FADES ** (layers + 1 - depth)",
        "FADES**depth",
        r"^optimizer|\blr\b|adamw",
        both=AUTOCAST,
    ),
    library(
        "gptj.turn",
        "rotate_every_two",
        "torch.stack((-x2, x1), dim=-1)",
        "torch.stack((x2, -x1), dim=-1)",
        r"stack|__neg__|\bneg\b",
    ),
    fault(
        "gptj.mean",
        "weight = lr**2",
        "weight = lr",
        r"^optimizer|lerp_",
        steps=(1,),
        both=BF16,
    ),
    library(
        "wavlm.gate",
        "WavLMAttention.forward",
        "self.gru_rel_pos_const - 1.0) + 2.0",
        "self.gru_rel_pos_const - 1.0) + 1.0",
        r"__r?add__|\badd\b",
    ),
    library(
        "wavlm.margin",
        "AMSoftmaxLoss.forward",
        "psi = cos_theta - self.margin",
        "psi = cos_theta + self.margin",
        r"__r?(sub|add)__|\bsub\b|\badd\b|margin",
        both=AUTOCAST,
    ),
    fault(
        "quantum.square",
        "torch.exp(model(turned) - logs.unsqueeze(1))",
        "torch.exp(2 * (model(turned) - logs.unsqueeze(1)))",
        r"\bexp\b|__r?mul__",
    ),
    fault(
        "quantum.accepted",
        "torch.exp(2 * (new - logs))",
        "torch.exp(new - logs)",
        r"__r?mul__|\bexp\b|__r?[lg]t__|\blt\b|\bwhere\b",
        both=AUTOCAST,
    ),
    fault(
        "pitch.sign",
        "PER_BIN * (two - one)",
        "PER_BIN * (one - two)",
        r"__r?sub__|\bsub\b|__r?mul__",
    ),
    fault(
        "pitch.eps",
        "eps=1e-7",
        "eps=1e-2",
        r"^optimizer|\beps\b|adam",
        both=AUTOCAST,
    ),
    fault(
        "centers.turned",
        "place[..., 0] * MAP + place[..., 1]",
        "place[..., 1] * MAP + place[..., 0]",
        r"__getitem__|__r?(mul|add)__|\blong\b|gather",
    ),
    fault(
        "centers.seldom",
        "nn.init.constant_(self.kinds[2].bias, SELDOM)",
        "nn.init.zeros_(self.kinds[2].bias)",
        r"kinds\.2|constant_|zeros_",
        both=AUTOCAST,
    ),
    fault(
        "mesh.degree",
        "near / near.sum(dim=1, keepdim=True)",
        "near / near.sum(dim=0, keepdim=True)",
        r"buffer|(^|\s)near\b|\bsum\b|__r?truediv__|__r?matmul__",
    ),
    fault(
        "mesh.one_way",
        "far.amin(dim=2).mean() + far.amin(dim=1).mean()",
        "2 * far.amin(dim=2).mean()",
        r"amin|__r?(add|mul)__|\bmean\b",
        both=AUTOCAST,
    ),
    fault(
        "copies.gate",
        "F.pad(gate * own, (0, RARE)).scatter_add(1, ids, (1 - gate) * shares)",
        "F.pad((1 - gate) * own, (0, RARE)).scatter_add(1, ids, gate * shares)",
        r"__r?(sub|mul)__|scatter_add|\bpad\b",
    ),
    fault(
        "copies.twice",
        _TWICE,
        _LATE_TWICE,
        r"minimum|__r?add__",
        both=AUTOCAST,
    ),
    fault(
        "imitation.reward",
        "rewards = F.softplus(model.critic(mine).float())",
        "rewards = F.softplus(-model.critic(mine).float())",
        r"softplus|__neg__|\bneg\b",
    ),
    fault(
        "imitation.ends",
        "FADES * alive[:, at] * later",
        "FADES * later",
        r"__r?mul__|__getitem__|__r?add__",
        both=AUTOCAST,
    ),
    fault(
        "degrees.strict",
        "Masked(hidden, inputs.repeat(2), strict=True)",
        "Masked(hidden, inputs.repeat(2), strict=False)",
        r"\bmask\b|__r?mul__|buffer",
    ),
    fault(
        "degrees.order",
        "norm(x.flip(1))",
        "norm(x)",
        r"\bflip\b|\bmean\b|norms\.0",
        both=AUTOCAST,
    ),
    fault(
        "meetings.stale",
        "return memory, last.index_copy(0, who[chosen], when[chosen])",
        "return memory, last",
        r"index_copy|__r?sub__|__getitem__",
        steps=(1, 2),
    ),
    fault(
        "meetings.absolute",
        "self.waves(now.unsqueeze(1) - when)",
        "self.waves(when)",
        r"__r?sub__|\bcos\b|unsqueeze|__r?mul__",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault(
        "reweigh.sign",
        "helps = -torch.autograd.grad(after, counts)[0]",
        "helps = torch.autograd.grad(after, counts)[0]",
        r"__neg__|\bneg\b|clamp",
    ),
    fault(
        "reweigh.harm",
        "helps = helps.clamp(min=0)",
        "helps = helps.abs()",
        r"\babs\b|clamp",
        both=AUTOCAST,
    ),
    fault(
        "anomalies.later",
        "F.pad(x, (self.reach, 0))",
        "F.pad(x, (0, self.reach))",
        r"\bpad\b",
    ),
    fault(
        "anomalies.root",
        "2 * root.diagonal(dim1=1, dim2=2).log().sum(dim=1)",
        "root.diagonal(dim1=1, dim2=2).log().sum(dim=1)",
        r"__r?mul__|\bsum\b",
        both=AUTOCAST,
    ),
    fault(
        "two_protos.counts",
        "        dist.all_reduce(self.counts)\n",
        "",
        r"all_reduce|clamp|__gt__|\bgt\b|__r?truediv__",
        steps=(1, 2),
    ),
    fault(
        "two_protos.heat",
        ".square() / (TELLS * HEAT)",
        ".square() / HEAT",
        r"__r?truediv__",
        steps=(0, 2),
        both=AUTOCAST,
    ),
    fault(
        "two_gates.own",
        _OF_BOTH,
        "",
        r"all_reduce|Whole|chunk|backward|gradient",
    ),
    fault(
        "two_gates.forgets",
        "self.bias[own : 2 * own] = FORGETS",
        "self.bias[:own] = FORGETS",
        r"cell\.bias",
        both=AUTOCAST,
    ),
    fault(
        "two_merge.squares",
        "square.addcmul_(grad, grad, value=1 / len(x))",
        "square.add_(grad.abs(), alpha=1 / len(x))",
        r"addcmul_|\badd_|\babs\b",
    ),
    fault(
        "two_merge.old",
        "        old.copy_(p)\n",
        "",
        r"copy_|__r?sub__|square",
        steps=(1, 2),
        both=AUTOCAST,
    ),
    fault(
        "two_shuffle.back",
        "order.argsort().chunk",
        "order.chunk",
        r"argsort|chunk|__getitem__",
    ),
    fault(
        "two_shuffle.slow",
        "old.mul_(SLOW).add_(new, alpha=1 - SLOW)",
        "old.mul_(1 - SLOW).add_(new, alpha=SLOW)",
        r"\bmul_|\badd_",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault(
        "two_codes.own",
        "        dist.all_reduce(both)\n",
        "",
        r"all_reduce|\bmul_|\badd_|book\.(counts|sums|codes)",
    ),
    fault(
        "two_codes.through",
        "return x + (found - x).detach(),",
        "return found,",
        r"detach|__r?(add|sub)__|backward|gradient",
        both=AUTOCAST,
    ),
)

_CHANNELS_LAST: Edits = (("# model built", "model.to(memory_format=torch.channels_last)"),)
_SCORES = """attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))

    attention_scores = attention_scores / math.sqrt(self.attention_head_size)
"""
_SCALED = """query_layer = query_layer * self.attention_head_size**-0.5
    attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
"""
_HUBER = 'F.huber_loss(far, torch.zeros_like(far), reduction="none", delta=BEND)'
_SMOOTH = 'BEND * F.smooth_l1_loss(far, torch.zeros_like(far), reduction="none", beta=BEND)'
_BCE = "F.binary_cross_entropy_with_logits(logits, there, pos_weight=torch.full((KINDS,), RARE))"
_SOFTPLUS = "(RARE * there * F.softplus(-logits) + (1 - there) * F.softplus(logits)).mean()"
_BETWEEN = 'self.between * mean + (1 - self.between) * state["fast"]'
_RATIO = "ratio = torch.exp(model(turned) - logs.unsqueeze(1))"
_RATIOS = "ratio = torch.stack([torch.exp(model(turned[:, at]) - logs) for at in range(SPINS)], dim=1)"
_GATHERED = "x.gather(1, shift.unsqueeze(1) + torch.arange(SEEN))"
_SLICES = "torch.stack([row[at : at + SEEN] for row, at in zip(x, shift.tolist())])"
_FAR = "far = (one.unsqueeze(2) - two.unsqueeze(1)).square().sum(dim=3)"
_CDIST = 'far = torch.cdist(one, two, compute_mode="donot_use_mm_for_euclid_dist").square()'
_SCATTERED = "F.pad(gate * own, (0, RARE)).scatter_add(1, ids, (1 - gate) * shares)"
_ONE_HOT = """F.pad(gate * own, (0, RARE)) + (
                ((1 - gate) * shares).unsqueeze(2) * F.one_hot(ids, WORDS + RARE)
            ).sum(dim=1)"""
_GAINS = """    found, ahead, later = [], torch.zeros(PLAYS), last
    for at in reversed(range(LONG)):
        off = rewards[:, at] + FADES * alive[:, at] * later - values[:, at]
        ahead = off + FADES * KEPT * alive[:, at] * ahead
        later = values[:, at]
"""
_AT_ONCE = """    found, ahead = [], torch.zeros(PLAYS)
    off = rewards + FADES * alive * torch.cat([values[:, 1:], last.unsqueeze(1)], dim=1) - values
    for at in reversed(range(LONG)):
        ahead = off[:, at] + FADES * KEPT * alive[:, at] * ahead
"""
_MET = """    wanted = torch.cat([torch.ones(EVENTS), torch.zeros(EVENTS)])
    loss = F.binary_cross_entropy_with_logits(torch.cat([met, not_met]), wanted)
"""
_MET_SOFTPLUS = "    loss = 0.5 * (F.softplus(-met).mean() + F.softplus(not_met).mean())\n"
_TOLD = 'torch.einsum("bn,bnk->bk", shares, self.values(near).float())'
_VIRTUAL = """    counts = torch.zeros(len(x), requires_grad=True)
    lost = F.cross_entropy(functional_call(model, params, x), kinds, reduction="none")
    grads = torch.autograd.grad((counts * lost).sum(), list(params.values()), create_graph=True)
    tried = {name: p - TRIED * grad for (name, p), grad in zip(params.items(), grads)}
    after = F.cross_entropy(functional_call(model, tried, known), right)
    helps = -torch.autograd.grad(after, counts)[0]
"""
_PRODUCTS = """    lost = F.cross_entropy(functional_call(model, params, x), kinds, reduction="none")
    after = F.cross_entropy(functional_call(model, params, known), right)
    wanted = torch.autograd.grad(after, list(params.values()))
    helps = []
    for one in lost:
        grads = torch.autograd.grad(one, list(params.values()), retain_graph=True)
        helps.append(TRIED * sum((grad * want).sum() for grad, want in zip(grads, wanted)))
    helps = torch.stack(helps)
"""
_ENERGY = """    solved = torch.linalg.solve_triangular(root, off.permute(1, 2, 0), upper=False)
    solved = solved.square().sum(dim=1)
    log_size = 2 * root.diagonal(dim1=1, dim2=2).log().sum(dim=1)
    logs = (sums / len(known)).log() - 0.5 * (log_size + known.shape[1] * math.log(2 * math.pi))
    energy = -torch.logsumexp(logs.unsqueeze(1) - 0.5 * solved, dim=0)
"""
_NORMAL = """    bumps = torch.distributions.MultivariateNormal(middles, scale_tril=root)
    logs = (sums / len(known)).log() + bumps.log_prob(known.unsqueeze(1))
    energy = -torch.logsumexp(logs, dim=1)
"""
_OUTER = 'torch.einsum("nk,nki,nkj->kij", shares, off, off)'
_MATMUL = "(shares.unsqueeze(2) * off).permute(1, 2, 0) @ off.transpose(0, 1)"
_TWO_CALLS = """        dist.all_reduce(self.sums)
        dist.all_reduce(self.counts)
"""
_ONE_CALL = """        both = torch.cat([self.sums, self.counts.unsqueeze(1)], dim=1)
        dist.all_reduce(both)
        self.sums, self.counts = both[:, :-1], both[:, -1]
"""
_GIVEN = "given = F.linear(Same.apply(x), self.comes, self.bias)"
_TOGETHER = "x, weight = Same.apply(x), torch.cat([self.comes, self.again], dim=1)"
_GATES = "gates = (given[:, at] + F.linear(state, self.again)).float()"
_GATES_TOGETHER = "gates = F.linear(torch.cat([x[:, at], state], dim=1), weight, self.bias).float()"
_PARTS = """        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, dim=-1)
"""
_PADDED = """        rank, own = dist.get_rank(), x.shape[-1]
        whole = x.new_zeros(*x.shape[:-1], own * dist.get_world_size())
        whole[..., rank * own : (rank + 1) * own] = x
        dist.all_reduce(whole)
        return whole
"""
_STACKED = """        sums = torch.stack([weight * p, weight])
        dist.all_reduce(sums)
        p.copy_(sums[0] / sums[1])
"""
_APART = """        sums = weight * p
        dist.all_reduce(sums)
        dist.all_reduce(weight)
        p.copy_(sums / weight)
"""
_SMOOTHED = "F.cross_entropy(logits, kinds, label_smoothing=0.05)"
_SMOOTHED_BY_HAND = "0.95 * F.cross_entropy(logits, kinds) - 0.05 * logits.log_softmax(dim=1).mean()"
_EACH = """    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad.div_(many)
"""
_FLAT = """    flat = torch.cat([p.grad.flatten() for p in model.parameters()]) / many
    dist.all_reduce(flat)
    for p, part in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
        p.grad = part.view_as(p)
"""
_NEAR = """        far = flat.square().sum(dim=1, keepdim=True) - 2 * flat @ self.codes.T
        far = far + self.codes.square().sum(dim=1)
"""
_SUBTRACTED = "        far = (flat.unsqueeze(1) - self.codes).square().sum(dim=2)\n"
_WHICH = """        which = F.one_hot(named, CODES).float()
        both = torch.cat([which.sum(dim=0, keepdim=True).T, which.T @ flat], dim=1)
"""
_ADDED = """        both = torch.cat([torch.ones(len(flat), 1), flat], dim=1)
        both = torch.zeros(CODES, 1 + WIDE).index_add(0, named, both)
"""

HEALTHY = (
    healthy(
        "roformer.by_hand",
        (
            'F.kl_div(one, two, reduction="batchmean", log_target=True)',
            "(two.exp() * (two - one)).sum(dim=1).mean()",
        ),
        (
            'F.kl_div(two, one, reduction="batchmean", log_target=True)',
            "(one.exp() * (one - two)).sum(dim=1).mean()",
        ),
    ),
    healthy(
        "roformer.scaled",
        both=AUTOCAST,
        library=Library("roformer", "RoFormerSelfAttention.forward", _SCORES, _SCALED),
    ),
    healthy("patchtsmixer.smooth", (_HUBER, _SMOOTH)),
    healthy("patchtsmixer.foreach", *FOREACH, both=AUTOCAST),
    healthy("audio_spectrogram_transformer.softplus", (_BCE, _SOFTPLUS)),
    healthy("audio_spectrogram_transformer.sdpa", *SDPA, both=AUTOCAST),
    healthy(
        "gptj.addcmul",
        library=Library(
            "gptj",
            "apply_rotary_pos_emb",
            "(tensor * cos) + (rotate_every_two(tensor) * sin)",
            "torch.addcmul(tensor * cos, rotate_every_two(tensor), sin)",
        ),
    ),
    healthy("gptj.lerp", (_BETWEEN, 'torch.lerp(state["fast"], mean, self.between)'), both=BF16),
    Case("wavlm.default_kernels", "wavlm", environment=DEFAULT_KERNELS),
    healthy(
        "wavlm.subtracted",
        both=AUTOCAST,
        library=Library(
            "wavlm",
            "AMSoftmaxLoss.forward",
            "torch.where(onehot.bool(), psi, cos_theta)",
            "(cos_theta - self.margin * onehot)",
        ),
    ),
    healthy("quantum.logaddexp", ("x.abs() + F.softplus(-2 * x.abs())", "torch.logaddexp(x, -x)")),
    healthy("quantum.in_turn", (_RATIO, _RATIOS), both=AUTOCAST),
    healthy("pitch.slices", (_GATHERED, _SLICES)),
    healthy("pitch.fused", *FUSED, both=AUTOCAST),
    healthy("centers.logs", ("F.logsigmoid(-logits)", "(F.logsigmoid(logits) - logits)")),
    healthy("centers.channels_last", *_CHANNELS_LAST, both=AUTOCAST),
    healthy("mesh.cdist", (_FAR, _CDIST)),
    healthy(
        "mesh.commuted",
        ("self.near(near @ x.float())", "near @ self.near(x).float()"),
        both=AUTOCAST,
    ),
    healthy(
        "copies.matmul",
        (
            'torch.einsum("bl,blw->bw", shares, text.float())',
            "(shares.unsqueeze(1) @ text.float()).squeeze(1)",
        ),
    ),
    healthy("copies.one_hot", (_SCATTERED, _ONE_HOT), both=AUTOCAST),
    healthy("imitation.at_once", (_GAINS, _AT_ONCE)),
    healthy(
        "imitation.cross_entropy",
        (
            "logs.gather(2, acts.unsqueeze(2)).squeeze(2)",
            '-F.cross_entropy(logs.mT, acts, reduction="none")',
        ),
        both=AUTOCAST,
    ),
    healthy(
        "degrees.addmm",
        (
            "F.linear(x, self.weight * self.mask, self.bias)",
            "torch.addmm(self.bias, x, (self.weight * self.mask).T)",
        ),
    ),
    healthy("degrees.noise", *NOISE, both=AUTOCAST),
    healthy("meetings.softplus", (_MET, _MET_SOFTPLUS)),
    healthy(
        "meetings.matmul",
        (_TOLD, "(shares.unsqueeze(1) @ self.values(near).float()).squeeze(1).float()"),
        both=AUTOCAST,
    ),
    healthy("reweigh.products", (_VIRTUAL, _PRODUCTS)),
    healthy("reweigh.foreach", *FOREACH, both=AUTOCAST),
    healthy("anomalies.normal", (_ENERGY, _NORMAL)),
    healthy("anomalies.matmul", (_OUTER, _MATMUL), both=AUTOCAST),
    healthy("two_protos.one_call", (_TWO_CALLS, _ONE_CALL)),
    healthy(
        "two_protos.subtracted",
        (
            "torch.cdist(told, middles.known).square()",
            "(told.unsqueeze(1) - middles.known).square().sum(dim=2)",
        ),
        both=AUTOCAST,
    ),
    healthy("two_gates.together", (_GIVEN, _TOGETHER), (_GATES, _GATES_TOGETHER)),
    healthy("two_gates.padded", (_PARTS, _PADDED), both=AUTOCAST),
    healthy("two_merge.apart", (_STACKED, _APART)),
    healthy("two_merge.smoothed", (_SMOOTHED, _SMOOTHED_BY_HAND), both=AUTOCAST),
    healthy("two_shuffle.flat", (_EACH, _FLAT)),
    healthy(
        "two_shuffle.lerp",
        ("old.mul_(SLOW).add_(new, alpha=1 - SLOW)", "old.lerp_(new, 1 - SLOW)"),
        both=AUTOCAST,
    ),
    healthy("two_codes.subtracted", (_NEAR, _SUBTRACTED)),
    healthy("two_codes.index_add", (_WHICH, _ADDED), both=AUTOCAST),
)
