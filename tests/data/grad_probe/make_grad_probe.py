# ruff: noqa
# fmt: off
"""Runs a small CPU training job under the gradient probe and writes its output tree.

usage: make_grad_probe.py OUT_DIR --level L0|L1|L2 [--side a|b] [--seed 0] [--bounds "[-0.1,0,0.1]"]
       [--steps 4] [--params a,b] [--only-steps 0,2] [--accum 1] [--dtype fp32|bf16|fp16|fp64] [--config FILE]
       [--world 1] [--edge]
Also writes OUT_DIR/../<name>.grads.npz holding the exact gradients of every step (float32, C order)
so that every number and every sign in the output can be recomputed.
needs: torch (CPU), the tool under test importable as `msprobe`
"""
import argparse, json, os
import numpy as np
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, h, edge):
        super().__init__()
        self.emb = nn.Embedding(11, h)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(h, 2 * h), nn.ReLU(), nn.Linear(2 * h, h)) for _ in range(2)])
        self.norm = nn.LayerNorm(h)
        self.head = nn.Linear(h, 11, bias=False)
        self.scale = nn.Parameter(torch.tensor(1.0))
        if edge:
            self.unused = nn.Parameter(torch.ones(3))
            self.values = nn.Parameter(torch.zeros(8))
            self.matrix = nn.Parameter(torch.zeros(3, 5))

    def forward(self, x):
        y = self.emb(x)
        for b in self.blocks:
            y = y + b(y)
        return self.head(self.norm(y)) * self.scale


def job(rank, o):
    if o.world > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(o.port))
        torch.distributed.init_process_group("gloo", rank=rank, world_size=o.world)
    from msprobe.pytorch import PrecisionDebugger
    cfg = o.config or o.out.rstrip("/") + ".config.json"
    if rank == 0 and not o.config:
        json.dump({"task": "grad_probe", "dump_path": o.out, "rank": [], "step": [int(x) for x in o.only_steps.split(",") if x],
                   "grad_probe": {"grad_level": o.level, "param_list": [x for x in o.params.split(",") if x],
                                  "bounds": json.loads(o.bounds)}}, open(cfg, "w"), indent=4)
    if o.world > 1:
        torch.distributed.barrier()
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}[o.dtype]
    torch.manual_seed(o.seed)
    model = Net(o.hidden, o.edge).to(dtype)
    dbg = PrecisionDebugger(cfg)
    dbg.monitor(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(o.seed + 100 + rank)
    kept = {}
    for step in range(o.steps):
        opt.zero_grad()
        for _ in range(o.accum):
            x = torch.randint(0, 11, (4, 6), generator=data)
            t = torch.randint(0, 11, (24,), generator=data)
            nn.functional.cross_entropy(model(x).float().reshape(24, 11), t).backward()
        noise = torch.Generator().manual_seed(1000 * (step + 1) + rank)
        for name, p in model.named_parameters():
            if p.grad is not None and o.side == "b":      # the "other device": small noise growing with the step
                p.grad += (0.02 * (step + 1) * p.grad.abs().mean() * torch.randn(p.grad.shape, generator=noise)).to(dtype)
        if o.edge:
            inf, nan = float("inf"), float("nan")
            model.values.grad = torch.tensor([0.0, -0.0, nan, inf, -inf, 1e-40, -0.1, 0.1], dtype=dtype) if step % 2 else \
                torch.tensor([0.0, -0.0, 0.05, 0.1, -0.1, 1e-40, -3.0, 7.0], dtype=dtype)
            g = torch.linspace(-1, 1, 15, dtype=torch.float32).to(dtype)
            model.matrix.grad = g.reshape(5, 3).t()        # not contiguous
        for name, p in model.named_parameters():
            if p.grad is not None:
                kept[f"step{step}/{name}"] = p.grad.detach().float().numpy().copy(order="C")
        opt.step()
    np.savez_compressed(o.out.rstrip("/") + (f".rank{rank}" if o.world > 1 else "") + ".grads.npz", **kept)
    if o.world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("out")
    for n, d in (("level", "L1"), ("side", "a"), ("bounds", "[-0.1, 0, 0.1]"), ("params", ""), ("only-steps", ""),
                 ("dtype", "fp32"), ("config", "")):
        a.add_argument(f"--{n}", default=d)
    for n, d in (("seed", 0), ("steps", 4), ("accum", 1), ("world", 1), ("hidden", 6)):
        a.add_argument(f"--{n}", type=int, default=d)
    a.add_argument("--edge", action="store_true")
    o = a.parse_args()
    o.port = 20000 + os.getpid() % 20000
    if o.world > 1:
        torch.multiprocessing.spawn(job, (o,), nprocs=o.world)
    else:
        job(0, o)
