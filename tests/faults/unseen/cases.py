# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The held-out set: 40 planted faults and 40 healthy pairs on model kinds that no rule was tried on.

A case is a script of `scripts/`, and what the target has otherwise: lines of the script, a line of a function
of `transformers`, or variables of the environment. No rule or number may be chosen by what comes of these.
"""

from __future__ import annotations

from dataclasses import dataclass

Edits = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Library:
    """In `function` of the model's file in transformers `old` becomes `new`; `where`: in this module only."""

    model: str
    function: str
    old: str
    new: str
    where: str = ""


@dataclass(frozen=True)
class Case:
    name: str
    script: str
    edits: Edits = ()
    """What is written otherwise in the target."""
    library: Library | None = None
    both: Edits = ()
    """What is written otherwise in both runs."""
    environment: tuple[tuple[str, str], ...] = ()
    """Of the target alone."""
    place: str = ""
    """Regular expression: the right answer names it. Empty: healthy."""
    steps: tuple[int, ...] = (0,)
    """At any of these the fault may be found first."""
    words: tuple[str, ...] = ()
    """Of `msprobe run`, for the reference alone."""
    resumed: bool = False
    """The target goes on from what a run of the reference, which is not recorded, saved in the middle."""

    @property
    def is_healthy(self) -> bool:
        return not self.place


BF16: Edits = (("DTYPE = torch.float32", "DTYPE = torch.bfloat16"),)
THREADS: Edits = (("set_num_threads(1)", "set_num_threads(2)"),)
FOREACH: Edits = (("foreach=False", "foreach=True"),)
FUSED: Edits = (("foreach=False", "fused=True"),)
SDPA: Edits = (('"eager"', '"sdpa"'),)
NO_MKLDNN: Edits = (
    ("torch.set_num_threads(1)", "torch.set_num_threads(1); torch._C._set_mkldnn_enabled(False)"),
)
CHECKPOINTING: Edits = (("# model built", 'model.gradient_checkpointing_enable({"use_reentrant": False})'),)
COMPILED: Edits = (("called = model", "called = torch.compile(model)"),)
DEFAULT_KERNELS = (("ATEN_CPU_CAPABILITY", "default"),)
AVX2_KERNELS = (("ATEN_CPU_CAPABILITY", "avx2"),)


def _fault(name: str, old: str, new: str, place: str, steps: tuple[int, ...] = (0,)) -> Case:
    """Of a line of the script that the name begins with, `two_ddp.lost`."""
    script = name.partition(".")[0]
    return Case(name, script, ((old, new),), place=place, steps=steps)


def _library(
    name: str, function: str, old: str, new: str, place: str, where: str = "", both: Edits = ()
) -> Case:
    model = name.partition(".")[0]
    return Case(name, model, library=Library(model, function, old, new, where), both=both, place=place)


_LOCAL_CLIPPING = """norms = [p.grad.to_local().norm() for p in model.parameters()]
    share = (0.1 / (torch.stack(norms).norm() + 1e-6)).clamp(max=1.0)
    for p in model.parameters():
        p.grad.to_local().mul_(share)"""

FAULTS = (
    _fault(
        "diffusion.norm_eps",
        "self.norm = nn.GroupNorm(4, width)",
        "self.norm = nn.GroupNorm(4, width, eps=1e-2)",
        r"attention\.norm",
    ),
    _fault("diffusion.timestep", "alpha_bar[t]", "alpha_bar[t - 1]", r"__sub__|__getitem__|index|\bx\b"),
    _fault("diffusion.frequencies", "10000.0) / half", "10000.0) / (half - 1)", r"\btime\b|__mul__"),
    _library(
        "whisper.scaling",
        "WhisperAttention.forward",
        "scaling=1.0",
        "scaling=self.scaling",
        r"encoder\.layers\.0\.self_attn",
        both=BF16,
    ),
    _library(
        "whisper.causal",
        "eager_attention_forward",
        "attn_weights = attn_weights + attention_mask",
        "pass",
        r"decoder\.layers\.0\.self_attn",
    ),
    _fault(
        "whisper.untied",
        "# model built",
        "model.proj_out.weight = torch.nn.Parameter(model.proj_out.weight.detach().clone())",
        r"proj_out|embed_tokens",
        steps=(0, 1),
    ),
    _library(
        "whisper.shift",
        "shift_tokens_right",
        "input_ids[:, :-1].clone()",
        "input_ids[:, 1:].clone()",
        r"__getitem__|__setitem__|clone|embed_tokens|input_ids",
    ),
    _library(
        "clip.temperature",
        "CLIPModel.forward",
        "self.logit_scale.exp()",
        "self.logit_scale",
        r"\bexp\b|logit_scale|__mul__",
    ),
    _fault(
        "clip.normalised_twice",
        "pixel_values=pictures",
        "pixel_values=(pictures - 0.5) / 0.5",
        r"pixel_values|__sub__|__truediv__",
    ),
    _library(
        "clip.detached",
        "CLIPModel.forward",
        "image_embeds = vision_outputs.pooler_output",
        "image_embeds = vision_outputs.pooler_output.detach()",
        r"detach|visual_projection|vision_model",
    ),
    _fault("clip.decay", "weight_decay=0.1", "weight_decay=0.01", r"weight_decay"),
    _fault("gnn.degree", "pow(-0.5)", "pow(-1.0)", r"\bpow\b|conv1"),
    _fault("gnn.source", "h[source] * weights", "h[target] * weights", r"attention|__getitem__|index"),
    _fault(
        "gan.betas",
        "of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5,",
        "of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.9,",
        r"beta",
    ),
    _fault(
        "gan.labels", "torch.full((8, 1), 0.9)", "torch.full((8, 1), 1.0)", r"\bfull\b|binary_cross_entropy"
    ),
    _fault("recommender.mean", 'mode="sum"', 'mode="mean"', r"tables\.0|embedding_bag"),
    _fault("recommender.hash", "% ROWS", "% (ROWS - 1)", r"\bids\b"),
    _fault("recommender.eps", "eps=1e-10", "eps=1e-2", r"\beps\b"),
    _fault(
        "tagger.lengths",
        "lengths, batch_first=True, enforce",
        "lengths - 1, batch_first=True, enforce",
        r"__sub__|pack|lengths",
    ),
    _fault("tagger.layer", "hidden[-2], hidden[-1]", "hidden[0], hidden[1]", r"__getitem__|\bcat\b|unbind"),
    _fault(
        "tagger.padding",
        "wanted.masked_fill(outside, -1)",
        "wanted.masked_fill(outside, 0)",
        r"masked_fill|cross_entropy|flatten",
    ),
    _fault("tagger.momentum", "momentum=0.9", "momentum=0.99", r"momentum"),
    _fault(
        "ppo.ended",
        "lives = 1 - ended[time]",
        "lives = 1.0",
        r"__rsub__|__mul__|__sub__|__setitem__|__getitem__",
    ),
    _fault("ppo.entropy", "- 0.01 * entropy", "+ 0.01 * entropy", r"__sub__|__add__"),
    _fault("ppo.stale", "model.see(seen)", "pass", r"\bmean\b|\bsquare\b", steps=(1, 2)),
    _library(
        "qwen3_moe.shares",
        "Qwen3MoeTopKRouter.forward",
        "if self.norm_topk_prob:",
        "if False:",
        r"layers\.0\.mlp",
        both=BF16,
    ),
    _library(
        "qwen3_moe.key_norm",
        "Qwen3MoeAttention.forward",
        "self.k_norm(self.k_proj(hidden_states).view(hidden_shape))",
        "self.k_proj(hidden_states).view(hidden_shape)",
        r"layers\.1\.self_attn",
        where="model.layers.1.self_attn",
    ),
    _library(
        "qwen3_moe.router_low",
        "Qwen3MoeTopKRouter.forward",
        "softmax(router_logits, dtype=torch.float, dim=-1)",
        "softmax(router_logits, dim=-1)",
        r"layers\.0\.mlp",
        both=BF16,
    ),
    _library(
        "mamba2.gate",
        "MambaRMSNormGated.forward",
        "nn.functional.silu(gate.to(torch.float32))",
        "torch.sigmoid(gate.to(torch.float32))",
        r"layers\.0\.mixer\.norm",
    ),
    _library(
        "mamba2.bias",
        "mamba2_chunk_scan",
        "dt = dt + dt_bias.to(dt.dtype)",
        "pass",
        r"layers\.0\.mixer",
    ),
    _library(
        "mamba2.decay_low",
        "mamba2_chunk_scan",
        "A = A.to(hidden_states.dtype) * dt.float()",
        "A = (A.to(torch.bfloat16) * dt.to(torch.bfloat16)).float()",
        r"layers\.0\.mixer",
    ),
    _fault(
        "segmentation.corners",
        'size=low.shape[2:], mode="bilinear", align_corners=False',
        'size=low.shape[2:], mode="bilinear", align_corners=True',
        r"interpolate",
    ),
    _fault(
        "segmentation.momentum",
        "nn.BatchNorm2d(outer)",
        "nn.BatchNorm2d(outer, momentum=0.01)",
        r"stem\.1|momentum",
    ),
    _fault("segmentation.overlap", "truth).sum((0, 2, 3))", "truth).sum((2, 3))", r"\bsum\b"),
    _fault(
        "two_ddp.unreduced",
        "synchronised = contextlib.nullcontext()",
        "synchronised = model.no_sync() if step == 1 else contextlib.nullcontext()",
        r"reduc|gradients",
        steps=(1,),
    ),
    _fault(
        "two_fsdp.clipping",
        "nn.utils.clip_grad_norm_(model.parameters(), 0.1)",
        _LOCAL_CLIPPING,
        r"clip|\bnorm\b|mul_",
    ),
    _fault("two_tensor.data", "manual_seed(600)", "manual_seed(600 + rank)", r"^data|\bx\b|features"),
    _fault(
        "two_zero.stale",
        "        dist.broadcast(parameter.data, who)",
        "        if who == 0 or step != 1:\n            dist.broadcast(parameter.data, who)",
        r"broadcast|\d\.(weight|bias)",
        steps=(1, 2),
    ),
    _fault("two_stages.divisor", "wanted[part]) / PARTS", "wanted[part])", r"__truediv__|\bdiv\b"),
    _fault(
        "two_experts.slot",
        "arange(len(x)), chosen] - 1",
        "arange(len(x)), chosen]",
        r"__sub__|__lt__|index_put",
    ),
)


def _healthy(name: str, *edits: tuple[str, str], both: Edits = (), library: Library | None = None) -> Case:
    return Case(name, name.partition(".")[0], edits, library, both)


def _kernels(name: str, environment: tuple[tuple[str, str], ...]) -> Case:
    return Case(name, name.partition(".")[0], environment=environment)


HEALTHY = (
    _healthy("diffusion.threads", *THREADS),
    _healthy("diffusion.compiled", *COMPILED),
    _healthy(
        "diffusion.channels_last",
        ("model = UNet()", "model = UNet().to(memory_format=torch.channels_last)"),
        ("called(noised, t)", "called(noised.contiguous(memory_format=torch.channels_last), t)"),
    ),
    _healthy("whisper.sdpa", *SDPA),
    _healthy("whisper.fused", *FUSED, both=BF16),
    _healthy("whisper.checkpointing", *CHECKPOINTING),
    _healthy("clip.sdpa_low", *SDPA, both=BF16),
    _healthy("clip.no_mkldnn", *NO_MKLDNN),
    _kernels("clip.avx2", AVX2_KERNELS),
    _healthy(
        "gnn.renamed",
        ("self.conv1 =", "self.first ="),
        ("self.conv1(", "self.first("),
        ("self.conv2 =", "self.second ="),
        ("self.conv2(", "self.second("),
        ("self.attention =", "self.edges ="),
        ("self.attention(", "self.edges("),
    ),
    _healthy(
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
    _healthy("gnn.foreach", *FOREACH),
    _healthy("gan.foreach", ("FOREACH = False", "FOREACH = True")),
    _healthy("gan.workers", ("WORKERS = 0", "WORKERS = 2")),
    _healthy(
        "gan.two_backwards",
        ("(real_loss + fake_loss).backward()", "real_loss.backward()\n    fake_loss.backward()"),
    ),
    _healthy("recommender.workers", ("WIDTH, WORKERS = 50, 12, 0", "WIDTH, WORKERS = 50, 12, 2")),
    _healthy("recommender.fused", *FUSED),
    _healthy(
        "recommender.gathered",
        ("*(table(ids[:, i]) for", "*(F.embedding(ids[:, i], table.weight).sum(1) for"),
    ),
    _healthy("tagger.no_mkldnn", *NO_MKLDNN),
    _healthy(
        "tagger.clipping",
        (
            "nn.utils.clip_grad_norm_(model.parameters(), 0.5)",
            "norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])\n"
            "    nn.utils.clip_grads_with_norm_(model.parameters(), 0.5, norm)",
        ),
    ),
    _healthy(
        "tagger.renamed",
        ("self.lstm =", "self.encoder ="),
        ("self.lstm(", "self.encoder("),
        ("self.tags, self.kind =", "self.words, self.sentence ="),
        ("self.tags(", "self.words("),
        ("self.kind(", "self.sentence("),
    ),
    _healthy(
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
    _kernels("ppo.default_kernels", DEFAULT_KERNELS),
    _healthy("ppo.foreach", *FOREACH),
    _healthy("qwen3_moe.batched", ('EXPERTS = "eager", "eager"', 'EXPERTS = "eager", "batched_mm"')),
    _healthy("qwen3_moe.sdpa_low", ('EXPERTS = "eager", "eager"', 'EXPERTS = "sdpa", "eager"'), both=BF16),
    _healthy("qwen3_moe.threads", *THREADS),
    Case("mamba2.resumed", "mamba2", words=("--steps", "0-3"), resumed=True),
    _healthy("mamba2.checkpointing", *CHECKPOINTING, both=BF16),
    _kernels("mamba2.default_kernels", DEFAULT_KERNELS),
    Case(
        "segmentation.resumed",
        "segmentation",
        both=(("STEPS, SAVE_AFTER, RESUME = 3,", "STEPS, SAVE_AFTER, RESUME = 5,"),),
        words=("--steps", "0-4"),
        resumed=True,
    ),
    _healthy(
        "segmentation.channels_last",
        ("model = Segmenter()", "model = Segmenter().to(memory_format=torch.channels_last)"),
        ("called(pictures)", "called(pictures.contiguous(memory_format=torch.channels_last))"),
    ),
    _healthy("segmentation.compiled", *COMPILED),
    _healthy(
        "segmentation.evaluated",
        (
            "    schedule.step()\n",
            "    schedule.step()\n    model.eval()\n    with torch.no_grad():\n        model(pictures)\n"
            "    model.train()\n",
        ),
    ),
    _healthy("two_ddp.buckets", ("bucket_cap_mb=25", "bucket_cap_mb=0.002, gradient_as_bucket_view=True")),
    _healthy("two_fsdp.kept", ("RESHARD = True", "RESHARD = False")),
    _healthy("two_tensor.threads", *THREADS),
    _healthy("two_zero.threads", *THREADS),
    _healthy("two_stages.again"),
    _healthy(
        "two_experts.refactored",
        ("shares = F.softmax(self.router(x), -1)", "shares = (x @ self.router.weight.t()).softmax(-1)"),
        ("parameter.grad.div_(size)\n    for", "parameter.grad /= size\n    for"),
    ),
)

CASES = (*FAULTS, *HEALTHY)
assert len({case.name for case in CASES}) == len(CASES)
