// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All numbers that the verdict decides by. docs/verdict.md shows this table.

#include <array>
#include <string_view>

#include "msprobe/metrics.h"

namespace msprobe::verdict {

/// Rounding errors are in unit roundoffs u of a dtype, 2^-p for p bits of significand.
struct Numbers {
  double own = 2.9;
  double own_of_coarse = 1.7;
  double sum = 0.31;
  double sum_rounded = 0.42;
  double bias = 1.1;
  double bias_of_coarse = 0.17;
  double bias_shared = 0.061;
  double element = 11;
  double element_of_coarse = 3.1;
  double suspect = 3;
  double opaque = 3;
  double few_elements = 0.98;
  double negligible = metrics::kNegligibleGradient;
  double mask = 1e4;
  double most_together = 256;
};

/// A number with where it comes from.
struct Number {
  std::string_view name;
  double Numbers::* value;
  std::string_view source;
};

// "Measured": the 99.9 % quantile of real kernels, as a run makes about a thousand different calls; of fewer
// than a thousand it is the largest. At `suspect` times that, none of the 1,302 that were measured is
// suspect.
inline constexpr std::array kNumbers{
    Number{"own", &Numbers::own,
           "measured (rounding.md): rounding of one kernel in float32, in u, over its condition number"},
    Number{"own_of_coarse", &Numbers::own_of_coarse,
           "measured: the same in 16 bits, where kernels compute in float32 and round once"},
    Number{
        "sum", &Numbers::sum,
        "measured: a sum of n terms is off by this times sqrt(n) u of float32 more, as kernels add up in it "
        "(the form is that of N. Higham, T. Mary, SIAM J. Sci. Comput. 41, 2019)"},
    Number{
        "sum_rounded", &Numbers::sum_rounded,
        "derived: the same in u of 16 bits, where each partial sum is rounded to them, as in the gradients "
        "of "
        "the weights of a normalisation: a rounding is 0.42 u of its result in the root mean square, partial "
        "sums are sqrt(1/2) of the sum, and there are two runs"},
    Number{"bias", &Numbers::bias,
           "measured: what does not average out of a kernel's rounding in float32, in u"},
    Number{"bias_of_coarse", &Numbers::bias_of_coarse,
           "measured: the same in 16 bits; powers apart, as few elements have most of their errors"},
    Number{
        "bias_shared", &Numbers::bias_shared,
        "measured: of normalisations, whose rows and channels share the rounding of one sum of n terms: this "
        "times sqrt(n) u more"},
    Number{"element", &Numbers::element,
           "measured: what one element is off by in float32, in u of the largest element"},
    Number{"element_of_coarse", &Numbers::element_of_coarse, "measured: the same in 16 bits"},
    Number{"suspect", &Numbers::suspect,
           "a tolerance is an expected size; no normal error is three times as large but for three in a "
           "thousand"},
    Number{"opaque", &Numbers::opaque,
           "gain of several calls of which only the ends are seen, and so many roundings of one call"},
    Number{"few_elements", &Numbers::few_elements,
           "share of a squared distance in one of eight sums from which on it is of few elements: of "
           "independent errors three in a million come there (beta distribution)"},
    Number{"negligible", &Numbers::negligible,
           "a gradient is measured against this part of the typical one at least: much smaller ones are "
           "exactly 0 but for rounding"},
    Number{"mask", &Numbers::mask,
           "an element beyond this is a mask (-1e4, the least number of a dtype, -inf), and no activation"},
    Number{"most_together", &Numbers::most_together,
           "a model that is computed once, on equal weights and data, is off by no more u of its coarsest "
           "dtype"},
};

/// A rule, as people read of it.
struct RuleRow {
  std::string_view id;
  std::string_view place;      // what it is for
  std::string_view tolerance;  // what such a place may be off by
};

inline constexpr std::array kRuleRows{
    RuleRow{"R1 same value",
            "a tensor that is another place, by its value: an argument that an earlier call returned, a "
            "gradient as the backward pass left it, a parameter as the optimizer left it",
            "as much as that place; one rounding more where it was scaled on the way"},
    RuleRow{"R2 operator", "a result of one call of the catalogue of operators",
            "sum over sources of gain x distance, and (`own` + `sum` x sqrt(terms)) x u x cancellation"},
    RuleRow{"R3 opaque",
            "what several calls made of which only the ends are seen: a module whose inside is not "
            "recorded, calls of one run, a whole backward pass (twice)",
            "`opaque` x (the largest distance of what goes in + `own` x u)"},
    RuleRow{"R4 origin", "data, and weights before the first step",
            "`own` x u: they are read, and rounded once"},
    RuleRow{"R5 discrete", "integers, flags, and elements beyond a jump of a derivative",
            "sqrt(e): an error e takes a share e of the elements to the other side"},
    RuleRow{"R6 update", "what an optimizer moved",
            "two steps of each element at most: elements whose gradient is 0 but "
            "for rounding move in any direction. How long a step is, is known from the reference"},
    RuleRow{"R7 negligible", "gradients and states",
            "measured against `negligible` of the typical one of all parameters at least"},
    RuleRow{
        "R8 no distance", "a setting, an argument, a call of one run, another shape",
        "suspect when the first place behind it that has a distance is. Of another number, word or flag that "
        "goes in with tensors that are equal to the bit, every difference is its own, and it is a cause "
        "where no other call makes another result of equal tensors. What calls of one run make of a value "
        "that the other run hands on as it is, is measured in that run"}};

/// Those that are in force.
const Numbers& numbers() noexcept;

}  // namespace msprobe::verdict
