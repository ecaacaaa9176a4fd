# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Ray Train: one worker, which is another process; its environment has MSPROBE_CONFIG where this one has."""

import os
import sys

import ray
import row
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

HERE = os.path.dirname(os.path.abspath(__file__))


def train(options):
    sys.path.insert(0, options["folder"])
    sys.argv = options["words"]
    import net
    import row
    import torch
    from ray.train.torch import prepare_model

    torch.manual_seed(0)
    model = prepare_model(net.made())
    optimizer = torch.optim.AdamW(model.parameters(), lr=row.chosen("lr", 1e-3))
    losses = []
    for tokens in net.batches(6):
        loss = net.loss_of(model, tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with open(options["result"], "w") as file:
        file.write(row.line(model, losses))


names = ("MSPROBE_CONFIG", "OMP_NUM_THREADS")
variables = {name: os.environ[name] for name in names if name in os.environ}
home = row.home()
ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": variables})
TorchTrainer(
    train,
    train_loop_config={"folder": HERE, "words": sys.argv, "result": f"{home}/result"},
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(storage_path=home),
).fit()
with open(f"{home}/result") as file:
    print(file.read(), flush=True)
ray.shutdown()
