# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures of how Adam's updates are distributed over time: a column for each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msprobe.monitoring.optimizers import Moments

BINS = 30
_MOST_COLUMNS = 2000  # of a picture: beyond it every second one goes


class HeatMap:
    """The share of elements in each of 30 bins over [-1, 1], step by step."""

    def __init__(self) -> None:
        self._columns: list[Any] = []

    def add(self, values: Any) -> None:
        import torch

        if len(self._columns) >= _MOST_COLUMNS:
            self._columns = self._columns[::2]
        self._columns.append(torch.histc(values.detach().float(), bins=BINS, min=-1, max=1).cpu())

    def image(self, step: int) -> Any:
        """As SummaryWriter.add_image wants it: 4 x height x width."""
        import numpy as np
        import torch
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure()
        canvas = FigureCanvasAgg(figure)
        axes = figure.subplots()
        picture = axes.matshow(torch.stack(self._columns, dim=1).numpy(), cmap="hot", aspect="auto")
        figure.colorbar(picture)
        edges = np.linspace(-1, 1, BINS)
        axes.set_yticks(range(BINS), labels=[f"{edge:.2f}" for edge in edges])
        axes.set_xlabel("Step")
        axes.set_ylabel("Value Range")
        axes.set_title(f"Total Step: {step}")
        drawn: Any = canvas
        drawn.draw()
        return torch.from_numpy(np.array(drawn.buffer_rgba())).permute(2, 0, 1)


def adam_update(moments: Moments) -> tuple[Any, Any] | None:
    """m_hat / (sqrt(v_hat) + eps), and the same without eps; None before the first step."""
    import torch

    if moments.first is None or moments.second is None or moments.step is None:
        return None
    options = moments.options or {}
    first_beta, second_beta = options.get("betas", (0.9, 0.999))
    with torch.no_grad():
        mean = moments.first / (1 - first_beta**moments.step)
        root = torch.sqrt(moments.second / (1 - second_beta**moments.step))
        return mean / (root + options.get("eps", 1e-8)), mean / root
