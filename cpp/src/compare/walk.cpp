// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "msprobe/compare_walk.h"
#include "msprobe/thread_pool.h"
#include "trace/align.h"
#include "trace/item_distance.h"
#include "trace/parent_cursor.h"
#include "trace/uninitialised.h"

namespace msprobe::compare {
namespace {

using trace::Item;
using trace::ItemPair;
using trace::kNoMatch;
using trace::Record;
using Part = Item::Part;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostEvents = 20000;

// A result is worth an event when it is this many times farther off than what went in.
constexpr double kJump = 4;

// A sum whose terms cancel out is measured against this part of what it would be if their signs were random.
constexpr double kCancelled = 0.05;

// Gradients of parameters are measured against this part of the typical one at least.
constexpr double kNegligible = 0.1;

// Without modules, what comes of a call is looked for in this many of the next ones.
constexpr int kCallsToLookAt = 4;

// What is known of a record of the left run.
struct Place {
  double in = 0;
  double out = 0;
  bool in_is_equal = true;
  bool out_is_equal = true;
  bool has_result = false;  // one that can be compared
};

bool is_input(Part part) {
  return part == Part::kInputArgs || part == Part::kInputKwargs || part == Part::kInput ||
         part == Part::kParameters;
}

class Walker {
 public:
  Walker(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
         const std::vector<Distance>& distances)
      : pair_(pair),
        metrics_(metrics),
        distances_(distances),
        parents_(pair.left_construct ? &*pair.left_construct : nullptr),
        places_(pair.left.records().size()) {
    const auto& rows = pair.matches.pairs;
    first_row_.assign(places_.size() + 1, static_cast<std::uint32_t>(rows.size()));
    for (std::size_t i = rows.size(); i-- > 0;)
      first_row_[rows[i].left_record] = static_cast<std::uint32_t>(i);
    for (std::size_t r = places_.size(); r-- > 0;) {
      const bool empty = first_row_[r] == rows.size() || rows[first_row_[r]].left_record != r;
      if (empty) first_row_[r] = first_row_[r + 1];
    }
    collect_missing();
    negligible_gradient_ = negligible_gradient();
  }

  Walk run() {
    const auto records = pair_.left.records();
    for (std::uint32_t i = 0; i < records.size(); ++i) {
      report_missing_before(i);
      if (is_gradients(i)) {
        gradients_.push_back(i);
      } else if (!pair_.records.of_left[i]) {
        report_extra(i);
      } else {
        visit(i);
      }
    }
    report_missing_before(static_cast<std::uint32_t>(records.size()));
    for (const std::uint32_t i : gradients_) visit_gradients(i);
    for (Event& event : walk_.events) find_effect(event);
    summarize();
    return std::move(walk_);
  }

 private:
  std::string_view name(std::uint32_t record) const { return pair_.left.name(pair_.left.records()[record]); }
  bool is_gradients(std::uint32_t record) const { return trace::holds_gradients(name(record)); }
  std::span<const ItemPair> rows(std::uint32_t record) const {
    return std::span(pair_.matches.pairs)
        .subspan(first_row_[record], first_row_[record + 1] - first_row_[record]);
  }
  // `floor`: what it is measured against at least; what is equal does not depend on it.
  Distance distance_of(const ItemPair& row, double floor = 0) const {
    const auto index = static_cast<std::size_t>(&row - pair_.matches.pairs.data());
    if (floor == 0 || distances_[index].equal) return distances_[index];
    return trace::distance(pair_.left, pair_.left_item(row), pair_.right, pair_.right_item(row),
                           metrics_.empty() ? nullptr : &metrics_[index], floor);
  }
  static bool is_backward(std::string_view name) { return name.find(".backward") != std::string_view::npos; }

  std::string item_name(const ItemPair& row) const {
    return trace::item_name(pair_.left, row.left_record, row.left);
  }
  std::string_view parent(std::string_view name) const {
    return pair_.left_construct ? pair_.left_construct->parent(name) : std::string_view();
  }

  Event& add(EventKind kind, std::uint32_t record) {
    const bool full = walk_.events.size() == kMostEvents;
    Event& event = full ? discarded_ : walk_.events.emplace_back();
    event = {};
    event.kind = kind;
    event.name = name(record);
    event.is_backward = is_backward(event.name);
    event.order = record;
    event.module = parent(event.name);
    return event;
  }

  // ---- Calls of one side only

  // Records of the right run without counterpart, by the left record before which they would stand.
  void collect_missing() {
    const auto& of_right = pair_.records.of_right;
    std::uint32_t before = 0;
    for (std::uint32_t i = 0; i < of_right.size(); ++i) {
      const std::string_view name = pair_.right.name(pair_.right.records()[i]);
      if (of_right[i]) {
        if (!trace::holds_gradients(name)) before = of_right[i].index + 1;
      } else {
        missing_.emplace_back(before, i);
      }
    }
    std::stable_sort(missing_.begin(), missing_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }

  void report_missing_before(std::uint32_t record) {
    for (; next_missing_ < missing_.size() && missing_[next_missing_].first <= record; ++next_missing_) {
      const auto [before, index] = missing_[next_missing_];
      if (walk_.events.size() == kMostEvents) return;
      Event& event = walk_.events.emplace_back();
      event.kind = EventKind::kMissing;
      event.name = pair_.right.name(pair_.right.records()[index]);
      event.is_backward = is_backward(event.name);
      event.order = before;
      if (pair_.right_construct) event.module = pair_.right_construct->parent(event.name);
      event.in = running_;
      event.in_is_equal = running_ == 0;
    }
  }

  void report_extra(std::uint32_t record) {
    Event& event = add(EventKind::kExtra, record);
    event.in = running_;
    event.in_is_equal = running_ == 0;
  }

  // ---- Calls of both sides

  void visit(std::uint32_t record) {
    Place& place = places_[record];
    const ItemPair* worst = nullptr;
    const bool backward = is_backward(name(record));
    const std::string_view around = parents_.parent(name(record));
    const double floor = around == "clip_grad" ? negligible_gradient_ : 0;
    if (backward) add_forward(record, place);
    for (const ItemPair& row : rows(record)) {
      const Item& item = pair_.left_item(row);
      if (is_input(item.part)) {
        visit_input(record, row, item, distance_of(row, floor), place);
        continue;
      }
      if (!row.right) {
        report_alone(record, row, item);
        continue;
      }
      if (trace::is_uninitialised(name(record))) continue;
      Distance apart = distance_of(row, floor);
      if (backward && !apart.equal) apart = distance_of(row, cancelled(record, item));
      if (around == "optimizer") keep_updated(row, apart);
      place.has_result |= item.kind == Item::Kind::kTensor;
      if (worst == nullptr || apart.ulps > place.out) worst = &row;
      place.out = std::max(place.out, apart.ulps);
      place.out_is_equal &= apart.equal;
    }
    if (place.has_result) {
      ++walk_.compared;
      if (place.out_is_equal) ++walk_.equal;
      if (place.out_is_equal && place.in_is_equal) equal_records_.push_back(record);
    }
    different_ |= !place.out_is_equal || !place.in_is_equal;
    if (place.out_is_equal) return;
    report_output(record, worst, place);
    if (name(record).starts_with("Module.")) {
      walk_.modules.push_back({.name = std::string(name(record)), .out = place.out});
    }
    if (!std::isfinite(place.out)) return;
    running_ = std::max(running_, place.out);
    if (place.out > 0 && around != "optimizer" && around != "clip_grad") seen_.push_back(place.out);
  }

  void keep_updated(const ItemPair& row, const Distance& apart) {
    const Item& right = *pair_.right_item(row);
    const auto min = pair_.right.number(right.min), max = pair_.right.number(right.max);
    if (min && max) walk_.updated.push_back({.min = *min, .max = *max, .ulps = apart.ulps});
  }

  // Below which size elements of a gradient are nothing but what rounding leaves where the sum is zero, as
  // for a bias before a normalisation: a part of what a sum over the incoming elements would be if their
  // signs were random.
  double cancelled(std::uint32_t record, const Item& output) const {
    const double count = std::max(element_count(output), 1.0);
    double sum = 0;
    for (const ItemPair& row : rows(record)) {
      const Item& input = pair_.left_item(row);
      if (!is_input(input.part)) continue;
      const double more = std::max(element_count(input) / count, 1.0);
      sum = std::max(sum, typical_element(pair_.left, input) * std::sqrt(more));
    }
    return kCancelled * sum;
  }

  double element_count(const Item& item) const { return trace::element_count(pair_.left.text(item.shape)); }

  // Whether an earlier call of the same operator, on equal shapes, agreed in all.
  bool was_equal_before(std::uint32_t record) {
    for (const std::uint32_t equal : equal_records_) equal_calls_.insert(call_key(equal));
    equal_records_.clear();
    return equal_calls_.contains(call_key(record));
  }

  // Equal for calls of one operator on equal shapes and dtypes.
  std::uint64_t call_key(std::uint32_t record) const {
    std::string what;
    trace::append_without_count(what, name(record));
    const trace::Token token = trace::token_of(what, pair_.left, pair_.left.records()[record]);
    return token.what ^ (token.detail * 3);
  }

  // The backward of a call depends on what its forward saved.
  void add_forward(std::uint32_t record, Place& place) const {
    std::string forward(name(record));
    forward.replace(forward.find(".backward"), 9, ".forward");
    if (const auto found = pair_.left.find(forward)) {
      const Place& of_forward = places_[*found];
      place.in = std::max({place.in, of_forward.in, of_forward.out});
      place.in_is_equal &= of_forward.in_is_equal && of_forward.out_is_equal;
    }
  }

  void visit_input(std::uint32_t record, const ItemPair& row, const Item& item, const Distance& apart,
                   Place& place) {
    const bool is_value = item.kind != Item::Kind::kTensor;
    const Item* const other = pair_.right_item(row);
    if (other != nullptr && item.requires_grad && other->requires_grad &&
        *item.requires_grad != *other->requires_grad && !is_backward(name(record))) {
      Event& event = report_argument(record, row, apart);
      event.item += ".requires_grad";
      event.left_text = *item.requires_grad ? "True" : "False";
      event.right_text = *other->requires_grad ? "True" : "False";
      event.effect = kInfinity;
    }
    if (apart.equal) return;
    if (is_value || other == nullptr) {
      Event& event = report_argument(record, row, apart);
      event.left_text = show(pair_.left, &item);
      event.right_text = other != nullptr ? show(pair_.right, other) : std::string(reason(row.reason));
    } else if (apart.ulps > kJump * std::max(running_, 1.0) || running_ == 0) {
      Event& event = report_argument(record, row, apart);
      event.kind = EventKind::kInput;
      event.parameter = parameter_of(record, row, item);
      if (std::isfinite(apart.ulps)) running_ = std::max(running_, apart.ulps);
    }
    place.in = std::max(place.in, apart.ulps);
    place.in_is_equal = false;
  }

  // A result that cannot be compared: of another dtype or shape.
  void report_alone(std::uint32_t record, const ItemPair& row, const Item& item) {
    Event& event = report_argument(record, row, {.ulps = kInfinity, .equal = false});
    event.left_text = show(pair_.left, &item);
    event.right_text = reason(row.reason);
  }

  Event& report_argument(std::uint32_t record, const ItemPair& row, const Distance& apart) {
    Event& event = add(EventKind::kArgument, record);
    event.item = item_name(row);
    event.in = running_;
    event.in_is_equal = running_ == 0;
    event.out = apart.ulps;
    return event;
  }

  void report_output(std::uint32_t record, const ItemPair* worst, const Place& place) {
    const bool jumps = place.out > kJump * std::max(place.in, 1.0);
    if (!place.in_is_equal && !jumps) return;
    if (!name(record).starts_with("Module.") || !explained_.contains(name(record))) {
      Event& event = add(EventKind::kOutput, record);
      event.item = item_name(*worst);
      event.in = place.in;
      event.out = place.out;
      event.in_is_equal = place.in_is_equal;
      event.equal_before = was_equal_before(record);
      event.reduction = reduction(record, pair_.left_item(*worst));
    }
    // The modules around it show the same difference.
    std::string_view around = parent(name(record));
    for (int depth = 0; !around.empty() && depth < 64; ++depth) {
      if (!explained_.insert(around).second) break;
      around = parent(around);
    }
  }

  // Number of terms in each element of a result: the common extent of a matrix product, else how many
  // elements of the largest input there are for one of the result.
  double reduction(std::uint32_t record, const Item& result) const {
    const std::string_view call = name(record);
    const double count = std::max(trace::element_count(pair_.left.text(result.shape)), 1.0);
    double terms = 1;
    for (const Item& item : pair_.left.items(pair_.left.records()[record])) {
      if (item.kind != Item::Kind::kTensor || !is_input(item.part)) continue;
      const std::string_view shape = pair_.left.text(item.shape);
      const bool is_product = call.find("linear") != call.npos || call.find("mm") != call.npos ||
                              call.find("matmul") != call.npos || call.find("attention") != call.npos;
      const std::size_t last = shape.find_last_of(" [");
      if (is_product && last != shape.npos) terms = std::max(terms, trace::element_count(shape.substr(last)));
      terms = std::max(terms, trace::element_count(shape) / count);
    }
    return terms;
  }

  // ---- Gradients of parameters

  // Below this an element of a parameter's gradient is nothing but rounding: a part of the median over all
  // parameters.
  double negligible_gradient() const {
    std::vector<double> typical;
    for (const Record& record : pair_.left.records()) {
      if (!trace::holds_gradients(pair_.left.name(record))) continue;
      for (const Item& item : pair_.left.items(record)) {
        if (const double element = typical_element(pair_.left, item); element > 0) typical.push_back(element);
      }
    }
    if (typical.empty()) return 0;
    const auto middle = typical.begin() + static_cast<std::ptrdiff_t>(typical.size() / 2);
    std::nth_element(typical.begin(), middle, typical.end());
    return kNegligible * *middle;
  }

  void visit_gradients(std::uint32_t record) {
    const Place of_module = module_place(name(record));
    for (const ItemPair& row : rows(record)) {
      const Distance apart = distance_of(row, negligible_gradient_);
      if (apart.equal) continue;
      const bool jumps = apart.ulps > kJump * std::max(of_module.in, 1.0);
      if (!of_module.in_is_equal && !jumps) continue;
      Event& event = add(EventKind::kGradient, record);
      event.is_backward = true;
      event.item = item_name(row);
      event.reduction = std::max(inputs_of_module(name(record)) / element_count(pair_.left_item(row)), 1.0);
      event.in = of_module.in;
      event.out = apart.ulps;
      event.in_is_equal = of_module.in_is_equal;
      event.order = static_cast<std::uint32_t>(places_.size());
    }
  }

  // Calls visit(record) for every backward call of the module that has these gradients.
  template <typename Visit>
  void for_each_backward(std::string_view gradients, const Visit& visit) const {
    const std::string prefix(gradients.substr(0, gradients.find(".parameters_grad")));
    for (int call = 0;; ++call) {
      const auto backward = pair_.left.find(prefix + ".backward." + std::to_string(call));
      if (!backward) return;
      visit(static_cast<std::uint32_t>(*backward));
    }
  }

  // Number of elements of the largest tensor that goes into them.
  double inputs_of_module(std::string_view gradients) const {
    double count = 0;
    for_each_backward(gradients, [&](std::uint32_t record) {
      for (const ItemPair& row : rows(record)) {
        const Item& item = pair_.left_item(row);
        if (is_input(item.part)) count = std::max(count, element_count(item));
      }
    });
    return count;
  }

  // All that goes into the gradients of a module's parameters: every backward call of it. Without one,
  // everything that came before.
  Place module_place(std::string_view gradients) const {
    Place result;
    bool found = false;
    for_each_backward(gradients, [&](std::uint32_t record) {
      found = true;
      const Place& place = places_[record];
      result.in = std::max(result.in, place.in);
      result.in_is_equal &= place.in_is_equal;
    });
    if (!found) {
      result.in = running_;
      result.in_is_equal = !different_;
    }
    return result;
  }

  // ---- Effects

  void find_effect(Event& event) const {
    if (event.kind == EventKind::kOutput || event.kind == EventKind::kGradient || event.effect > 0) return;
    const auto own = pair_.left.find(event.name);
    const bool has_result = event.kind != EventKind::kMissing && own && places_[*own].has_result;
    if (has_result) {
      event.effect = places_[*own].out;
    } else {
      look_around(event);
    }
  }

  // The result of the innermost call of a module around it that both runs have; without one what goes into
  // the next calls.
  void look_around(Event& event) const {
    const bool on_right = event.kind == EventKind::kMissing;
    const trace::Trace& trace = on_right ? pair_.right : pair_.left;
    const auto& construct = on_right ? pair_.right_construct : pair_.left_construct;
    std::string_view module = event.module;
    for (int depth = 0; construct && !module.empty() && depth < 64; ++depth) {
      if (const auto found = trace.find(module)) {
        const auto index = static_cast<std::uint32_t>(*found);
        const std::uint32_t left = on_right ? pair_.records.of_right[index].index : index;
        if (left != kNoMatch && places_[left].has_result) {
          event.effect = places_[left].out;
          if (std::isfinite(places_[left].in)) event.in = std::max(event.in, places_[left].in);
          return;
        }
      }
      module = construct->parent(module);
    }
    int looked_at = 0;
    for (std::size_t i = event.order + (on_right ? 0 : 1); i < places_.size() && looked_at < kCallsToLookAt;
         ++i) {
      if (!pair_.records.of_left[i] || is_gradients(static_cast<std::uint32_t>(i))) continue;
      event.effect = std::max(event.effect, places_[i].in);
      ++looked_at;
    }
    if (looked_at == 0) event.effect = kInfinity;
  }

  // ---- Texts

  static std::string show(const trace::Trace& trace, const Item* item) {
    if (item->kind == Item::Kind::kNull) return "None";
    if (item->kind == Item::Kind::kTensor) {
      return std::string(trace.text(item->dtype)) + " " + std::string(trace.text(item->shape));
    }
    return std::string(trace.text(item->value));
  }
  static std::string_view reason(trace::NoMatchReason reason) {
    switch (reason) {
      case trace::NoMatchReason::kShape: return "another shape";
      case trace::NoMatchReason::kDtype: return "another dtype";
      default: return "nothing";
    }
  }

  // The parameter of the surrounding module that has this very value: the same statistics on the left.
  std::string parameter_of(std::uint32_t record, const ItemPair& row, const Item& item) const {
    if (item.part == Part::kParameters) return std::string(pair_.left.text(item.path));
    const auto module = pair_.left.find(parent(name(record)));
    if (!module || !row.right) return {};
    for (const Item& other : pair_.left.items(pair_.left.records()[*module])) {
      if (other.part == Part::kParameters && pair_.left.text(other.shape) == pair_.left.text(item.shape) &&
          pair_.left.text(other.norm) == pair_.left.text(item.norm) &&
          pair_.left.text(other.mean) == pair_.left.text(item.mean)) {
        return std::string(pair_.left.text(other.path));
      }
    }
    return {};
  }

  void summarize() {
    if (seen_.empty()) return;
    walk_.largest = *std::max_element(seen_.begin(), seen_.end());
    const auto middle = seen_.begin() + static_cast<std::ptrdiff_t>(seen_.size() / 2);
    std::nth_element(seen_.begin(), middle, seen_.end());
    walk_.median = *middle;
  }

  const DumpPair& pair_;
  const std::vector<RealMetrics>& metrics_;
  const std::vector<Distance>& distances_;
  trace::ParentCursor parents_;
  std::vector<Place> places_;                                     // by left record
  std::vector<std::uint32_t> first_row_;                          // by left record
  std::vector<std::pair<std::uint32_t, std::uint32_t>> missing_;  // left record before which, right record
  std::size_t next_missing_ = 0;
  std::vector<std::uint32_t> gradients_;
  std::unordered_set<std::string_view> explained_;  // modules that hold a call which differs by itself
  double negligible_gradient_ = 0;
  double running_ = 0;  // the largest distance of a result so far
  bool different_ = false;
  std::unordered_set<std::uint64_t> equal_calls_;  // operators and shapes seen with equal inputs and results
  std::vector<std::uint32_t> equal_records_;       // those to be added to them
  std::vector<double> seen_;
  Event discarded_;
  Walk walk_;
};

}  // namespace

std::vector<Distance> distances(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
                                unsigned threads) {
  constexpr std::size_t kRowsAtOnce = 4096;
  const std::vector<ItemPair>& rows = pair.matches.pairs;
  std::vector<Distance> result(rows.size());
  ThreadPool pool(threads);
  pool.parallel_for((rows.size() + kRowsAtOnce - 1) / kRowsAtOnce, [&](std::size_t part) {
    const std::size_t end = std::min(rows.size(), (part + 1) * kRowsAtOnce);
    for (std::size_t i = part * kRowsAtOnce; i < end; ++i) {
      result[i] = trace::distance(pair.left, pair.left_item(rows[i]), pair.right, pair.right_item(rows[i]),
                                  metrics.empty() ? nullptr : &metrics[i]);
    }
  });
  return result;
}

Walk walk(const DumpPair& pair, const std::vector<RealMetrics>& metrics,
          const std::vector<Distance>& distances) {
  return Walker(pair, metrics, distances).run();
}

}  // namespace msprobe::compare
