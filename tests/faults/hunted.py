# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One training with planted faults as a plain script, which knows nothing of msprobe:
python hunted.py MODEL [NAME ...] [--noise SEED], or PLANTED_NOISE in the environment. More than one process:
as torchrun starts them.
"""

from __future__ import annotations

import argparse
import os


class NoProbe:
    """In the place of a debugger."""

    def start(self, model: object) -> None:
        pass

    def stop(self) -> None:
        pass

    def step(self) -> None:
        pass


def main() -> None:
    import torch
    from catalogue import BY_NAME
    from training import RECIPES, Training
    from unseen_noise import SteadyNoise

    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--noise", type=int, default=int(os.environ.get("PLANTED_NOISE", "0")))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rank = int(os.environ.get("RANK", "0"))
    if RECIPES[asked.model].ranks > 1:
        torch.distributed.init_process_group("gloo")
    training = Training(asked.model, rank)
    if asked.noise:
        training.contexts.append(SteadyNoise(asked.noise))
    for name in asked.names:
        BY_NAME[name].plant(training)
    training.run(NoProbe())
    if RECIPES[asked.model].ranks > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
