// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "checkpoint/names.h"
#include "checkpoint/pieces.h"
#include "checkpoint/state.h"
#include "msprobe/error.h"

namespace msprobe::checkpoint {

class Mapper {
 public:
  Mapper(Checkpoint& checkpoint, const AttentionSizes& attention)
      : state_(*checkpoint.state_), sizes_(state_.attention.head_size > 0 ? state_.attention : attention) {
    for (const Parameter& one : state_.parameters) by_name_[one.name] = &one;
  }

  std::size_t apply(std::span<const MappingRule> rules) {
    std::unordered_map<const Parameter*, std::vector<Parameter>> made;  // by the first of their sources
    std::size_t count = 0;
    for (const MappingRule& rule : rules) {
      if (rule.from.empty())
        throw InvalidArgument("mapping: the rule for \"" + rule.to + "\" has no \"from\"");
      for (const Parameter& first : state_.parameters) {
        Captures captures;
        if (!capture(rule.from[0], first.name, captures)) continue;
        made[&first].push_back(make(rule, captures));
        ++count;
      }
    }
    std::vector<Parameter> result;
    std::unordered_set<std::string> names;
    for (const Parameter& one : state_.parameters) {
      for (Parameter& mapped : made[&one]) result.push_back(std::move(mapped));
      if (!used_.contains(&one)) result.push_back(one);
    }
    for (const Parameter& one : result) {
      if (!names.insert(one.name).second) throw InvalidArgument("mapping: two parameters become " + one.name);
    }
    state_.parameters = std::move(result);
    return count;
  }

 private:
  Parameter make(const MappingRule& rule, const Captures& captures) {
    const std::string name = filled_in(rule.to, captures);
    std::vector<Parameter> parts;
    for (const std::string& pattern : rule.from) {
      const std::string source = filled_in(pattern, captures);
      const auto found = by_name_.find(source);
      if (found == by_name_.end()) {
        throw InvalidArgument("mapping: " + name + " needs " + source +
                              ", which the checkpoint does not have");
      }
      used_.insert(found->second);
      parts.push_back(rule.transpose ? transposed(*found->second) : *found->second);
    }
    if (rule.parts > 1) parts = split(parts, rule.parts, name);
    Parameter result = join(rule.join, parts, name);
    result.name = name;
    return result;
  }

  static std::vector<Parameter> split(const std::vector<Parameter>& parts, int count,
                                      const std::string& name) {
    if (parts.size() != 1 || parts[0].shape.empty() || parts[0].shape[0] % count != 0) {
      throw InvalidArgument("mapping: " + name + ": expected one parameter of " + std::to_string(count) +
                            " equal parts");
    }
    const std::int64_t rows = parts[0].shape[0] / count;
    std::vector<Parameter> result;
    for (int i = 0; i < count; ++i) result.push_back(slice(parts[0], 0, i * rows, (i + 1) * rows));
    return result;
  }

  Parameter join(MappingRule::Join how, const std::vector<Parameter>& parts, const std::string& name) const {
    switch (how) {
      case MappingRule::Join::kRows: return parts.size() == 1 ? parts[0] : joined(parts, 0);
      case MappingRule::Join::kColumns: return joined(parts, 1);
      case MappingRule::Join::kQkv: break;
    }
    return join_qkv(parts, name);
  }

  // For each group of heads: their queries, its key, its value.
  Parameter join_qkv(const std::vector<Parameter>& parts, const std::string& name) const {
    const auto refuse = [&](const std::string& problem) {
      throw InvalidArgument("mapping: " + name + ": " + problem);
    };
    if (parts.size() != 3) refuse("expected query, key and value");
    for (const Parameter& part : parts) {
      if (part.shape.empty()) refuse("expected parameters with rows");
    }
    const std::int64_t size = sizes_.head_size;
    if (size < 1) {
      refuse(
          "neither checkpoint says how large a head of attention is: a config.json with num_attention_heads "
          "and "
          "hidden_size beside the files would");
    }
    const std::int64_t groups = parts[1].shape[0] / size;
    if (groups < 1 || parts[0].shape[0] % (groups * size) != 0 || parts[1].shape[0] != groups * size ||
        parts[2].shape[0] != groups * size) {
      refuse("query, key and value of " + std::to_string(parts[0].shape[0]) + ", " +
             std::to_string(parts[1].shape[0]) + " and " + std::to_string(parts[2].shape[0]) +
             " rows do not go with heads of " + std::to_string(size));
    }
    std::vector<Parameter> rows;
    for (std::int64_t group = 0; group < groups; ++group) {
      for (const Parameter& part : parts) {
        const std::int64_t each = part.shape[0] / groups;
        rows.push_back(slice(part, 0, group * each, (group + 1) * each));
      }
    }
    return joined(rows, 0);
  }

  Checkpoint::State& state_;
  AttentionSizes sizes_;
  std::unordered_map<std::string_view, const Parameter*> by_name_;
  std::unordered_set<const Parameter*> used_;
};

std::size_t apply_mapping(Checkpoint& checkpoint, std::span<const MappingRule> rules,
                          const AttentionSizes& attention) {
  return Mapper(checkpoint, attention).apply(rules);
}

}  // namespace msprobe::checkpoint
