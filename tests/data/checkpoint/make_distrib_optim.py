# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Writes tiny checkpoints with the states of megatron-core's own optimizers, on CPU with gloo.

Weights are bfloat16; the optimizer is the distributed one (`distrib_optim.pt`) or, with --plain, the one that
every rank has whole. Copies in full precision and moments are functions of the parameter's name, as the
weights of make_ckpt.py, so that all layouts hold the same states.

usage: make_distrib_optim.py OUT_DIR [--tp 2] [--pp 2] [--dp 2] [--ep 2 --experts 4] [--layers 4] [--bucket N]
       [--plain]
needs: torch (CPU), megatron-core
"""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from make_ckpt import global_name, shard
from torch.overrides import TorchFunctionMode

ITERATION = 5
HIDDEN, HEADS, WORDS = 16, 4, 64


class OnCpu(TorchFunctionMode):
    """The framework makes its small tensors on a CUDA device, and asks weights whether they are there."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        if func is torch.Tensor.type and len(args) == 1 and not kwargs:
            return "torch.cuda." + func(*args).rpartition(".")[2]
        return func(*args, **kwargs)


def build(o, ps):
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig

    experts = dict(num_moe_experts=o.experts, add_bias_linear=False) if o.experts else {}
    config = TransformerConfig(
        num_layers=o.layers,
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        use_cpu_initialization=True,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        tensor_model_parallel_size=o.tp,
        pipeline_model_parallel_size=o.pp,
        expert_model_parallel_size=o.ep,
        **experts,
    )
    model = GPTModel(
        config,
        get_gpt_layer_local_spec(num_experts=o.experts, moe_grouped_gemm=False),
        vocab_size=WORDS,
        max_sequence_length=8,
        pre_process=ps.is_pipeline_first_stage(),
        post_process=ps.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=False,
    )
    return config, model


def named_states(optimizer, model):
    """name, range of its elements that this rank has, copy in full precision, moments."""
    for part in getattr(optimizer, "chained_optimizers", [optimizer]):
        if hasattr(part, "model_param_group_index_map"):
            for name, parameter in model.named_parameters():
                if parameter in part.model_param_group_index_map:
                    group, index = part.model_param_group_index_map[parameter]
                    copy = part.optimizer.param_groups[group]["params"][index]
                    at = part._get_model_param_range_map(parameter)["param"]
                    yield name, slice(at.start, at.end), copy, part.optimizer.state[copy]
        else:
            names = {parameter: name for name, parameter in model.named_parameters()}
            for of_model, copies in zip(part.float16_groups, part.fp32_from_float16_groups):
                for parameter, copy in zip(of_model, copies):
                    yield names[parameter], slice(None), copy, part.optimizer.state[copy]


def work(rank, o, world, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), CUDA_DEVICE_MAX_CONNECTIONS="1")
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.Tensor.cuda = lambda self, *a, **k: self
    torch.cuda.synchronize = lambda *a, **k: None
    torch.cuda.current_device = lambda: "cpu"
    OnCpu().__enter__()
    from megatron.core import parallel_state as ps
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    ps.initialize_model_parallel(o.tp, o.pp, expert_model_parallel_size=o.ep)
    config, model = build(o, ps)
    tp_rank, pp_rank = ps.get_tensor_model_parallel_rank(), ps.get_pipeline_model_parallel_rank()
    ep_rank = ps.get_expert_model_parallel_rank()

    def values(name, parameter, seed):
        whole = global_name(name, pp_rank, o.pp, 0, o.layers // o.pp, ep_rank, (o.experts or 1) // o.ep)
        return shard(whole, parameter, o.tp, tp_rank, False, seed, 0.0)

    def write_weights():
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(values(name, parameter, 1))

    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()
    write_weights()
    ours = DistributedDataParallelConfig(use_distributed_optimizer=not o.plain, bucket_size=o.bucket)
    wrapped = DistributedDataParallel(config, ours, model)
    settings = OptimizerConfig(
        optimizer="adam",
        lr=1e-3,
        weight_decay=0.01,
        clip_grad=0.0,
        bf16=True,
        params_dtype=torch.bfloat16,
        use_distributed_optimizer=not o.plain,
    )
    optimizer = get_megatron_optimizer(settings, [wrapped], use_gloo_process_groups=True)
    optimizer.step()  # makes the states
    write_weights()
    parameters = dict(model.named_parameters())
    for name, part, copy, moments in named_states(optimizer, model):
        of = parameters[name]
        targets = (copy, values(name, of, 1)), (moments["exp_avg"], values(name, of, 2))
        for target, full in (*targets, (moments["exp_avg_sq"], values(name, of, 3) ** 2)):
            target.data.copy_(full.reshape(-1)[part].view(target.shape))

    ranks = f"mp_rank_{tp_rank:02d}" + (f"_{pp_rank:03d}" if o.pp > 1 else "")
    folder = Path(o.out) / f"iter_{ITERATION:07d}" / (ranks + (f"_{ep_rank:03d}" if o.ep > 1 else ""))
    folder.mkdir(parents=True, exist_ok=True)
    if not o.plain:
        optimizer.save_parameter_state(str(folder / "distrib_optim.pt"))
    if o.ep > 1 or ps.get_data_parallel_rank() == 0:
        args = argparse.Namespace(
            num_layers=o.layers,
            hidden_size=HIDDEN,
            num_attention_heads=HEADS,
            num_experts=o.experts,
            padded_vocab_size=WORDS,
            tensor_model_parallel_size=o.tp,
            pipeline_model_parallel_size=o.pp,
            virtual_pipeline_model_parallel_size=None,
            expert_model_parallel_size=o.ep,
            swiglu=False,
            world_size=world,
            params_dtype=torch.bfloat16,
            ckpt_format="torch",
            untie_embeddings_and_output_weights=True,
            use_distributed_optimizer=not o.plain,
        )
        state = {
            "model": model.state_dict_for_save_checkpoint(),
            "optimizer": optimizer.state_dict(),
            "args": args,
            "iteration": ITERATION,
            "checkpoint_version": 3.0,
        }
        torch.save(state, folder / "model_optim_rng.pt")
    dist.barrier()
    if rank == 0:
        (Path(o.out) / "latest_checkpointed_iteration.txt").write_text(str(ITERATION))
    dist.destroy_process_group()


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("out")
    numbers = {"tp": 1, "pp": 1, "dp": 1, "ep": 1, "layers": 4, "experts": None, "bucket": None}
    for name, default in numbers.items():
        a.add_argument(f"--{name}", type=int, default=default)
    a.add_argument("--plain", action="store_true")
    o = a.parse_args()
    world = o.tp * o.pp * max(o.dp, o.ep)
    mp.spawn(work, (o, world, 20000 + os.getpid() % 20000), nprocs=world)
