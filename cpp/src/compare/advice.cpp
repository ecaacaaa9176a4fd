// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>
#include <string_view>

#include "msprobe/compare.h"

namespace msprobe::compare {
namespace {

bool is_one_of_the_undetermined(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames = {"conv2d",   "conv3d",     "matmul",
                                                      "nll_loss", "layer_norm", "lstm"};
  for (const std::string_view one : kNames) {
    if (name.find(one) != std::string_view::npos) return true;
  }
  return false;
}

// The sentences are part of the file format: other programs look for them.
std::string_view advice_for(std::string_view name) {
  const bool forward = name.find("forward") != std::string_view::npos;
  if (name.find("input") != std::string_view::npos) {
    return forward ? "1. Analyze the model to view the input source.\n"
                     "2. Check whether an inplace API causes the output result to overwrite the input "
                     "result. That "
                     "is, the fault is actually caused by a computation error.\n"
                     "3. The fault may be caused by memory corruption and further analysis is required."
                   : "Check whether the forward computation result is affected.";
  }
  if (is_one_of_the_undetermined(name)) {
    return "This torch api may be uncertainty in the calculation, can seed_all(mode=True) to enable "
           "deterministic "
           "computing.";
  }
  return forward ? "This is a forward API computation error. Check the computation implementation."
                 : "This is a backward API computation error. Check the computation implementation.";
}

}  // namespace

std::string advice(const TableSummary& summary) {
  const bool fine = !summary.first_failing;
  std::string text = "Line: ";
  text += fine ? "NA" : std::to_string(*summary.first_failing);
  text += "\nSuspect Nodes: ";
  text += fine ? "NA" : summary.first_failing_name;
  text += "\nExpert Advice: ";
  text += fine ? "All data in comparison result meets the accuracy requirements."
               : advice_for(summary.first_failing_name);
  text += '\n';
  return text;
}

}  // namespace msprobe::compare
