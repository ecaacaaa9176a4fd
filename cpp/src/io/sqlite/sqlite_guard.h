// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace msprobe::io {

/// A database that somebody else may have made. Its tables are programs where they are views, and no query
/// may take longer than its file explains.
class SqliteGuard {
 public:
  /// `bytes`: of the file. Interrupts queries from here on, as long as the guard lives.
  SqliteGuard(SQLite::Database& database, std::uint64_t bytes);
  ~SqliteGuard();
  SqliteGuard(const SqliteGuard&) = delete;
  SqliteGuard& operator=(const SqliteGuard&) = delete;

  /// Throws FormatError where one of these names is there and no table.
  void require_tables(std::initializer_list<std::string_view> names, const std::string& file) const;

  /// All queries from here to the next call share what the file explains.
  void begin_answer() noexcept { left_ = all_; }

 private:
  static int go_on(void* self) noexcept;

  SQLite::Database& database_;
  std::int64_t all_;  // steps of SQLite's machine, in thousands
  std::int64_t left_;
};

}  // namespace msprobe::io
