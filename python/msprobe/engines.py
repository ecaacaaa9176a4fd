# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What torch, Megatron, DeepSpeed and transformers call the ways in which a training lies over its ranks. All
readers of layouts ask here: of records, of the monitor, of the probe of gradients. By names alone: nothing of
an engine is imported. An engine is added by its rows.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

COMPILED = "_orig_mod"
"""What the wrapper of torch.compile() calls the module that it holds."""
PRIVATELY_HELD = frozenset(
    (COMPILED, "_forward_module", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")
)
"""What wrappers call the one module that they hold; no model has them for a part of its own."""
HELD = PRIVATELY_HELD | {"module"}


@dataclass(frozen=True)
class Wrapper:
    """A class around a model."""

    groups: tuple[str, ...]
    """Attributes of which the first that is there is, or returns, its process group."""
    keeps_copies: bool = True
    """Each rank has the whole model. False: pieces of flat parameters."""


DEEPSPEED = "DeepSpeedEngine"
WRAPPERS = {
    "DistributedDataParallel": Wrapper(("process_group", "data_parallel_group", "dp_group")),
    DEEPSPEED: Wrapper(("data_parallel_group",)),
    "FullyShardedDataParallel": Wrapper(("process_group",), keeps_copies=False),
}
COPYING = frozenset(name for name, wrapper in WRAPPERS.items() if wrapper.keeps_copies)

COPY = -1  # in the place of a dimension
# What transformers writes on a module of plain tensors that it has cut itself -> dimension of a matrix, and
# of a vector as a bias. Other plans say nothing here: parts that are packed into one tensor are each cut,
# experts in ways of their own. Where it makes DTensors, these tell.
PLANS = {
    "colwise": (0, 0),
    "colwise_rep": (0, 0),
    "colwise_gather_output": (0, 0),
    "local_colwise": (0, 0),
    "rowwise": (1, COPY),
    "rowwise_rep": (1, COPY),
    "rowwise_split_input": (1, COPY),
    "local_rowwise": (1, COPY),
    "embedding_rowwise": (0, COPY),
}
PLAN, PLAN_MESH = "_hf_tp_plan", "_hf_device_mesh"  # attributes of such a module

# Optimizers that hand their step to another one, of this rank's share of the parameters.
HANDING_ON = frozenset(("ZeroRedundancyOptimizer",))
# Optimizers of DeepSpeed, by where they keep what belongs to a parameter.
BY_PIECE = frozenset(("DeepSpeedZeroOptimizer_Stage3",))
BY_FRAGMENT = frozenset(("DeepSpeedZeroOptimizer", "BF16_Optimizer"))


def shards_flat(module: Any) -> bool:
    """A wrapper that keeps pieces of flat parameters, whether it cuts them or not."""
    wrapper = WRAPPERS.get(type(module).__name__)
    return wrapper is not None and not wrapper.keeps_copies


def group_of(wrapper: Any) -> Any:
    """Of a module of a class of WRAPPERS; None: it has none."""
    attributes = (getattr(wrapper, name, None) for name in WRAPPERS[type(wrapper).__name__].groups)
    return next((found for found in attributes if found is not None), None)


def is_cut_by_megatron(parameter: Any) -> bool:
    """A rank of tensor parallelism has a part of it."""
    return bool(getattr(parameter, "tensor_model_parallel", False))


def dim_by_megatron(parameter: Any) -> int | None:
    """The dimension along which it is cut; None: it is whole, or that is not said."""
    dim = getattr(parameter, "partition_dim", None) if is_cut_by_megatron(parameter) else None
    return None if dim is None else int(dim)


def of_megatron(what: str) -> Any:
    """What it says of the ranks: "tensor_model_parallel_group", "expert_model_parallel_rank". None: it is not
    there, or has not begun.
    """
    state: Any = sys.modules.get("megatron.core.parallel_state")
    ask = getattr(state, f"get_{what}", None)
    try:
        return None if ask is None else ask()
    except (AssertionError, RuntimeError):
        return None
