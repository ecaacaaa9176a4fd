// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msprobe::config_check {

/// Max, min, mean and norm, in this order.
using Statistics = std::array<double, 4>;

/// What dataset.json or weight.json says of one name; without statistics it is no tensor, or one that has
/// none.
struct Leaf {
  std::string name;
  std::optional<Statistics> statistics;
};

/// A document of unique names in the order of the file; of a name that stands there twice the last one
/// counts.
class Leaves {
 public:
  void add(std::string name, std::optional<Statistics> statistics);
  const std::vector<Leaf>& all() const noexcept { return all_; }
  const Leaf* find(const std::string& name) const;

 private:
  std::vector<Leaf> all_;
  std::unordered_map<std::string, std::size_t> places_;
};

/// Members of one fingerprint, sorted by name; equal values have equal texts.
using Fingerprint = std::vector<std::pair<std::string, std::string>>;
using Fingerprints = std::unordered_map<std::string, Fingerprint>;

/// `content` is changed. With `nested` it is a tree whose leaves are named by their keys, joined with dots.
/// Throws FormatError, whose path is `entry`, for what is no JSON object or deeper than 64 levels.
Leaves read_leaves(std::string content, const std::string& entry, bool nested);

/// As read_leaves().
Fingerprints read_fingerprints(std::string content, const std::string& entry);

}  // namespace msprobe::config_check
