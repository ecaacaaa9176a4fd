# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The twelfth held-out set: 40 planted faults and 40 healthy pairs, half of both in bfloat16 or autocast, on
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

_SUBTRACTED = "        p.sub_(force)\n"
_REDUCED = "        dist.all_reduce(force)\n"

FAULTS = (
    library(
        "albert.residual",
        "AlbertLayer.forward",
        "self.full_layer_layer_norm(ffn_output + attention_output)",
        "self.full_layer_layer_norm(ffn_output + hidden_states)",
        r"__r?add__|layer_norm",
    ),
    fault(
        "albert.inside",
        '(square.sqrt() + group["eps"])',
        '(square + group["eps"]).sqrt()',
        r"^optimizer|sqrt|__r?add__|__r?truediv__",
        both=AUTOCAST,
    ),
    library(
        "cvt.heads",
        "CvtSelfAttention.forward",
        "[query, key]) * self.scale",
        "[query, key]) * head_dim**-0.5",
        r"__r?mul__|einsum|softmax",
    ),
    fault(
        "cvt.stays",
        "    model.train()\n    return right",
        "    return right",
        r"training|batch_norm|BatchNorm|normalization|convolution_projection",
        steps=(1, 2),
        both=AUTOCAST,
    ),
    library(
        "funnel.kinds",
        "FunnelRelMultiheadAttention.relative_token_type_attention",
        "diff_token_type, same_token_type = torch.split",
        "same_token_type, diff_token_type = torch.split",
        r"\bsplit\b|expand|\bwhere\b|seg_embed",
    ),
    fault(
        "funnel.beyond",
        "(begin + size - 1).squeeze(1)",
        "(begin + size).squeeze(1)",
        r"__r?(add|sub)__|squeeze|cross_entropy|inputs|\bend\b",
        both=BF16,
    ),
    library(
        "jetmoe.before",
        "JetMoeTopKGating.forward",
        "torch.softmax(top_k_logits, dim=1)",
        "logits.softmax(dim=1).gather(1, top_k_indices)",
        r"softmax|gather|type_as",
    ),
    fault(
        "jetmoe.parts",
        "judged(found, ids, counts) / PARTS",
        "judged(found, ids, counts)",
        r"__r?truediv__|__r?add__|backward|gradient",
        both=AUTOCAST,
    ),
    fault(
        "two_springs.own",
        _REDUCED,
        "",
        r"reduc|\badd_?\b|__i?r?add__|middle",
        steps=(0, 1, 2),
    ),
    fault(
        "two_springs.both",
        _SUBTRACTED + _REDUCED,
        _REDUCED + _SUBTRACTED,
        r"reduc|\bsub_?\b|__i?r?sub__",
        steps=(0, 1, 2),
        both=AUTOCAST,
    ),
    fault(
        "two_evolve.places",
        "losses.argsort().argsort()",
        "losses.argsort()",
        r"sort|\bfloat\b|__r?truediv__|__r?sub__",
    ),
    fault(
        "two_evolve.twice",
        "range(rank * OWN, (rank + 1) * OWN)",
        "range(OWN)",
        r"randn|manual_seed|generator|__r?mul__|__r?add__|\bfirst\b",
        both=AUTOCAST,
    ),
    fault(
        "two_secret.sign",
        "side = 1 if dist.get_rank() == 0 else -1",
        "side = 1",
        r"__r?mul__|__r?add__|randint|reduc",
    ),
    fault(
        "two_secret.always",
        "(long + 1e-6)).clamp(max=1.0)",
        "(long + 1e-6))",
        r"clamp|__r?mul__|__r?truediv__",
        steps=(1, 2),
        both=AUTOCAST,
    ),
    fault(
        "two_chains.heat",
        '(2 * group["lr"] * group["heat"]',
        '(group["lr"] * group["heat"]',
        r"^optimizer|__r?mul__|sqrt",
    ),
    fault(
        "two_chains.deeper",
        "(1 / warm - 1 / warmer) * (one - other)",
        "(1 / warm - 1 / warmer) * (other - one)",
        r"\bheat\b|^optimizer",
        steps=(0, 1, 2),
        both=AUTOCAST,
    ),
    fault(
        "two_gain.bias",
        "many / (many - 1) * (single - common)",
        "single - common",
        r"\blr\b|^optimizer",
    ),
    fault(
        "two_gain.sum",
        "        p.grad.div_(many)\n",
        "",
        r"reduc|\bdiv_?\b|__i?truediv__|gradient|square",
        both=AUTOCAST,
    ),
    fault("pools.nodes", "softmax(dim=-1)", "softmax(dim=1)", r"softmax|__r?mul__"),
    fault(
        "pools.degrees",
        "edges.sum(dim=2, keepdim=True)",
        "edges.sum(dim=1, keepdim=True)",
        r"\bsum\b|clamp|__r?truediv__|einsum",
        both=AUTOCAST,
    ),
    fault("longtail.prior", "+ TAU * self.prior", "- TAU * self.prior", r"__r?(add|sub|mul)__"),
    fault(
        "longtail.later",
        "if step < LATER:",
        "if step <= LATER:",
        r"__getitem__|__r?mul__|\bmean\b|weights",
        steps=(2,),
        both=AUTOCAST,
    ),
    fault(
        "ordinal.own",
        "grades.unsqueeze(1) > torch.arange",
        "grades.unsqueeze(1) >= torch.arange",
        r"__g[te]__|\bg[te]\b|\bfloat\b|__r?mul__",
    ),
    fault(
        "ordinal.fast",
        '{"params": slow, "lr": 0.05}',
        '{"params": slow}',
        r"\blr\b|^optimizer|gaps|lowest",
        both=AUTOCAST,
    ),
    fault(
        "invariant.constant",
        "create_graph=True",
        "create_graph=False",
        r"gradient|backward|\bgrad\b|binary_cross_entropy|__r?mul__|__r?add__|__getitem__|chunk",
    ),
    fault(
        "invariant.scaled",
        "return loss / strict if strict > 1 else loss",
        "return loss",
        r"__r?truediv__",
        steps=(1, 2),
        both=AUTOCAST,
    ),
    fault(
        "ddsp.heard",
        "(high < RATE / 2)",
        "(high < RATE)",
        r"__l[te]__|\bl[te]\b|__r?mul__|__r?truediv__",
    ),
    fault("ddsp.epsilon", "1e-3).log()", "1e-5).log()", r"__r?add__|\blog\b", both=AUTOCAST),
    fault("hyena.wraps", "size = 2 * LONG", "size = LONG", r"fft|__r?mul__"),
    fault(
        "hyena.ahead",
        "(self.three(self.norm(x)).mT)[..., :LONG]",
        "(self.three(self.norm(x)).mT)[..., 2:]",
        r"__getitem__|\bshort\b|conv1d",
        both=AUTOCAST,
    ),
    fault("vtrace.trusted", "trusted = ratios.clamp(max=TRUST)", "trusted = ratios", r"clamp|__r?mul__"),
    fault(
        "vtrace.next",
        "comes = torch.cat([found[1:], last.unsqueeze(0)])",
        "comes = torch.cat([values[1:], last.unsqueeze(0)])",
        r"\bcat\b|__getitem__|__r?mul__|stack",
        both=AUTOCAST,
    ),
    fault(
        "jepa.where",
        "self.asks + self.where[hidden]",
        "self.asks + self.where[: len(hidden)]",
        r"__getitem__|__r?add__|\bwhere\b",
    ),
    fault(
        "jepa.keeps",
        "p.mul_(keeps).add_(new, alpha=1 - keeps)",
        "p.mul_(1 - keeps).add_(new, alpha=keeps)",
        r"\b(mul|add)_|__i(mul|add)__|patches|conv2d",
        steps=(0, 1, 2),
        both=AUTOCAST,
    ),
    fault(
        "satisfy.opposite",
        "says.view(count, 2, literals // 2, WIDE).flip(1).flatten(0, 2)",
        "says.view(count, 2, literals // 2, WIDE).flatten(0, 2)",
        r"flip|flatten|\bview\b|\bcat\b",
    ),
    fault(
        "satisfy.votes",
        ".float().mean(dim=1)",
        ".float().sum(dim=1)",
        r"\bmean\b|\bsum\b",
        both=AUTOCAST,
    ),
    fault(
        "feedback.slope",
        "(1 - made * made)",
        "(1 - made)",
        r"Aligned|gradient|__r?(mul|sub|matmul)__|\brsub\b",
    ),
    fault(
        "feedback.mean",
        "own.sum(dim=0)",
        "own.mean(dim=0)",
        r"Aligned|gradient|\bsum\b|\bmean\b|\bbias\b",
        both=AUTOCAST,
    ),
    fault(
        "bilateral.turned",
        "torch.stack([right, down,",
        "torch.stack([down, right,",
        r"stack|unsqueeze|grid_sample",
    ),
    fault(
        "bilateral.corners",
        'padding_mode="border", align_corners=False',
        'padding_mode="border", align_corners=True',
        r"grid_sample",
        both=AUTOCAST,
    ),
)

_CHANNELS_LAST: Edits = (("# model built", "model.to(memory_format=torch.channels_last)"),)
_NORMS = "torch.linalg.vector_norm(p), torch.linalg.vector_norm(move)"
_ROOTS = "p.square().sum().sqrt(), move.square().sum().sqrt()"
_GATED = "self.activation(chunked_hidden_states[0]) * chunked_hidden_states[1]"
_SLICED = """(
        hidden_states[:, self.hidden_size :] * self.activation(hidden_states[:, : self.hidden_size])
    )"""
_ONE_BY_ONE = """    for p, m in zip(model.parameters(), middle):
        force = PULL * (p - m)
        p.sub_(force)
        dist.all_reduce(force)
        m.add_(force)
"""
_AT_ONCE = """    force = torch.cat([PULL * (p - m).flatten() for p, m in zip(model.parameters(), middle)])
    drawn = force.clone()
    dist.all_reduce(drawn)
    sizes = [m.numel() for m in middle]
    for p, m, own, both in zip(model.parameters(), middle, force.split(sizes), drawn.split(sizes)):
        p.sub_(own.view_as(p))
        m.add_(both.view_as(m))
"""
_SENT = "    dist.all_reduce(sent)\n"
_GATHERED = """    parts = [torch.empty_like(sent) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, sent)
    sent = torch.stack(parts).sum(dim=0)
"""
_SMOOTHED = "F.cross_entropy(said.flatten(0, 1), ids[:, 1:].flatten(), label_smoothing=0.05)"
_BY_HAND = """said.log_softmax(dim=2)
    loss = -(0.95 * loss.gather(2, ids[:, 1:, None]).mean() + 0.05 * loss.mean())"""
_PUSHED = 'p.add_(size * push - group["lr"] * measure * p.grad)'
_ADDED_TO = 'p.addcmul_(size, push).addcmul_(measure, p.grad, value=-group["lr"])'
_EACH_REDUCED = """    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad.div_(many)
"""
_REDUCED_AT_ONCE = """    flat = torch.cat([p.grad.flatten() for p in model.parameters()]) / many
    dist.all_reduce(flat)
    for p, part in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
        p.grad.copy_(part.view_as(p))
"""
_EINSUM = 'torch.einsum("bij,bjf->bif", edges / degrees, x.float())'
_ENTROPY = 'F.cross_entropy(logits, kinds, reduction="none")'
_LOG_SUM = "logits.logsumexp(dim=1) - (logits * own).sum(dim=1)"
_TWO_SIDES = "F.logsigmoid(logits) * wanted + (F.logsigmoid(logits) - logits) * (1 - wanted)"
_DERIVED = """    one = torch.ones((), requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(one * logits, labels)
    return torch.autograd.grad(loss, one, create_graph=True)[0]
"""
_KNOWN = "    return ((logits.sigmoid() - labels) * logits).mean()\n"
_SIZES = "torch.stft(x, size, size // 4, window=window, return_complex=True).abs() for x"
_NORM_OF_PARTS = """torch.view_as_real(
                torch.stft(x, size, size // 4, window=window, return_complex=True)
            ).norm(dim=-1) for x"""
_BY_FFT = """    size = 2 * LONG
    found = torch.fft.irfft(torch.fft.rfft(x, size) * torch.fft.rfft(filters, size), size)
    return found[..., :LONG]
"""
_BY_MATRIX = """    back = torch.arange(LONG).unsqueeze(1) - torch.arange(LONG)
    matrix = filters[:, back.clamp(min=0)] * (back >= 0)
    return torch.einsum("bcj,cij->bci", x, matrix)
"""
_SUMMED = """    total, found = torch.zeros_like(last), []
    for at in reversed(range(len(rewards))):
        total = surprise[at] + FADES * goes_on[at] * trusted[at] * total
        found.insert(0, values[at] + total)
    found = torch.stack(found)
"""
_FROM_NEXT = """    came, found = last, []
    for at in reversed(range(len(rewards))):
        came = values[at] + surprise[at] + FADES * goes_on[at] * trusted[at] * (came - after[at])
        found.append(came)
    found = torch.stack(found[::-1])
"""
_FUSED_ATTENTION = "F.scaled_dot_product_attention(q, k, v)"
_EAGER_ATTENTION = "(q * q.shape[-1] ** -0.5 @ k.mT).softmax(dim=-1) @ v"

HEALTHY = (
    healthy("albert.sdpa", *SDPA),
    healthy("albert.roots", (_NORMS, _ROOTS), both=AUTOCAST),
    healthy("cvt.channels_last", *_CHANNELS_LAST),
    healthy("cvt.foreach", *FOREACH, both=AUTOCAST),
    healthy(
        "funnel.filled",
        library=Library(
            "funnel",
            "FunnelRelMultiheadAttention.forward",
            "attn_score - INF * (1 - attention_mask[:, None, None].float())",
            "attn_score.masked_fill(attention_mask[:, None, None] == 0, -INF)",
        ),
    ),
    healthy("funnel.threads", *THREADS, both=BF16),
    healthy("jetmoe.sdpa", *SDPA),
    healthy(
        "jetmoe.sliced",
        both=AUTOCAST,
        library=Library("jetmoe", "JetMoeMoE.forward", _GATED, _SLICED),
    ),
    healthy("two_springs.at_once", (_ONE_BY_ONE, _AT_ONCE)),
    healthy("two_springs.foreach", *FOREACH, both=AUTOCAST),
    healthy(
        "two_evolve.compared",
        ("losses.argsort().argsort().float()", "(losses.unsqueeze(1) > losses).sum(dim=1).float()"),
    ),
    healthy("two_evolve.fused", *FUSED, both=AUTOCAST),
    healthy("two_secret.by_hand", (_SMOOTHED, _BY_HAND)),
    healthy("two_secret.gathered", (_SENT, _GATHERED), both=AUTOCAST),
    healthy("two_chains.added_to", (_PUSHED, _ADDED_TO)),
    healthy(
        "two_chains.log",
        ("torch.log1p(apart.square() / FREE)", "(1 + apart.square() / FREE).log()"),
        both=AUTOCAST,
    ),
    healthy("two_gain.at_once", (_EACH_REDUCED, _REDUCED_AT_ONCE)),
    Case("two_gain.default_kernels", "two_gain", both=AUTOCAST, environment=DEFAULT_KERNELS),
    healthy("pools.matmul", (_EINSUM, "(edges / degrees) @ x.float()")),
    Case("pools.avx2_kernels", "pools", both=AUTOCAST, environment=AVX2_KERNELS),
    healthy("longtail.log_sum", (_ENTROPY, _LOG_SUM)),
    Case("longtail.resumed", "longtail", both=AUTOCAST, words=("--steps", "0-5"), resumed=True),
    healthy("ordinal.softplus", (_TWO_SIDES, "wanted * logits - F.softplus(logits)")),
    healthy("ordinal.foreach", *FOREACH, both=AUTOCAST),
    healthy("invariant.known", (_DERIVED, _KNOWN)),
    healthy("invariant.foreach", *FOREACH, both=AUTOCAST),
    healthy("ddsp.norm_of_parts", (_SIZES, _NORM_OF_PARTS)),
    healthy("ddsp.threads", *THREADS, both=AUTOCAST),
    healthy("hyena.by_matrix", (_BY_FFT, _BY_MATRIX)),
    healthy("hyena.checkpointing", ("LIGHT = False", "LIGHT = True"), both=AUTOCAST),
    healthy("vtrace.from_next", (_SUMMED, _FROM_NEXT)),
    healthy("vtrace.renamed", ("remembers", "cell"), both=AUTOCAST),
    healthy("jepa.eager", (_FUSED_ATTENTION, _EAGER_ATTENTION)),
    healthy("jepa.fused", *FUSED, both=AUTOCAST),
    healthy("satisfy.noise", *NOISE),
    healthy("satisfy.rolled", (".flip(1)", ".roll(1, 1)"), both=AUTOCAST),
    healthy("feedback.einsum", ("own.T @ x", 'torch.einsum("bo,bi->oi", own, x)')),
    healthy("feedback.foreach", *FOREACH, both=AUTOCAST),
    Case("bilateral.resumed", "bilateral", words=("--steps", "0-5"), resumed=True),
    healthy("bilateral.no_mkldnn", *NO_MKLDNN, both=AUTOCAST),
)
