// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/match/p2p_batch.h"

#include <optional>

#include "io/document/json_input.h"
#include "trace/rank_numbers.h"
#include "trace/record_text.h"

namespace msprobe::trace {
namespace {

// {"input_args": [[{operation}, ...]], ...}, or the list under the keyword p2p_op_list.
class OperationHandler : public io::JsonHandler<OperationHandler> {
 public:
  void null() { next(); }
  void boolean(bool) { next(); }
  void number(std::string_view text) {
    if (depth() == kOperation) {
      const std::optional<int> number = whole_number(text);
      if (key_ == "peer") peer_ = number;
      if (key_ == "tag") operation_.tag = number.value_or(0);
    }
    next();
  }
  void text(std::string_view text) {
    if (depth() == kOperation && key_ == "op") kind_ = text;
    if (depth() == kOperation && key_ == "group_id") operation_.group = text;
    next();
  }
  void key(std::string_view text) {
    if (depth() == 1) is_input_ = text.starts_with("input_");
    key_ = text;
  }
  void begin(bool is_object) {
    if (depth() == kList && !is_object) index_ = 0;
    if (depth() != kOperation) return;
    operation_ = {};
    peer_.reset();
    kind_ = {};
  }
  void end(bool) {
    if (depth() == kOperation) {
      if (is_input_ && peer_ && (kind_ == "isend" || kind_ == "irecv")) {
        operation_.index = index_;
        operation_.is_send = kind_ == "isend";
        operation_.peer = *peer_;
        found.push_back(operation_);
      }
      ++index_;
    }
  }

  std::vector<PeerOperation> found;

 private:
  static constexpr int kList = 3;
  static constexpr int kOperation = 4;

  void next() {
    if (depth() == kList) ++index_;
  }

  PeerOperation operation_;
  std::optional<int> peer_;
  std::string_view kind_, key_;
  std::size_t index_ = 0;
  bool is_input_ = false;
};

}  // namespace

std::vector<PeerOperation> read_peer_operations(const std::filesystem::path& path, const Record& record) {
  std::string text = record_text(path, record.begin, record.end);
  OperationHandler handler;
  io::parse_json(text, path, handler);
  return std::move(handler.found);
}

}  // namespace msprobe::trace
