// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/sqlite_trees.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "graph/made_up.h"
#include "msprobe/error.h"
#include "temp_dir.h"

namespace msprobe::io::sqlite {
namespace {

using test::TempDir;

// A file with one table, of a text and a value, and an index of the texts.
class File {
 public:
  File() {
    SQLite::Database database(path().string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    database.exec("CREATE TABLE t (text TEXT PRIMARY KEY, value)");
    SQLite::Statement statement(database, "SELECT name, rootpage FROM sqlite_master");
    while (statement.executeStep()) {
      roots_[statement.getColumn(0).getString()] = statement.getColumn(1).getUInt();
    }
  }

  std::filesystem::path path() const { return dir_ / "t.db"; }
  std::uint32_t table() const { return roots_.at("t"); }
  std::uint32_t index() const { return roots_.at("sqlite_autoindex_t_1"); }

  // The texts in their order, the keys in runs of so many.
  void fill(const std::vector<std::string>& texts, std::size_t run) const {
    PageFile file(path(), path());
    RowTree rows(file, table());
    for (const std::string& text : texts) rows.add(Record().text(text).integer(1));
    rows.finish();
    std::vector<std::size_t> order(texts.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return texts[a] < texts[b]; });
    KeyTree tree(file);
    for (std::size_t begin = 0; begin < order.size(); begin += run) {
      KeyRun keys(file);
      for (std::size_t i = begin; i < std::min(order.size(), begin + run); ++i) {
        keys.add(Record().text(texts[order[i]]).integer(static_cast<std::int64_t>(order[i] + 1)));
      }
      keys.finish();
      tree.add(std::move(keys));
    }
    tree.finish(index());
    file.close();
  }

 private:
  TempDir dir_;
  std::map<std::string, std::uint32_t> roots_;
};

// Different from each other; about so long, in no order.
std::vector<std::string> texts(std::size_t count, std::size_t shortest, std::size_t longest) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<std::string> result;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t length = shortest + random() % (longest - shortest + 1);
    std::string text = std::to_string(random()) + "." + std::to_string(i);
    text.resize(std::max(length, text.size()), static_cast<char>('a' + random() % 26));
    result.push_back(std::move(text));
  }
  return result;
}

void check(const File& file, const std::vector<std::string>& expected) {
  SQLite::Database database(file.path().string(), SQLite::OPEN_READWRITE);
  CHECK(database.execAndGet("PRAGMA integrity_check").getString() == "ok");
  SQLite::Statement rows(database, "SELECT text FROM t ORDER BY rowid");
  std::vector<std::string> found;
  while (rows.executeStep()) found.push_back(rows.getColumn(0).getString());
  CHECK((found == expected));
  if (expected.empty()) return;
  SQLite::Statement one(database, "SELECT rowid FROM t INDEXED BY sqlite_autoindex_t_1 WHERE text = ?");
  one.bind(1, expected.back());
  REQUIRE(one.executeStep());
  CHECK(one.getColumn(0).getInt64() == static_cast<std::int64_t>(expected.size()));
}

}  // namespace

TEST_CASE("sqlite trees: values come back as they were") {
  const std::vector<std::int64_t> numbers = {0,
                                             1,
                                             -1,
                                             127,
                                             128,
                                             -128,
                                             -129,
                                             32768,
                                             -8388609,
                                             std::int64_t{1} << 31,
                                             -(std::int64_t{1} << 47) - 1,
                                             std::numeric_limits<std::int64_t>::min(),
                                             std::numeric_limits<std::int64_t>::max()};
  const File file;
  {
    PageFile pages(file.path(), file.path());
    RowTree rows(pages, file.table());
    for (const std::int64_t number : numbers) rows.add(Record().null().integer(number));
    for (const double value : {0.5, -1e300, 3.0}) rows.add(Record().null().real(value));
    rows.add(Record().null().real(std::numeric_limits<double>::quiet_NaN()));
    rows.add(Record().null().real(std::numeric_limits<double>::infinity()));
    rows.add(Record().null().text(std::string_view("a\0b", 3)));
    rows.finish();
    pages.close();
  }
  SQLite::Database database(file.path().string());
  SQLite::Statement statement(database, "SELECT value, typeof(value) FROM t ORDER BY rowid");
  for (const std::int64_t number : numbers) {
    REQUIRE(statement.executeStep());
    CHECK(statement.getColumn(0).getInt64() == number);
    CHECK(statement.getColumn(1).getString() == "integer");
  }
  const auto next = [&] {
    REQUIRE(statement.executeStep());
    return std::pair(statement.getColumn(1).getString(), statement.getColumn(0).getDouble());
  };
  CHECK((next() == std::pair<std::string, double>("real", 0.5)));
  CHECK((next() == std::pair<std::string, double>("real", -1e300)));
  CHECK((next() == std::pair<std::string, double>("integer", 3)));
  CHECK((next().first == "null"));
  CHECK((next() == std::pair<std::string, double>("real", std::numeric_limits<double>::infinity())));
  REQUIRE(statement.executeStep());
  CHECK(statement.getColumn(0).getString() == std::string("a\0b", 3));
}

TEST_CASE("sqlite trees: SQLite reads tables and indices of any size") {
  for (const std::size_t count : {0, 1, 2, 3, 30, 5000}) {
    const File file;
    const auto expected = texts(count, 1, 200);
    file.fill(expected, 1000);
    check(file, expected);
  }
}

TEST_CASE("sqlite trees: rows and keys that are longer than a page") {
  const File file;
  auto expected = texts(300, 900, 20'000);
  expected.push_back(std::string(3'000'000, 'x'));
  file.fill(expected, 50);
  check(file, expected);
  for (std::size_t length = 980; length < 1010; ++length) {  // where the keys begin to leave their page
    const File other;
    const auto long_texts = texts(20, length, length);
    other.fill(long_texts, 100);
    check(other, long_texts);
  }
  for (std::size_t length = 4040; length < 4070; ++length) {
    const File other;
    const auto long_texts = texts(20, length, length);
    other.fill(long_texts, 100);
    check(other, long_texts);
  }
}

TEST_CASE("sqlite trees: no number of pages leaves a child alone") {
  for (std::size_t count = 1; count < 60; ++count) {  // four keys a page, and as many children
    const File file;
    const auto expected = texts(count, 990, 990);
    file.fill(expected, 1000);
    check(file, expected);
  }
  for (std::size_t count = 440; count < 520; ++count) {  // one row a page
    const File file;
    const auto expected = texts(count, 3000, 3000);
    file.fill(expected, 1000);
    check(file, expected);
  }
}

TEST_CASE("sqlite trees: an index of many runs") {
  for (const std::size_t run : {1, 2, 3, 7, 40, 90, 333}) {
    for (const std::size_t longest : {30, 400, 1000}) {
      const File file;
      const auto expected = texts(1000, 1, longest);
      file.fill(expected, run);
      check(file, expected);
    }
  }
}

TEST_CASE("sqlite trees: SQLite goes on where we ended") {
  const File file;
  const auto expected = texts(2000, 1, 300);
  file.fill(expected, 700);
  SQLite::Database database(file.path().string(), SQLite::OPEN_READWRITE);
  database.exec("UPDATE t SET value = hex(zeroblob(1000)) WHERE rowid % 3 = 0");
  database.exec("DELETE FROM t WHERE rowid % 3 = 1");
  database.exec("INSERT INTO t VALUES ('new', 1)");
  CHECK(database.execAndGet("SELECT rowid FROM t WHERE text = 'new'").getInt() == 2001);
  CHECK(database.execAndGet("SELECT count(*) FROM t WHERE length(value) = 2000").getInt() == 666);
  CHECK(database.execAndGet("PRAGMA integrity_check").getString() == "ok");
  CHECK_THROWS_AS(database.exec("INSERT INTO t VALUES ('" + expected[2] + "', 1)"), SQLite::Exception);
}

TEST_CASE("sqlite pages: the page in which SQLite locks bytes stays empty") {
  constexpr std::uint32_t kLock = 262145;  // at 1 GiB
  const TempDir dir;
  const auto path = dir / "large.db";
  test::write_bytes(path, "");
  std::filesystem::resize_file(path, std::uint64_t{kLock - 2} * kPageSize);
  PageFile file(path, path);
  const std::string page(kPageSize, 'x');
  CHECK(file.add(page) == kLock - 1);
  CHECK(file.next() == kLock + 1);
  CHECK(file.add(page) == kLock + 1);
  CHECK(file.add(page) == kLock + 2);
  file.close();
  CHECK(std::filesystem::file_size(path) == std::uint64_t{kLock + 2} * kPageSize);
}

TEST_CASE("sqlite pages: errors name the file that is wanted") {
  const TempDir dir;
  const auto problem = test::problem_of<IoError>([&] { PageFile(dir / "none.db", "wanted.db"); });
  CHECK(test::has(problem, "wanted.db"));
}

}  // namespace msprobe::io::sqlite
