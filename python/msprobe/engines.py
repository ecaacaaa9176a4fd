# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What torch, Megatron, DeepSpeed and transformers call the ways in which a training lies over its ranks: the
rows of cpp/private/msprobe/engines.h, which the library reads, too. By names alone: nothing of an engine is
imported.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from msprobe.native import core

_WORDS = core.words_of_engines()

COMPILED = _WORDS["compiled"]
"""What the wrapper of torch.compile() calls the module that it holds."""
PRIVATELY_HELD = frozenset(_WORDS["privately_held"])
"""What wrappers call the one module that they hold; no model has them for a part of its own."""
HELD = PRIVATELY_HELD | {_WORDS["module"]}
SHARDED_CLASS = _WORDS["sharded_class"]
"""What fully_shard() puts in front of the name of a class."""


@dataclass(frozen=True)
class Wrapper:
    """A class around a model."""

    groups: tuple[str, ...]
    """Attributes of which the first that is there is, or returns, its process group."""
    keeps_copies: bool
    """Each rank has the whole model. False: pieces of flat parameters."""


WRAPPERS = {name: Wrapper(*row) for name, row in _WORDS["wrappers"].items()}
DEEPSPEED = _WORDS["deepspeed"]
COPYING = frozenset(name for name, wrapper in WRAPPERS.items() if wrapper.keeps_copies)

COPY = _WORDS["copy"]  # in the place of a dimension
PLANS = _WORDS["plans"]
"""What transformers writes on a module that it has cut -> dimension of a matrix, and of a vector."""
PLAN, PLAN_MESH = _WORDS["plan"], _WORDS["plan_mesh"]  # attributes of such a module

TENSOR_PARALLEL, EXPERT_PARALLEL = _WORDS["tensor_parallel"], _WORDS["expert_parallel"]  # of Megatron

# Optimizers that hand their step to another one, of this rank's share of the parameters.
HANDING_ON = frozenset(_WORDS["handing_on"])
# Optimizers of DeepSpeed, by where they keep what belongs to a parameter.
BY_PIECE = frozenset(_WORDS["by_piece"])
BY_FRAGMENT = frozenset(_WORDS["by_fragment"])


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
    return bool(getattr(parameter, TENSOR_PARALLEL, False))


def dim_by_megatron(parameter: Any) -> int | None:
    """The dimension along which it is cut; None: it is whole, or that is not said."""
    dim = getattr(parameter, _WORDS["cut_dimension"], None) if is_cut_by_megatron(parameter) else None
    return None if dim is None else int(dim)


def of_megatron(kind: str, what: str) -> Any:
    """The "group" of this process in a kind of parallelism, or its "rank" in that. None: it is not there, or
    has not begun.
    """
    state: Any = sys.modules.get(_WORDS["parallel_state"])
    ask = getattr(state, f"get_{kind}_{what}", None)
    try:
        return None if ask is None else ask()
    except (AssertionError, RuntimeError):
        return None
