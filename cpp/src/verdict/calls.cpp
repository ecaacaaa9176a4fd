// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "verdict/calls.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "trace/item/uninitialised.h"
#include "trace/match/parent_cursor.h"

namespace msprobe::verdict {
namespace {

using Part = Item::Part;

// "[2, 3, 4]" -> 2, 3, 4; nothing of a size that is no number.
std::vector<std::int64_t> extents(std::string_view shape) {
  std::vector<std::int64_t> result;
  const char* at = shape.data();
  const char* const end = at + shape.size();
  while (at < end) {
    std::int64_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error == std::errc()) result.push_back(extent);
    at = error == std::errc() ? next : at + 1;
  }
  return result;
}

const trace::Construct* pointer(const std::optional<trace::Construct>& construct) {
  return construct ? &*construct : nullptr;
}

}  // namespace

Calls::Calls(const Model& model, const DumpPair& pair, const std::vector<trace::RealMetrics>& metrics,
             const std::vector<Distance>& distances)
    : model_(model),
      pair_(pair),
      metrics_(metrics),
      distances_(distances),
      matches_(pair.records),
      ours_{pair.target, pointer(pair.target_construct), matches_.of_target},
      theirs_{pair.reference, pointer(pair.reference_construct), matches_.of_reference},
      first_(count() + 1),
      stands_(count()) {
  for (const ItemPair& row : pair.matches.pairs) ++first_[row.target_record + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  for (const trace::ReferenceItem& one : pair_.matches.reference_only) {
    if (matches_.of_reference[one.record]) reference_only_[one.record].push_back(one.item);
  }
  find_zones();
  find_mispaired();
  index_items();
  std::vector<double> gradients;
  for (const Record& record : reference().records()) {
    if (!trace::holds_gradients(reference().name(record))) continue;
    for (const Item& item : reference().items(record)) {
      if (item.kind == Item::Kind::kTensor) gradients.push_back(trace::facts_of(reference(), item).typical());
    }
  }
  negligible_gradient_ = model.floor_of(std::move(gradients));
  for (const ItemPair& row : pair_.matches.pairs) {
    if (row.reference && !is_input(pair_.target_item(row).part))
      coarsest_unit_ = std::max(coarsest_unit_, unit(row));
  }
}

void Calls::index_items() {
  ours_.rows.assign(target().all_items().size(), kNoRow);
  theirs_.rows.assign(reference().all_items().size(), kNoRow);
  for (auto i = static_cast<std::uint32_t>(pair_.matches.pairs.size()); i-- > 0;) {
    if (!row(i).reference || is_mispaired(row(i).target_record)) continue;
    ours_.rows[row(i).target] = theirs_.rows[row(i).reference.index] = i;
  }
}

void Calls::find_zones() {
  trace::ParentCursor cursor(ours_.construct);
  bool is_behind = false;
  for (std::uint32_t i = 0; i < count(); ++i) {
    const std::string_view around = stands_[i].parent = cursor.parent(name(i));
    if (is_backward(name(i))) {
      is_behind = true;
      end_of_backward_ = i + 1;
      has_earlier_passes_ |= passes(i) > 1;
    } else if (is_module(name(i)) || is_module(around) || around == kPreparation) {
      is_behind = false;
    }
    stands_[i].is_after_backward = is_behind;
    const operators::Row by = operator_of(name(i));
    // Without a training state nobody tells which calls are of an optimizer: those that change tensors there.
    const bool is_behind_and_moves =
        is_behind && !is_backward(name(i)) && !pair_.target_state && model_.update_behind_backward;
    const bool is_update =
        around.empty() && by.is_in_place && (by.gain == operators::Gain::kUpdate || is_behind_and_moves);
    if (around == "optimizer" || is_update) {
      stands_[i].zone = Zone::kOptimizer;
    } else if (around == "clip_grad") {
      stands_[i].zone = Zone::kClipping;
    }
  }
  bool goes_on = false;
  for (std::uint32_t i = count(); i-- > 0;) {
    if (!is_after_backward(i) || is_backward(name(i))) goes_on = is_after_backward(i);
    stands_[i].is_in_backward = goes_on && !is_backward(name(i));
  }
}

// ---- calls of equal names that are something else

// Where a module computes the same by other calls, or is called another number of times, some calls of one
// run may be paired with others of the same name that do something else. They tell by their shapes, and count
// as calls of one run only, with what is inside of them.
void Calls::find_mispaired() {
  if (!model_.mispaired) return;
  std::unordered_set<std::string> others;  // calls of modules with calls of one run inside, and such modules
  for (const Run* run : {&ours_, &theirs_}) {
    for (std::uint32_t i = 0; i < run->matches.size(); ++i) {
      if (run->is_paired(i)) continue;
      if (is_module(run->name(i))) others.insert(module_path(run->name(i)));
      others.emplace(run->parent(run->name(i)));
    }
  }
  others.erase("");
  for (std::uint32_t i = 0; i < count(); ++i) {
    if (is_paired(i) && is_mispairing(i, others)) set_aside(i);
  }
  for (std::uint32_t i = 0; i < count(); ++i) {  // with its gradients
    if (!is_paired(i) || !is_backward(name(i))) continue;
    const auto forward = find(i, trace::Direction::kForward);
    if (forward && is_mispaired(*forward)) set_aside(i);
  }
}

bool Calls::is_mispairing(std::uint32_t record, const std::unordered_set<std::string>& others) const {
  if (trace::holds_gradients(name(record))) return false;
  const auto is_other = [&](std::string_view call, std::string_view around) {
    return others.contains(is_module(call) ? module_path(call) : std::string(around)) ||
           (!is_module(call) && is_module(around) && others.contains(module_path(around)));
  };
  const std::string_view theirs = theirs_.name(counterpart(record));
  const bool is_moved = matches_.of_target[record].how == trace::MatchKind::kMoved;
  if (!is_moved && !is_other(name(record), parent(record)) &&
      !(theirs_.construct != nullptr && is_other(theirs, theirs_.parent(theirs))))
    return false;
  const auto rows = rows_of(record);
  const bool has_tensors_more = std::ranges::any_of(reference_only(record), [&](std::uint32_t item) {
    return is_input(reference().all_items()[item].part);
  });
  return has_tensors_more || std::any_of(rows.begin(), rows.end(), [&](const ItemPair& row) {
           const Item& item = pair_.target_item(row);
           const bool is_more = row.reason == trace::NoMatchReason::kNoItem && is_input(item.part);
           return item.kind == Item::Kind::kTensor && !row.reference &&
                  (is_more || row.reason == trace::NoMatchReason::kShape);
         });
}

void Calls::set_aside(std::uint32_t record) {
  stands_[record].is_mispaired = true;
  matches_.of_reference[matches_.of_target[record].index] = {};
  matches_.of_target[record] = {};
}

// ---- records

operators::Row Calls::operator_of(std::string_view record) const {
  return is_module(record) ? operators::find(module_class(record)) : operators::find(operator_name(record));
}

std::optional<std::uint32_t> Calls::forward_of(std::uint32_t record) const {
  const auto found = is_backward(name(record)) ? find(record, trace::Direction::kForward) : std::nullopt;
  return found && is_paired(*found) ? found : std::nullopt;
}

std::optional<std::uint32_t> Calls::backward_of(std::uint32_t record) const {
  const auto found = is_backward(name(record)) ? std::nullopt : find(record, trace::Direction::kBackward);
  return found && is_paired(*found) ? found : std::nullopt;
}

bool Calls::writes_in_place(std::uint32_t record) const {
  const operators::Row by = operator_of(name(record));
  if (by.is_in_place || !by.updates.empty() || !by.writes.empty()) return true;
  return std::ranges::any_of(ours_.items(record), [&](const Item& item) {
    const std::string_view path = target().text(item.path);
    const bool asks =
        path.ends_with("inplace") || (by.inplace_position >= 0 && item.part == Part::kInputArgs &&
                                      path == std::to_string(by.inplace_position));
    return asks && is_input(item.part) && target().text(item.value) == "True";
  });
}

bool Calls::is_unused(const Run& run, std::uint32_t record) const {
  if (run.unused.empty()) find_unused(run);
  return run.unused[record];
}

// From the last to the first, as what is taken by a call that is unused is unused, too.
void Calls::find_unused(const Run& run) const {
  run.unused.assign(run.trace.records().size(), false);
  for (auto record = static_cast<std::uint32_t>(run.unused.size()); record-- > 0;) {
    const std::string_view call = run.name(record);
    if (run.parent(call) != kPreparation || is_collective(call) || operator_of(call).is_in_place) continue;
    const Record& one = run.trace.records()[record];
    bool is_used = false;
    for (ItemIndex i = one.first_item; i < one.first_item + one.item_count && !is_used; ++i) {
      const Item& item = run.trace.all_items()[i];
      if (is_input(item.part) || !is_tensor(item)) continue;
      is_used = value_key(run.trace, item) == 0;  // many tensors have this value
      for (ItemIndex next = run.flow().follower(i); next != kNoItem && !is_used;
           next = run.flow().follower(next))
        is_used = is_input(run.trace.all_items()[next].part) && !run.unused[run.flow().record(next)];
    }
    run.unused[record] = !is_used;
  }
}

bool Calls::may_be_of_model(std::uint32_t record) const {
  const auto is_so = [](const std::optional<trace::TrainingState>& state) {
    return state && state->root["preparation"]["model_calls"].number().value_or(0) > 0;
  };
  return is_preparation(record) && (is_so(pair_.target_state) || is_so(pair_.reference_state));
}

// ---- items

Distance Calls::distance(const ItemPair& row, double floor) const {
  const Distance& found = distance(row);
  if (floor == 0 || found.equal) return found;
  return trace::distance(target(), pair_.target_item(row), reference(), pair_.reference_item(row),
                         metrics_.empty() ? nullptr : &metrics_[index(row)], floor);
}

Tensor Calls::tensor(const Trace& trace, const Item& item) const {
  const std::vector<std::int64_t> shape = extents(trace.text(item.shape));
  const double last = shape.empty() ? 1 : static_cast<double>(std::max<std::int64_t>(shape.back(), 1));
  return tensor_of(trace::facts_of(trace, item), last);
}

double Calls::unit(const ItemPair& row) const {
  return metrics::unit_roundoff(trace::dtype_of(reference().text(pair_.reference_item(row)->dtype)));
}

// Where something is computed is no number of it.
static bool is_device(const Trace& trace, const Item& item) {
  return trace.text(item.type).ends_with(".device");
}

bool Calls::says_nothing(const ItemPair& row) const {
  const Item& item = pair_.target_item(row);
  const std::string_view call = name(row.target_record);
  if (!is_input(item.part)) return trace::is_uninitialised(call);
  if (row.reference && is_device(target(), item) && is_device(reference(), *pair_.reference_item(row)))
    return true;
  const operators::Row by = operator_of(call);
  const std::string_view path = target().text(item.path);
  const bool is_argument = item.part == Part::kInputArgs || item.part == Part::kInputKwargs;
  if (is_argument && operators::Row::names(by.how, path)) return true;
  const bool is_pattern = by.gain == operators::Gain::kNone && item.kind == Item::Kind::kTensor;
  if (is_pattern && item.part == Part::kInputArgs && path == "0")
    return true;  // of its shape and dtype alone
  return item.part == Part::kInputArgs && path == "0" && by.overwrites && by.is_in_place;
}

std::span<const std::uint32_t> Calls::reference_only(std::uint32_t record) const {
  const auto found = reference_only_.find(counterpart(record));
  return found == reference_only_.end() ? std::span<const std::uint32_t>() : found->second;
}

bool Calls::is_taken_elsewhere(const ItemPair& row) const {
  const ItemIndex ours = ours_.origin(row.target), theirs = theirs_.origin(row.reference.index);
  const auto is_of_one_run = [](const Run& run, ItemIndex made) {
    return made != kNoItem && run.row_of(made) == kNoRow && !run.is_paired(run.flow().record(made));
  };
  if (is_of_one_run(ours_, ours) || is_of_one_run(theirs_, theirs)) return true;
  const auto is_constant = [](const Trace& trace, const Item& one) {
    return trace.text(one.max) == trace.text(one.min);
  };
  if (is_constant(target(), item(row)) != is_constant(reference(), *other_item(row))) return true;
  return ours != kNoItem && theirs != kNoItem && ours_.row_of(ours) != theirs_.row_of(theirs);
}

bool Calls::is_moved_for_others(const ItemPair& row) const {
  return is_moved(ours_, row.target_record) && is_taken_by_lone_calls(ours_, row.target) &&
         is_taken_by_lone_calls(theirs_, row.reference.index);
}

bool Calls::is_moved(const Run& run, std::uint32_t record) const {
  const auto is_given = [](const Item& item) { return is_input(item.part) && is_tensor(item); };
  return operator_of(run.name(record)).only_moves() &&
         std::ranges::count_if(run.items(record), is_given) == 1;
}

bool Calls::is_taken_by_lone_calls(const Run& run, ItemIndex item) const {
  bool is_taken = value_key(run.trace, run.trace.all_items()[item]) == 0;  // then nobody has it from there
  while ((item = run.flow().follower(item)) != kNoItem) {
    const std::uint32_t record = run.flow().record(item);
    if (!is_input(run.trace.all_items()[item].part) || is_moved(run, record)) continue;
    if (run.is_paired(record)) return false;
    is_taken = true;
  }
  return is_taken;
}

std::string Calls::parameter(const ItemPair& row) const {
  const Item& item = pair_.target_item(row);
  if (item.part == Part::kParameters) return std::string(target().text(item.path));
  const auto module = target().find(parent(row.target_record));
  if (!module) return {};
  for (const Item& other : target().items(target().records()[*module])) {
    if (other.part == Part::kParameters && target().text(other.shape) == target().text(item.shape) &&
        target().text(other.norm) == target().text(item.norm) &&
        target().text(other.mean) == target().text(item.mean)) {
      return std::string(target().text(other.path));
    }
  }
  return {};
}

Calls::Shapes Calls::shapes(const Run& run, std::uint32_t record, const operators::Row& by) {
  Shapes found;
  operators::CallShape call;
  const Trace& trace = run.trace;
  for (const Item& item : run.items(record)) {
    const bool is_tensor = item.kind == Item::Kind::kTensor;
    if (!is_input(item.part)) {
      if (is_tensor) found.result = std::max(found.result, trace::element_count(trace.text(item.shape)));
    } else if (is_tensor) {
      found.tensors.push_back(extents(trace.text(item.shape)));
    } else if (!by.terms_argument.empty()) {
      const std::string_view path = trace.text(item.path);
      const bool is_it = item.part == Part::kInputKwargs
                             ? path.starts_with(by.terms_argument)
                             : path.starts_with(std::to_string(by.terms_position));
      const auto value = is_it ? trace.number(item.value) : std::nullopt;
      if (value && std::abs(*value) < 1e15) call.numbers.push_back(static_cast<std::int64_t>(*value));
    }
  }
  if (call.numbers.size() == 1) call.number = call.numbers.front();
  call.tensors = found.tensors;
  call.result = found.result;
  found.terms = operators::term_count(by, call);
  return found;
}

double Calls::terms_of_forward(const Run& run, std::uint32_t record, const operators::Row& by) const {
  return shapes(run, run.find(record, trace::Direction::kForward).value_or(record), by).terms;
}

double Calls::terms(const Run& run, std::uint32_t record, const operators::Row& by, double result) const {
  const auto forward =
      is_backward(run.name(record)) ? run.find(record, trace::Direction::kForward) : std::nullopt;
  const Shapes call = shapes(run, forward.value_or(record), by);
  if (!forward) return call.terms;
  // What is added, as a bias, has a sum as its gradient, and no products.
  const bool sums_products = by.gain == operators::Gain::kProduct || by.gain == operators::Gain::kAttention;
  const double uses = std::max(call.result / std::max(result, 1.0), 1.0);
  const bool is_added = std::any_of(call.tensors.begin(), call.tensors.end(), [&](const auto& shape) {
    return call.tensors.size() > 2 && shape.size() == 1 && static_cast<double>(shape.front()) == result;
  });
  return sums_products && !is_added ? operators::term_count_of_gradient(call.terms, call.result, result)
                                    : uses;
}

std::string shown(const Trace& trace, const Item& item) {
  if (item.kind == Item::Kind::kNull) return "None";
  if (item.kind != Item::Kind::kTensor) return std::string(trace.text(item.value));
  return std::string(trace.text(item.dtype)) + " " + std::string(trace.text(item.shape));
}

std::string_view word_of(trace::NoMatchReason reason) {
  return reason == trace::NoMatchReason::kShape   ? "another shape"
         : reason == trace::NoMatchReason::kDtype ? "another dtype"
                                                  : "absent";
}

}  // namespace msprobe::verdict
