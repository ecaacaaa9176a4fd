# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which functions draw random numbers, and what they are called in a pack."""

from __future__ import annotations

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import Final

# Prefix in the pack -> functions, as mindstudio-probe has them.
_OF_THE_EXISTING_TOOL: Final = {
    "random.": ("random", "randint", "uniform", "choice"),
    "np.random.": ("rand", "randint", "choice", "normal"),
    "torch.": ("rand", "randint", "randn", "rand_like", "randint_like", "randn_like", "manual_seed"),
    "torch.Tensor.": ("exponential_", "geometric_", "log_normal_", "cauchy_"),
}

# What it does not see.
_MORE: Final = {
    "random.": (
        "seed", "setstate", "shuffle", "sample", "choices", "randrange", "getrandbits", "gauss",
        "normalvariate", "triangular", "betavariate", "expovariate", "gammavariate", "lognormvariate",
        "paretovariate", "vonmisesvariate", "weibullvariate", "randbytes",
    ),
    "np.random.": (
        "seed", "set_state", "randn", "random", "random_sample", "uniform", "shuffle", "permutation",
        "standard_normal", "binomial", "poisson", "exponential", "beta", "gamma", "multinomial", "bytes",
        "default_rng",
    ),
    "torch.": ("randperm", "normal", "bernoulli", "multinomial", "poisson", "seed", "set_rng_state"),
    "torch.Tensor.": ("normal_", "uniform_", "bernoulli_", "random_"),
    "torch.cuda.": ("manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state"),
}  # fmt: skip

# Methods of the generators that numpy.random.default_rng() makes.
GENERATOR_PREFIX: Final = "np.random.Generator."
GENERATOR_METHODS: Final = (
    "random", "integers", "normal", "standard_normal", "uniform", "choice", "shuffle", "permutation",
    "permuted", "bytes", "binomial", "poisson", "exponential", "standard_exponential", "beta", "gamma",
    "standard_gamma", "multinomial", "multivariate_normal", "dirichlet",
)  # fmt: skip

# Of these the arguments are kept: they decide every number after them.
SEEDING: Final = frozenset(
    ("random.seed", "np.random.seed", "np.random.default_rng", "torch.manual_seed", "torch.cuda.manual_seed",
     "torch.cuda.manual_seed_all")
)  # fmt: skip

FUNCTIONS: Final = {
    prefix: (*_OF_THE_EXISTING_TOOL.get(prefix, ()), *functions) for prefix, functions in _MORE.items()
}

# By the names in a pack; MindSpore's are never ours, but a pack may have them.
KNOWN_TO_THE_EXISTING_TOOL: Final = frozenset(
    prefix + name for prefix, names in _OF_THE_EXISTING_TOOL.items() for name in names
) | {"mindspore.ops.rand", "mindspore.ops.randint", "mindspore.ops.randn", "mindspore.manual_seed"}
