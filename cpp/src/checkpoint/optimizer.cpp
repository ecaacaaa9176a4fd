// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/optimizer.h"

#include <algorithm>
#include <map>
#include <optional>

#include "checkpoint/names.h"
#include "checkpoint/pieces.h"
#include "checkpoint/state_dict.h"

namespace msprobe::checkpoint {
namespace {

using io::PtDict;
using io::PtList;
using io::PtTensor;
using io::PtValue;

using Order = std::vector<const Parameter*>;
using Shapes = std::vector<const Shape*>;

// One value per parameter of the optimizer, in its numbering.
struct State {
  std::string name;
  std::vector<const PtTensor*> values;  // null for a parameter without this state
};

// Megatron lets biases and vectors decay by no weight.
bool decays(const Parameter& one) { return one.shape.size() > 1 && !one.name.ends_with(".bias"); }

// The orders in which an optimizer may have numbered the parameters of a model.
std::vector<Order> possible_orders(const std::vector<Parameter>& model) {
  std::vector<Order> orders;
  for (const Order& plain : possible_subsets(model)) {
    Order decaying_first = plain;
    std::stable_partition(decaying_first.begin(), decaying_first.end(),
                          [](const Parameter* one) { return decays(*one); });
    Order decaying_last = plain;
    std::stable_partition(decaying_last.begin(), decaying_last.end(),
                          [](const Parameter* one) { return !decays(*one); });
    orders.insert(orders.end(), {plain, decaying_first, decaying_last});
  }
  return orders;
}

bool fits(const Order& order, const std::vector<State>& states) {
  return std::all_of(states.begin(), states.end(), [&](const State& state) {
    if (state.values.size() != order.size()) return false;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (state.values[i] != nullptr && state.values[i]->shape != order[i]->shape) return false;
    }
    return true;
  });
}

// {number: {"exp_avg": tensor, ...}}: per name, by number. Values of one element, such as the step, are no
// states of elements.
std::vector<State> states_by_number(const PtDict& numbers) {
  std::map<std::int64_t, const PtDict*> sorted;
  for (const auto& [key, value] : numbers.entries) {
    const auto* const number = key->as<std::int64_t>();
    const auto* const dict = value->as<PtDict>();
    if (number != nullptr && dict != nullptr) sorted[*number] = dict;
  }
  std::map<std::string, State> states;
  std::size_t place = 0;
  for (const auto& [number, dict] : sorted) {
    for (const auto& [key, value] : dict->entries) {
      const auto* const name = key->as<std::string>();
      const auto* const tensor = value->as<PtTensor>();
      if (name == nullptr || tensor == nullptr || tensor->shape.empty()) continue;
      State& state = states[*name];
      state.name = *name;
      state.values.resize(sorted.size());
      state.values[place] = tensor;
    }
    ++place;
  }
  std::vector<State> result;
  result.reserve(states.size());
  for (auto& [name, state] : states) result.push_back(std::move(state));
  return result;
}

// [[tensor, ...], ...]: the copies in full precision, by group.
std::optional<State> copies_in_groups(const PtValue* groups) {
  const auto* const list = groups == nullptr ? nullptr : groups->as<PtList>();
  if (list == nullptr) return std::nullopt;
  State state{"fp32_param", {}};
  for (const PtValue* group : list->items) {
    const auto* const tensors = group->as<PtList>();
    if (tensors == nullptr) return std::nullopt;
    for (const PtValue* tensor : tensors->items) state.values.push_back(tensor->as<PtTensor>());
  }
  return state.values.empty() ? std::nullopt : std::optional(std::move(state));
}

class OptimizerReader {
 public:
  OptimizerReader(const std::vector<Parameter>& model, const std::string& path,
                  std::vector<LeftOut>& left_out)
      : model_(model), path_(path), left_out_(left_out) {}

  void read(const PtValue& optimizer, int depth) {
    constexpr int kMostDepth = 3;  // several optimizers, that of Megatron, that of torch
    if (depth > kMostDepth) return;
    if (const auto* list = optimizer.as<PtList>()) {
      for (const PtValue* one : list->items) read(*one, depth + 1);
      return;
    }
    const auto* const dict = optimizer.as<PtDict>();
    if (dict == nullptr) return;
    if (const PtValue* const state = find(&optimizer, "state");
        state != nullptr && state->as<PtDict>() != nullptr) {
      take(states_by_number(*state->as<PtDict>()));
      return;
    }
    if (const PtValue* const inner = find(&optimizer, "optimizer")) {
      read(*inner, depth + 1);
      if (auto copies = copies_in_groups(find(&optimizer, "fp32_from_fp16_params")))
        take({std::move(*copies)});
      return;
    }
    for (const auto& [key, value] : dict->entries) {
      if (key->as<std::int64_t>() != nullptr) read(*value, depth + 1);
    }
  }

  std::vector<Parameter> result;

 private:
  void take(std::vector<State> states) {
    // States that only some parameters have would fit by chance.
    if (states.empty()) return;
    const std::vector<Order> orders = possible_orders(model_);
    const auto order =
        std::find_if(orders.begin(), orders.end(), [&](const Order& one) { return fits(one, states); });
    if (order == orders.end()) {
      left_out_.push_back({"optimizer", path_ + ": the shapes of its " +
                                            std::to_string(states[0].values.size()) +
                                            " states do not tell which parameters they belong to"});
      return;
    }
    for (const State& state : states) {
      for (std::size_t i = 0; i < order->size(); ++i) {
        if (state.values[i] == nullptr) continue;
        Parameter one = whole("optimizer." + state.name + "." + (*order)[i]->name, state.values[i]->view());
        const std::size_t stored =
            state.values[i]->storage->data.size() / element_size(state.values[i]->dtype);
        if (count_of(one.shape) > static_cast<std::int64_t>(stored)) continue;  // expanded
        result.push_back(std::move(one));
      }
    }
  }

  const std::vector<Parameter>& model_;
  const std::string& path_;
  std::vector<LeftOut>& left_out_;
};

}  // namespace

std::vector<std::vector<const Parameter*>> possible_subsets(const std::vector<Parameter>& model) {
  std::vector<std::vector<const Parameter*>> subsets(3);
  for (const Parameter& one : model) {
    subsets[0].push_back(&one);
    subsets[has_part(one.name, "experts") ? 2 : 1].push_back(&one);
  }
  return subsets;
}

std::vector<Parameter> optimizer_states(const PtValue& optimizer, const std::vector<Parameter>& model,
                                        const std::string& path, std::vector<LeftOut>& left_out) {
  OptimizerReader reader(model, path, left_out);
  reader.read(optimizer, 0);
  return std::move(reader.result);
}

}  // namespace msprobe::checkpoint
