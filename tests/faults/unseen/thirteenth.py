# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The thirteenth held-out set: 40 planted faults and 40 healthy pairs, half of both in bfloat16 or autocast,
on model kinds that nothing of this repository had before.

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
    Case,
    Edits,
    Library,
    fault,
    healthy,
    library,
)

_TWO = """        two = two + torch.einsum("bi,bj->bij", one, move) + pair
"""
_ONE = "        one = one + move\n"

FAULTS = (
    library(
        "mpnet.backwards",
        "MPNetEncoder.compute_position_bias",
        "relative_position = memory_position - context_position",
        "relative_position = context_position - memory_position",
        r"__r?sub__|__neg__|\bneg\b|__lt__|\blt\b|\babs\b|relative_attention_bias|embedding",
    ),
    fault(
        "mpnet.padded",
        "mean = (states * real).sum(dim=1)",
        "mean = states.sum(dim=1)",
        r"__r?mul__|\bsum\b",
        both=AUTOCAST,
    ),
    library(
        "timesformer.frames",
        "TimesformerLayer.forward",
        "cls_token = torch.mean(cls_token, 1, True)",
        "cls_token = cls_token[:, :1]",
        r"\bmean\b|__getitem__|\bcat\b",
    ),
    fault(
        "timesformer.layers",
        'int(words[words.index("layer") + 1]) + 1 if',
        'int(words[words.index("layer") + 1]) if',
        r"\blr\b|^optimizer|group",
        steps=(0, 1, 2),
        both=AUTOCAST,
    ),
    library(
        "mobilevit.folded",
        "MobileViTLayer.folding",
        "view(batch_size, patch_area, num_patches, -1)",
        "view(batch_size, num_patches, patch_area, -1).transpose(1, 2)",
        r"\bview\b|transpose|reshape|contiguous",
    ),
    fault(
        "mobilevit.donor",
        "F.one_hot(kinds.roll(1), KINDS)",
        "F.one_hot(kinds.roll(-1), KINDS)",
        r"\broll\b|one_hot|__r?mul__|__r?add__",
        both=AUTOCAST,
    ),
    library(
        "cohere2.after",
        "Cohere2DecoderLayer.forward",
        "self.mlp(hidden_states)",
        "self.mlp(residual + hidden_states_attention)",
        r"mlp|_proj|linear|__r?add__",
    ),
    fault(
        "cohere2.asked",
        "wanted[:, :ASKED] = -100",
        "wanted[:, : ASKED - 1] = -100",
        r"__setitem__|fill|wanted|cross_entropy|__ne__|\bne\b|\bsum\b|__r?truediv__|inputs",
        both=BF16,
    ),
    fault(
        "kfac.share",
        "torch.linalg.inv(a + some * share *",
        "torch.linalg.inv(a + some / share *",
        r"__r?(mul|truediv|add)__|\binv\b|linalg|reciprocal",
    ),
    fault(
        "kfac.rows",
        "error = grad.float() * len(grad)",
        "error = grad.float()",
        r"__r?mul__|\bfloat\b|__r?matmul__|__r?truediv__|lerp",
        both=AUTOCAST,
    ),
    fault(
        "signature.thirds",
        '"bij,bk->bijk", pair, move) / 3',
        '"bij,bk->bijk", pair, move)',
        r"__r?truediv__|__r?add__|einsum",
    ),
    fault("signature.order", _TWO + _ONE, _ONE + _TWO, r"__r?add__|einsum", both=AUTOCAST),
    fault(
        "lifting.scaled",
        "rough, fine = rough * (-self.scale).exp(), fine * self.scale.exp()",
        "rough, fine = rough * self.scale.exp(), fine * (-self.scale).exp()",
        r"__r?mul__|\bexp\b|__neg__|\bneg\b",
    ),
    fault(
        "lifting.ends",
        'padding=size // 2, padding_mode="reflect"',
        "padding=size // 2",
        r"\bpad\b|reflect|conv1d|near",
        both=AUTOCAST,
    ),
    fault(
        "arithmetic.nothing",
        "(weight * x.unsqueeze(1) + 1 - weight).prod(dim=2)",
        "(weight * x.unsqueeze(1)).prod(dim=2)",
        r"__r?(add|sub|mul)__|\bprod\b",
    ),
    fault(
        "arithmetic.early",
        "(step - BEGIN) / (END - BEGIN)",
        "step / (END - BEGIN)",
        r"__r?mul__|__r?add__|backward|gradient",
        steps=(1,),
        both=AUTOCAST,
    ),
    fault(
        "forest.children",
        "torch.stack([reached * (1 - goes), reached * goes], dim=2)",
        "torch.cat([reached * (1 - goes), reached * goes], dim=1)",
        r"stack|\bcat\b|flatten",
    ),
    fault(
        "forest.deep",
        "uneven - 2.0**-depth * 0.5 *",
        "uneven - 2.0**depth * 0.5 *",
        r"__r?mul__|__r?sub__",
        both=AUTOCAST,
    ),
    fault(
        "sorts.odd",
        "torch.arange(turn % 2, MANY - 1, 2)",
        "torch.arange(0, MANY - 1, 2)",
        r"arange|__[gs]etitem__|__r?(add|sub)__",
    ),
    fault(
        "sorts.ranks",
        "order = amounts.argsort(dim=1)",
        "order = amounts.argsort(dim=1).argsort(dim=1)",
        r"sort|one_hot",
        both=AUTOCAST,
    ),
    fault(
        "curiosity.code",
        "torch.cat([one.detach(), chosen], dim=-1)",
        "torch.cat([one, chosen], dim=-1)",
        r"detach|\bcat\b|gradient|backward",
    ),
    fault(
        "curiosity.usual",
        "wonder / (self.square**0.5 + 1e-8)",
        "wonder / (self.square + 1e-8)",
        r"__r?truediv__|__r?mul__",
        both=AUTOCAST,
    ),
    fault(
        "hedge.first",
        "prepend=torch.zeros(PATHS, 1)",
        "prepend=held[:, :1]",
        r"\bdiff\b|zeros|\bcat\b|__getitem__",
    ),
    fault(
        "hedge.worst",
        "F.relu(-left - level).mean() / WORST",
        "F.relu(-left - level).mean() * WORST",
        r"__r?(truediv|mul)__",
        both=AUTOCAST,
    ),
    fault(
        "vimco.others",
        "(weights.sum(dim=0) - weights) / (GUESSES - 1)",
        "(weights.sum(dim=0) - weights) / GUESSES",
        r"__r?truediv__",
    ),
    fault(
        "vimco.mean",
        "(judged(weights) * guessed).sum(dim=0)",
        "(judged(weights) * guessed).mean(dim=0)",
        r"\bsum\b|\bmean\b",
        both=AUTOCAST,
    ),
    fault(
        "parity.itself",
        "same_check = (checks.unsqueeze(1) == checks) & ~torch.eye(edges, dtype=torch.bool)",
        "same_check = checks.unsqueeze(1) == checks",
        r"\bwhere\b|same_check|__r?and__|__eq__|\bprod\b",
    ),
    fault(
        "parity.half",
        "new = 2 * torch.atanh(product)",
        "new = torch.atanh(product)",
        r"__r?mul__|atanh",
        both=AUTOCAST,
    ),
    fault(
        "crowd.people",
        "self.errs.log_softmax(dim=2)",
        "self.errs.log_softmax(dim=1)",
        r"log_softmax",
    ),
    fault(
        "crowd.begins",
        '(state["square"] / (1 - two ** state["step"])).sqrt()',
        'state["square"].sqrt()',
        r"^optimizer|__r?truediv__|sqrt",
        both=AUTOCAST,
    ),
    fault(
        "two_sketch.signs",
        "(self.signs * table.gather(1, self.places)).median",
        "table.gather(1, self.places).median",
        r"__r?mul__|gather|median",
    ),
    fault(
        "two_sketch.left",
        "        self.left -= self.sketch.of(chosen)\n",
        "",
        r"__i?r?sub__|\bsub_?\b|scatter_add|zeros|__i?r?add__|\badd_?\b",
        steps=(0, 1),
        both=AUTOCAST,
    ),
    fault(
        "two_pencil.own",
        "full[..., rank * own : (rank + 1) * own]",
        "full[..., :own]",
        r"__getitem__|einsum",
    ),
    fault(
        "two_pencil.sizes",
        "    dist.all_reduce(sizes)\n",
        "",
        r"reduc|unbind|__r?(mul|truediv)__|sqrt",
        both=AUTOCAST,
    ),
    fault(
        "two_domains.conducts",
        "    flow = conducts * along(heat, place)\n    own =",
        "    flow = along(heat, place)\n    own =",
        r"__r?mul__|stack",
    ),
    fault(
        "two_domains.theirs",
        "(own.detach() + theirs) / 2",
        "(own + theirs) / 2",
        r"detach|__r?(add|truediv|sub)__|gradient|backward",
        both=AUTOCAST,
    ),
    fault(
        "two_rows.again",
        "    ids = ids.unique()\n",
        "",
        r"unique|__getitem__|index_add|gather",
    ),
    fault(
        "two_rows.sum",
        "table.grad.index_add_(0, theirs, part / many)",
        "table.grad.index_add_(0, theirs, part)",
        r"__r?truediv__|index_add",
        both=AUTOCAST,
    ),
    fault(
        "two_search.before",
        "/ (self.before @ self.before)",
        "/ (grad @ grad)",
        r"^optimizer|__r?(matmul|truediv)__|clamp",
        steps=(1,),
    ),
    fault(
        "two_search.alone",
        "return mean(loss.detach().clone())",
        "return loss.detach().clone()",
        r"reduc|clone|detach|__i?truediv__|\bdiv_?\b",
        both=AUTOCAST,
    ),
)

_CHANNELS_LAST: Edits = (("# model built", "model.to(memory_format=torch.channels_last)"),)
_SCORES = "torch.matmul(q, k.transpose(-1, -2))"
_FROM_PAIRS = 'torch.einsum("bhid,bhjd->bhij", q, k)'
_DIVIDED = 'p.addcdiv_(mean, spread.sqrt().add_(1e-6), value=-group["lr"])'
_TAKEN_AWAY = 'p.sub_(group["lr"] * mean / (spread.sqrt() + 1e-6))'
_LERP = "self.shadow[name].lerp_(value, 1 - KEEPS)"
_TWO_PARTS = "self.shadow[name].mul_(KEEPS).add_(value, alpha=1 - KEEPS)"
_INVERSE = "torch.linalg.inv(a + some * share * torch.eye(len(a)))"
_SOLVED = "torch.linalg.solve(a + some * share * torch.eye(len(a)), torch.eye(len(a)))"
_STACKED = "torch.stack([even, odd], dim=-1).flatten(-2)"
_TURNED = "torch.cat([even, odd], dim=1).mT.flatten(1).unsqueeze(1)"
_GATED = "(takes * self.products(parts) + (1 - takes) * self.adds(parts)).squeeze(1)"
_BETWEEN = "torch.lerp(self.adds(parts), self.products(parts), takes).squeeze(1)"
_SWAPPED = "(swap @ numbers.unsqueeze(2)).squeeze(2)"
_GATHERED = "logs.gather(-1, acts.unsqueeze(-1)).squeeze(-1)"
_WON = "(held * (prices[:, 1:] - prices[:, :-1])).sum(dim=1)"
_BOUND = "    return weights.logsumexp(dim=0) - math.log(GUESSES)\n"
_BY_HAND = """    top = weights.amax(dim=0)
    return (weights - top).exp().mean(dim=0).log() + top
"""
_ADDED = "(true[:, None, :, None] + errs).logsumexp(dim=2)"
_PRODUCT = 'torch.einsum("bk,pkl->bpl", true.exp(), errs.exp()).log()'
_SCATTERED = "torch.zeros(ROWS, COLUMNS).scatter_add_(1, self.places, self.signs * numbers)"
_COUNTED = """torch.stack(
            [
                torch.bincount(place, sign * numbers, COLUMNS)
                for place, sign in zip(self.places, self.signs)
            ]
        )"""
_CALLS = "calls = [dist.isend(out, other), dist.irecv(into, other)]"
_AT_ONCE = """calls = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, out, other), dist.P2POp(dist.irecv, into, other)]
    )"""
_BY_TURNS = """    theirs = torch.empty_like(own)
    for sender in (0, 1):
        if sender == rank:
            dist.send(own, 1 - rank)
        else:
            dist.recv(theirs, 1 - rank)
    return theirs
"""
_ALL = """    both = [torch.empty_like(own) for _ in range(2)]
    dist.all_gather(both, own)
    return both[1 - rank]
"""
_UPPER = "both.triu(diagonal=1).sum(dim=(1, 2))"
_HALF = "(both.sum(dim=(1, 2)) - both.diagonal(dim1=1, dim2=2).sum(dim=1)) / 2"
_SOME_ROWS = "gathered(table, (words + WORDS * torch.arange(FIELDS)).flatten())"
_ALL_ROWS = "dist.all_reduce(table.grad)\n        table.grad /= many"
_COSH = "(torch.cosh(found - wanted)).log()"
_SUM_OF_TWO = "(torch.logaddexp(found - wanted, wanted - found) - 0.6931471805599453)"
_FAR = "(x.unsqueeze(1) - self.places).square().sum(dim=2)"

HEALTHY = (
    healthy(
        "mpnet.einsum",
        library=Library("mpnet", "MPNetSelfAttention.forward", _SCORES, _FROM_PAIRS),
    ),
    healthy("mpnet.taken_away", (_DIVIDED, _TAKEN_AWAY), both=AUTOCAST),
    healthy("timesformer.no_mkldnn", *NO_MKLDNN),
    healthy("timesformer.foreach", *FOREACH, both=AUTOCAST),
    healthy("mobilevit.channels_last", *_CHANNELS_LAST),
    healthy("mobilevit.two_parts", (_LERP, _TWO_PARTS), both=AUTOCAST),
    healthy("cohere2.sdpa", *SDPA),
    healthy("cohere2.checkpointing", *CHECKPOINTING, both=BF16),
    healthy("kfac.solved", (_INVERSE, _SOLVED)),
    healthy("kfac.foreach", *FOREACH, both=AUTOCAST),
    healthy(
        "signature.outer",
        ('torch.einsum("bi,bj->bij", move, move)', "(move.unsqueeze(2) * move.unsqueeze(1))"),
    ),
    Case("signature.default_kernels", "signature", both=AUTOCAST, environment=DEFAULT_KERNELS),
    Case("lifting.resumed", "lifting", words=("--steps", "0-5"), resumed=True),
    healthy("lifting.turned", (_STACKED, _TURNED), both=AUTOCAST),
    healthy("arithmetic.between", (_GATED, _BETWEEN)),
    healthy(
        "arithmetic.tent",
        ("torch.minimum(size, 1 - size).mean()", "(0.5 - (size - 0.5).abs()).mean()"),
        both=AUTOCAST,
    ),
    healthy(
        "forest.gather",
        ("F.nll_loss((said + 1e-6).log(), kinds)", "-(said.gather(1, kinds[:, None]) + 1e-6).log().mean()"),
    ),
    healthy("forest.foreach", *FOREACH, both=AUTOCAST),
    healthy("sorts.einsum", (_SWAPPED, 'torch.einsum("bij,bj->bi", swap, numbers)')),
    healthy("sorts.foreach", *FOREACH, both=AUTOCAST),
    healthy("curiosity.one_hot", (_GATHERED, "(logs * F.one_hot(acts, ACTS)).sum(dim=-1)")),
    healthy("curiosity.fused", *FUSED, both=AUTOCAST),
    healthy("hedge.einsum", (_WON, 'torch.einsum("pd,pd->p", held, prices.diff(dim=1))')),
    healthy("hedge.renamed", ("self.norms", "self.daily"), both=AUTOCAST),
    healthy("vimco.by_hand", (_BOUND, _BY_HAND)),
    healthy("vimco.fused", *FUSED, both=AUTOCAST),
    healthy("parity.noise", *NOISE),
    healthy(
        "parity.log",
        ("2 * torch.atanh(product)", "((1 + product) / (1 - product)).log()"),
        both=AUTOCAST,
    ),
    healthy("crowd.product", (_ADDED, _PRODUCT)),
    Case("crowd.avx2_kernels", "crowd", both=AUTOCAST, environment=AVX2_KERNELS),
    healthy("two_sketch.counted", (_SCATTERED, _COUNTED)),
    healthy(
        "two_sketch.middle",
        (".median(dim=0).values", ".sort(dim=0).values[ROWS // 2]"),
        both=AUTOCAST,
    ),
    healthy(
        "two_pencil.summed",
        ('torch.einsum("bihw,iohw->bohw", waves, weight)', "(waves.unsqueeze(2) * weight).sum(dim=1)"),
    ),
    healthy("two_pencil.at_once", (_CALLS, _AT_ONCE), both=AUTOCAST),
    healthy("two_domains.gathered", (_BY_TURNS, _ALL)),
    healthy("two_domains.fused", *FUSED, both=AUTOCAST),
    healthy("two_rows.half", (_UPPER, _HALF)),
    healthy("two_rows.whole", (_SOME_ROWS, _ALL_ROWS), both=AUTOCAST),
    healthy("two_search.sum_of_two", (_COSH, _SUM_OF_TWO)),
    healthy("two_search.cdist", (_FAR, "torch.cdist(x, self.places).square()"), both=AUTOCAST),
)
