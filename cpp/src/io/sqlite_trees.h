// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/sqlite_pages.h"

namespace msprobe::io::sqlite {

/// A table, whose rows come in the order of their numbers.
class RowTree {
 public:
  /// `root`: its page, which SQLite has made.
  RowTree(PageFile& file, std::uint32_t root) : file_(file), root_(root) {}

  /// Returns the number of the row.
  std::int64_t add(const Record& record);
  void finish();

 private:
  struct Child {
    std::uint32_t page;
    std::int64_t last_row;
  };
  std::vector<Child> add_level(std::span<const Child> children);

  PageFile& file_;
  std::uint32_t root_;
  std::int64_t row_ = 0;
  Page page_{PageKind::kRows};
  std::vector<Child> children_;
  std::string cell_;
};

/// Cuts the cells of a level of keys into pages; a cell between two pages belongs to the level above.
class KeyCutter {
 public:
  struct Cut {
    Page page;
    std::string after;  // the cell
  };

  explicit KeyCutter(PageKind kind) : kind_(kind), page_(kind) {}

  /// Perhaps there is a page that is complete.
  std::optional<Cut> add(std::string_view cell);
  /// Perhaps there is a page before the last one.
  std::optional<Cut> finish();
  /// The last page, without cells only if there are none at all.
  Page take();

 private:
  Cut cut(std::string after);

  PageKind kind_;
  Page page_;
  std::string after_;  // that did not fit any more
};

/// Some of the keys of an index, one after the other. All but its first and its last page are written.
class KeyRun {
 public:
  explicit KeyRun(PageFile& file) : file_(&file) {}

  /// In the order of the index.
  void add(const Record& key);
  void finish();

 private:
  friend class KeyTree;
  struct Child {
    std::uint32_t page;
    std::string after;  // the cell
  };

  void keep(std::optional<KeyCutter::Cut> cut);

  PageFile* file_;
  KeyCutter cutter_{PageKind::kKeys};
  std::optional<KeyCutter::Cut> first_;
  std::vector<Child> children_;
  Page last_{PageKind::kKeys};
  std::string cell_;
};

/// An index, of runs of keys one after the other.
class KeyTree {
 public:
  explicit KeyTree(PageFile& file) : file_(file) {}

  /// All keys of a run come after those of the runs before it.
  void add(KeyRun run);
  /// `root`: its page, which SQLite has made.
  void finish(std::uint32_t root);

 private:
  using Child = KeyRun::Child;

  void add(const Page& page);
  void add(std::optional<KeyCutter::Cut> cut);

  PageFile& file_;
  KeyCutter cutter_{PageKind::kKeys};
  std::vector<Child> children_;
};

}  // namespace msprobe::io::sqlite
