# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""DeepSeek-V3: keys and values out of few numbers, experts in groups, who lean away from crowds."""

import torch
import torch.nn.functional as F  # noqa: N812
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

DTYPE = torch.float32
ATTENTION = "eager"
VOCAB, LENGTH, EXPERTS, CHOSEN, STEPS, PARTS, PUSH = 60, 20, 8, 2, 3, 2, 0.02


def config():
    return DeepseekV3Config(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        moe_intermediate_size=16,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        n_shared_experts=1,
        n_routed_experts=EXPERTS,
        num_experts_per_tok=CHOSEN,
        n_group=2,
        topk_group=1,
        first_k_dense_replace=1,
        q_lora_rank=16,
        kv_lora_rank=12,
        qk_rope_head_dim=4,
        qk_nope_head_dim=8,
        v_head_dim=8,
        initializer_range=0.15,
        max_position_embeddings=64,
        use_cache=False,
        attn_implementation=ATTENTION,
    )


class Leans:
    """How many words went to each expert; those with too many lean to less, and nothing is lost by a loss."""

    def __init__(self, model):
        self.gates = [part for part in model.modules() if hasattr(part, "e_score_correction_bias")]
        self.loads = [torch.zeros(EXPERTS) for _ in self.gates]
        for gate, load in zip(self.gates, self.loads):
            gate.register_forward_hook(lambda gate, given, found, load=load: self.count(load, found[2]))

    @torch.no_grad()
    def count(self, load, indices):
        load += torch.bincount(indices.flatten(), minlength=EXPERTS)

    @torch.no_grad()
    def move(self):
        for gate, load in zip(self.gates, self.loads):
            gate.e_score_correction_bias += PUSH * torch.sign(load.mean() - load)
            load.zero_()


def texts(generator):
    """A word follows from the one before and the one three before."""
    ids = torch.randint(2, VOCAB, (6, LENGTH), generator=generator)
    for at in range(3, LENGTH):
        told = (ids[:, at - 1] + 2 * ids[:, at - 3]) % (VOCAB - 2) + 2
        ids[:, at] = torch.where(ids[:, at] % 4 > 0, told, ids[:, at])
    return ids


torch.set_num_threads(1)
torch.manual_seed(901)
model = DeepseekV3ForCausalLM(config()).to(DTYPE)
# model built
leans = Leans(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1, foreach=False)
warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=1)
falls = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, falls], milestones=[2])
generator = torch.Generator().manual_seed(91)
for step in range(STEPS):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(PARTS):
        ids = texts(generator)
        logits = model(input_ids=ids).logits[:, :-1].float()
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()) / PARTS
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    leans.move()
    print(f"step {step} loss {total!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
print("buffers", sum(b.double().abs().sum().item() for b in model.buffers()))
