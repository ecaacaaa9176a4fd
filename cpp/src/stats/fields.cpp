// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "msprobe/stats.h"

namespace msprobe::stats {
namespace {

using Value = std::optional<double>;

Value count(std::int64_t n) { return static_cast<double>(n); }

// A statistic that follows from others needs nothing but a row here.
constexpr std::array kFields{
    Field{"count", "number of elements", true, [](const Summary& s) { return count(s.count); }},
    Field{"min", "smallest element", false, [](const Summary& s) { return s.min; }},
    Field{"max", "largest element", false, [](const Summary& s) { return s.max; }},
    Field{"mean", "arithmetic mean; of a complex tensor its real part", false,
          [](const Summary& s) { return s.mean; }},
    Field{"mean_imag", "imaginary part of the mean of a complex tensor", false,
          [](const Summary& s) { return s.mean_imag; }},
    Field{"norm", "L2 norm", false, [](const Summary& s) { return Value(s.norm); }},
    Field{"nan_count", "elements that are NaN", true, [](const Summary& s) { return count(s.nan_count); }},
    Field{"pos_inf_count", "elements that are +Inf", true,
          [](const Summary& s) { return count(s.pos_inf_count); }},
    Field{"neg_inf_count", "elements that are -Inf", true,
          [](const Summary& s) { return count(s.neg_inf_count); }},
    Field{"zero_count", "elements that are +0 or -0", true,
          [](const Summary& s) { return count(s.zero_count); }},
    Field{"sum_abs", "sum of the absolute values, on request", false,
          [](const Summary& s) { return s.sum_abs; }},
    Field{"fourth_powers", "sum of the fourth powers of the absolute values, on request", false,
          [](const Summary& s) { return s.fourth_powers; }},
    Field{"small_count", "elements whose absolute value is below a limit, on request", true,
          [](const Summary& s) { return s.small_count ? count(*s.small_count) : std::nullopt; }},
    Field{"crc32", "CRC-32 of the elements in C order, on request", true,
          [](const Summary& s) { return s.crc32 ? Value(*s.crc32) : std::nullopt; }},
};

}  // namespace

std::span<const Field> fields() noexcept { return kFields; }

}  // namespace msprobe::stats
