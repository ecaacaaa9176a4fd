// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "graph/layer_map.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <optional>

#include "graph/dotted_name.h"
#include "graph/stack_frame.h"
#include "io/in_quotes.h"
#include "msprobe/error.h"
#include "msprobe/record_name.h"

namespace msprobe::graph {
namespace {

using Parts = std::vector<std::string_view>;
using trace::NameKind;
using trace::RecordName;

constexpr std::string_view kModel = "TopLayer";

// ---- Where a record stands in the model

// The records of one place are numbered in each of these.
enum State : std::uint8_t { kForward, kBackward, kGradients };
constexpr std::size_t kStates = 3;

struct PlacedRecord {
  std::string_view name;        // of the record
  Parts place;                  // without the model itself
  std::string_view class_name;  // of a module, or the operator
  State state = kForward;
};

// Names of a function of the framework's package that the model called and that called the operator: a call
// of that is another place than a call by the model. The model's code is where the innermost function forward
// or backward is.
std::string_view called_function(std::span<const std::string> stack, std::string_view package) {
  const auto is_pass = [](const std::string& frame) {
    const std::string_view function = function_of(frame);
    return function == "forward" || function == "backward";
  };
  const auto end = std::find_if(stack.begin(), stack.end(), is_pass);
  if (end == stack.end()) return {};
  const auto is_tool = [](const std::string& frame) { return is_of_package(frame, "msprobe"); };
  const auto begin = std::find_if_not(stack.begin(), end, is_tool);
  const auto is_own = [package](const std::string& frame) { return is_of_package(frame, package); };
  const auto user = std::find_if_not(begin, end, is_own);
  return user == begin ? std::string_view() : function_of(*(user - 1));
}

// More than any model has; for each record its place is walked down part by part.
constexpr std::size_t kMostParts = 2000;

class PlaceReader {
 public:
  explicit PlaceReader(const Dump& dump) : dump_(dump) {}

  PlacedRecord read(std::string_view name) const {
    const Parts parts = split_name(name);
    if (parts.size() < 4 || parts.size() > kMostParts) {
      throw InvalidArgument(dump_.trace.path().string() + ": " + io::in_quotes(name) +
                            ": its layer cannot be mapped, expected a name of 4 to " +
                            std::to_string(kMostParts) + " parts, found " + std::to_string(parts.size()));
    }
    PlacedRecord item{.name = name, .place = {}, .class_name = {}};
    const RecordName record(name);
    if (record.kind() == NameKind::kGradients || record.kind() == NameKind::kModule) {
      item.class_name = record.type();
      item.place = place_of_module(record);
    } else {
      item.class_name = parts[parts.size() - 3];
      item.place = place_of_call(record, item.class_name);
    }
    if (record.kind() == NameKind::kGradients) {
      item.state = kGradients;
    } else {
      item.state = record.is_backward() ? kBackward : kForward;
    }
    return item;
  }

 private:
  // "layers", "0", "mlp" of "Module.layers.0.mlp.MLP.forward.0".
  static Parts place_of_module(const RecordName& name) {
    return name.path().empty() ? Parts() : split_name(name.path());
  }

  Parts place_of_call(const RecordName& name, std::string_view function) const {
    std::string_view known = name.text();
    std::string forward;
    if (name.is_backward()) {
      forward = name.with(trace::Direction::kForward);
      if (dump_.trace.find(forward)) known = forward;
    }
    Parts place = place_of_module(RecordName(dump_.construct.parent(known)));
    if (place.size() > kMostParts) place.clear();
    const std::string_view between = called_function(dump_.stacks.frames(known), dump_.trace.package());
    if (!between.empty()) place.push_back(between);
    place.push_back(function);
    return place;
  }

  const Dump& dump_;
};

// ---- The model

struct Layer {
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::string name;             // below the parent
  std::string_view class_name;  // of the last item
  std::uint32_t parent = kNone;
  std::map<std::string, std::uint32_t, std::less<>> children;
  std::array<std::vector<std::string_view>, kStates> items;  // names of records

  bool is_empty() const {
    return std::all_of(items.begin(), items.end(), [](const auto& names) { return names.empty(); });
  }
};

// Views refer to the dump.
class Model {
 public:
  explicit Model(const Dump& dump) {
    layers_.emplace_back();
    layers_[0].class_name = kModel;
    const PlaceReader reader(dump);
    for (const trace::Record& record : dump.trace.records()) add(reader.read(dump.trace.name(record)));
    number_pipeline_layers();
  }

  const std::vector<Layer>& layers() const noexcept { return layers_; }

  // Null: there is no such layer.
  const Layer* find(const Parts& place) const {
    std::uint32_t layer = 0;
    for (const std::string_view part : place) {
      const auto child = layers_[layer].children.find(part);
      if (child == layers_[layer].children.end()) return nullptr;
      layer = child->second;
    }
    return &layers_[layer];
  }

  // From below the model down to a layer.
  std::vector<std::uint32_t> way_to(std::uint32_t layer) const {
    std::vector<std::uint32_t> way;
    for (; layer != 0; layer = layers_[layer].parent) way.push_back(layer);
    std::reverse(way.begin(), way.end());
    return way;
  }

 private:
  void add(const PlacedRecord& item) {
    std::uint32_t layer = 0;
    for (const std::string_view part : item.place) layer = child(layer, part);
    layers_[layer].items[item.state].push_back(item.name);
    if (layer != 0) layers_[layer].class_name = item.class_name;
  }

  std::uint32_t child(std::uint32_t layer, std::string_view name) {
    if (const auto found = layers_[layer].children.find(name); found != layers_[layer].children.end()) {
      return found->second;
    }
    const auto id = static_cast<std::uint32_t>(layers_.size());
    Layer& added = layers_.emplace_back();
    added.name = name;
    added.parent = layer;
    layers_[layer].children.emplace(name, id);
    return id;
  }

  // A stage of a pipeline may number its layers from where the stage before it ended.
  void number_pipeline_layers() {
    for (const Layer& layer : layers_) {
      if (layer.class_name != "ParallelTransformer") continue;
      if (const auto list = layer.children.find("layers"); list != layer.children.end()) {
        number_from_zero(list->second);
      }
    }
  }

  static std::optional<std::uint64_t> number_of(std::string_view name) {
    std::uint64_t number = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_whole = problem == std::errc() && end == name.data() + name.size();
    return is_whole ? std::optional(number) : std::nullopt;
  }

  void number_from_zero(std::uint32_t list) {
    auto children = std::exchange(layers_[list].children, {});
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    for (const auto& [name, id] : children) least = std::min(least, number_of(name).value_or(least));
    for (const auto& [name, id] : children) {
      const auto number = number_of(name);
      if (number) layers_[id].name = std::to_string(*number - least);
      layers_[list].children.emplace(layers_[id].name, id);
    }
  }

  std::vector<Layer> layers_;  // the model is the first
};

// ---- Translation

struct Rule {
  Parts from, to;
};

class Translator {
 public:
  Translator(const Model& model, const LayerRules& rules) : model_(model) {
    for (const auto& [class_name, pairs] : rules) {
      auto& into = rules_[class_name];
      for (const auto& [from, to] : pairs) into.push_back({split_name(from), split_name(to)});
      std::stable_sort(into.begin(), into.end(),
                       [](const Rule& a, const Rule& b) { return a.from.size() > b.from.size(); });
    }
  }

  // The place of a layer on the reference side.
  Parts place_of(std::uint32_t layer) const {
    const auto way = model_.way_to(layer);
    Parts place;
    const Layer* at = &model_.layers()[0];
    for (std::size_t i = 0; i < way.size();) {
      const Rule* const rule = rule_of(*at, std::span(way).subspan(i));
      if (rule == nullptr) {
        place.push_back(model_.layers()[way[i++]].name);
      } else {
        place.insert(place.end(), rule->to.begin(), rule->to.end());
        i += rule->from.size();
      }
      at = &model_.layers()[way[i - 1]];
    }
    return place;
  }

 private:
  // The longest rule of a layer's class for what comes next; null: there is none.
  const Rule* rule_of(const Layer& layer, std::span<const std::uint32_t> way) const {
    const auto rules = rules_.find(layer.class_name);
    if (rules == rules_.end()) return nullptr;
    const auto fits = [&](const Rule& rule) {
      return rule.from.size() <= way.size() && std::equal(rule.from.begin(), rule.from.end(), way.begin(),
                                                          [this](std::string_view part, std::uint32_t id) {
                                                            return model_.layers()[id].name == part;
                                                          });
    };
    const auto found = std::find_if(rules->second.begin(), rules->second.end(), fits);
    return found == rules->second.end() ? nullptr : &*found;
  }

  const Model& model_;
  std::map<std::string, std::vector<Rule>, std::less<>> rules_;
};

}  // namespace

std::unordered_map<std::string, std::string> map_layers(const Dump& target, const Dump& reference,
                                                        const LayerRules& rules) {
  const Model from(target), to(reference);
  const Translator translator(from, rules);
  std::unordered_map<std::string, std::string> names;
  names.reserve(target.trace.records().size());
  for (std::uint32_t id = 0; id < from.layers().size(); ++id) {
    if (from.layers()[id].is_empty()) continue;
    const Layer* const other = to.find(translator.place_of(id));
    for (std::size_t state = 0; state < kStates; ++state) {
      const auto& items = from.layers()[id].items[state];
      for (std::size_t i = 0; i < items.size(); ++i) {
        const bool is_there = other != nullptr && i < other->items[state].size();
        names.emplace(items[i], is_there ? other->items[state][i] : kNoLayer);
      }
    }
  }
  return names;
}

}  // namespace msprobe::graph
