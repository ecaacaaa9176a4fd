// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Numbers of the layers of a model: those of a rank count from 0, those of the model run on.
namespace msprobe::graph {

/// "Module.decoder.layers." and "3" of "Module.decoder.layers.3.Block.forward.0".
struct LayerName {
  std::string_view list;
  std::string_view number;

  /// What the names of its modules begin with: "Module.decoder.layers.3."
  std::string prefix() const { return std::string(list) + std::string(number) + "."; }
};

/// Nothing when the module is no layer of a list called "...layers" or "...layer".
std::optional<LayerName> parse_layer(std::string_view module);

/// A call of a layer: the list it stands in, and what tells it from other layers.
struct LayerCall {
  std::string list;
  std::string identity;
};

/// Running numbers of layers in the order of their calls, in each list from 0; one number for one layer.
/// `backward`: the last one is 0.
std::vector<std::size_t> running_numbers(const std::vector<LayerCall>& calls, bool backward);

}  // namespace msprobe::graph
