# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The eighth held-out set: 40 planted faults and 40 healthy pairs, half of both in bfloat16 or autocast, on
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
        "gpt_oss.shift", "GptOssExperts._apply_gate", "(up + 1) * glu", "up * glu", r"__r?add__|__r?mul__"
    ),
    fault(
        "gpt_oss.ends",
        "ids[:, :-1] != END",
        "ids[:, 1:] != END",
        r"__ne__|\bne\b|__getitem__|__r?mul__|\bsum\b",
        both=BF16,
    ),
    library(
        "layoutlm.upper",
        "LayoutLMEmbeddings.forward",
        "self.y_position_embeddings(bbox[:, :, 1])",
        "self.x_position_embeddings(bbox[:, :, 1])",
        r"[xy]_position_embeddings|__r?add__",
    ),
    fault(
        "layoutlm.rates",
        "SLOWER ** (LAYERS + 1 - depth)",
        "SLOWER**depth",
        r"\blr\b|learning rate",
        both=AUTOCAST,
    ),
    fault("bart.smooth", "SMOOTH * logs.mean(dim=-1)", "SMOOTH * logs.sum(dim=-1)", r"\bmean\b|\bsum\b"),
    fault(
        "bart.known",
        ", attention_mask=known",
        "",
        r"attention_mask|\bones|__ne__|\bne\b|softmax|__r?add__|where|expand",
        both=BF16,
    ),
    fault(
        "dpt.mean",
        "(apart * valid).sum((1, 2)) / count",
        "(apart * valid).mean((1, 2))",
        r"\bsum\b|\bmean\b|__r?truediv__",
    ),
    library(
        "dpt.swapped",
        "DPTFeatureFusionStage.forward",
        "layer(fused_hidden_state, hidden_state)",
        "layer(hidden_state, fused_hidden_state)",
        r"fusion|__r?add__",
        both=AUTOCAST,
    ),
    fault(
        "logic.either",
        "        a + b - 2 * both,\n",
        "        a + b - both,\n",
        r"__r?mul__|__r?sub__|__r?add__|stack",
    ),
    fault("logic.axis", "self.choice.softmax(dim=-1)", "self.choice.softmax(dim=0)", r"softmax", both=BF16),
    fault(
        "topic.spread",
        "torch.exp(0.5 * log_spread)",
        "torch.exp(log_spread)",
        r"__r?mul__|\bexp\b",
    ),
    fault(
        "topic.warm",
        "min(1.0, (step + 1) / WARM)",
        "min(1.0, step / WARM)",
        r"__r?mul__",
        both=AUTOCAST,
    ),
    fault(
        "ponder.still",
        "            likely.append(still * halt)\n            still = still * (1 - halt)\n",
        "            still = still * (1 - halt)\n            likely.append(still * halt)\n",
        r"__r?mul__|__r?sub__",
    ),
    fault(
        "ponder.thoughts",
        "(likely * lost).sum(0).mean()",
        "(likely * lost).mean()",
        r"\bsum\b|\bmean\b",
        both=AUTOCAST,
    ),
    fault(
        "hamilton.kick",
        "p = p + 0.5 * DT * self.force(q)\n            found",
        "p = p + DT * self.force(q)\n            found",
        r"__r?mul__|__r?add__",
    ),
    fault(
        "hamilton.later",
        "(lost * weights).sum(1).mean() / weights.sum()",
        "(lost * weights).mean()",
        r"\bsum\b|\bmean\b|__r?truediv__",
        both=BF16,
    ),
    fault("koopman.turn", "size * (s * x + c * y)", "size * (s * x - c * y)", r"__r?add__|__r?sub__"),
    fault(
        "koopman.detached",
        "(path.float() - wanted.float())",
        "(path.float() - wanted.float().detach())",
        r"detach|__r?sub__|__getitem__|encode",
        both=AUTOCAST,
    ),
    fault(
        "pixelcnn.itself",
        "MaskedConv(1, WIDTH, 5, sees_itself=False)",
        "MaskedConv(1, WIDTH, 5, sees_itself=True)",
        r"\bfirst\b|mask|__r?mul__|conv2d",
    ),
    fault(
        "pixelcnn.half",
        "half = 1 / (LEVELS - 1)",
        "half = 1 / LEVELS",
        r"__r?add__|__r?sub__",
        both=AUTOCAST,
    ),
    fault(
        "qmix.negative",
        "self.first(state).abs().unflatten",
        "self.first(state).unflatten",
        r"\babs\b|unflatten|__r?mul__",
    ),
    fault(
        "qmix.allowed",
        "worth.masked_fill(~allowed, -1e9)[:, 1:]",
        "worth[:, 1:]",
        r"masked_fill|argmax|__getitem__|invert",
        both=AUTOCAST,
    ),
    fault(
        "awd.locked",
        "torch.empty(x.shape[0], 1, x.shape[2])",
        "torch.empty(x.shape)",
        r"bernoulli|empty|__r?truediv__|__r?mul__",
    ),
    fault(
        "awd.rate",
        "RATE * size / LONG",
        "RATE",
        r"\blr\b|learning rate",
        steps=(1, 2),
        both=AUTOCAST,
    ),
    fault(
        "fixmatch.share",
        '(F.cross_entropy(changed, guessed, reduction="none") * (sure >= SURE)).mean()',
        "F.cross_entropy(changed[sure >= SURE], guessed[sure >= SURE])",
        r"cross_entropy|\bmean\b|__r?mul__|__getitem__",
    ),
    fault(
        "fixmatch.counted",
        "ours.copy_(theirs)",
        "theirs.copy_(theirs)",
        r"copy_|batch_?norm|\bnorm|running_|num_batches",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault("partial.scale", "self.conv(x * there) * scale", "self.conv(x * there)", r"__r?mul__"),
    fault(
        "partial.near",
        "F.max_pool2d(1 - there, 3, 1, 1)",
        "F.max_pool2d(there, 3, 1, 1)",
        r"__r?sub__|max_pool",
        both=AUTOCAST,
    ),
    fault(
        "evidential.wrong",
        "for_nothing(wrong)",
        "for_nothing(alpha)",
        r"sum|gamma|__r?mul__|__r?add__|__r?sub__",
    ),
    fault(
        "evidential.spread",
        "share * (1 - share) / (total + 1)",
        "share * (1 - share) / total",
        r"__r?truediv__|__r?add__",
        both=AUTOCAST,
    ),
    fault("forward.length", " * x.shape[-1] ** 0.5", "", r"__r?mul__|\b[12]\.linear|\b0\.linear"),
    fault(
        "forward.first",
        "(goodness(h) if n > 0 else 0.0)",
        "goodness(h)",
        r"__r?add__|stack|cross_entropy|\bmean\b|square|\bfloat\b",
        both=AUTOCAST,
    ),
    fault(
        "two_delayed.sum",
        "self.mean / dist.get_world_size() - self.sent",
        "self.mean - self.sent",
        r"__r?truediv__|__r?add__|__r?sub__|reduc|gradient",
        steps=(1,),
    ),
    fault(
        "two_delayed.corrected",
        "self.sent, self.mean = own, own.clone()",
        "self.sent, self.mean = way, own.clone()",
        r"__r?sub__|__r?add__|gradient|copy_",
        steps=(2,),
        both=AUTOCAST,
    ),
    fault(
        "two_topk.left",
        "            left.copy_(whole)\n            left[places] = 0.0\n",
        "            left[places] = 0.0\n            left.copy_(whole)\n",
        r"__setitem__|copy_|__r?add__|\babs\b|topk|gather|gradient",
        steps=(0, 1),
    ),
    fault(
        "two_topk.both",
        "total.index_add_(0, where, what)",
        "total[where] = what",
        r"index_|__setitem__|gradient|__r?truediv__",
        both=AUTOCAST,
    ),
    fault(
        "two_mutual.own",
        "every[1 - dist.get_rank()]",
        "every[dist.get_rank()]",
        r"__getitem__|gather|__r?truediv__|softmax|kl_div",
    ),
    fault(
        "two_mutual.future",
        "self.first(F.pad(x, (self.before, 0)))",
        "self.first(F.pad(x, (self.before // 2, self.before // 2)))",
        r"\bpad\b|\bfirst\b|conv1d",
        both=AUTOCAST,
    ),
    fault(
        "two_vertical.order", "rows = row_of[part]", "rows = part", r"__getitem__|\bplace\b|\bcat\b|\bfirst\b"
    ),
    fault(
        "two_vertical.weight",
        "weight = 1 / paid.mean() - 1",
        "weight = 1 / paid.mean()",
        r"__r?sub__|__r?truediv__|reciprocal|binary_cross",
        both=AUTOCAST,
    ),
)

_CHANNELS_LAST: Edits = (("# model built", "model.to(memory_format=torch.channels_last)"),)
_BATCHED: Edits = (("# model built", 'model.set_experts_implementation("batched_mm")'),)
_WEIGHTED = "F.cross_entropy(logits.float().flatten(0, 1), kinds.flatten(), weight=weights)"
_WEIGHED = """weighed(logits.float().log_softmax(dim=-1), kinds, weights)"""
_WEIGHED_DEFINITION = '''def weighed(logs, kinds, weights):
    """By hand: each word by the weight of its kind."""
    counts = kinds >= 0
    each = -logs.gather(-1, kinds.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    share = weights[kinds.clamp(min=0)] * counts
    return (each * share).sum() / share.sum()


torch.set_num_threads(1)'''
_SMOOTHED = """    logs = logits.log_softmax(dim=-1)
    right = logs.gather(-1, wanted.unsqueeze(-1)).squeeze(-1)
    counts = wanted != PAD
    lost = (1 - SMOOTH) * right + SMOOTH * logs.mean(dim=-1)
    return -(lost * counts).sum() / counts.sum()
"""
_ONE_CALL = "    return F.cross_entropy(logits.mT, wanted, ignore_index=PAD, label_smoothing=SMOOTH)\n"
_SQUARES = """    square = (apart.square() * valid).sum((1, 2)) / count
    return (square - FREE * mean.square()).mean()
"""
_SPREAD = """    spread = ((apart - mean[:, None, None]).square() * valid).sum((1, 2)) / count
    return (spread + (1 - FREE) * mean.square()).mean()
"""
_ALL_GATES = "        return (gates(x[:, self.first], x[:, self.second]) * shares).sum(-1)\n"
_COEFFICIENTS = """        corners = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
        table = gates(*torch.tensor(corners, dtype=x.dtype).T)
        neither, second, first, both = (shares @ table.T).unbind(-1)
        a, b = x[:, self.first], x[:, self.second]
        along = (both - first - second + neither) * b
        return neither + (second - neither) * b + (first - neither + along) * a
"""
_APART = """    wanted, spread = prior()
    each = log_spread.exp() / spread + (wanted - mean).square() / spread - 1 + spread.log() - log_spread
    return 0.5 * each.sum(-1)
"""
_DIVERGENCE = """    wanted, spread = prior()
    found = torch.distributions.Normal(mean, torch.exp(0.5 * log_spread))
    return torch.distributions.kl_divergence(found, torch.distributions.Normal(wanted, spread.sqrt())).sum(-1)
"""
_ONE_BY_ONE = """            likely.append(still * halt)
            still = still * (1 - halt)
        return torch.stack(answers), torch.stack(likely)
"""
_PRODUCTS = """            likely.append(halt)
        halts = torch.stack(likely)
        still = F.pad((1 - halts[:-1]).cumprod(dim=0), (0, 0, 1, 0), value=1.0)
        return torch.stack(answers), still * halts
"""
_TWO_FORCES = """        found = []
        for _ in range(LONG):
            p = p + 0.5 * DT * self.force(q)
            q = q + DT * self.speed(p)
            p = p + 0.5 * DT * self.force(q)
            found.append"""
_ONE_FORCE = """        found, force = [], self.force(q)
        for _ in range(LONG):
            p = p + 0.5 * DT * force
            q = q + DT * self.speed(p)
            force = self.force(q)
            p = p + 0.5 * DT * force
            found.append"""
_TURNED = """        c, s = torch.cos(angle), torch.sin(angle)
        return torch.cat([size * (c * x - s * y), size * (s * x + c * y)], dim=-1)
"""
_AS_COMPLEX = """        z = torch.polar(size, angle) * torch.complex(x, y)
        return torch.cat([z.real, z.imag], dim=-1)
"""
_SURE = "    sure, guessed = plain.detach().softmax(dim=-1).max(dim=-1)\n"
_SURE_BY_LOGS = """    top, guessed = plain.detach().max(dim=-1)
    sure = torch.exp(top - plain.detach().logsumexp(dim=-1))
"""
_COUNTED = "F.conv2d(there, torch.ones(1, 1, 3, 3), stride=self.stride, padding=1)"
_POOLED = "9 * F.avg_pool2d(there, 3, stride=self.stride, padding=1)"
_FOR_NOTHING = """    total = alpha.sum(-1)
    logs = torch.lgamma(total) - torch.lgamma(alpha).sum(-1) - torch.lgamma(torch.tensor(float(KINDS)))
    return logs + ((alpha - 1) * (torch.digamma(alpha) - torch.digamma(total).unsqueeze(-1))).sum(-1)
"""
_OF_DIRICHLET = """    found = torch.distributions.Dirichlet(alpha)
    return torch.distributions.kl_divergence(found, torch.distributions.Dirichlet(torch.ones_like(alpha)))
"""
_EACH_BACKWARD = """        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
"""
_ONE_BACKWARD = """        total = total + loss
    for optimizer in optimizers:
        optimizer.zero_grad()
    total.backward()
    for optimizer in optimizers:
        optimizer.step()
    total = total.item()
"""
_BY_LOG1P = "torch.log1p(torch.exp(-lively)).mean() + torch.log1p(torch.exp(calm)).mean()"
_BY_SOFTPLUS = "F.softplus(-lively).mean() + F.softplus(calm).mean()"
_WAITED = "            self.work.wait()\n        way"
_WAITED_FOR_ALL = "            self.work.wait()\n            self.mean = sum(self.every)\n        way"
_REDUCED = "        self.work = dist.all_reduce(self.mean, async_op=True)\n"
_GATHERED = """        self.every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        self.work = dist.all_gather(self.every, own, async_op=True)
"""
_SPARSE = """        every = [(torch.empty_like(places), torch.empty_like(values)) for _ in range(world)]
        dist.all_gather([where for where, _ in every], places)
        dist.all_gather([what for _, what in every], values)
        total = torch.zeros(size)
        for where, what in every:
            total.index_add_(0, where, what)
"""
_DENSE = """        total = torch.zeros(size)
        total[places] = values
        dist.all_reduce(total)
"""
_OF_ALL = "    dist.all_gather(every, logits.detach().contiguous())\n"
_IN_TURN = """    every[dist.get_rank()].copy_(logits.detach())
    for source, said in enumerate(every):
        dist.broadcast(said, source)
"""
_KL_DIV = 'F.kl_div((logits / HEAT).log_softmax(dim=-1), soft, reduction="batchmean") * HEAT**2'
_KL_BY_HAND = "(soft * (soft.log() - (logits / HEAT).log_softmax(dim=-1))).sum(-1).mean() * HEAT**2"
_BLOCKING = """        dist.send(h.detach().float().contiguous(), 1)
        slope = torch.empty(len(part), WIDE)
        dist.recv(slope, 1)
"""
_NOT_BLOCKING = """        said, slope = h.detach().float().contiguous(), torch.empty(len(part), WIDE)
        for work in (dist.isend(said, 1), dist.irecv(slope, 1)):
            work.wait()
"""
_BCE = "F.binary_cross_entropy_with_logits(logits, paid[part], pos_weight=weight) / PARTS"
_BCE_BY_HAND = (
    "(weight * paid[part] * F.softplus(-logits) + (1 - paid[part]) * F.softplus(logits)).mean() / PARTS"
)

HEALTHY = (
    healthy("gpt_oss.batched", *_BATCHED),
    healthy(
        "gpt_oss.unshifted",
        both=BF16,
        library=Library(
            "gpt_oss",
            "eager_attention_forward",
            "combined_logits - combined_logits.max(dim=-1, keepdim=True).values",
            "combined_logits",
        ),
    ),
    healthy("layoutlm.checkpointing", *CHECKPOINTING),
    healthy(
        "layoutlm.weighed",
        (_WEIGHTED, _WEIGHED),
        ("torch.set_num_threads(1)", _WEIGHED_DEFINITION),
        both=AUTOCAST,
    ),
    healthy("bart.sdpa", *SDPA),
    healthy("bart.one_call", (_SMOOTHED, _ONE_CALL), both=BF16),
    healthy("dpt.channels_last", *_CHANNELS_LAST),
    healthy("dpt.spread", (_SQUARES, _SPREAD), both=AUTOCAST),
    healthy("logic.coefficients", (_ALL_GATES, _COEFFICIENTS)),
    healthy("logic.fused", *FUSED, both=BF16),
    Case("topic.resumed", "topic", words=("--steps", "0-5"), resumed=True),
    healthy("topic.divergence", (_APART, _DIVERGENCE), both=AUTOCAST),
    healthy("ponder.products", (_ONE_BY_ONE, _PRODUCTS)),
    Case("ponder.default_kernels", "ponder", both=AUTOCAST, environment=DEFAULT_KERNELS),
    healthy("hamilton.one_force", (_TWO_FORCES, _ONE_FORCE)),
    healthy("hamilton.foreach", *FOREACH, both=BF16),
    healthy("koopman.complex", (_TURNED, _AS_COMPLEX)),
    Case("koopman.avx2", "koopman", both=AUTOCAST, environment=AVX2_KERNELS),
    healthy("pixelcnn.no_mkldnn", *NO_MKLDNN),
    healthy(
        "pixelcnn.tanh",
        (
            "torch.sigmoid((x - means + half) * inverse)",
            "0.5 + 0.5 * torch.tanh((x - means + half) * inverse / 2)",
        ),
        (
            "torch.sigmoid((x - means - half) * inverse)",
            "0.5 + 0.5 * torch.tanh((x - means - half) * inverse / 2)",
        ),
        both=AUTOCAST,
    ),
    Case("qmix.resumed", "qmix", words=("--steps", "0-5"), resumed=True),
    healthy(
        "qmix.one_hot",
        (
            "worth[:, :-1].gather(-1, acts.unsqueeze(-1)).squeeze(-1)",
            "(worth[:, :-1] * F.one_hot(acts, ACTS)).sum(-1)",
        ),
        both=AUTOCAST,
    ),
    healthy("awd.foreach", *FOREACH),
    healthy("awd.addmm", ("now + F.linear(h, kept)", "torch.addmm(now, h, kept.T)"), both=AUTOCAST),
    healthy("fixmatch.channels_last", *_CHANNELS_LAST),
    healthy("fixmatch.logs", (_SURE, _SURE_BY_LOGS), both=AUTOCAST),
    healthy("partial.threads", *THREADS),
    healthy("partial.pooled", (_COUNTED, _POOLED), both=AUTOCAST),
    healthy("evidential.dirichlet", (_FOR_NOTHING, _OF_DIRICHLET)),
    healthy("evidential.noise", *NOISE, both=AUTOCAST),
    healthy("forward.one_backward", (_EACH_BACKWARD, _ONE_BACKWARD)),
    healthy("forward.softplus", (_BY_LOG1P, _BY_SOFTPLUS), both=AUTOCAST),
    healthy("two_delayed.gathered", (_WAITED, _WAITED_FOR_ALL), (_REDUCED, _GATHERED)),
    healthy(
        "two_delayed.lerp",
        ("gate * F.relu(self.mix(h)) + (1 - gate) * h", "torch.lerp(h, F.relu(self.mix(h)), gate)"),
        both=AUTOCAST,
    ),
    healthy("two_topk.dense", (_SPARSE, _DENSE)),
    healthy("two_topk.pooled", ("h.mean((2, 3))", "F.adaptive_avg_pool2d(h, 1).flatten(1)"), both=AUTOCAST),
    healthy("two_mutual.in_turn", (_OF_ALL, _IN_TURN)),
    healthy("two_mutual.by_hand", (_KL_DIV, _KL_BY_HAND), both=AUTOCAST),
    healthy("two_vertical.not_blocking", (_BLOCKING, _NOT_BLOCKING)),
    healthy("two_vertical.softplus", (_BCE, _BCE_BY_HAND), both=AUTOCAST),
)
