# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The second held-out set: 40 planted faults, half of them in bfloat16, and 40 healthy pairs, on model kinds
that nothing of this repository had before.

No rule or number may be chosen by what comes of these.
"""

from __future__ import annotations

from case import (
    AUTOCAST,
    AVX2_KERNELS,
    BF16,
    COMPILED,
    DEFAULT_KERNELS,
    FOREACH,
    FUSED,
    NO_MKLDNN,
    NOISE,
    THREADS,
    Case,
    Edits,
    fault,
    healthy,
    kernels,
)

AUTOCAST_OF_SWIN: Edits = (("AUTOCAST, RECOMPUTE = False,", "AUTOCAST, RECOMPUTE = True,"),)
BF16_OF_PERCEIVER: Edits = (
    ("DTYPE, FUSED_ATTENTION = torch.float32", "DTYPE, FUSED_ATTENTION = torch.bfloat16"),
)
BF16_OF_EQUILIBRIUM: Edits = (("DTYPE, ROUNDS = torch.float32", "DTYPE, ROUNDS = torch.bfloat16"),)

FAULTS = (
    fault(
        "vae.deviation",
        "torch.exp(0.5 * log_variance)",
        "torch.exp(log_variance)",
        r"__mul__|\bexp\b",
        both=AUTOCAST,
    ),
    fault(
        "vae.divergence", "log_variance.exp()).sum(1).mean()", "log_variance.exp()).mean()", r"\b(sum|mean)\b"
    ),
    fault("flow.inverse", "torch.exp(scale) + shift", "torch.exp(-scale) + shift", r"neg|\bexp\b"),
    fault("wavenet.padding", "(self.left, 0)", "(0, self.left)", r"\bpad\b", both=BF16),
    fault(
        "wavenet.scale", "(x + self.out(h)) * 0.5**0.5", "(x + self.out(h))", r"layers\.0|__mul__", both=BF16
    ),
    fault("wavenet.levels", "/ 2 * mu + 0.5).long()", "/ 2 * mu).long()", r"__add__|\blong\b|inputs"),
    fault("nerf.bands", "2.0 ** torch.arange(bands)", "2.0 * torch.arange(bands)", r"pow|__r?mul__"),
    fault(
        "mixer.smoothing",
        ".float(), wanted, label_smoothing=SMOOTHING)",
        ".float(), wanted)",
        r"cross_entropy|label_smoothing",
        both=AUTOCAST,
    ),
    fault("mixer.decay", '"weight_decay": 0.0}', '"weight_decay": 0.1}', r"weight_decay"),
    fault("convnext.scale", "h = self.gamma * self.down", "h = self.down", r"stage1\.0", both=BF16),
    fault("convnext.eps", "variance + 1e-6", "variance + 1e-2", r"\bfirst\b|__add__", both=BF16),
    fault(
        "swin.back",
        "h = torch.roll(h, (self.shift, self.shift), (1, 2))",
        "h = torch.roll(h, (-self.shift, -self.shift), (1, 2))",
        r"blocks\.1|roll",
        both=AUTOCAST_OF_SWIN,
    ),
    fault(
        "swin.mask", "windows_of(h), self.mask)", "windows_of(h), None)", r"blocks\.1", both=AUTOCAST_OF_SWIN
    ),
    fault("siamese.temperature", "TEMPERATURE = 0.2", "TEMPERATURE = 0.5", r"__truediv__"),
    fault(
        "siamese.schedule",
        "    optimizer.step()\n    schedule.step()\n",
        "    schedule.step()\n    optimizer.step()\n",
        r"\blr\b|learning rate",
    ),
    fault(
        "seq2seq.padding",
        "outside = source == 0",
        "outside = source < 0",
        r"__eq__|__lt__|\beq\b|\blt\b|masked_fill",
    ),
    fault(
        "seq2seq.layer", "[last[0], last[1]]", "[last[0], last[0]]", r"bridge|\bcat\b|__getitem__", both=BF16
    ),
    fault(
        "crf.moves",
        "self.moves[tags[:, time - 1], tags[:, time]]",
        "self.moves[tags[:, time], tags[:, time - 1]]",
        r"__getitem__",
    ),
    fault(
        "crf.inside",
        "alpha = torch.where(inside[:, time, None] > 0, after, alpha)",
        "alpha = after",
        r"\bwhere\b|__gt__",
    ),
    fault("dqn.ended", "DISCOUNT * (1 - ended[rows]) * coming", "DISCOUNT * coming", r"__r?sub__|__r?mul__"),
    fault(
        "dqn.follower",
        "FOLLOWS_EVERY, DISCOUNT = 2,",
        "FOLLOWS_EVERY, DISCOUNT = 3,",
        r"load_state_dict|copy_|follower|body|value|gain",
        steps=(1, 2),
    ),
    fault("sac.squash", "1 - action.square()", "1 - action", r"square|__r?sub__"),
    fault("sac.tau", "FOREACH, TAU = False, 0.05", "FOREACH, TAU = False, 0.005", r"lerp"),
    fault(
        "rssm.straight",
        "latent = (picked + shares - shares.detach()).flatten(1)",
        "latent = picked.flatten(1)",
        r"__add__|__sub__|detach|requires_grad",
        both=AUTOCAST,
    ),
    fault(
        "rssm.balance",
        "0.5 * of_prior + 0.1 * of_posterior",
        "0.1 * of_prior + 0.5 * of_posterior",
        r"__r?mul__",
        both=AUTOCAST,
    ),
    fault("retnet.decay", "(-3 - torch", "(-5 - torch", r"decay", both=BF16),
    fault("retnet.scale", "k = k * (WIDTH // HEADS) ** -0.5", "pass", r"blocks\.0\.retention", both=BF16),
    fault(
        "retnet.kept_gradients",
        "    optimizer.zero_grad()\n",
        "",
        r"gradient|zero_grad",
        steps=(1,),
        both=BF16,
    ),
    fault(
        "distill.temperature",
        "SHARE * TEMPERATURE**2 * alike",
        "SHARE * alike",
        r"__r?mul__",
        both=BF16,
    ),
    fault("distill.eval", ".eval().requires_grad_", ".requires_grad_", r"training|norm"),
    fault("detector.gamma", "GAMMA, ALPHA = 4, 2.0", "GAMMA, ALPHA = 4, 1.0", r"pow", both=AUTOCAST),
    fault("detector.momentum", "momentum=0.9", "momentum=0.0", r"momentum"),
    fault("video.pooling", "coarse.mean((2, 3, 4))", "coarse.amax((2, 3, 4))", r"mean|amax", both=AUTOCAST),
    fault("spectral.slope", ".norm(2, 1)", ".norm(1, 1)", r"\bnorm\b"),
    fault(
        "perceiver.mask",
        "scores.masked_fill(outside[",
        "scores.masked_fill(~outside[",
        r"look\.0|invert",
        both=BF16_OF_PERCEIVER,
    ),
    fault("hyper.scale", "head(h) * 0.3", "head(h) * 0.1", r"__mul__"),
    fault(
        "deq.rounds",
        "range(3):\n            z",
        "range(2):\n            z",
        r"layer",
        both=BF16_OF_EQUILIBRIUM,
    ),
    fault(
        "two_sync.local",
        "dist_nn.all_reduce(torch.stack([x.sum((0, 2, 3)), x.square().sum((0, 2, 3))]))",
        "torch.stack([x.sum((0, 2, 3)), x.square().sum((0, 2, 3))])",
        r"reduce|norm1",
    ),
    fault("two_mixed.reduced", "REDUCED = torch.float32", "REDUCED = torch.bfloat16", r"reduc|gradients"),
    fault(
        "two_heads.copied", "h = Copied.apply(self.norm1(x))", "h = self.norm1(x)", r"reduc|gradients|norm1"
    ),
)

_WHOLE = """    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = F.cross_entropy(called(pictures).float(), wanted, label_smoothing=SMOOTHING)
    loss.backward()
"""
_IN_PARTS = """    optimizer.zero_grad()
    loss = torch.zeros(())
    for half in (slice(0, 4), slice(4, 8)):
        with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
            logits = called(pictures[half]).float()
            part = F.cross_entropy(logits, wanted[half], label_smoothing=SMOOTHING) / 2
        part.backward()
        loss += part.detach()
"""
_RETNET_WHOLE = """    loss = F.cross_entropy(model(ids[:, :-1]).float().flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
"""
_RETNET_IN_PARTS = """    loss = torch.zeros(())
    for part in ids.chunk(2):
        one = F.cross_entropy(model(part[:, :-1]).float().flatten(0, 1), part[:, 1:].flatten()) / 2
        one.backward()
        loss += one.detach()
"""
_OWN_NORM = """        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]
"""
_TORCH_NORM = """        x = F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],), self.weight, self.bias, 1e-6)
        return x.permute(0, 3, 1, 2)
"""
_SWIN_EAGER = """        scores = q * self.scale @ k.transpose(-2, -1) + bias
        if mask is not None:
            scores = (scores.unflatten(0, (-1, len(mask))) + mask[:, None]).flatten(0, 1)
        h = F.softmax(scores, -1) @ v
"""
_SWIN_SDPA = """        allowed = bias.expand(len(x), -1, -1, -1)
        if mask is not None:
            allowed = (allowed.unflatten(0, (-1, len(mask))) + mask[:, None]).flatten(0, 1)
        h = F.scaled_dot_product_attention(q, k, v, allowed.to(q.dtype), scale=self.scale)
"""
_HEADS = "scores = turned(q) @ turned(k).transpose(-2, -1) * kept.to(x.dtype)"

HEALTHY = (
    healthy(
        "vae.channels_last",
        ("model = Autoencoder()", "model = Autoencoder().to(memory_format=torch.channels_last)"),
        ("called(pictures, drawn)", "called(pictures.to(memory_format=torch.channels_last), drawn)"),
    ),
    Case("vae.resumed", "vae", words=("--steps", "0-3"), resumed=True),
    healthy(
        "flow.renamed",
        ("self.net =", "self.conditioner ="),
        ("self.net(", "self.conditioner("),
        ("self.parts", "self.layers"),
    ),
    healthy("flow.noise", *NOISE),
    healthy("wavenet.no_mkldnn", *NO_MKLDNN),
    Case("wavenet.resumed", "wavenet", both=BF16, words=("--steps", "0-3"), resumed=True),
    kernels("nerf.avx2", AVX2_KERNELS),
    healthy(
        "nerf.refactored",
        ("(weights[..., None] * colour).sum(1)", 'torch.einsum("rs,rsc->rc", weights, colour)'),
        ("(1 - weights.sum(1, keepdim=True))", "1 - weights.sum(1)[:, None]"),
    ),
    healthy("nerf.threads", *THREADS),
    healthy("mixer.fused", *FUSED, both=AUTOCAST),
    healthy("mixer.in_parts", (_WHOLE, _IN_PARTS)),
    healthy("mixer.compiled", *COMPILED),
    healthy(
        "convnext.channels_last",
        ("ConvNext().to(DTYPE)", "ConvNext().to(DTYPE, memory_format=torch.channels_last)"),
        ("called(pictures)", "called(pictures.contiguous(memory_format=torch.channels_last))"),
        both=BF16,
    ),
    kernels("convnext.default_kernels", DEFAULT_KERNELS),
    healthy("convnext.norm", (_OWN_NORM, _TORCH_NORM)),
    healthy(
        "swin.checkpointing", ("RECOMPUTE = True, False", "RECOMPUTE = True, True"), both=AUTOCAST_OF_SWIN
    ),
    healthy("swin.sdpa", (_SWIN_EAGER, _SWIN_SDPA)),
    healthy("siamese.noise", *NOISE),
    healthy("seq2seq.no_mkldnn", *NO_MKLDNN),
    healthy(
        "seq2seq.refactored",
        ("torch.bmm(shares[:, None], keys).squeeze(1)", 'torch.einsum("bs,bsd->bd", shares, keys)'),
        both=BF16,
    ),
    healthy(
        "crf.renamed",
        ("self.scores, self.crf =", "self.emit, self.field ="),
        ("self.crf(self.scores(", "self.field(self.emit("),
        ("self.moves", "self.transitions"),
    ),
    kernels("crf.default_kernels", DEFAULT_KERNELS),
    healthy(
        "dqn.refactored",
        (
            "reward[rows] + DISCOUNT * (1 - ended[rows]) * coming",
            "torch.where(ended[rows] > 0, reward[rows], reward[rows] + DISCOUNT * coming)",
        ),
    ),
    healthy("sac.noise", *NOISE),
    kernels("rssm.avx2", AVX2_KERNELS),
    healthy("retnet.in_parts", (_RETNET_WHOLE, _RETNET_IN_PARTS), both=BF16),
    healthy(
        "retnet.refactored",
        (_HEADS, 'scores = torch.einsum("bhid,bhjd->bhij", turned(q), turned(k)) * kept.to(x.dtype)'),
        (
            "return self.out(F.silu(self.gate(x)) * h)",
            "g = self.gate(x)\n        return self.out(h * (g * g.sigmoid()))",
        ),
    ),
    healthy("distill.no_mkldnn", *NO_MKLDNN, both=BF16),
    healthy(
        "distill.channels_last",
        ("Network(8).to(DTYPE)", "Network(8).to(DTYPE, memory_format=torch.channels_last)"),
        ("Network(24).to(DTYPE)", "Network(24).to(DTYPE, memory_format=torch.channels_last)"),
    ),
    healthy("detector.threads", *THREADS, both=AUTOCAST),
    healthy(
        "video.channels_last",
        ("model = Video()", "model = Video().to(memory_format=torch.channels_last_3d)"),
        (
            "called(frames[:, :, :-1])",
            "called(frames[:, :, :-1].contiguous(memory_format=torch.channels_last_3d))",
        ),
    ),
    healthy("video.noise", *NOISE, both=AUTOCAST),
    kernels("spectral.default_kernels", DEFAULT_KERNELS),
    healthy(
        "perceiver.sdpa",
        ("torch.bfloat16, False", "torch.bfloat16, True"),
        both=BF16_OF_PERCEIVER,
    ),
    healthy("perceiver.compiled", *COMPILED),
    kernels("hyper.avx2", AVX2_KERNELS),
    healthy("deq.foreach", *FOREACH, both=BF16_OF_EQUILIBRIUM),
    healthy("two_sync.threads", *THREADS),
    healthy("two_mixed.kept", ("mp_policy=policy)", "mp_policy=policy, reshard_after_forward=False)")),
    healthy(
        "two_heads.refactored",
        (
            "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
            "self.attend(q, k, v)",
        ),
        (
            "    def forward(self, x):\n        h = Copied",
            "    def attend(self, q, k, v):\n"
            "        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5\n"
            "        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)\n"
            '        return scores.masked_fill(later, float("-inf")).softmax(-1) @ v\n\n'
            "    def forward(self, x):\n        h = Copied",
        ),
    ),
)
