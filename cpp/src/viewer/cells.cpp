// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/document/json_input.h"
#include "msprobe/error.h"
#include "msprobe/viewer_cell.h"

namespace msprobe::viewer {

// {name: {field: value}}, both ends of it known by their depth.
class Cells::Handler : public io::JsonHandler<Cells::Handler> {
 public:
  explicit Handler(Cells& cells) : cells_(cells) {}

  void null() { add("None", Cell::Kind::kNull); }
  void boolean(bool value) { add(value ? "True" : "False", Cell::Kind::kOther); }
  void number(std::string_view text) { add(text, Cell::Kind::kNumber); }
  void text(std::string_view text) { add(text, Cell::Kind::kText); }
  void key(std::string_view name) { (depth() == 1 ? name_ : field_) = name; }
  void begin(bool is_object) {
    if (depth() == 1 && !is_object) fail("expected an object");
    if (depth() == 2 && is_object) open();
    if (depth() == 3 && cell_ != nullptr) cell_->set(field_, "", Cell::Kind::kOther);
  }
  void end(bool) {
    if (depth() == 2) cell_ = nullptr;
  }

 private:
  // The cell of a name that came before is replaced.
  void open() {
    std::size_t at = 0;
    while (at < cells_.count_ && cells_.cells_[at].first != name_) ++at;
    if (at == cells_.count_) ++cells_.count_;
    if (cells_.cells_.size() < cells_.count_) cells_.cells_.emplace_back();
    cells_.cells_[at].first = name_;
    cell_ = &cells_.cells_[at].second;
    cell_->clear();
  }

  void add(std::string_view text, Cell::Kind kind) {
    if (depth() == 0) fail("expected an object");
    if (depth() == 2 && cell_ != nullptr) cell_->set(field_, text, kind);
  }

  Cells& cells_;
  std::string_view name_, field_;
  Cell* cell_ = nullptr;  // the one whose fields come
};

void Cells::read(std::string_view json) {
  count_ = 0;
  text_.assign(json);
  try {
    Handler handler(*this);
    io::parse_json(text_, {}, handler);
  } catch (const FormatError&) {
    count_ = 0;
  }
}

}  // namespace msprobe::viewer
