# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the sample dumps of this folder.

Usage:
    python make_samples.py OUT_DIR            make every sample (one child process each)
    python make_samples.py OUT_DIR --only NAME

One child process per sample is needed because PrecisionDebugger is a process-wide singleton and
because its hooks cannot be removed again.  Needs only PyTorch (CPU) and an msprobe with the
`msprobe.pytorch` entry points.  Everything is seeded, so numbers repeat on one machine.
"""

import argparse
import collections
import dataclasses
import json
import os
import subprocess
import sys

BASE = {"rank": [], "step": [], "dump_path": ""}
STAT = {"scope": [], "list": [], "tensor_list": [], "data_mode": ["all"], "summary_mode": "statistics"}

# name -> (scenario, config.json content)
SAMPLES = {
    "statistics_L0": ("train", {"task": "statistics", "level": "L0", "statistics": STAT}),
    "statistics_L1": ("train", {"task": "statistics", "level": "L1", "step": [0], "statistics": STAT}),
    "statistics_mix": ("train", {"task": "statistics", "level": "mix", "statistics": STAT}),
    "statistics_mix_perturbed": (
        "train_perturbed",
        {"task": "statistics", "level": "mix", "step": [0], "statistics": STAT},
    ),
    "md5_mix": (
        "train",
        {"task": "statistics", "level": "mix", "step": [0], "statistics": dict(STAT, summary_mode="md5")},
    ),
    "md5_mix_perturbed": (
        "train_perturbed",
        {"task": "statistics", "level": "mix", "step": [0], "statistics": dict(STAT, summary_mode="md5")},
    ),
    "tensor_mix": (
        "train",
        {"task": "tensor", "level": "mix", "step": [0], "tensor": {"data_mode": ["all"]}},
    ),
    "tensor_mix_perturbed": (
        "train_perturbed",
        {"task": "tensor", "level": "mix", "step": [0], "tensor": {"data_mode": ["all"]}},
    ),
    "structure_mix": ("train", {"task": "structure", "level": "mix", "step": [0]}),
    "debug_statistics": ("debug", {"task": "statistics", "level": "debug", "statistics": STAT}),
    "debug_tensor": ("debug", {"task": "tensor", "level": "debug", "tensor": {}}),
    "types_L1": ("types", {"task": "statistics", "level": "L1", "statistics": STAT}),
    "types_L1_md5": (
        "types",
        {"task": "statistics", "level": "L1", "statistics": dict(STAT, summary_mode="md5")},
    ),
    "types_L1_tensor": ("types", {"task": "tensor", "level": "L1", "tensor": {"summary_mode": "md5"}}),
    "data_mode_forward_output_L1": (
        "train",
        {
            "task": "statistics",
            "level": "L1",
            "step": [0],
            "statistics": dict(STAT, data_mode=["forward", "output"]),
        },
    ),
    "data_mode_backward_mix": (
        "train",
        {"task": "statistics", "level": "mix", "step": [0], "statistics": dict(STAT, data_mode=["backward"])},
    ),
    "list_linear_mix": (
        "train",
        {"task": "statistics", "level": "mix", "step": [0], "statistics": dict(STAT, list=["blocks.0.attn"])},
    ),
    "scope_L1": (
        "train",
        {
            "task": "statistics",
            "level": "L1",
            "step": [0],
            "statistics": dict(
                STAT, scope=["Functional.layer_norm.0.forward", "Functional.linear.3.forward"]
            ),
        },
    ),
    "scope_L0": (
        "train",
        {
            "task": "statistics",
            "level": "L0",
            "step": [0],
            "statistics": dict(
                STAT,
                scope=[
                    "Module.blocks.0.attn.Attention.forward.0",
                    "Module.blocks.1.norm1.LayerNorm.forward.0",
                ],
            ),
        },
    ),
    "tensor_list_mix": (
        "train",
        {
            "task": "statistics",
            "level": "mix",
            "step": [0],
            "statistics": dict(STAT, tensor_list=["softmax", "shared"]),
        },
    ),
    "recompute_mix": ("recompute", {"task": "statistics", "level": "mix", "step": [0], "statistics": STAT}),
    "micro_steps_mix": ("micro", {"task": "statistics", "level": "mix", "statistics": STAT}),
    "module_list_L0": ("module_list", {"task": "statistics", "level": "L0", "step": [0], "statistics": STAT}),
    "module_dump_L1": ("module_dump", {"task": "statistics", "level": "L1", "step": [0], "statistics": STAT}),
    "nan_mix": ("nan", {"task": "statistics", "level": "mix", "step": [0], "statistics": STAT}),
    "overflow_check_L1": (
        "nan",
        {"task": "overflow_check", "level": "L1", "overflow_check": {"overflow_nums": 3}},
    ),
    "async_tensor_L1": (
        "nan",
        {"task": "tensor", "level": "L1", "async_dump": True, "tensor": {"list": ["softmax"]}},
    ),
    "L2_cpu": ("nan", {"task": "tensor", "level": "L2", "tensor": {"list": ["Torch.softmax.0.forward"]}}),
    "gloo2_L1": ("gloo", {"task": "statistics", "level": "L1", "step": [0], "statistics": STAT}),
    "gloo2_L1_nan": ("gloo_nan", {"task": "statistics", "level": "L1", "step": [0], "statistics": STAT}),
    "gloo2_L1_perturbed": (
        "gloo_perturbed",
        {"task": "statistics", "level": "L1", "step": [0], "statistics": STAT},
    ),
}


def child(name, out_dir):
    scenario, config = SAMPLES[name]
    sample_dir = os.path.join(out_dir, name)
    os.makedirs(sample_dir, exist_ok=True)
    config = dict(BASE, **config)
    config["dump_path"] = os.path.join(sample_dir, "dump")
    config_path = os.path.join(sample_dir, "config.json")
    if not os.path.exists(config_path):
        with open(config_path, "w") as f:
            json.dump(config, f, indent=4)
        os.chmod(config_path, 0o640)

    import torch
    import torch.nn as nn
    import torch.nn.functional as F  # noqa: N812
    from torch.utils.checkpoint import checkpoint

    torch.set_num_threads(1)

    rank = int(os.environ.get("RANK", "-1"))
    if scenario.startswith("gloo"):
        import torch.distributed as dist

        dist.init_process_group("gloo")

    from msprobe.pytorch import PrecisionDebugger, module_dump, module_dump_end, seed_all

    seed_all(seed=1234, mode=True, rm_dropout=False)
    debugger = PrecisionDebugger(config_path=config_path)

    class Attention(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(dim, 3 * dim)
            self.proj = nn.Linear(dim, dim, bias=False)

        def forward(self, x, mask=None, scale=None):
            b, t, d = x.shape
            q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, dropout_p=0.0, is_causal=mask is None, scale=scale
            )
            return self.proj(y.transpose(1, 2).reshape(b, t, d))

    class Block(nn.Module):
        def __init__(self, dim, heads, shared):
            super().__init__()
            self.norm1 = nn.LayerNorm(dim)
            self.attn = Attention(dim, heads)
            self.norm2 = nn.LayerNorm(dim)
            self.shared = shared  # one Linear used by both blocks
            self.act = nn.ReLU(inplace=True)
            self.drop = nn.Dropout(p=0.0)

        def forward(self, x, scale=None):
            h = self.attn(self.norm1(x), scale=scale)  # keyword argument
            x = x + self.drop(h)
            h = self.shared(self.norm2(x))
            h = self.act(h) * 0.5
            h.add_(0.25)  # in-place op
            return self.shared(h) + x  # re-used submodule

    class Head(nn.Module):
        def __init__(self, dim, vocab):
            super().__init__()
            self.out = nn.Linear(dim, vocab)

        def forward(self, *, hidden, temperature=1.0, names=("a", "b")):  # keyword-only call
            logits = self.out(hidden) / temperature
            prob = torch.softmax(logits, dim=-1)
            return {"logits": logits, "aux": (prob, [hidden.mean(), None]), "names": names}

    class Net(nn.Module):
        def __init__(self, vocab=11, dim=8, heads=2, recompute=False):
            super().__init__()
            self.embed = nn.Embedding(vocab, dim)
            shared = nn.Linear(dim, dim)
            self.blocks = nn.ModuleList([Block(dim, heads, shared) for _ in range(2)])
            self.head = Head(dim, vocab)
            self.unused = nn.Linear(2, 2)
            self.recompute = recompute

        def forward(self, ids):
            x = self.embed(ids)
            for i, block in enumerate(self.blocks):
                if self.recompute and i == 1:
                    x = checkpoint(block, x, use_reentrant=False)
                elif i == 0:
                    x = block(x, scale=0.5)
                else:
                    x = block(x)
            return self.head(hidden=x, temperature=2.0)

    def build():
        torch.manual_seed(7)
        model = Net(recompute=scenario == "recompute")
        if scenario.endswith("perturbed"):
            with torch.no_grad():
                model.blocks[1].attn.proj.weight[0, 0] += 0.5
        return model

    def batch(step, n=2):
        g = torch.Generator().manual_seed(100 + step)
        return (torch.randint(0, 11, (n, 5), generator=g), torch.randint(0, 11, (n, 5), generator=g))

    def loss_of(model, ids, target):
        out = model(ids)
        return (
            F.cross_entropy(out["logits"].reshape(-1, 11), target.reshape(-1), reduction="mean")
            + out["aux"][1][0]
        )

    if scenario in ("train", "train_perturbed", "recompute", "module_list"):
        model = build()
        opt = torch.optim.SGD(model.parameters(), lr=1e-2)
        for step in range(2):
            debugger.start(model=[model.blocks, model.head] if scenario == "module_list" else model)
            loss = loss_of(model, *batch(step))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
            debugger.stop()
            debugger.step()
    elif scenario == "micro":  # gradient accumulation: 2 forward/backward per step
        model = build()
        opt = torch.optim.SGD(model.parameters(), lr=1e-2)
        debugger.start(model=model)
        for micro in range(2):
            (loss_of(model, *batch(micro)) / 2).backward()
        opt.step()
        debugger.stop()
        debugger.step()
    elif scenario == "module_dump":
        model = build()
        debugger.start()
        ids, _ = batch(0)
        module_dump(model.blocks[0], "MyBlock")
        y = model.blocks[0](model.embed(ids))
        module_dump_end()
        y.sum().backward()
        debugger.stop()
        debugger.step()
    elif scenario == "nan":
        model = build()
        with torch.no_grad():
            model.blocks[1].norm1.weight[0] = float("inf")
        debugger.start(model=model)
        loss_of(model, *batch(0)).backward()
        debugger.stop()
        debugger.step()
    elif scenario == "debug":
        x = torch.arange(6, dtype=torch.float32).reshape(2, 3).requires_grad_()
        w = torch.ones(3, 2, requires_grad=True)
        for _ in range(2):
            y = x @ w
            PrecisionDebugger.save(y, "y")
            PrecisionDebugger.save(y * 2, "y")  # same name again
            z = {"a": y.sum(), "b": [y.exp(), 3, 2.5, "text"], "t": (torch.tensor([True, False]), y[:0])}
            PrecisionDebugger.save(z, "nested")
            PrecisionDebugger.save([1, "s"], "plain", save_backward=False)
            (z["a"] + z["b"][0].sum()).backward()
            debugger.step()
    elif scenario == "types":
        Point = collections.namedtuple("Point", "x y")

        @dataclasses.dataclass
        class Cfg:
            t: torch.Tensor
            n: int = 3

        class Custom:
            pass

        def anything(*args, **kwargs):  # an API of ours, registered as a custom API
            return args[0] if args else None

        holder = type(sys)("holder")
        holder.anything = anything
        debugger.register_custom_api(holder, "anything", "Custom")
        debugger.start()
        f32 = torch.tensor([[1.5, -2.0, 3.25], [0.0, 4.0, -5.5]])
        tensors = {
            "f64": f32.double() / 3,
            "f32": f32,
            "f16": f32.half(),
            "bf16": f32.bfloat16() / 3,
            "i8": torch.tensor([1, -2, 3], dtype=torch.int8),
            "u8": torch.tensor([1, 200], dtype=torch.uint8),
            "i16": torch.tensor([1, -2], dtype=torch.int16),
            "i32": torch.tensor([1, -2], dtype=torch.int32),
            "i64": torch.tensor([2**40, -7]),
            "bool": torch.tensor([True, False]),
            "all_true": torch.tensor([True, True]),
            "c64": torch.tensor([3 + 4j, 1 - 1j]),
            "c128": torch.tensor([3 + 4j], dtype=torch.complex128),
            "e4m3": f32.to(torch.float8_e4m3fn),
            "e5m2": f32.to(torch.float8_e5m2),
            "zero_d": torch.tensor(2.5),
            "zero_d_int": torch.tensor(7),
            "zero_d_bool": torch.tensor(True),
            "empty": torch.zeros(0, 3),
            "nan": torch.tensor([1.0, float("nan")]),
            "inf": torch.tensor([1.0, float("inf")]),
            "ninf": torch.tensor([-float("inf"), 2.0]),
            "param": nn.Parameter(torch.ones(2)),
            "non_contig": f32.t(),
            "channels_last": torch.arange(16.0)
            .reshape(1, 2, 2, 4)
            .contiguous(memory_format=torch.channels_last),
            "expanded": torch.ones(1, 1).expand(2, 2),
        }
        if name == "types_L1":  # a meta tensor breaks tensor and md5 dumps of 8.1.1
            tensors["meta"] = torch.empty(2, 2, device="meta")
        for value in tensors.values():
            holder.anything(value)
        holder.anything(None, 1, 2.5, True, "text", -0.0, 10**20, 1e-40, float("nan"), float("inf"))
        holder.anything(slice(1, 2), slice(None, -1, 2), Ellipsis, slice(torch.tensor(1), None))
        holder.anything(torch.float32, torch.device("cpu"), torch.Size([2, 3]), torch.channels_last)
        holder.anything(dtype=torch.float16, device="cpu", memory_format=torch.preserve_format)
        holder.anything(device=torch.device("cpu"), dtype=None)
        holder.anything([1, [2, (3, torch.ones(1))]], {"k": {"kk": torch.ones(1)}, "e": [], "d": {}}, (), {})
        holder.anything(Point(torch.ones(1), 2), Cfg(torch.ones(1)), Custom(), torch.nn.functional.relu)
        import numpy as np

        holder.anything(
            np.float32(1.5),
            np.int64(3),
            np.bool_(True),
            np.array([1.0, 2.0]),
            np.array([], dtype=np.int32),
            np.str_("s"),
        )
        holder.anything()
        # real APIs
        x = torch.randn(2, 3, requires_grad=True)
        y = x[0:1, ..., None]
        y = y.to(torch.float64)
        w = x.view(torch.Size([3, 2])).contiguous(memory_format=torch.contiguous_format)
        z = torch.max(w, dim=1)
        (z.values.sum() + y.sum()).backward()
        q = torch.ones(2)
        q += 1
        q.add_(1)
        q[0] = 5
        torch.zeros(2, dtype=torch.float16, device="cpu")
        torch.split(torch.arange(4), 2)
        debugger.stop()
        debugger.step()
    elif scenario.startswith("gloo"):
        model = build()
        debugger.start(model=model)
        loss = loss_of(model, *batch(rank))
        t = torch.full((3,), float(rank + 1))
        if scenario == "gloo_nan" and rank == 1:
            t = torch.log(t - 3)  # NaN on rank 1 only
        dist.all_reduce(t)
        work = dist.all_reduce(t.clone(), op=dist.ReduceOp.MAX, async_op=True)
        work.wait()
        parts = [torch.zeros(3) for _ in range(2)]
        dist.all_gather(parts, t * (rank + 1), group=dist.group.WORLD)
        whole = torch.zeros(6)
        dist.all_gather_into_tensor(whole, t)
        s = torch.ones(2) * (rank + 5)  # (send/recv dead-lock under version 8.1.1 with gloo)
        dist.broadcast(s, src=0)
        dist.broadcast(s, 0)
        dist.barrier()
        (loss + t.sum()).backward()
        debugger.stop()
        debugger.step()
        dist.destroy_process_group()
    else:
        raise SystemExit("unknown scenario " + scenario)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out_dir")
    parser.add_argument("--only")
    parser.add_argument("--child", action="store_true")
    args = parser.parse_args()
    if args.child:
        child(args.only, args.out_dir)
        return
    for name in [args.only] if args.only else SAMPLES:
        ranks = 2 if SAMPLES[name][0].startswith("gloo") else 1
        procs = []
        for rank in range(ranks):
            env = dict(os.environ)
            if ranks > 1:
                env.update(
                    RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT="29612"
                )
            cmd = [sys.executable, os.path.abspath(__file__), args.out_dir, "--only", name, "--child"]
            procs.append(subprocess.Popen(cmd, env=env))
        codes = [p.wait() for p in procs]
        print(name, "exit codes", codes, flush=True)


if __name__ == "__main__":
    main()
