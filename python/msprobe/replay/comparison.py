# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One tensor of a result against the truth, by the three measures (docs/check.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from msprobe.native import torch_adapter
from msprobe.replay import limits
from msprobe.replay.arguments import tensors_in
from msprobe.replay.bounds import options_for
from msprobe.replay.runs import has_fractions, parts_of_complex

if TYPE_CHECKING:
    import torch

    from msprobe.native import core
    from msprobe.replay.bounds import Bounds
    from msprobe.replay.dump_file import RecordedCall
    from msprobe.replay.execution import Inputs

Source = Literal["device", "recorded", "operator"]
Status = Literal["good", "wrong", "nondeterministic", "skipped"]


@dataclass(frozen=True)
class OutputJudgement:
    """One tensor of a result, or one gradient."""

    place: str
    """ "output.0", or "gradient.1": that of the second tensor among the arguments."""
    dtype: str
    shape: tuple[int, ...]
    status: Status
    reason: str
    """Why it is not good, or what explains its error."""
    source: Source
    error: float = 0.0
    """Largest absolute error."""
    relative: float = 0.0
    """2-norm of the error, relative to that of the truth."""
    trusted_error: float | None = None
    trusted_relative: float | None = None
    ratio: float | None = None
    """Measure 1: error over that of the trusted implementation; None: that is the judged one."""
    ratio_limit: float | None = None
    excess: float | None = None
    """Measure 2: largest error over its bound; None: there is no bound."""
    bound: float | None = None
    """Measure 2: the largest bound of an element."""
    max_ulp: float | None = None
    """Measure 3: the worst."""
    ulp_99: float | None = None
    """Measure 3: the 99th percentile."""
    non_finite: int = 0
    """Values that are NaN or infinite on one side only."""
    unequal: int = 0
    """Of integers and bools: values that differ."""
    index: int = 0
    """In C order, of the largest error."""

    @property
    def badness(self) -> tuple[bool, float, float]:
        """For an order: what is wrong, then how far it is beyond its bound, then its relative error."""
        excess = math.inf if self.non_finite or self.unequal else self.excess or 0.0
        return self.status != "good", excess, self.relative


@dataclass(frozen=True)
class Comparison:
    place: str
    true: torch.Tensor
    trusted: torch.Tensor
    judged: torch.Tensor
    source: Source
    independent: bool
    """The trusted implementation is another than the judged one."""
    bounds: Bounds
    threads: int

    def judge(self, call: RecordedCall, inputs: Inputs) -> OutputJudgement:
        if self.judged.shape != self.true.shape:
            if self.judged.shape == self.trusted.shape:
                return self._result("good", "its shape depends on the dtype: there is no truth for it")
            return self._result("wrong", f"shape {list(self.judged.shape)}, expected {list(self.true.shape)}")
        if self.true.numel() == 0:
            return self._result("good", "")
        if not has_fractions(self.judged) or not has_fractions(self.true):
            return self._judge_exact(call, inputs)
        return self._judge_fractions()

    def _result(self, status: Status, reason: str, **measures: Any) -> OutputJudgement:
        return OutputJudgement(
            self.place,
            str(self.judged.dtype).removeprefix("torch."),
            tuple(self.judged.shape),
            status,
            reason,
            self.source,
            **measures,
        )

    # ---- integers and bools

    def _judge_exact(self, call: RecordedCall, inputs: Inputs) -> OutputJudgement:
        unequal = int((self.judged != self.true).sum())
        if unequal == 0:
            return self._result("good", "")
        of_trusted = int((self.trusted != self.true).sum())
        share = f"{unequal:,} of {self.true.numel():,} values differ from the truth"
        if of_trusted and unequal <= of_trusted * limits.RATIO_HALF:
            return self._result("good", f"{share}, as many as of the trusted implementation", unequal=unequal)
        if _is_tie(inputs, self.true, self.judged):
            return self._result("good", f"{share}, all where the argument has equal values", unequal=0)
        if not self.independent:
            return self._result("good", share, unequal=unequal)
        return self._result("wrong", share, unequal=unequal)

    # ---- fractions

    def _measure(self, tensor: torch.Tensor, options: core.ResultOptions, size: Any = None) -> Any:
        return torch_adapter().measure_result(
            parts_of_complex(tensor),
            parts_of_complex(self.true),
            options,
            terms=size,
            threads=self.threads,
        )

    def _judge_fractions(self) -> OutputJudgement:
        options = options_for(str(self.judged.dtype))
        trusted = self._measure(self.trusted, options)
        options, size = self.bounds.options(self.place, self.true, self.judged, trusted.max_reference)
        found = self._measure(self.judged, options, size)
        own = limits.format_named(str(self.judged.dtype))
        ratio = _ratio(found, trusted, own.roundoff)
        limit = limits.largest_ratio(str(self.judged.dtype), found.count)
        norm = math.sqrt(found.reference_squares)
        excess = None if size is None else found.max_excess
        measures = {
            "error": found.max_absolute,
            "relative": _relative(found.squared_error, norm),
            "trusted_error": trusted.max_absolute,
            "trusted_relative": _relative(trusted.squared_error, norm),
            "ratio": ratio if self.independent else None,
            "ratio_limit": limit,
            "excess": excess,
            "bound": None if size is None else found.max_bound,
            "max_ulp": found.max_ulp,
            "ulp_99": found.ulp_percentile_99,
            "non_finite": found.non_finite_errors,
            "index": found.max_excess_index or found.max_absolute_index,
        }
        status, reason = self._verdict(found, trusted, ratio, limit, excess)
        if status == "good" and excess is not None and excess > 1 and self._stands_out(ratio, options, size):
            reason = self._sentence(found, ratio, limit, excess)
            status = "wrong"
        return self._result(status, reason, **measures)

    def _verdict(
        self, found: Any, trusted: Any, ratio: float, limit: float, excess: float | None
    ) -> tuple[Status, str]:
        if found.non_finite_errors > trusted.non_finite_errors and self.independent:
            return "wrong", f"{found.non_finite_errors:,} values are NaN or infinite on one side only"
        within = excess is not None and excess <= 1
        if not self.independent:
            if within or excess is None:
                return "good", ""
            text = f"{excess:.3g} times its a-priori bound"
            return ("wrong", text) if self.bounds.is_rigorous else ("good", text)
        if within:
            return "good", ""
        if ratio <= limit:
            return "good", "ill-conditioned: the trusted implementation is as far off"
        if excess is None and found.ulp_percentile_99 <= limits.ULP_99:
            return "good", ""
        return "wrong", self._sentence(found, ratio, limit, excess)

    def _stands_out(self, ratio: float, options: core.ResultOptions, size: Any) -> bool:
        """Of a sum of products in a tensor so small that one rounding may decide the ratio: whether the
        trusted implementation keeps the bound and the judged one does not.
        """
        if not (self.independent and self.bounds.is_rigorous):
            return False
        if ratio <= limits.ratio_for(str(self.judged.dtype)):
            return False
        return bool(self._measure(self.trusted, options, size).max_excess <= 1)

    def _sentence(self, found: Any, ratio: float, limit: float, excess: float | None) -> str:
        how = f"{ratio:.3g} times the error of the trusted implementation (at most {limit:g})"
        beyond = f", {excess:.3g} times its a-priori bound" if excess is not None else ""
        ulp = f"; ULP: worst {found.max_ulp:.3g}, 99 of 100 up to {found.ulp_percentile_99:.3g}"
        return how + beyond + ulp


def _ratio(found: Any, trusted: Any, roundoff: float) -> float:
    """The larger one of the ratios of the largest errors and of the root mean square errors. The trusted
    implementation counts as no better than results that are rounded once: up to half a unit in the last
    place, in the root mean square 1 / sqrt(12) of one, which is 1 / sqrt(6) of half a unit relative to
    mantissas between 1 and 2.
    """
    mean_of_rounding = roundoff / math.sqrt(6) * math.sqrt(found.reference_squares)
    mean = _quotient(math.sqrt(found.squared_error), max(math.sqrt(trusted.squared_error), mean_of_rounding))
    largest = _quotient(found.max_absolute, max(trusted.max_absolute, roundoff * found.max_reference))
    return max(mean, largest)


def _quotient(error: float, other: float) -> float:
    if error == 0:
        return 0.0
    return error / other if other > 0 else math.inf


def _relative(squared_error: float, norm: float) -> float:
    return _quotient(math.sqrt(squared_error), norm)


def _is_tie(inputs: Inputs, true: torch.Tensor, judged: torch.Tensor) -> bool:
    """Whether both results, as indices into the first argument, name equal values of it."""
    import torch

    source = next(tensors_in(inputs.args), None)
    if source is None or true.dtype not in (torch.int64, torch.int32) or source.numel() == 0:
        return False
    values = source.detach()
    whole = values.reshape(-1)
    dims = [*range(values.dim())] if values.dim() == true.dim() else []
    for dim in dims:
        others = [extent for i, extent in enumerate(values.shape) if i != dim]
        if others != [extent for i, extent in enumerate(true.shape) if i != dim]:
            continue
        if _in_range(true, values.shape[dim]) and _in_range(judged, values.shape[dim]):
            picked = [torch.gather(values, dim, index.long()) for index in (true, judged)]
            if torch.equal(*picked):
                return True
    if _in_range(true, whole.numel()) and _in_range(judged, whole.numel()):
        return torch.equal(whole[true.long()], whole[judged.long()])
    return False


def _in_range(index: torch.Tensor, extent: int) -> bool:
    return bool((index >= 0).all()) and bool((index < extent).all())
