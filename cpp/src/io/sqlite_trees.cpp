// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/sqlite_trees.h"

#include <algorithm>
#include <utility>

namespace msprobe::io::sqlite {
namespace {

// How many bytes of a record stay in its page; the others are in pages of their own. Numbers of the format.
constexpr std::size_t kMostOfRow = kPageSize - 35;
constexpr std::size_t kMostOfKey = (kPageSize - 12) * 64 / 255 - 23;
constexpr std::size_t kLeast = (kPageSize - 12) * 32 / 255 - 23;
constexpr std::size_t kOfOverflow = kPageSize - 4;

std::size_t local_bytes(std::size_t bytes, std::size_t most) {
  if (bytes <= most) return bytes;
  const std::size_t wanted = kLeast + (bytes - kLeast) % kOfOverflow;
  return wanted <= most ? wanted : kLeast;
}

// Most records fit into their page, and are not copied on the way.
void append_record(PageFile& file, const Record& record, std::size_t most, std::string& cell) {
  const std::size_t begin = cell.size(), local = local_bytes(record.size(), most);
  record.append_to(cell);
  if (local == record.size()) return;
  const std::string rest = cell.substr(begin + local);
  cell.resize(begin + local);
  append_page_number(cell, file.next());
  for (std::string_view left = rest; !left.empty();) {
    const std::string_view part = left.substr(0, kOfOverflow);
    left.remove_prefix(part.size());
    std::string page;
    append_page_number(page, left.empty() ? 0 : PageFile::after(file.next()));
    page += part;
    page.resize(kPageSize);
    file.add(page);
  }
}

}  // namespace

// ---- RowTree

std::int64_t RowTree::add(const Record& record) {
  cell_.clear();
  append_varint(cell_, record.size());
  append_varint(cell_, static_cast<std::uint64_t>(row_ + 1));
  append_record(file_, record, kMostOfRow, cell_);
  if (!page_.fits(cell_.size())) {
    children_.push_back({file_.add(page_.bytes()), row_});
    page_ = Page(PageKind::kRows);
  }
  page_.add(cell_);
  return ++row_;
}

void RowTree::finish() {
  if (children_.empty()) return file_.replace(root_, page_.bytes());
  children_.push_back({file_.add(page_.bytes()), row_});
  while (children_.size() > 1) children_ = add_level(children_);
}

// The pages above `children`; if it is one, that is the root.
std::vector<RowTree::Child> RowTree::add_level(std::span<const Child> children) {
  std::vector<Child> above;
  for (std::size_t i = 0; i < children.size(); ++i) {
    Page page(PageKind::kInnerRows);
    for (; i + 1 < children.size(); ++i) {
      std::string cell;
      append_page_number(cell, children[i].page);
      append_varint(cell, static_cast<std::uint64_t>(children[i].last_row));
      if (!page.fits(cell.size())) break;
      page.add(cell);
    }
    if (i + 2 == children.size()) {  // no child is left alone
      page.pop();
      --i;
    }
    page.set_last_child(children[i].page);
    const bool is_root = above.empty() && i + 1 == children.size();
    if (is_root) file_.replace(root_, page.bytes());
    above.push_back({is_root ? root_ : file_.add(page.bytes()), children[i].last_row});
  }
  return above;
}

// ---- KeyCutter

std::optional<KeyCutter::Cut> KeyCutter::add(std::string_view cell) {
  std::optional<Cut> done;
  if (!after_.empty()) {
    done = cut(std::exchange(after_, {}));
  } else if (!page_.fits(cell.size())) {
    after_ = cell;
    return done;
  }
  page_.add(cell);
  return done;
}

std::optional<KeyCutter::Cut> KeyCutter::finish() {
  if (after_.empty()) return std::nullopt;
  // No cell came after it, so that it is the one of the last page. A page holds at least four.
  const std::string last = std::exchange(after_, {});
  std::string before(page_.cell(page_.count() - 1));
  page_.pop();
  Cut done = cut(std::move(before));
  page_.add(last);
  return done;
}

Page KeyCutter::take() { return std::exchange(page_, Page(kind_)); }

KeyCutter::Cut KeyCutter::cut(std::string after) { return {take(), std::move(after)}; }

// ---- KeyRun

void KeyRun::add(const Record& key) {
  cell_.clear();
  append_varint(cell_, key.size());
  append_record(*file_, key, kMostOfKey, cell_);
  keep(cutter_.add(cell_));
}

void KeyRun::finish() {
  keep(cutter_.finish());
  last_ = cutter_.take();
}

void KeyRun::keep(std::optional<KeyCutter::Cut> cut) {
  if (!cut) return;
  if (!first_) {
    first_ = std::move(cut);
  } else {
    children_.push_back({file_->add(cut->page.bytes()), std::move(cut->after)});
  }
}

// ---- KeyTree

void KeyTree::add(KeyRun run) {
  if (run.first_) {
    add(run.first_->page);
    add(cutter_.finish());
    children_.push_back({file_.add(cutter_.take().bytes()), std::move(run.first_->after)});
    std::move(run.children_.begin(), run.children_.end(), std::back_inserter(children_));
  }
  add(run.last_);
}

void KeyTree::finish(std::uint32_t root) {
  add(cutter_.finish());
  Page last = cutter_.take();
  while (!children_.empty()) {
    const std::uint32_t last_child = file_.add(last.bytes());
    KeyCutter inner(PageKind::kInnerKeys);
    std::vector<Child> above;
    const auto put = [&](std::optional<KeyCutter::Cut> cut) {
      if (!cut) return;
      cut->page.set_last_child(page_number_at(cut->after));
      above.push_back({file_.add(cut->page.bytes()), cut->after.substr(4)});
    };
    for (const Child& child : children_) {
      std::string cell;
      append_page_number(cell, child.page);
      put(inner.add(cell + child.after));
    }
    put(inner.finish());
    last = inner.take();
    last.set_last_child(last_child);
    children_ = std::move(above);
  }
  file_.replace(root, last.bytes());
}

void KeyTree::add(const Page& page) {
  for (std::size_t i = 0; i < page.count(); ++i) add(cutter_.add(page.cell(i)));
}

void KeyTree::add(std::optional<KeyCutter::Cut> cut) {
  if (cut) children_.push_back({file_.add(cut->page.bytes()), std::move(cut->after)});
}

}  // namespace msprobe::io::sqlite
