# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""diffusers: noise is predicted by a UNet, with averaged weights."""

import row
import torch
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.models.attention_processor import Attention, AttnProcessor
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.training_utils import EMAModel

torch.manual_seed(0)
model = UNet2DModel(
    sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(16, 32),
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    norm_num_groups=8, attention_head_dim=8,
)  # fmt: skip
if row.other_kernel():
    for part in model.modules():
        if isinstance(part, Attention):
            part.set_processor(AttnProcessor())
row.plant(model)
noising = DDPMScheduler(
    num_train_timesteps=100,
    beta_end=row.chosen("beta_end", 0.02),
    prediction_type=row.chosen("prediction_type", "epsilon"),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = get_cosine_schedule_with_warmup(optimizer, row.chosen("num_warmup_steps", 2), 8)
average = EMAModel(model.parameters(), decay=row.chosen("decay", 0.95))
losses = []
for _ in range(8):
    images = torch.randn(4, 1, 8, 8)
    noise, times = torch.randn_like(images), torch.randint(0, 100, (4,))
    noisy = noising.add_noise(images, noise, times)
    is_plain = noising.config.prediction_type == "epsilon"
    wanted = noise if is_plain else noising.get_velocity(images, noise, times)
    loss = torch.nn.functional.mse_loss(model(noisy, times).sample, wanted)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    average.step(model.parameters())
    losses.append(loss.item())
row.report(model, [*losses, sum(float(one.double().sum()) for one in average.shadow_params)])
