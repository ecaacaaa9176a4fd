# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The fourth held-out set: 40 planted faults and 40 healthy pairs, half of both in bfloat16 or autocast, on
model kinds that nothing of this repository had before.

No rule or number may be chosen by what comes of these.
"""

from __future__ import annotations

from case import (
    AVX2_KERNELS,
    DEFAULT_KERNELS,
    FUSED,
    NO_MKLDNN,
    THREADS,
    Case,
    Edits,
    fault,
    healthy,
)


def _set(name: str, old: str = "False", new: str = "True") -> Edits:
    """A constant at the top of a script."""
    return ((f"\n{name} = {old}\n", f"\n{name} = {new}\n"),)


_AMP = _set("AMP")
_AUTOCAST = _set("AUTOCAST")
_BF16 = _set("DTYPE", "torch.float32", "torch.bfloat16")

# The changed lines of skipgram.power, energy.range and boltzmann.chain run before the first step is recorded:
# what they changed comes in as an input of the model, and that is the right answer.
FAULTS = (
    fault(
        "skipgram.sign",
        "F.logsigmoid(-far.float())",
        "F.logsigmoid(far.float())",
        r"__neg__|\bneg\b|logsigmoid",
    ),
    fault(
        "skipgram.power",
        "counts**0.75",
        "counts",
        r"pow|multinomial|inputs\.args\.2|Functional\.embedding\.2|context",
        both=_AMP,
    ),
    fault("kriging.noise", "self.log_noise.exp()", "(2 * self.log_noise).exp()", r"__r?mul__|\bexp\b"),
    fault(
        "kriging.logdet",
        "size = lower",
        "size = 0.5 * lower",
        r"__r?mul__|diagonal|\blog\b|\bsum\b",
        both=_AUTOCAST,
    ),
    fault("mixture.weights", "F.log_softmax(pi, dim=-1) + each", "pi + each", r"log_softmax|__add__"),
    fault(
        "mixture.scaling",
        "question = (question - question.mean()) / question.std()\n",
        "",
        r"^data",
        both=_set("dtype", "torch.float32", "torch.bfloat16"),
    ),
    fault("unitary.conjugate", "(z * v.conj())", "(z * v)", r"conj|__mul__"),
    fault(
        "unitary.phases",
        "(torch.rand(hidden) * 2 - 1) * math.pi",
        "torch.rand(hidden) * 2 - 1",
        r"phases",
        both=_set("LOW_PRECISION_HEAD"),
    ),
    fault("turing.gamma", "gamma = 1 + F.softplus", "gamma = F.softplus", r"__r?add__|__pow__"),
    fault(
        "turing.shift",
        "shift[:, 0:1] * torch.roll(w, -1, dims=1)",
        "shift[:, 0:1] * torch.roll(w, 1, dims=1)",
        r"\broll\b",
        both=_BF16,
    ),
    fault("pointer.visited", 'scores.masked_fill(visited, float("-inf"))', "scores", r"masked_fill"),
    fault("pointer.clipped", "10 * torch.tanh", "torch.tanh", r"__r?mul__|tanh", both=_set("BFLOAT")),
    fault("energy.sign", "(e_real - e_fake).mean()", "(e_fake - e_real).mean()", r"__sub__"),
    fault(
        "energy.range",
        "x.clamp_(-1, 1)",
        "x.clamp_(0, 1)",
        r"clamp_|inputs\.1\.args\.0",
        both=_set("use_amp"),
    ),
    fault("molecule.sign", "forces = -slope", "forces = slope", r"__neg__|\bneg\b|mse_loss\.1"),
    fault(
        "molecule.shift",
        "F.softplus(x) - math.log(2.0)",
        "F.softplus(x)",
        r"__sub__|softplus",
        both=_AUTOCAST,
    ),
    fault("survival.order", "descending=True", "descending=False", r"argsort|__getitem__"),
    fault(
        "survival.momentum",
        "momentum=0.9",
        "momentum=0.9, dampening=0.9",
        r"dampening",
        both=_set("half"),
    ),
    fault("knowledge.phase", "relation / (self.range / math.pi)", "relation", r"__truediv__|\bcos\b"),
    fault(
        "knowledge.detached",
        "dim=1).detach()",
        "dim=1)",
        r"detach|requires_grad",
        both=_set("SIXTEEN"),
    ),
    fault("segments.memory", "logits, mems =", "logits, _ =", r"args\.1|\bcat\b|mem", steps=(1,)),
    fault(
        "segments.scale",
        "/ self.d_head**0.5",
        "/ (self.heads * self.d_head) ** 0.5",
        r"__truediv__",
        both=_set("precision", "torch.float32", "torch.bfloat16"),
    ),
    fault("style.size", "/ (c * h * w)", "/ (h * w)", r"__truediv__"),
    fault("style.pooling", "avg_pool2d", "max_pool2d", r"(avg|max)_pool2d", both=_AUTOCAST),
    fault(
        "reversible.residual",
        "dx2 = dy2 + d\n",
        "dx2 = d\n",
        r"Reversible|stage2\.[01](?!\.)|__add__|\bcat\b",
    ),
    fault(
        "reversible.inverse",
        "x2 = y2 - gy1",
        "x2 = y2",
        r"Reversible|stage2\.1\.f|__sub__",
        both=_set("BF16"),
    ),
    fault("domain.reversal", "grad.neg()", "grad", r"\bneg\b|Reverse|view_as|relu\.1\.backward"),
    fault(
        "domain.schedule",
        "        self.sched_critic.step()\n",
        "",
        r"\blr\b|sched",
        steps=(0, 1),
        both=_AMP,
    ),
    fault(
        "prototypes.order",
        "view(WAYS, SHOTS, -1).mean(dim=1)",
        "view(SHOTS, WAYS, -1).mean(dim=0)",
        r"\bview\b|\bmean\b",
    ),
    fault(
        "prototypes.labels",
        "repeat_interleave(QUERIES)",
        "repeat(QUERIES)",
        r"repeat|nll_loss",
        both=_AUTOCAST,
    ),
    fault("convlstm.gates", "i, f, o, g = torch.split", "i, f, g, o = torch.split", r"sigmoid|tanh|split"),
    fault(
        "convlstm.teacher",
        "teacher[0][:, n], y",
        "teacher[0][:, n + 1], y",
        r"\bwhere\b|__getitem__",
        both=_BF16,
    ),
    fault(
        "boltzmann.chain", "rbm.sample(chain)", "rbm.sample(data)", r"__matmul__|bernoulli|inputs\.1\.args\.0"
    ),
    fault(
        "boltzmann.visible", "-(v @ self.a) -", "(v @ self.a) -", r"__neg__|\bneg\b|__sub__", both=_AUTOCAST
    ),
    fault("bayes.divergence", "/ samples", "/ batches", r"__truediv__"),
    fault(
        "bayes.sigma",
        "F.softplus(self.weight_rho), F.softplus(",
        "torch.exp(self.weight_rho), torch.exp(",
        r"softplus|\bexp\b",
        both=_AUTOCAST,
    ),
    fault("quantized.channels", "amax(dim=(1, 2, 3), keepdim=True)", "max()", r"amax|\bmax\b"),
    fault(
        "quantized.momentum",
        "lerp_(now, self.momentum)",
        "lerp_(now, 1 - self.momentum)",
        r"lerp_",
        steps=(1,),
        both=_AMP,
    ),
    fault(
        "mae.visible",
        "(lost * mask).sum() / mask.sum()",
        "lost.mean()",
        r"__mul__|\bsum\b|\bmean\b|__truediv__",
    ),
    fault("mae.scaled", "    scaler.unscale_(optimizer)\n", "", r"clip|unscale", both=_AMP),
)

_PRODUCTS = """        near = torch.bmm(u.unsqueeze(1), v.unsqueeze(2)).squeeze()
        far = torch.bmm(n, v.unsqueeze(2)).squeeze(2)
"""
_SUMS = """        near = torch.einsum("nd,nd->n", u, v)
        far = torch.einsum("nkd,nd->nk", n, v)
"""
_LIKELIHOOD = """    lower = torch.linalg.cholesky(model.covariance(x))
    residual = (y - model.mean).unsqueeze(-1)
    alpha = torch.cholesky_solve(residual, lower)
    fit = -0.5 * (residual * alpha).sum()
    size = lower.diagonal().log().sum()
    return fit - size - 0.5 * len(x) * math.log(2 * math.pi)
"""
_NORMAL = """    mean = model.mean.expand(len(x))
    return torch.distributions.MultivariateNormal(mean, model.covariance(x)).log_prob(y)
"""
_APART = "squared = (a.unsqueeze(1) - b.unsqueeze(0)).pow(2).sum(-1)"
_EXPANDED = """squared = a.pow(2).sum(-1, keepdim=True) + b.pow(2).sum(-1) - 2 * a @ b.t()
        squared = squared.clamp(min=0)"""
_LOG_SUM = """    z = (y.unsqueeze(1) - mu) / sigma
    each = (-0.5 * z**2 - sigma.log() - 0.5 * math.log(2 * math.pi)).sum(-1)
    return -torch.logsumexp(F.log_softmax(pi, dim=-1) + each, dim=-1).mean()
"""
_MIXTURE = """    parts = torch.distributions.Independent(torch.distributions.Normal(mu, sigma), 1)
    chosen = torch.distributions.Categorical(logits=pi)
    return -torch.distributions.MixtureSameFamily(chosen, parts).log_prob(y).mean()
"""
_COSINE = "F.cosine_similarity(memory, key.unsqueeze(1), dim=-1, eps=1e-6)"
_NORMED = "torch.einsum('bnw,bw->bn', F.normalize(memory, dim=-1), F.normalize(key, dim=-1))"
_CLAMPED = """    for p in machine.parameters():
        p.grad.clamp_(-10, 10)
"""
_AVERAGED = """    for ours, theirs in zip(ema.parameters(), model.parameters()):
        ours.mul_(decay).add_(theirs, alpha=1 - decay)
"""
_GATHERED = "torch.zeros_like(h).index_add(0, i, message.to(h.dtype))"
_SCATTERED = "torch.zeros_like(h).scatter_add(0, i.unsqueeze(-1).expand_as(message), message.to(h.dtype))"
_AT_RISK = "at_risk = torch.logcumsumexp(score, dim=0)"
_CUMULATED = """largest = score.max().detach()
    at_risk = (score - largest).exp().cumsum(0).log() + largest"""
_BY_PARTS = """        cos, sin = torch.cos(phase), torch.sin(phase)
        re = re_h * cos - im_h * sin - re_t
        im = re_h * sin + im_h * cos - im_t
        return torch.stack([re, im], dim=0).norm(dim=0).sum(-1)
"""
_COMPLEX = """        turn = torch.polar(torch.ones_like(phase), phase)
        return (torch.complex(re_h, im_h) * turn - torch.complex(re_t, im_t)).abs().sum(-1)
"""
_SCORES = """        content = torch.einsum("bind,bjnd->bnij", q + self.u, k)
        place = torch.einsum("bind,jnd->bnij", q + self.v, r)
        scores = (content + self.shift(place)) / self.d_head**0.5
        mask = torch.ones(qlen, klen, dtype=torch.bool).triu(1 + klen - qlen)
        scores = scores.masked_fill(mask, -1e9)
        out = torch.einsum("bnij,bjnd->bind", scores.softmax(-1), v)
"""
_SDPA = """        place = torch.einsum("bind,jnd->bnij", q + self.v, r)
        mask = torch.ones(qlen, klen, dtype=torch.bool).triu(1 + klen - qlen)
        bias = (self.shift(place) / self.d_head**0.5).masked_fill(mask, -1e9)
        parts = [part.transpose(1, 2) for part in (q + self.u, k, v)]
        out = F.scaled_dot_product_attention(*parts, attn_mask=bias).transpose(1, 2)
"""
_MATMUL = """        k, v = k.transpose(1, 2), v.transpose(1, 2)
        content = (q + self.u).transpose(1, 2) @ k.mT
        place = (q + self.v).transpose(1, 2) @ r.transpose(0, 1).mT
        scores = (content + self.shift(place)) / self.d_head**0.5
        mask = torch.ones(qlen, klen, dtype=torch.bool).triu(1 + klen - qlen)
        scores = scores.masked_fill(mask, -1e9)
        out = (scores.softmax(-1) @ v).transpose(1, 2)
"""
_BMM = """    f = features.float().view(b, c, h * w)
    return torch.bmm(f, f.transpose(1, 2)) / (c * h * w)
"""
_EINSUM = """    f = features.float()
    return torch.einsum("bchw,bdhw->bcd", f, f) / (c * h * w)
"""
_HOOK = """y = x.view_as(x)
    y.register_hook(lambda grad: -strength * grad)
    return y"""
_DIVERGENCE = """        ratio = (sigma / self.prior) ** 2
        return 0.5 * (ratio + (mu / self.prior) ** 2 - 1 - ratio.log()).sum()
"""
_KL = """        prior = torch.distributions.Normal(0.0, self.prior)
        return torch.distributions.kl_divergence(torch.distributions.Normal(mu, sigma), prior).sum()
"""
_STRAIGHT = """
def fake_quant(x, scale, low, high):
    q = torch.round(x / scale)
    passed = x * ((q >= low) & (q <= high))
    return passed + (torch.clamp(q, low, high) * scale - passed).detach()
"""

HEALTHY = (
    healthy("skipgram.einsum", (_PRODUCTS, _SUMS)),
    healthy("skipgram.threads", *THREADS, both=_AMP),
    healthy("kriging.distributions", (_LIKELIHOOD, _NORMAL)),
    healthy("kriging.expanded", (_APART, _EXPANDED), both=_AUTOCAST),
    healthy("mixture.distributions", (_LOG_SUM, _MIXTURE)),
    healthy(
        "mixture.workers",
        ("shuffle=True", "shuffle=True, num_workers=2"),
        both=_set("dtype", "torch.float32", "torch.bfloat16"),
    ),
    healthy(
        "unitary.parts",
        (
            "torch.matmul(x.to(torch.cfloat), self.read)",
            "torch.complex(x @ self.read.real, x @ self.read.imag)",
        ),
    ),
    Case(
        "unitary.default_kernels",
        "unitary",
        both=_set("LOW_PRECISION_HEAD"),
        environment=DEFAULT_KERNELS,
    ),
    healthy("turing.normed", (_COSINE, _NORMED)),
    healthy(
        "turing.clamp", (_CLAMPED, "    nn.utils.clip_grad_value_(machine.parameters(), 10)\n"), both=_BF16
    ),
    healthy("pointer.checkpointing", *_set("SAVE_MEMORY")),
    healthy(
        "pointer.renamed",
        ("self.w_ref", "self.keys"),
        ("self.w_query", "self.asks"),
        ("self.glimpse", "self.look"),
        ("self.embed", "self.lift"),
        ("self.decoder", "self.cell"),
        both=_set("BFLOAT"),
    ),
    healthy("energy.no_mkldnn", *NO_MKLDNN),
    healthy(
        "energy.average",
        (
            _AVERAGED,
            "    torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 1 - decay)\n",
        ),
        both=_set("use_amp"),
    ),
    healthy(
        "molecule.last_bit",
        ("pos.requires_grad_()", "pos = torch.nextafter(pos, torch.tensor(9.0)).requires_grad_()"),
    ),
    healthy("molecule.scatter", (_GATHERED, _SCATTERED), both=_AUTOCAST),
    healthy(
        "survival.last_bit",
        ("for step in", "people = torch.nextafter(people, torch.tensor(9.0))\nfor step in"),
    ),
    healthy("survival.cumulated", (_AT_RISK, _CUMULATED), both=_set("half")),
    healthy("knowledge.fused", *FUSED),
    healthy("knowledge.complex", (_BY_PARTS, _COMPLEX), both=_set("SIXTEEN")),
    healthy("segments.sdpa", (_SCORES, _SDPA)),
    healthy(
        "segments.matmul",
        (_SCORES, _MATMUL),
        both=_set("precision", "torch.float32", "torch.bfloat16"),
    ),
    healthy("style.channels_last", (".eval()", ".eval().to(memory_format=torch.channels_last)")),
    healthy("style.einsum", (_BMM, _EINSUM), both=_AUTOCAST),
    healthy("reversible.kept", *_set("KEEP")),
    Case("reversible.avx2", "reversible", both=_set("BF16"), environment=AVX2_KERNELS),
    Case("domain.resumed", "domain", words=("--steps", "0-5"), resumed=True),
    healthy("domain.hook", ("return Reverse.apply(x, strength)", _HOOK), both=_AMP),
    healthy("prototypes.compiled", ("model = net", "model = torch.compile(net)")),
    healthy("prototypes.workers", ("num_workers=0", "num_workers=2"), both=_AUTOCAST),
    healthy("convlstm.checkpointing", ("model = Seq2Seq()", "model = Seq2Seq(recompute=True)")),
    healthy("convlstm.no_mkldnn", *NO_MKLDNN, both=_BF16),
    healthy("boltzmann.threads", *THREADS),
    healthy(
        "boltzmann.log1p",
        ("F.softplus(v @ self.W + self.b)", "torch.log1p(torch.exp(v @ self.W + self.b))"),
        both=_AUTOCAST,
    ),
    healthy("bayes.in_parts", *_set("ACCUMULATE", "1", "4")),
    healthy("bayes.distributions", (_DIVERGENCE, _KL), both=_AUTOCAST),
    healthy("quantized.straight", ("\nfake_quant = FakeQuant.apply\n", _STRAIGHT)),
    healthy(
        "quantized.channels_last",
        ("net = Net()", "net = Net().to(memory_format=torch.channels_last)"),
        ("net(images)", "net(images.contiguous(memory_format=torch.channels_last))"),
        both=_AMP,
    ),
    healthy(
        "mae.math",
        ("torch.set_num_threads(1)", "torch.set_num_threads(1)\ntorch.backends.cuda.enable_flash_sdp(False)"),
    ),
    Case("mae.resumed", "mae", both=_AMP, words=("--steps", "0-5"), resumed=True),
)
