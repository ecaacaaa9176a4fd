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
import torch.multiprocessing as mp
from make_ckpt import begin, build_chunk, build_config, end, fill, folder_of, saved_args, value_of
from torch.overrides import TorchFunctionMode


class OnCpu(TorchFunctionMode):
    """The framework makes its small tensors on a CUDA device, and asks weights whether they are there."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        if func is torch.Tensor.type and len(args) == 1 and not kwargs:
            return "torch.cuda." + func(*args).rpartition(".")[2]
        return func(*args, **kwargs)


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


def set_states(o, ranks, optimizer, model):
    parameters = dict(model.named_parameters())
    for name, part, copy, moments in named_states(optimizer, model):
        values = [value_of(o, ranks, name, parameters[name], o.seed + i).reshape(-1)[part] for i in range(3)]
        targets = copy, moments["exp_avg"], moments["exp_avg_sq"]
        for target, wanted in zip(targets, (values[0], values[1], values[2] ** 2)):
            target.data.copy_(wanted.view(target.shape))


def work(rank, o, world, port):
    os.environ.update(CUDA_DEVICE_MAX_CONNECTIONS="1")
    OnCpu().__enter__()
    ranks = begin(rank, o, world, port)
    from megatron.core import parallel_state as ps
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    dtypes = dict(bf16=True, params_dtype=torch.bfloat16)
    config = build_config(o, pipeline_dtype=torch.bfloat16, **dtypes)
    model = build_chunk(o, config)
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()
    fill(o, ranks, model)
    reduction = DistributedDataParallelConfig(use_distributed_optimizer=not o.plain, bucket_size=o.bucket)
    settings = OptimizerConfig(
        optimizer="adam",
        lr=1e-3,
        weight_decay=0.01,
        clip_grad=0.0,
        use_distributed_optimizer=not o.plain,
        **dtypes,
    )
    wrapped = DistributedDataParallel(config, reduction, model)
    optimizer = get_megatron_optimizer(settings, [wrapped], use_gloo_process_groups=True)
    optimizer.step()  # makes the states
    fill(o, ranks, model)
    set_states(o, ranks, optimizer, model)

    folder = Path(folder_of(o, ranks))
    if not o.plain:
        optimizer.save_parameter_state(str(folder / "distrib_optim.pt"))
    if o.ep > 1 or ps.get_data_parallel_rank() == 0:
        args = saved_args(o, world)
        args.use_distributed_optimizer = not o.plain
        state = {
            "model": model.state_dict_for_save_checkpoint(),
            "optimizer": optimizer.state_dict(),
            "args": args,
            "iteration": o.iteration,
            "checkpoint_version": 3.0,
        }
        torch.save(state, folder / "model_optim_rng.pt")
    end(rank, o)


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("out")
    numbers = {"tp": 1, "pp": 1, "dp": 1, "ep": 1, "layers": 4, "experts": None, "bucket": None}
    for name, default in numbers.items():
        a.add_argument(f"--{name}", type=int, default=default)
    a.add_argument("--plain", action="store_true")
    a.set_defaults(hidden=16, heads=4, vocab=64, vpp=None, glu=False, tied=False)
    a.set_defaults(dtype="bf16", seed=1, noise=0.0, iteration=5)
    o = a.parse_args()
    world = o.tp * o.pp * max(o.dp, o.ep)
    mp.spawn(work, (o, world, 20000 + os.getpid() % 20000), nprocs=world)
