# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Records calls of every function of the API list that runs on a CPU: healthy operators, none of which
`msprobe check` may call wrong. Arguments are torch's own samples, and those of `more_calls` where torch has
none.

usage: python tests/operators/healthy_operators.py OUT [DTYPE ...]
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from msprobe import PrecisionDebugger
from msprobe.hooks.api_list import listed_apis

MOST_SAMPLES = 4  # of one function
MOST_ELEMENTS = 1 << 16  # of one argument
DTYPES = ("float32", "bfloat16", "int64")

Call = tuple[Callable[..., Any], list[Any], dict[str, Any]]


def main(output: str, dtypes: list[str]) -> None:
    for name in dtypes:
        record(Path(output) / name, getattr(torch, name))


def record(folder: Path, dtype: torch.dtype) -> None:
    """A dump of task tensor, level L1."""
    torch.manual_seed(0)
    config = folder.with_suffix(".json")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps({"task": "tensor", "level": "L1", "dump_path": str(folder)}))
    PrecisionDebugger._reset()
    debugger = PrecisionDebugger(str(config))
    for function, args, kwargs in itertools.chain(sampled_calls(dtype), more_calls(dtype)):
        debugger.start()
        with contextlib.suppress(Exception):  # a sample that this variant does not take
            backward(function(*args, **kwargs))
        debugger.stop()
    debugger.step()
    PrecisionDebugger._reset()


# ---- torch's samples


def sampled_calls(dtype: torch.dtype) -> Iterator[Call]:
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        yield from calls_of(op, dtype)


def calls_of(op: Any, dtype: torch.dtype) -> Iterator[Call]:
    if not op.supports_dtype(dtype, "cpu"):
        return
    grad = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    for variant in variants_of(op):
        try:
            samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grad), MOST_SAMPLES))
        except Exception:  # needs something that is not installed
            return
        for sample in samples:
            args = [sample.input, *sample.args]
            if all(t.numel() <= MOST_ELEMENTS for t in args if isinstance(t, torch.Tensor)):
                name = getattr(variant, "__name__", "")
                in_place = name.endswith("_") or name.startswith("__i")
                yield variant, [copied(args[0]) if in_place else args[0], *args[1:]], sample.kwargs


def variants_of(op: Any) -> Iterator[Any]:
    """The function, the method, the operators, those that work in place, and the same of its other names."""
    seen: list[Any] = []
    names = ("op", "method_variant", "operator_variant", "inplace_variant", "inplace_operator_variant")
    found = [getattr(one, name, None) for one in (op, *op.aliases) for name in names]
    for home in (torch, torch.nn.functional, torch.Tensor):
        for one in (op, *op.aliases):
            plain = getattr(one, "name", "").rpartition(".")[2]
            found += [getattr(home, plain, None), getattr(home, f"{plain}_", None)]
    for variant in found:
        if callable(variant) and not any(variant is other for other in seen):
            seen.append(variant)
            yield variant


def copied(value: Any) -> Any:
    """Not a leaf of the graph, which could not be changed."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def backward(result: Any) -> None:
    outputs = [t for t in flat(result) if t.requires_grad and (t.is_floating_point() or t.is_complex())]
    if outputs:
        torch.autograd.backward(outputs, [torch.randn_like(output) for output in outputs])


def flat(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from flat(entry)


# ---- where torch has no samples


def more_calls(dtype: torch.dtype) -> Iterator[Call]:
    """Every function of the list, with the arguments of its kind: those that do not fit are refused."""
    for api in listed_apis():
        if api.name.split(".")[0] in ("Functional", "Tensor", "Torch", "VF"):
            for args, kwargs in arguments_of(api.attribute, dtype):
                yield api.function, args, kwargs


def arguments_of(name: str, dtype: torch.dtype) -> list[tuple[list[Any], dict[str, Any]]]:
    def draw(*shape: int, positive: bool = False) -> torch.Tensor:
        if not dtype.is_floating_point:
            return torch.randint(1, 9, shape, dtype=dtype)
        tensor = torch.rand(*shape) + 0.1 if positive else torch.randn(*shape)
        return tensor.to(dtype).requires_grad_()

    def logs(*shape: int) -> torch.Tensor:
        tensor = draw(*shape)
        return tensor.log_softmax(-1) if dtype.is_floating_point else tensor

    index = torch.randint(0, 4, (6,))
    image, line, volume = draw(2, 4, 8, 8), draw(2, 4, 16), draw(2, 4, 6, 6, 6)
    lstm = [draw(16, 4), draw(16, 4), draw(16), draw(16)]
    gru = [draw(12, 4), draw(12, 4), draw(12), draw(12)]
    made: dict[str, list[list[Any]]] = {
        "adaptive_avg_pool1d": [[line, 4]],
        "_adaptive_avg_pool2d": [[image, [4, 4]]],
        "adaptive_max_pool1d": [[line, 4]],
        "adaptive_max_pool1d_with_indices": [[line, 4]],
        "adaptive_max_pool2d_with_indices": [[image, 4]],
        "adaptive_max_pool3d_with_indices": [[volume, 3]],
        "_add_relu": [[draw(5, 3).detach(), draw(5, 3).detach()]],
        "_add_relu_": [[draw(5, 3).detach(), draw(5, 3).detach()]],
        "affine_grid": [[draw(2, 2, 3), [2, 4, 8, 8]]],
        "affine_grid_generator": [[draw(2, 2, 3), [2, 4, 8, 8], False]],
        "_aminmax": [[draw(20).detach()]],
        "avg_pool1d": [[line, 4]],
        "bartlett_window": [[8]],
        "_batch_norm_impl_index": [[image, draw(4), draw(4), None, None, True, 0.1, 1e-5, False]],
        "bilinear": [[draw(5, 3), draw(5, 4), draw(6, 3, 4), draw(6)]],
        "binary_cross_entropy_with_logits": [[draw(6), torch.rand(6).to(dtype)]],
        "bincount": [[index]],
        "blackman_window": [[8]],
        "__bool__": [[draw(1)]],
        "chain_matmul": [[draw(3, 4), draw(4, 5), draw(5, 6)]],
        "channel_shuffle": [[image, 2]],
        "conv1d": [[line, draw(5, 4, 3)]],
        "conv2d": [[image, draw(5, 4, 3, 3), draw(5)]],
        "conv3d": [[volume, draw(5, 4, 3, 3, 3)]],
        "conv_tbc": [[draw(8, 2, 4), draw(3, 4, 5), draw(5)]],
        "conv_transpose1d": [[line, draw(4, 5, 3)]],
        "conv_transpose2d": [[image, draw(4, 5, 3, 3)]],
        "conv_transpose3d": [[volume, draw(4, 5, 3, 3, 3)]],
        "convolution": [[image, draw(5, 4, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1]],
        "_convolution": [
            [image, draw(5, 4, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, True,
             True]
        ],
        "cosine_embedding_loss": [[draw(6, 5), draw(6, 5), torch.tensor([1, -1] * 3)]],
        "cosine_similarity": [[draw(6, 5), draw(6, 5)]],
        "ctc_loss": [
            [logs(12, 2, 5), torch.randint(1, 5, (2, 4)), torch.tensor([12, 12]),
             torch.tensor([4, 3])]
        ],
        "det": [[draw(4, 4)]],
        "embedding": [[draw(8, 5), index]],
        "embedding_bag": [[draw(8, 5), index, torch.tensor([0, 2])]],
        "fill_": [[copied(draw(6)), 2]],
        "fill_diagonal_": [[copied(draw(4, 4)), 2]],
        "fold": [[draw(2, 16, 9), [6, 6], [4, 4]]],
        "frobenius_norm": [[draw(4, 5), [0, 1]]],
        "ger": [[draw(4), draw(5)]],
        "grid_sampler": [[image, torch.rand(2, 5, 5, 2).to(dtype) * 2 - 1, 0, 0, False]],
        "group_norm": [[image, 2, draw(4), draw(4)]],
        "gru": [[draw(5, 2, 4), draw(1, 2, 4), gru, True, 1, 0.0, True, False, False]],
        "gru_cell": [[draw(2, 4), draw(2, 4), *gru]],
        "hamming_window": [[8]],
        "hann_window": [[8]],
        "hardshrink": [[draw(20)]],
        "hinge_embedding_loss": [[draw(6), torch.tensor([1.0, -1.0] * 3).to(dtype)]],
        "index_put_": [[copied(draw(6, 3)), [index], draw(6, 3)]],
        "instance_norm": [[image, draw(4), draw(4), None, None, True, 0.1, 1e-5, False]],
        "istft": [[torch.randn(9, 5, dtype=torch.complex64), 16], ],
        "kaiser_window": [[8]],
        "kl_div": [[logs(6, 5), torch.rand(6, 5).to(dtype)]],
        "layer_norm": [[draw(6, 5), [5], draw(5), draw(5)]],
        "lp_pool1d": [[line, 2, 4]],
        "lp_pool2d": [[image, 2, 4]],
        "lp_pool3d": [[volume, 2, 3]],
        "lstm": [[draw(5, 2, 4), [draw(1, 2, 4), draw(1, 2, 4)], lstm, True, 1, 0.0, True, False, False]],
        "lstm_cell": [[draw(2, 4), [draw(2, 4), draw(2, 4)], *lstm]],
        "margin_ranking_loss": [[draw(6), draw(6), torch.tensor([1, -1] * 3)]],
        "matrix_power": [[draw(4, 4), 3]],
        "max_pool1d": [[line, 4]],
        "max_pool2d": [[image, 2]],
        "max_pool3d": [[volume, 2]],
        "max_pool1d_with_indices": [[line, 4]],
        "max_pool3d_with_indices": [[volume, 2]],
        "moveaxis": [[image, 1, 2]],
        "multiply": [[draw(6), draw(6)]],
        "native_norm": [[draw(6)]],
        "norm_except_dim": [[draw(6, 5)]],
        "nuclear_norm": [[draw(5, 4)]],
        "one_hot": [[index, 4]],
        "orgqr": [[draw(5, 3), draw(3)]],
        "pairwise_distance": [[draw(6, 5), draw(6, 5)]],
        "pdist": [[draw(6, 5)]],
        "pixel_shuffle": [[image, 2]],
        "pixel_unshuffle": [[image, 2]],
        "poisson_nll_loss": [[draw(6), draw(6, positive=True), True, False, 1e-8, 1]],
        "prelu": [[image, draw(4)]],
        "range": [[0, 6]],
        "__setitem__": [[copied(draw(6, 3)), 2, 1]],
        "_softmax_backward_data": [[draw(4, 5).detach(), torch.rand(4, 5).to(dtype), 1, dtype]],
        "smm": [[torch.eye(4).to(dtype).to_sparse(), draw(4, 5).detach()]],
        "swapaxes": [[image, 1, 2]],
        "swapdims": [[image, 1, 2]],
        "swapdims_": [[copied(image), 1, 2]],
        "threshold": [[draw(20), 0.1, 2.0]],
        "threshold_": [[copied(draw(20)), 0.1, 2.0]],
        "tril_indices": [[4, 5]],
        "triplet_margin_loss": [[draw(6, 5), draw(6, 5), draw(6, 5)]],
        "triu_indices": [[4, 5]],
        "type_as": [[draw(6), torch.ones(1)]],
        "unsafe_split_with_sizes": [[draw(6, 5), [2, 4]]],
        "upsample": [[image, 16]],
        "slogdet": [[draw(4, 4)]],
        "inverse": [[draw(4, 4)]],
    }  # fmt: skip
    if name in made:
        return [(args, {}) for args in made[name]]
    one, two = [copied(draw(5, 3))], [copied(draw(5, 3)), draw(5, 3, positive=True)]
    return [(one, {}), (two, {}), ([copied(draw(5, 3)), 2], {})]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], sys.argv[2:] or list(DTYPES))
