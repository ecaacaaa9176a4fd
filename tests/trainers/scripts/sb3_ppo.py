# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""stable-baselines3: PPO in a world of a few numbers."""

import gymnasium
import numpy
import row
import torch
from stable_baselines3 import PPO


class Walk(gymnasium.Env):
    """Two actions move a point; the reward is its nearness to 0."""

    observation_space = gymnasium.spaces.Box(-10, 10, (4,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.normal(size=4).astype(numpy.float32)
        self.steps = 0
        return self.state, {}

    def step(self, action):
        self.state = self.state + numpy.float32(0.1 if action else -0.1)
        self.steps += 1
        reward = row.chosen("reward_scale", 1.0) * -float(numpy.abs(self.state).mean())
        return self.state, reward, False, self.steps >= 20, {}


torch.manual_seed(0)
ppo = PPO(
    "MlpPolicy",
    Walk(),
    n_steps=32,
    batch_size=16,
    n_epochs=2,
    seed=3,
    gamma=row.chosen("gamma", 0.99),
    clip_range=row.chosen("clip_range", 0.2),
    ent_coef=row.chosen("ent_coef", 0.0),
    vf_coef=row.chosen("vf_coef", 0.5),
    policy_kwargs={"optimizer_kwargs": {"foreach": row.other_kernel()}},
    device="cpu",
)
row.plant(ppo.policy)
ppo.learn(96)
row.report(ppo.policy)
