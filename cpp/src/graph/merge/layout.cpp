// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "graph/merge/groups.h"
#include "graph/merge/order.h"
#include "io/in_quotes.h"
#include "msprobe/error.h"
#include "msprobe/graph_merge.h"
#include "msprobe/record_name.h"

namespace msprobe::graph {
namespace {

constexpr std::array<std::string_view, 5> kDimensions = {"tp", "cp", "ep", "dp", "pp"};

std::vector<std::string> split_order(std::string_view order) {
  std::vector<std::string> names;
  for (;;) {
    const std::size_t dash = order.find('-');
    names.emplace_back(order.substr(0, dash));
    if (dash == std::string_view::npos) return names;
    order.remove_prefix(dash + 1);
  }
}

class Check {
 public:
  Check(const ParallelLayout& layout, const std::string& where) : layout_(layout), where_(where) {}

  void sizes() const {
    const std::array<std::pair<const char*, int>, 6> sizes = {{{"rank_size", layout_.rank_size},
                                                               {"tp", layout_.tp},
                                                               {"pp", layout_.pp},
                                                               {"vpp", layout_.vpp},
                                                               {"cp", layout_.cp},
                                                               {"ep", layout_.ep}}};
    for (const auto& [key, size] : sizes) {
      if (size <= 0) refuse(key, "found " + std::to_string(size) + ", expected a number above 0");
    }
    for (const auto& [key, size] : sizes) {
      if (std::string_view(key) == "vpp" || layout_.rank_size % size == 0) continue;
      refuse(key, "found " + std::to_string(size) + ", expected a divisor of rank_size, " +
                      std::to_string(layout_.rank_size));
    }
    const std::int64_t product = std::int64_t{layout_.tp} * layout_.pp * layout_.cp;
    if (product > layout_.rank_size || layout_.rank_size % product != 0) {
      refuse("rank_size", "found " + std::to_string(layout_.rank_size) +
                              ", expected a multiple of tp * pp * cp, " + std::to_string(product));
    }
    const std::int64_t copies = layout_.rank_size / product;
    if (copies % layout_.ep != 0) {
      refuse("ep", "found " + std::to_string(layout_.ep) +
                       ", expected a divisor of rank_size / (tp * pp * cp), " + std::to_string(copies));
    }
    if (layout_.vpp > 1 && layout_.pp < 2) {
      refuse("vpp", "found " + std::to_string(layout_.vpp) + " with pp 1, expected pp of at least 2");
    }
  }

  void order() const {
    const auto names = split_order(layout_.order);
    for (auto name = names.begin(); name != names.end(); ++name) {
      if (std::find(kDimensions.begin(), kDimensions.end(), *name) == kDimensions.end()) {
        refuse_order("expected names out of tp, cp, ep, dp and pp, joined by \"-\"");
      }
      if (std::find(names.begin(), name, *name) != name) refuse_order("expected each name once");
    }
    const int copies = layout_.rank_size / (layout_.tp * layout_.pp * layout_.cp);
    const std::array<int, 5> sizes = {layout_.tp, layout_.cp, layout_.ep, copies, layout_.pp};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const bool is_named = std::find(names.begin(), names.end(), kDimensions[i]) != names.end();
      if (!is_named && sizes[i] > 1) {
        refuse_order("expected " + std::string(kDimensions[i]) + " in it, which is " +
                     std::to_string(sizes[i]));
      }
    }
    const auto ep = std::find(names.begin(), names.end(), "ep"),
               dp = std::find(names.begin(), names.end(), "dp");
    if (ep != names.end() && dp != names.end() && ep - dp != 1 && dp - ep != 1) {
      refuse_order("expected ep beside dp");
    }
  }

 private:
  [[noreturn]] void refuse(const char* key, const std::string& problem) const {
    throw InvalidArgument(where_ + ": \"" + key + "\": " + problem);
  }
  [[noreturn]] void refuse_order(const std::string& expected) const {
    refuse("order", "found " + io::in_quotes(layout_.order) + ", " + expected);
  }

  const ParallelLayout& layout_;
  const std::string& where_;
};

// "Module.1.module.GPTModel.forward.0" is of chunk 1.
int chunk_count(std::span<const Graph> ranks) {
  int count = 1;
  for (const Graph& graph : ranks) {
    for (const NodeId node : graph[Graph::kRoot].children) {
      const trace::RecordName name(graph[node].name);
      const std::string_view number = name.path().substr(0, name.path().find('.'));
      int chunk = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), chunk);
      if (!name.has_module_prefix() || error != std::errc() || end != number.data() + number.size()) continue;
      if (chunk < 1024) count = std::max(count, chunk + 1);
    }
  }
  return count;
}

}  // namespace

std::vector<std::string> dimensions_of(const ParallelLayout& layout) {
  std::vector<std::string> names = split_order(layout.order);
  for (const std::string_view name : kDimensions) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
  }
  return names;
}

void check_layout(const ParallelLayout& layout, const std::string& where) {
  const Check check(layout, where);
  check.sizes();
  check.order();
}

std::optional<ParallelLayout> layout_of(std::span<const Graph> ranks) {
  if (ranks.empty()) return std::nullopt;
  ParallelLayout layout = {.rank_size = static_cast<int>(ranks.size())};
  layout.by_placements = std::any_of(ranks.begin(), ranks.end(), [](const Graph& graph) {
    return graph.dumps().front()->trace.has_placements();
  });
  if (layout.by_placements) return layout;
  if (const auto groups = reducing_groups(ranks, true); !groups.empty()) {
    if (!covers_ranks(groups, groups.front().size(), ranks.size())) return std::nullopt;
    layout.tp = static_cast<int>(groups.front().size());
  }
  if (const auto chains = sending_chains(ranks); !chains.empty()) {
    if (!covers_ranks(chains, chains.front().size(), ranks.size())) return std::nullopt;
    layout.pp = static_cast<int>(chains.front().size());
    if (layout.pp > 1) layout.vpp = chunk_count(ranks);
  }
  try {
    check_layout(layout, "the layout found");
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
  return layout;
}

}  // namespace msprobe::graph
