# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The first held-out set: 40 planted faults and 40 healthy pairs on model kinds that no rule was tried on.

No rule or number may be chosen by what comes of these.
"""

from __future__ import annotations

from case import (
    AVX2_KERNELS,
    BF16,
    CHECKPOINTING,
    COMPILED,
    DEFAULT_KERNELS,
    FOREACH,
    FUSED,
    NO_MKLDNN,
    SDPA,
    THREADS,
    Case,
    fault,
    healthy,
    kernels,
    library,
)

_LOCAL_CLIPPING = """norms = [p.grad.to_local().norm() for p in model.parameters()]
    share = (0.1 / (torch.stack(norms).norm() + 1e-6)).clamp(max=1.0)
    for p in model.parameters():
        p.grad.to_local().mul_(share)"""

FAULTS = (
    fault(
        "diffusion.norm_eps",
        "self.norm = nn.GroupNorm(4, width)",
        "self.norm = nn.GroupNorm(4, width, eps=1e-2)",
        r"attention\.norm",
    ),
    fault("diffusion.timestep", "alpha_bar[t]", "alpha_bar[t - 1]", r"__sub__|__getitem__|index|\bx\b"),
    fault("diffusion.frequencies", "10000.0) / half", "10000.0) / (half - 1)", r"\btime\b|__mul__"),
    library(
        "whisper.scaling",
        "WhisperAttention.forward",
        "scaling=1.0",
        "scaling=self.scaling",
        r"encoder\.layers\.0\.self_attn",
        both=BF16,
    ),
    library(
        "whisper.causal",
        "eager_attention_forward",
        "attn_weights = attn_weights + attention_mask",
        "pass",
        r"decoder\.layers\.0\.self_attn",
    ),
    fault(
        "whisper.untied",
        "# model built",
        "model.proj_out.weight = torch.nn.Parameter(model.proj_out.weight.detach().clone())",
        r"proj_out|embed_tokens",
        steps=(0, 1),
    ),
    library(
        "whisper.shift",
        "shift_tokens_right",
        "input_ids[:, :-1].clone()",
        "input_ids[:, 1:].clone()",
        r"__getitem__|__setitem__|clone|embed_tokens|input_ids",
    ),
    library(
        "clip.temperature",
        "CLIPModel.forward",
        "self.logit_scale.exp()",
        "self.logit_scale",
        r"\bexp\b|logit_scale|__mul__",
    ),
    fault(
        "clip.normalised_twice",
        "pixel_values=pictures",
        "pixel_values=(pictures - 0.5) / 0.5",
        r"pixel_values|__sub__|__truediv__",
    ),
    library(
        "clip.detached",
        "CLIPModel.forward",
        "image_embeds = vision_outputs.pooler_output",
        "image_embeds = vision_outputs.pooler_output.detach()",
        r"detach|visual_projection|vision_model",
    ),
    fault("clip.decay", "weight_decay=0.1", "weight_decay=0.01", r"weight_decay"),
    fault("gnn.degree", "pow(-0.5)", "pow(-1.0)", r"\bpow\b|conv1"),
    fault("gnn.source", "h[source] * weights", "h[target] * weights", r"attention|__getitem__|index"),
    fault(
        "gan.betas",
        "of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5,",
        "of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.9,",
        r"beta",
    ),
    fault(
        "gan.labels", "torch.full((8, 1), 0.9)", "torch.full((8, 1), 1.0)", r"\bfull\b|binary_cross_entropy"
    ),
    fault("recommender.mean", 'mode="sum"', 'mode="mean"', r"tables\.0|embedding_bag"),
    fault("recommender.hash", "% ROWS", "% (ROWS - 1)", r"\bids\b"),
    fault("recommender.eps", "eps=1e-10", "eps=1e-2", r"\beps\b"),
    fault(
        "tagger.lengths",
        "lengths, batch_first=True, enforce",
        "lengths - 1, batch_first=True, enforce",
        r"__sub__|pack|lengths",
    ),
    fault("tagger.layer", "hidden[-2], hidden[-1]", "hidden[0], hidden[1]", r"__getitem__|\bcat\b|unbind"),
    fault(
        "tagger.padding",
        "wanted.masked_fill(outside, -1)",
        "wanted.masked_fill(outside, 0)",
        r"masked_fill|cross_entropy|flatten",
    ),
    fault("tagger.momentum", "momentum=0.9", "momentum=0.99", r"momentum"),
    fault(
        "ppo.ended",
        "lives = 1 - ended[time]",
        "lives = 1.0",
        r"__rsub__|__mul__|__sub__|__setitem__|__getitem__",
    ),
    fault("ppo.entropy", "- 0.01 * entropy", "+ 0.01 * entropy", r"__sub__|__add__"),
    fault("ppo.stale", "model.see(seen)", "pass", r"\bmean\b|\bsquare\b", steps=(1, 2)),
    library(
        "qwen3_moe.shares",
        "Qwen3MoeTopKRouter.forward",
        "if self.norm_topk_prob:",
        "if False:",
        r"layers\.0\.mlp",
        both=BF16,
    ),
    library(
        "qwen3_moe.key_norm",
        "Qwen3MoeAttention.forward",
        "self.k_norm(self.k_proj(hidden_states).view(hidden_shape))",
        "self.k_proj(hidden_states).view(hidden_shape)",
        r"layers\.1\.self_attn",
        where="model.layers.1.self_attn",
    ),
    library(
        "qwen3_moe.router_low",
        "Qwen3MoeTopKRouter.forward",
        "softmax(router_logits, dtype=torch.float, dim=-1)",
        "softmax(router_logits, dim=-1)",
        r"layers\.0\.mlp",
        both=BF16,
    ),
    library(
        "mamba2.gate",
        "MambaRMSNormGated.forward",
        "nn.functional.silu(gate.to(torch.float32))",
        "torch.sigmoid(gate.to(torch.float32))",
        r"layers\.0\.mixer\.norm",
    ),
    library(
        "mamba2.bias",
        "mamba2_chunk_scan",
        "dt = dt + dt_bias.to(dt.dtype)",
        "pass",
        r"layers\.0\.mixer",
    ),
    library(
        "mamba2.decay_low",
        "mamba2_chunk_scan",
        "A = A.to(hidden_states.dtype) * dt.float()",
        "A = (A.to(torch.bfloat16) * dt.to(torch.bfloat16)).float()",
        r"layers\.0\.mixer",
    ),
    fault(
        "segmentation.corners",
        'size=low.shape[2:], mode="bilinear", align_corners=False',
        'size=low.shape[2:], mode="bilinear", align_corners=True',
        r"interpolate",
    ),
    fault(
        "segmentation.momentum",
        "nn.BatchNorm2d(outer)",
        "nn.BatchNorm2d(outer, momentum=0.01)",
        r"stem\.1|momentum",
    ),
    fault("segmentation.overlap", "truth).sum((0, 2, 3))", "truth).sum((2, 3))", r"\bsum\b"),
    fault(
        "two_ddp.unreduced",
        "synchronised = contextlib.nullcontext()",
        "synchronised = model.no_sync() if step == 1 else contextlib.nullcontext()",
        r"reduc|gradients",
        steps=(1,),
    ),
    fault(
        "two_fsdp.clipping",
        "nn.utils.clip_grad_norm_(model.parameters(), 0.1)",
        _LOCAL_CLIPPING,
        r"clip|\bnorm\b|mul_",
    ),
    fault("two_tensor.data", "manual_seed(600)", "manual_seed(600 + rank)", r"^data|\bx\b|features"),
    fault(
        "two_zero.stale",
        "        dist.broadcast(parameter.data, who)",
        "        if who == 0 or step != 1:\n            dist.broadcast(parameter.data, who)",
        r"broadcast|\d\.(weight|bias)",
        steps=(1, 2),
    ),
    fault("two_stages.divisor", "wanted[part]) / PARTS", "wanted[part])", r"__truediv__|\bdiv\b"),
    fault(
        "two_experts.slot",
        "arange(len(x)), chosen] - 1",
        "arange(len(x)), chosen]",
        r"__sub__|__lt__|index_put",
    ),
)


HEALTHY = (
    healthy("diffusion.threads", *THREADS),
    healthy("diffusion.compiled", *COMPILED),
    healthy(
        "diffusion.channels_last",
        ("model = UNet()", "model = UNet().to(memory_format=torch.channels_last)"),
        ("called(noised, t)", "called(noised.contiguous(memory_format=torch.channels_last), t)"),
    ),
    healthy("whisper.sdpa", *SDPA),
    healthy("whisper.fused", *FUSED, both=BF16),
    healthy("whisper.checkpointing", *CHECKPOINTING),
    healthy("clip.sdpa_low", *SDPA, both=BF16),
    healthy("clip.no_mkldnn", *NO_MKLDNN),
    kernels("clip.avx2", AVX2_KERNELS),
    healthy(
        "gnn.renamed",
        ("self.conv1 =", "self.first ="),
        ("self.conv1(", "self.first("),
        ("self.conv2 =", "self.second ="),
        ("self.conv2(", "self.second("),
        ("self.attention =", "self.edges ="),
        ("self.attention(", "self.edges("),
    ),
    healthy(
        "gnn.scattered",
        (
            "return torch.zeros(len(x), messages.shape[1]).index_add(0, target, messages)",
            "where = target[:, None].expand_as(messages)\n"
            "        return torch.zeros(len(x), messages.shape[1]).scatter_add(0, where, messages)",
        ),
        (
            "weights = torch.exp(scores - scores.max())",
            "weights = torch.exp(scores - scores.detach().amax())",
        ),
    ),
    healthy("gnn.foreach", *FOREACH),
    healthy("gan.foreach", ("FOREACH = False", "FOREACH = True")),
    healthy("gan.workers", ("WORKERS = 0", "WORKERS = 2")),
    healthy(
        "gan.two_backwards",
        ("(real_loss + fake_loss).backward()", "real_loss.backward()\n    fake_loss.backward()"),
    ),
    healthy("recommender.workers", ("WIDTH, WORKERS = 50, 12, 0", "WIDTH, WORKERS = 50, 12, 2")),
    healthy("recommender.fused", *FUSED),
    healthy(
        "recommender.gathered",
        ("*(table(ids[:, i]) for", "*(F.embedding(ids[:, i], table.weight).sum(1) for"),
    ),
    healthy("tagger.no_mkldnn", *NO_MKLDNN),
    healthy(
        "tagger.clipping",
        (
            "nn.utils.clip_grad_norm_(model.parameters(), 0.5)",
            "norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])\n"
            "    nn.utils.clip_grads_with_norm_(model.parameters(), 0.5, norm)",
        ),
    ),
    healthy(
        "tagger.renamed",
        ("self.lstm =", "self.encoder ="),
        ("self.lstm(", "self.encoder("),
        ("self.tags, self.kind =", "self.words, self.sentence ="),
        ("self.tags(", "self.words("),
        ("self.kind(", "self.sentence("),
    ),
    healthy(
        "ppo.refactored",
        (
            "-torch.min(ratio * advantages, clipped * advantages).mean()",
            "torch.max(-advantages * ratio, -advantages * clipped).mean()",
        ),
        (
            "loss_of_policy + 0.5 * loss_of_value - 0.01 * entropy",
            "loss_of_policy - 0.01 * entropy + loss_of_value * 0.5",
        ),
    ),
    kernels("ppo.default_kernels", DEFAULT_KERNELS),
    healthy("ppo.foreach", *FOREACH),
    healthy("qwen3_moe.batched", ('EXPERTS = "eager", "eager"', 'EXPERTS = "eager", "batched_mm"')),
    healthy("qwen3_moe.sdpa_low", ('EXPERTS = "eager", "eager"', 'EXPERTS = "sdpa", "eager"'), both=BF16),
    healthy("qwen3_moe.threads", *THREADS),
    Case("mamba2.resumed", "mamba2", words=("--steps", "0-3"), resumed=True),
    healthy("mamba2.checkpointing", *CHECKPOINTING, both=BF16),
    kernels("mamba2.default_kernels", DEFAULT_KERNELS),
    Case(
        "segmentation.resumed",
        "segmentation",
        both=(("STEPS, SAVE_AFTER, RESUME = 3,", "STEPS, SAVE_AFTER, RESUME = 5,"),),
        words=("--steps", "0-4"),
        resumed=True,
    ),
    healthy(
        "segmentation.channels_last",
        ("model = Segmenter()", "model = Segmenter().to(memory_format=torch.channels_last)"),
        ("called(pictures)", "called(pictures.contiguous(memory_format=torch.channels_last))"),
    ),
    healthy("segmentation.compiled", *COMPILED),
    healthy(
        "segmentation.evaluated",
        (
            "    schedule.step()\n",
            "    schedule.step()\n    model.eval()\n    with torch.no_grad():\n        model(pictures)\n"
            "    model.train()\n",
        ),
    ),
    healthy("two_ddp.buckets", ("bucket_cap_mb=25", "bucket_cap_mb=0.002, gradient_as_bucket_view=True")),
    healthy("two_fsdp.kept", ("RESHARD = True", "RESHARD = False")),
    healthy("two_tensor.threads", *THREADS),
    healthy("two_zero.threads", *THREADS),
    healthy("two_stages.again"),
    healthy(
        "two_experts.refactored",
        ("shares = F.softmax(self.router(x), -1)", "shares = (x @ self.router.weight.t()).softmax(-1)"),
        ("parameter.grad.div_(size)\n    for", "parameter.grad /= size\n    for"),
    ),
)
