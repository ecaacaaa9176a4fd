# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron-core: GPT on two processes of tensor parallelism, its data parallel wrapper and its optimizer."""

import contextlib
import os

import net
import row
import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.transformer import TransformerConfig

# Megatron asks for the current GPU; on a machine without one everything stays on the CPU.
torch.cuda.current_device = lambda: torch.device("cpu")
torch.cuda.set_device = torch.cuda.synchronize = lambda *_: None
_tensor, _empty, _zeros = torch.tensor, torch.empty, torch.zeros


def _on_the_cpu(make):
    def made(*args, **kwargs):
        if kwargs.get("device") == "cuda":
            kwargs["device"] = "cpu"
        return make(*args, **kwargs)

    return made


torch.tensor, torch.empty, torch.zeros = map(_on_the_cpu, (_tensor, _empty, _zeros))
torch.distributed.init_process_group("gloo")
parallel_state.initialize_model_parallel(tensor_model_parallel_size=int(os.environ["WORLD_SIZE"]))
torch.manual_seed(0)
tensor_parallel.get_cuda_rng_tracker().fork = lambda *_: contextlib.nullcontext()
config = TransformerConfig(
    num_layers=2, hidden_size=128, num_attention_heads=4, use_cpu_initialization=True,
    layernorm_epsilon=row.chosen("layernorm_epsilon", 1e-5), hidden_dropout=0.0, attention_dropout=0.0,
    gradient_accumulation_fusion=False, bias_dropout_fusion=False, masked_softmax_fusion=False,
    bias_activation_fusion=False,
)  # fmt: skip
model = GPTModel(config, get_gpt_layer_local_spec(), vocab_size=64, max_sequence_length=32)
row.plant(model)
wrapped = DistributedDataParallel(
    config, DistributedDataParallelConfig(grad_reduce_in_fp32=True, use_distributed_optimizer=False), model
)
optimizer = get_megatron_optimizer(
    OptimizerConfig(
        optimizer="adam", lr=row.chosen("lr", 1e-3), weight_decay=row.chosen("weight_decay", 0.01),
        clip_grad=0.0, use_distributed_optimizer=False,
    ),
    [wrapped],
)  # fmt: skip
mask = torch.ones(1, 1, 32, 32, dtype=torch.bool).triu(1)
places = torch.arange(32).expand(8, 32)
losses = []
for tokens in net.batches(8):
    wrapped.zero_grad_buffer()
    optimizer.zero_grad()
    loss = wrapped(tokens[:, :-1], places, mask, labels=tokens[:, 1:]).mean()
    loss.backward()
    wrapped.finish_grad_sync()
    optimizer.step()
    losses.append(loss.item())
row.report(model, losses)
