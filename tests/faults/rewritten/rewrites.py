# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Equal compositions of functions of torch: what a refactoring writes in their place.

A composition has the parameters that it knows; called with others, or where it says NotImplemented, torch's
own function is called. Equal is meant of gradients, too, and of infinities where scripts have them.
"""

from __future__ import annotations

import ast
import inspect
import math
import operator
import sys
from typing import Any, Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

OPERATORS: dict[type[ast.operator], tuple[str, Callable[..., Any]]] = {
    ast.MatMult: ("@", operator.matmul), ast.Div: ("/", operator.truediv), ast.Pow: ("**", operator.pow),
    ast.Add: ("+", operator.add), ast.Sub: ("-", operator.sub), ast.Mult: ("*", operator.mul),
}  # fmt: skip
MODULES = {
    "BatchNorm1d": "batch_norm", "BatchNorm2d": "batch_norm", "Conv2d": "conv2d", "GELU": "gelu",
    "GroupNorm": "group_norm", "LayerNorm": "layer_norm", "Linear": "linear", "MSELoss": "mse_loss",
    "ReLU": "relu", "SiLU": "silu", "Softplus": "softplus",
}  # fmt: skip
"""Modules of torch that call one of these functions, and which."""


def _wide(x: Tensor) -> Tensor:
    """Autocast runs some functions in float32; what is written in their place has to do so itself."""
    return x.float() if torch.is_autocast_enabled("cpu") else x


def _are(*values: Any) -> bool:
    return all(isinstance(value, Tensor) for value in values)


def _is_real(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: tuple[int, ...]) -> Tensor:
    x = x if weight is None else x * weight.view(shape)
    return x if bias is None else x + bias.view(shape)


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    x = _wide(x)
    e = torch.exp(x - x.amax(dim, keepdim=True))
    return e / e.sum(dim, keepdim=True)


def linear(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    y = x @ w.t()
    return y if b is None else y + b


def linear_split(x: Tensor, w: Tensor, b: Tensor | None = None) -> Any:
    """Half of the rows of the weight, and then the others."""
    half = w.shape[0] // 2
    if not half:
        return NotImplemented
    ends = (slice(half), slice(half, None))
    return torch.cat([F.linear(x, w[end], None if b is None else b[end]) for end in ends], -1)


def linear_halves(x: Tensor, w: Tensor, b: Tensor | None = None) -> Any:
    if x.ndim < 2 or x.shape[0] < 2:
        return NotImplemented
    return torch.cat([F.linear(part, w, b) for part in x.chunk(2)])


def linear_rows(x: Tensor, w: Tensor, b: Tensor | None = None) -> Any:
    if x.ndim < 2 or x.shape[0] > 40:  # a longer batch makes too many calls
        return NotImplemented
    return torch.stack([F.linear(row, w, b) for row in x])


def linear_turned(x: Tensor, w: Tensor, b: Tensor | None = None) -> Any:
    """x wᵀ = (w xᵀ)ᵀ"""
    if x.ndim != 2:
        return NotImplemented
    y = (w @ x.t()).t()
    return y if b is None else y + b


def einsum(a: Tensor, b: Tensor) -> Any:
    if a.ndim < 2 or b.ndim < 2 or a.is_sparse:
        return NotImplemented
    return torch.einsum("...ij,...jk->...ik", a, b)


def products(a: Tensor, b: Tensor) -> Any:
    if a.ndim < 2 or b.ndim < 2 or a.is_sparse or a.is_complex():
        return NotImplemented
    return (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)


def layer_norm(
    x: Tensor, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    dims, x = tuple(range(-len(shape), 0)), _wide(x)
    mean = x.mean(dims, keepdim=True)
    variance = (x - mean).square().mean(dims, keepdim=True)
    return _scaled((x - mean) / torch.sqrt(variance + eps), weight, bias, tuple(shape))


def group_norm(
    x: Tensor, groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    grouped = _wide(x).reshape(len(x), groups, -1)
    mean, variance = grouped.mean(-1, keepdim=True), grouped.var(-1, unbiased=False, keepdim=True)
    y = ((grouped - mean) * torch.rsqrt(variance + eps)).reshape(x.shape)
    return _scaled(y, weight, bias, (1, -1) + (1,) * (x.ndim - 2))


def batch_norm(
    x: Tensor, mean: Any, variance: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    if not training:
        return NotImplemented
    dims, shape, x = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2), _wide(x)
    m, v, n = x.mean(dims), x.var(dims, unbiased=False), x.numel() // x.shape[1]
    if mean is not None:
        with torch.no_grad():
            mean.lerp_(m.detach(), momentum)
            variance.lerp_(v.detach() * n / (n - 1), momentum)
    return _scaled((x - m.view(shape)) / (v.view(shape) + eps).sqrt(), weight, bias, shape)


def attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None,
) -> Any:  # fmt: skip
    if dropout_p:
        return NotImplemented
    scores = q @ k.transpose(-2, -1) * (scale or q.shape[-1] ** -0.5)
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).tril().logical_not()
        scores = scores.masked_fill(later, -math.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return torch.softmax(scores, -1).to(v.dtype) @ v


def cross_entropy(x: Tensor, y: Tensor) -> Any:
    if x.ndim != 2 or y.is_floating_point() or (y < 0).any():
        return NotImplemented
    return -torch.log_softmax(_wide(x), -1).gather(1, y[:, None]).squeeze(1).mean()


def mse_loss(a: Tensor, b: Tensor, *, reduction: str = "mean") -> Tensor:
    squares = (_wide(a) - _wide(b)).square()
    return squares if reduction == "none" else squares.mean() if reduction == "mean" else squares.sum()


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "none":
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(x)); beyond the threshold torch gives x, which is rounding of it."""
    return torch.logaddexp(x, torch.zeros_like(x)) if beta == 1 and threshold >= 20 else NotImplemented


def quotient(a: Any, b: Any) -> Any:
    if _is_real(b):
        return a * torch.reciprocal(b)
    return a * (1.0 / b) if _is_real(a) and isinstance(b, (int, float)) else NotImplemented


def power(a: Any, b: Any) -> Any:
    if not _is_real(a) or not isinstance(b, (int, float)):
        return NotImplemented
    same: dict[float, Callable[[], Tensor]] = {
        2: lambda: a * a, 3: lambda: a * a * a, 0.5: lambda: torch.sqrt(a), -0.5: lambda: torch.rsqrt(a)
    }  # fmt: skip
    return same[b]() if b in same else NotImplemented


def norm(x: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
    if p not in (2, "fro") or x.is_complex():
        return NotImplemented
    return torch.sqrt((x * x).sum(dim, keepdim))


def variance_of(x: Tensor, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Any:
    squares = (x - x.mean(dim, keepdim=True)).square().sum(dim, keepdim)
    return squares / (x.numel() // squares.numel() - unbiased)


def conv2d(
    x: Tensor, w: Tensor, b: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """A product of the weight and all windows."""
    if isinstance(padding, str) or groups != 1:
        return NotImplemented
    (s, _), (p, _), (d, _) = ((v, v) if isinstance(v, int) else v for v in (stride, padding, dilation))
    height = (x.shape[2] + 2 * p - d * (w.shape[2] - 1) - 1) // s + 1
    windows = F.unfold(x, w.shape[2:], dilation, padding, stride)
    y = (w.flatten(1) @ windows).view(len(x), len(w), height, -1)
    return y if b is None else y + b.view(1, -1, 1, 1)


def clip_grad_norm_(parameters: Any, max_norm: float) -> Tensor:
    given = [parameters] if isinstance(parameters, Tensor) else parameters
    grads = [p.grad for p in given if p.grad is not None]
    total = torch.zeros(())
    for grad in grads:
        total = total + grad.float().square().sum()
    total = total.sqrt()
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(factor)
    return total


def transposed(x: Tensor, a: int, b: int) -> Tensor:
    dims = list(range(x.ndim))
    dims[a], dims[b] = dims[b], dims[a]
    return x.permute(dims).contiguous()


def flattened(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    start, end = start_dim % x.ndim, end_dim % x.ndim
    return x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :])


_COMPOSITIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "softmax by exp and sum": {"softmax": softmax},
    "softmax by log_softmax": {"softmax": lambda x, dim=-1: F.log_softmax(x, dim).exp()},
    "log_softmax by logsumexp": {"log_softmax": lambda x, dim=-1: _wide(x) - _wide(x).logsumexp(dim, True)},
    "linear by @": {"linear": linear},
    "linear by halves of the weight": {"linear": linear_split},
    "linear by halves of the batch": {"linear": linear_halves},
    "linear by rows of the batch": {"linear": linear_rows},
    "linear transposed": {"linear": linear_turned},
    "linear by addmm": {
        "linear": lambda x, w, b: (
            torch.addmm(b, x, w.t()) if x.ndim == 2 and b is not None else NotImplemented
        )
    },
    "products by einsum": {"matmul": einsum, "bmm": einsum, "@": einsum},
    "products by * and sum": {"matmul": products, "bmm": products, "@": products},
    "layer_norm by its formula": {"layer_norm": layer_norm},
    "group_norm by its formula": {"group_norm": group_norm},
    "batch_norm by its formula": {"batch_norm": batch_norm},
    "attention by softmax": {"scaled_dot_product_attention": attention},
    "conv2d by unfold": {"conv2d": conv2d},
    "losses by their formulas": {
        "cross_entropy": cross_entropy,
        "mse_loss": mse_loss,
        "binary_cross_entropy_with_logits": lambda x, y: (F.softplus(x) - x * y).mean(),
        "l1_loss": lambda a, b: (a - b).abs().mean(),
    },
    "activations by their formulas": {
        "gelu": gelu,
        "silu": lambda x, inplace=False: x * torch.sigmoid(x),
        "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
        "softplus": softplus,
    },
    "relu by a mask": {"relu": lambda x, inplace=False: x * (x > 0)},
    "mean by sum": {
        "mean": lambda x, dim=None, keepdim=False: (s := x.sum(dim, keepdim)) / (x.numel() // s.numel())
    },
    "mean in float64": {
        "mean": lambda x, dim=None, keepdim=False: (
            x.double().mean(dim, keepdim).to(x.dtype) if _is_real(x) else NotImplemented
        )
    },
    "sum by mean": {
        "sum": lambda x, dim=None, keepdim=False: (
            (m := x.mean(dim, keepdim)) * (x.numel() // m.numel())
            if _is_real(x) and x.numel()
            else NotImplemented
        )
    },
    "norms and var by squares": {
        "norm": norm,
        "var": variance_of,
        "normalize": lambda x, p=2.0, dim=1, eps=1e-12: x / x.norm(p, dim, True).clamp_min(eps).expand_as(x),
    },
    "powers by products and roots": {
        "square": lambda x: x * x,
        "pow": power,
        "**": power,
        "sqrt": lambda x: x**0.5,
        "rsqrt": lambda x: 1 / torch.sqrt(x),
    },
    "a / b by a reciprocal": {"/": quotient},
    "a + b by b + a": {
        "+": lambda a, b: b + a if _are(a, b) else NotImplemented,
        "*": lambda a, b: b * a if _are(a, b) else NotImplemented,
    },
    "a - b by a + (-b)": {"-": lambda a, b: a + (-b) if _are(a) and _is_real(b) else NotImplemented},
    "a + b by add": {
        "+": lambda a, b: torch.add(a, b) if _are(a) else NotImplemented,
        "-": lambda a, b: torch.sub(a, b) if _are(a) else NotImplemented,
        "*": lambda a, b: torch.mul(a, b) if _are(a) else NotImplemented,
    },
    "a + b, cloned": {"+": lambda a, b: (a + b).clone() if _are(a) or _are(b) else NotImplemented},
    "clip_grad_norm_ by its formula": {"clip_grad_norm_": clip_grad_norm_},
    "views by other views": {
        "chunk": lambda x, parts, dim=0: x.split(-(-x.shape[dim] // parts), dim),
        "transpose": transposed,
        "flatten": flattened,
    },
}


def original(name: str) -> Callable[..., Any]:
    """Looked up whenever it is called: msprobe records functions of torch in their places."""
    places = (F, torch, nn.utils)
    by_sign = dict(OPERATORS.values())
    return by_sign.get(name) or next(getattr(place, name) for place in places if hasattr(place, name))


def _either(name: str, composition: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(composition)

    def called(*args: Any, **words: Any) -> Any:
        try:
            signature.bind(*args, **words)
        except TypeError:
            return original(name)(*args, **words)
        found = composition(*args, **words)
        return original(name)(*args, **words) if found is NotImplemented else found

    return called


REWRITES = {
    kind: {name: _either(name, composition) for name, composition in functions.items()}
    for kind, functions in _COMPOSITIONS.items()
}


class _Functional:
    def __init__(self, functions: dict[str, Callable[..., Any]]) -> None:
        self.__dict__.update(functions)

    def __getattr__(self, name: str) -> Any:
        return getattr(F, name)


def use(kind: str) -> None:
    """The modules of torch call the compositions from now on."""
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.nn.modules.") and hasattr(module, "F"):
            vars(module)["F"] = _Functional(REWRITES[kind])


class _Rewriting(ast.NodeTransformer):
    def __init__(self, kind: str) -> None:
        self.kind, self.count, self.depth = kind, 0, 0

    def _call(self, name: str, node: ast.expr, args: list[ast.expr], words: list[ast.keyword]) -> ast.expr:
        self.count += 1
        function = ast.parse(f"rewrites.REWRITES[{self.kind!r}][{name!r}]", mode="eval").body
        return ast.copy_location(ast.Call(function, args, words), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in REWRITES[self.kind]:
            return node
        owner = ast.unparse(node.func.value)
        if owner in ("self", "math"):  # a module or a number
            return node
        is_method = owner.rpartition(".")[2] not in ("F", "functional", "torch", "utils", "linalg")
        args = [node.func.value, *node.args] if is_method else node.args
        return self._call(node.func.attr, node, args, node.keywords)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        self.count += MODULES.get(node.attr) in REWRITES[self.kind]
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        sign, _ = OPERATORS.get(type(node.op), ("", None))
        has_form = sign in ("+", "*") or not isinstance(node.left, ast.Constant)  # 1 / x has no other
        # what is outside of functions makes the data, and counts
        if self.depth and sign in REWRITES[self.kind] and has_form:
            return self._call(sign, node, [node.left, node.right], [])
        return node


def rewritten(text: str, kind: str) -> str | None:
    """The script with the compositions in it; None where it has none of the functions."""
    rewriting = _Rewriting(kind)
    tree = rewriting.visit(ast.parse(text))
    if not rewriting.count:
        return None
    first = next(number for number, node in enumerate(tree.body) if isinstance(node, ast.Import))
    tree.body[first:first] = ast.parse(f"import rewrites; rewrites.use({kind!r})").body
    return ast.unparse(ast.fix_missing_locations(tree))
