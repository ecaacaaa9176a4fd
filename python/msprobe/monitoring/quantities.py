# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The table of what the monitor measures: each quantity, its metrics, what it costs and where the idea is
from.

Metrics of tensors, pairs and counts are a table of the native library (cpp/src/monitor/metrics.cpp); here is
which of them a quantity has by default, and those that are no statistics of a tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.native import InvalidArgument, core

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True)
class Quantity:
    """One thing that is measured. `kind`: that of its rows; "number" for one that is no row."""

    name: str
    group: str  # the word of the configuration that asks for it
    kind: str
    meaning: str
    metrics: tuple[str, ...]
    cost: str
    source: str = ""
    scope: str = "parameter"

    @property
    def number(self) -> int:
        """Its place in the table: the group of the labels of its rows."""
        return QUANTITIES.index(self)


_READ = "one read of the tensors"

# Adding a quantity is a row here, and where it is measured a place that adds rows of its kind.
QUANTITIES = (
    Quantity("loss", "training", "number", "what backward() began at, summed over a step", ("",), "nothing"),
    Quantity("learning_rate", "training", "number", "of each group of the optimizer", ("",), "nothing"),
    Quantity("loss_scale", "training", "number", "of the gradient scaler", ("",), "nothing"),
    Quantity("custom", "training", "number", "what a script hands to add()", ("",), "nothing"),
    Quantity("step_seconds", "training", "number", "between the ends of two steps", ("",), "nothing"),
    Quantity(
        "gradient", "gradient", "tensor", "as the optimizer gets it, behind clipping",
        ("norm", "abs_max", "kurtosis", "zeros", "nonfinite"), _READ,
    ),
    Quantity("weight", "weight", "tensor", "behind the step", ("norm", "abs_max", "kurtosis"), _READ),
    Quantity("moment", "moment", "tensor", "exp_avg of Adam, behind the step", ("norm",), _READ),
    Quantity(
        "second_moment", "moment", "tensor", "exp_avg_sq of Adam, behind the step",
        ("norm", "abs_max"), _READ,
    ),
    Quantity(
        "update", "update", "pair", "weights before and behind the step", ("distance", "ratio"),
        "a copy and two reads of the weights", "Goyal et al. 2017; Chowdhery et al. 2022, PaLM",
    ),
    Quantity(
        "gradient_moment", "direction", "pair", "gradient beside the first moment that it meets",
        ("agreement", "cosine"), "two reads of the gradients and one of the moments",
    ),
    Quantity(
        "gradient_change", "direction", "pair", "gradient beside that of the step before", ("cosine",),
        "a copy and two reads of the gradients",
        "McCandlish et al. 2018, An Empirical Model of Large-Batch Training",
    ),
    Quantity(
        "activation", "activation", "tensor", "outputs of modules",
        ("rms", "abs_max", "kurtosis", "zeros", "nonfinite"), "one read of the activations",
        "He et al. 2024, Understanding and Minimising Outlier Features", "module",
    ),
    Quantity(
        "activation_gradient", "activation_gradient", "tensor", "gradients of the outputs of modules",
        ("rms", "abs_max", "nonfinite"), "one read of these gradients", scope="module",
    ),
    Quantity(
        "attention_logit", "attention", "tensor", "largest logit of each query", ("max", "mean"),
        "logits of the chosen queries", "Dehghani et al. 2023, Scaling Vision Transformers to 22B", "module",
    ),
    Quantity(
        "attention_entropy", "attention", "tensor", "entropy of each query's weights, in nats",
        ("mean", "min"), "logits of the chosen queries",
        "Zhai et al. 2023, Stabilizing Transformer Training by Preventing Attention Entropy Collapse",
        "module",
    ),
    Quantity(
        "expert_load", "experts", "counts", "tokens of each expert, beside their mean",
        ("largest", "smallest", "p10", "median", "p90", "dead", "dropped", "entropy"), "nothing",
        "Fedus et al. 2022, Switch Transformers", "module",
    ),
    Quantity(
        "router_probability", "experts", "tensor", "of each token: that of its first expert", ("mean", "min"),
        "a softmax of the router's logits", scope="module",
    ),
    Quantity(
        "router_entropy", "experts", "tensor", "of each token's probabilities, in nats", ("mean",),
        "a softmax of the router's logits", scope="module",
    ),
    Quantity(
        "communication", "communication", "tensor",
        "results of a collective that Python calls, all calls of a step as one",
        ("norm", "abs_max", "nonfinite", "numel"), "one read of the results", scope="module",
    ),
    Quantity(
        "matrix", "matrix", "number", "of chosen weights, every matrix_every recorded steps",
        ("spectral_norm", "stable_rank"), "a product of each matrix with itself",
        "Rudelson and Vershynin 2007; through the eigenvalues of the Gram matrix",
    ),
)  # fmt: skip

_BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}
_UNITS = {"step_seconds": "s", "attention_entropy": "nats", "router_entropy": "nats"}


def quantity(name: str) -> Quantity:
    return _BY_NAME[name]


def chosen_metrics(of: Quantity, wanted: Sequence[str]) -> list[str]:
    """Those of `wanted` that the quantity can have; its own without a wish."""
    if not wanted or of.kind == "number":
        return list(of.metrics)
    possible = {name for kind, name, *_ in core.monitor_metrics() if kind == of.kind}
    chosen = [name for name in wanted if name in possible]
    # A list that is about tensors says nothing about pairs and counts.
    return chosen or ([] if of.kind == "tensor" else list(of.metrics))


def check_metrics(wanted: Sequence[str], where: str) -> None:
    """Raises InvalidArgument for a metric that no quantity has."""
    known = {name for _, name, *_ in core.monitor_metrics()}
    for name in wanted:
        if name not in known:
            from msprobe.config import did_you_mean

            hint = did_you_mean(name, known) or f"expected some of {', '.join(sorted(known))}"
            raise InvalidArgument(f'{where}: "metrics": there is no metric {name!r}: {hint}')


def unit_of(of: str, metric: str) -> str:
    if of in _UNITS:
        return _UNITS[of]
    kind = _BY_NAME[of].kind
    return next((unit for k, name, _, unit, _ in core.monitor_metrics() if (k, name) == (kind, metric)), "")


def table() -> Iterator[tuple[str, str, str, str, str, str]]:
    """Every number: key, meaning, formula, unit, cost, source; for the documentation."""
    formulas: dict[tuple[str, str], tuple[str, str]] = {
        (kind, name): (formula, source) for kind, name, formula, _, source in core.monitor_metrics()
    }
    for one in QUANTITIES:
        for metric in one.metrics:
            formula, source = formulas.get((one.kind, metric), ("", ""))
            key = f"{one.name}.{metric}" if metric else one.name
            yield key, one.meaning, formula, unit_of(one.name, metric), one.cost, one.source or source
