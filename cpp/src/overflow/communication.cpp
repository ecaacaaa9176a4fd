// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "overflow/communication.h"

#include <algorithm>
#include <array>

#include "msprobe/record_name.h"
#include "trace/item/type_name.h"
#include "trace/match/p2p_batch.h"
#include "trace/rank_numbers.h"

namespace msprobe::overflow {
namespace {

using trace::Item;
using trace::Record;
using trace::Scalar;
using trace::Trace;
using Part = Item::Part;

// A place in a signature.
struct Argument {
  int position = -1;  // -1: none
  std::string_view keyword;
};

// What torch documents of each function. An argument that only receives holds whatever its memory held
// before the call, so it says nothing about what was sent.
struct Signature {
  std::string_view name;
  Pattern pattern;
  Argument sent;
  Argument received;
  int peer_position = -1;  // of dst or src
  int tag_position = -1;
};

constexpr Argument kTensor{0, "tensor"};
constexpr std::array<Signature, 23> kSignatures{{
    {"send", Pattern::kSend, kTensor, {}, 1, 3},
    {"isend", Pattern::kSend, kTensor, {}, 1, 3},
    {"recv", Pattern::kReceive, {}, kTensor, 1, 3},
    {"irecv", Pattern::kReceive, {}, kTensor, 1, 3},
    {"send_object_list", Pattern::kSend, {0, "object_list"}, {}, 1},
    {"recv_object_list", Pattern::kReceive, {}, {0, "object_list"}, 1},
    {"broadcast", Pattern::kFromOne, kTensor, kTensor, 1},
    {"broadcast_object_list", Pattern::kFromOne, {0, "object_list"}, {0, "object_list"}, 1},
    {"scatter", Pattern::kFromOne, {1, "scatter_list"}, kTensor, 2},
    {"reduce", Pattern::kToOne, kTensor, kTensor, 1},
    {"gather", Pattern::kToOne, kTensor, {1, "gather_list"}, 2},
    {"all_reduce", Pattern::kAll, kTensor, kTensor},
    {"all_reduce_coalesced", Pattern::kAll, {0, "tensors"}, {0, "tensors"}},
    {"all_gather", Pattern::kAll, {1, "tensor"}, {0, "tensor_list"}},
    {"all_gather_object", Pattern::kAll, {1, "obj"}, {0, "object_list"}},
    {"all_gather_into_tensor", Pattern::kAll, {1, "input_tensor"}, {0, "output_tensor"}},
    {"_all_gather_base", Pattern::kAll, {1, "input_tensor"}, {0, "output_tensor"}},
    {"reduce_scatter", Pattern::kAll, {1, "input_list"}, {0, "output"}},
    {"reduce_scatter_tensor", Pattern::kAll, {1, "input"}, {0, "output"}},
    {"_reduce_scatter_base", Pattern::kAll, {1, "input"}, {0, "output"}},
    {"all_to_all", Pattern::kAll, {1, "input_tensor_list"}, {0, "output_tensor_list"}},
    {"all_to_all_single", Pattern::kAll, {1, "input"}, {0, "output"}},
    {"batch_isend_irecv", Pattern::kAll, {}, {}},
}};

constexpr std::array<std::string_view, 6> kWords = {"send",   "recv",   "broadcast",
                                                    "reduce", "gather", "scatter"};

const Signature* signature_of(std::string_view function) noexcept {
  const auto found = std::find_if(kSignatures.begin(), kSignatures.end(),
                                  [function](const Signature& s) { return s.name == function; });
  return found == kSignatures.end() ? nullptr : &*found;
}

// FNV-1a
std::uint32_t number_of(std::string_view function) noexcept {
  std::uint32_t number = 2166136261U;
  for (const char c : function) number = (number ^ static_cast<unsigned char>(c)) * 16777619U;
  return number;
}

// The first part of a path: "0" of "0.1".
std::string_view head_of(std::string_view path) noexcept { return path.substr(0, path.find('.')); }

}  // namespace

// The arguments of one call.
struct CommunicationReader::Arguments {
  const Trace& trace;
  std::span<const Item> items;

  bool is(const Item& item, const Argument& wanted) const {
    const std::string_view head = head_of(trace.text(item.path));
    if (item.part == Part::kInputKwargs) return !wanted.keyword.empty() && head == wanted.keyword;
    return item.part == Part::kInputArgs && wanted.position >= 0 && head == std::to_string(wanted.position);
  }

  Badness worst(const Argument& wanted) const {
    Badness worst = Badness::kGood;
    for (const Item& item : items) {
      if (is(item, wanted)) worst = std::max(worst, badness(trace, item));
    }
    return worst;
  }

  std::optional<int> number(const Argument& wanted) const {
    for (const Item& item : items) {
      const bool whole = item.value.kind == Scalar::Kind::kInteger;
      if (whole && trace.text(item.type) == "int" && is(item, wanted))
        return trace::whole_number(trace.text(item.value));
    }
    return std::nullopt;
  }
};

bool is_communication(std::string_view record) noexcept {
  const trace::RecordName name(record);
  if (!name.has_collective_prefix() || !name.is_forward()) return false;
  const std::string_view function = name.function();
  return signature_of(function) != nullptr ||
         std::any_of(
             kWords.begin(), kWords.end(),
             [function](std::string_view word) { return function.find(word) != std::string_view::npos; }) ||
         function.find("all_to_all") != std::string_view::npos;
}

void CommunicationReader::read(const Record& record, std::vector<Transfer>& out) {
  const std::string_view function = trace::RecordName(trace_.name(record)).function();
  if (function == "batch_isend_irecv") return read_batch(record, out);
  const Arguments arguments{trace_, trace_.items(record)};
  const BadValues values = find_bad_values(trace_, record);
  const Signature* const signature = signature_of(function);
  Transfer transfer;
  transfer.group = group_of(arguments);
  transfer.function = number_of(function);
  transfer.received = values.worst_out;
  if (signature == nullptr) {  // a function we do not know: everything goes to everybody
    transfer.sent = values.tensor_in == nullptr ? Badness::kGood : values.worst_in;
    out.push_back(transfer);
    return;
  }
  transfer.pattern = signature->pattern;
  transfer.sent = arguments.worst(signature->sent);
  if (signature->pattern != Pattern::kAll) {
    const bool is_source = signature->pattern == Pattern::kReceive || signature->pattern == Pattern::kFromOne;
    transfer.peer = peer_of(arguments, is_source, signature->peer_position, transfer.group);
  }
  if (signature->tag_position >= 0) {
    transfer.tag = arguments.number({signature->tag_position, "tag"}).value_or(0);
  }
  out.push_back(transfer);
}

void CommunicationReader::read_batch(const Record& record, std::vector<Transfer>& out) {
  for (const trace::PeerOperation& operation : trace::read_peer_operations(trace_.path(), record)) {
    const std::string prefix = std::to_string(operation.index);
    Transfer transfer;
    transfer.pattern = operation.is_send ? Pattern::kSend : Pattern::kReceive;
    transfer.peer = operation.peer;
    transfer.tag = operation.tag;
    for (const Item& item : trace_.items(record)) {
      // p2p_op_list is the first argument: "0.{index}.tensor", or "p2p_op_list.{index}.tensor"; among the
      // results it stands in the same way.
      std::string_view path = trace_.text(item.path);
      path.remove_prefix(std::min(path.size(), head_of(path).size() + 1));
      if (head_of(path) != prefix) continue;
      const bool is_result = item.part == Part::kOutput;
      if (operation.is_send == is_result) continue;
      Badness& worst = operation.is_send ? transfer.sent : transfer.received;
      worst = std::max(worst, badness(trace_, item));
    }
    out.push_back(transfer);
  }
}

GroupId CommunicationReader::group_of(const Arguments& arguments) {
  for (const Item& item : arguments.items) {
    const bool is_argument = item.part == Part::kInputArgs || item.part == Part::kInputKwargs;
    if (!is_argument || !trace::is_process_group_type(trace_.text(item.type))) continue;
    const std::string_view text = trace_.text(item.value);
    const auto known = ids_.find(text);
    if (known != ids_.end()) return known->second;
    std::vector<int> ranks = trace::numbers_in(text);
    GroupId id = kAllRanks;
    if (!ranks.empty()) {
      id = static_cast<GroupId>(groups_.size());
      groups_.push_back(std::move(ranks));
    }
    ids_.emplace(text, id);
    return id;
  }
  return kAllRanks;
}

std::int32_t CommunicationReader::peer_of(const Arguments& arguments, bool is_source, int position,
                                          GroupId group) const {
  const std::string_view global = is_source ? "src" : "dst";
  if (const auto rank = arguments.number({position, global})) return *rank;
  for (const std::string_view in_group : is_source
                                             ? std::array<std::string_view, 2>{"group_src", "src_group"}
                                             : std::array<std::string_view, 2>{"group_dst", "dst_group"}) {
    const auto index = arguments.number({-1, in_group});
    if (!index) continue;
    if (group == kAllRanks) return *index;
    const auto& ranks = groups_[static_cast<std::size_t>(group)];
    if (*index >= 0 && static_cast<std::size_t>(*index) < ranks.size()) {
      return ranks[static_cast<std::size_t>(*index)];
    }
  }
  return kAnyRank;
}

}  // namespace msprobe::overflow
