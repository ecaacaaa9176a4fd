// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/sqlite/sqlite_guard.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include "catch.h"
#include "msprobe/error.h"

using namespace msprobe;

TEST_CASE("SQLite guard: a question without an end ends, and the next one is answered") {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  io::SqliteGuard guard(database, 0);
  int code = SQLITE_OK;
  try {
    SQLite::Statement query(
        database, "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r");
    query.executeStep();
  } catch (const SQLite::Exception& error) {
    code = error.getErrorCode();
  }
  CHECK(code == SQLITE_INTERRUPT);
  guard.begin_answer();
  CHECK(database.execAndGet("SELECT 1 + 1").getInt() == 2);
}

TEST_CASE("SQLite guard: what has the name of a table is one") {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  database.exec("CREATE TABLE a (x); CREATE VIEW b AS SELECT 1");
  const io::SqliteGuard guard(database, 0);
  CHECK_NOTHROW(guard.require_tables({"a", "absent"}, "file"));
  CHECK_THROWS_AS(guard.require_tables({"a", "b"}, "file"), FormatError);
}
