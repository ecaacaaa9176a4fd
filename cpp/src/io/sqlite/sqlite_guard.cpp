// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/sqlite/sqlite_guard.h"

#include <SQLiteCpp/Statement.h>
#include <sqlite3.h>

#include "msprobe/error.h"

namespace msprobe::io {
namespace {

// Some ten steps read a row, which has ten bytes and more. A question may look at everything some times, and
// at a small file a few thousand times.
constexpr int kStepsAtOnce = 1000;
constexpr std::int64_t kFewest = 20'000'000;
constexpr std::int64_t kStepsOfByte = 100;

}  // namespace

SqliteGuard::SqliteGuard(SQLite::Database& database, std::uint64_t bytes)
    : database_(database),
      all_((kFewest + kStepsOfByte * static_cast<std::int64_t>(bytes)) / kStepsAtOnce),
      left_(all_) {
  sqlite3_progress_handler(database.getHandle(), kStepsAtOnce, &SqliteGuard::go_on, this);
}

SqliteGuard::~SqliteGuard() { sqlite3_progress_handler(database_.getHandle(), 0, nullptr, nullptr); }

void SqliteGuard::require_tables(std::initializer_list<std::string_view> names,
                                 const std::string& file) const {
  SQLite::Statement query(database_, "SELECT type FROM sqlite_master WHERE name = ?");
  for (const std::string_view name : names) {
    query.bind(1, std::string(name));
    while (query.executeStep()) {
      const std::string kind = query.getColumn(0).getString();
      if (kind == "table" || kind == "index") continue;
      throw FormatError(file, "", "expected a table " + std::string(name) + ", found a " + kind);
    }
    query.reset();
  }
}

int SqliteGuard::go_on(void* self) noexcept { return --static_cast<SqliteGuard*>(self)->left_ < 0 ? 1 : 0; }

}  // namespace msprobe::io
