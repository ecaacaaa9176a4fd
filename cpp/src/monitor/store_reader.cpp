// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "io/sqlite/sqlite_address.h"
#include "io/sqlite/sqlite_error.h"
#include "io/sqlite/sqlite_guard.h"
#include "monitor/store_format.h"
#include "msprobe/error.h"
#include "msprobe/monitor.h"

namespace msprobe::monitor {
namespace {

using store::kBlock;
using store::kBusyMilliseconds;
using store::kCoarse;
using store::kFine;
using store::kFineOfBlock;
using store::Point;
using store::read_blob;

constexpr std::size_t kMerged = 4;

Bucket bucket_of(const Point& point, std::int64_t first, std::int64_t last) {
  return {first, last, point.min, point.max, point.mean, point.count, point.bad};
}

// Points next to each other as one, until there are at most `most`.
void shorten(std::vector<Bucket>& curve, std::size_t most) {
  const std::size_t width = (curve.size() + most - 1) / most;
  if (width <= 1) return;
  std::vector<Bucket> merged;
  for (std::size_t begin = 0; begin < curve.size(); begin += width) {
    Bucket sum = curve[begin];
    for (std::size_t i = begin + 1; i < std::min(begin + width, curve.size()); ++i) {
      const Bucket& next = curve[i];
      sum.last_step = next.last_step;
      sum.bad += next.bad;
      if (next.count == 0) continue;
      const bool is_first = sum.count == 0;
      const double share = static_cast<double>(next.count) / (static_cast<double>(sum.count) + next.count);
      sum.min = is_first ? next.min : std::min(sum.min, next.min);
      sum.max = is_first ? next.max : std::max(sum.max, next.max);
      sum.mean = is_first ? next.mean : sum.mean + (next.mean - sum.mean) * share;
      sum.count += next.count;
    }
    merged.push_back(sum);
  }
  curve = std::move(merged);
}

// A step that was shifted; those at the ends of the range stand for "no limit", and stay.
std::int64_t moved(std::int64_t step, std::int64_t shift) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (step == kLeast || step == kMost) return step;
  if (shift > 0 && step > kMost - shift) return kMost;
  if (shift < 0 && step < kLeast - shift) return kLeast;
  return step + shift;
}

// What is read at once is of one moment, though another process writes.
class Snapshot {
 public:
  explicit Snapshot(SQLite::Database& database) : transaction_(database) {}

 private:
  SQLite::Transaction transaction_;  // ends by a rollback, as nothing was changed
};

}  // namespace

struct StoreReader::State {
  State(std::filesystem::path where, std::int64_t added)
      : path(std::move(where)), file(path.string()), shift(added) {
    if (!std::filesystem::is_regular_file(path)) throw IoError("cannot read", file, ENOENT);
    const int flags = SQLite::OPEN_READONLY | SQLite::OPEN_URI | SQLite::OPEN_NOMUTEX;
    try {
      database =
          std::make_unique<SQLite::Database>(io::sqlite_address(path, "?mode=ro"), flags, kBusyMilliseconds);
      check();
    } catch (const SQLite::Exception&) {
      // A folder that cannot be written to has no place for the file that tells readers and writers of each
      // other.
      guard.reset();
      try {
        database =
            std::make_unique<SQLite::Database>(io::sqlite_address(path, "?mode=ro&immutable=1"), flags);
        check();
      } catch (const SQLite::Exception& error) {
        fail(error);
      }
    }
  }

  void check() {
    guard.emplace(*database, std::filesystem::file_size(path));
    guard->require_tables({"info", "series", "blocks", "columns", "recent", "fine", "coarse"}, file);
    store::check_format(*database, file);
  }

  [[noreturn]] void fail(const SQLite::Exception& error) const {
    switch (error.getErrorCode()) {
      case SQLITE_CANTOPEN:
      case SQLITE_IOERR:
      case SQLITE_PERM:
      case SQLITE_BUSY: throw IoError("cannot read", file, io::error_number_of(error));
      case SQLITE_INTERRUPT: throw FormatError(file, "", "a question took longer than its size explains");
      default: throw FormatError(file, "", std::string("expected a record of the monitor: ") + error.what());
    }
  }

  // Runs `work` in one snapshot, with errors of SQLite as ours.
  template <typename Work>
  auto reading(Work work) {
    const std::lock_guard lock(mutex);
    guard->begin_answer();  // NOLINT(bugprone-unchecked-optional-access): set by the constructor
    try {
      const Snapshot snapshot(*database);
      return work();
    } catch (const SQLite::Exception& error) {
      fail(error);
    }
  }

  struct Block {
    std::int64_t number;
    std::int64_t first;
    std::int64_t last;
  };

  std::vector<Block> blocks(std::int64_t first, std::int64_t last) {
    SQLite::Statement query(
        *database, "SELECT block, first, last FROM blocks WHERE last >= ? AND first <= ? ORDER BY block");
    query.bind(1, first);
    query.bind(2, last);
    std::vector<Block> found;
    while (query.executeStep()) {
      found.push_back(
          {query.getColumn(0).getInt64(), query.getColumn(1).getInt64(), query.getColumn(2).getInt64()});
      if (found.back().number < 0) throw FormatError(file, "", "expected blocks numbered from 0 on");
    }
    return found;
  }

  std::vector<std::int64_t> steps_of(std::int64_t block) {
    SQLite::Statement query(*database, "SELECT steps FROM blocks WHERE block = ?");
    query.bind(1, block);
    if (!query.executeStep()) return {};
    auto steps = read_blob<std::int64_t>(query.getColumn(0), file);
    if (steps.size() != static_cast<std::size_t>(kBlock)) {
      throw FormatError(file, "",
                        "block " + std::to_string(block) + ": expected " + std::to_string(kBlock) +
                            " steps, found " + std::to_string(steps.size()));
    }
    return steps;
  }

  // How many rows of a block lie in a range of steps.
  std::size_t rows_of(const Block& block, std::int64_t first, std::int64_t last) {
    if (block.first >= first && block.last <= last) return kBlock;
    const std::vector<std::int64_t> steps = steps_of(block.number);
    return static_cast<std::size_t>(std::count_if(
        steps.begin(), steps.end(), [&](std::int64_t step) { return step >= first && step <= last; }));
  }

  // The content of a row of `columns`, `fine` or `coarse`, filled up to `size` where the series had nothing.
  template <typename T>
  std::vector<T> content(const char* table, const char* what, const char* number, std::uint32_t series,
                         std::int64_t place, std::size_t size, const T& fill) {
    SQLite::Statement query(*database, std::string("SELECT ") + what + " FROM " + table +
                                           " WHERE series = ? AND " + number + " = ?");
    query.bind(1, static_cast<std::int64_t>(series));
    query.bind(2, place);
    std::vector<T> found;
    if (query.executeStep()) found = read_blob<T>(query.getColumn(0), file);
    found.resize(size, fill);
    return found;
  }

  std::vector<double> column(std::uint32_t series, std::int64_t block) {
    return content<double>("columns", "numbers", "block", series, block, kBlock, absent());
  }

  // Rows that are not in a block yet.
  struct Recent {
    std::vector<std::int64_t> steps;
    std::vector<std::vector<double>> numbers;
  };
  Recent recent(std::int64_t first, std::int64_t last) {
    Recent found;
    SQLite::Statement query(*database,
                            "SELECT step, numbers FROM recent WHERE step BETWEEN ? AND ? ORDER BY row");
    query.bind(1, first);
    query.bind(2, last);
    while (query.executeStep()) {
      found.steps.push_back(query.getColumn(0).getInt64());
      found.numbers.push_back(read_blob<double>(query.getColumn(1), file));
    }
    return found;
  }

  std::filesystem::path path;
  std::string file;
  std::int64_t shift;  // between the steps of the file, with which everything here works, and those outside
  std::mutex mutex;
  std::unique_ptr<SQLite::Database> database;
  std::optional<io::SqliteGuard> guard;  // behind the database: it ends before
};

StoreReader::StoreReader(std::filesystem::path path, std::int64_t shift)
    : state_(std::make_unique<State>(std::move(path), shift)) {}
StoreReader::~StoreReader() = default;

const std::filesystem::path& StoreReader::path() const noexcept { return state_->path; }

std::map<std::string, std::string> StoreReader::info() const {
  return state_->reading([&] {
    std::map<std::string, std::string> found;
    SQLite::Statement query(*state_->database, "SELECT key, value FROM info");
    while (query.executeStep()) found.emplace(query.getColumn(0).getString(), query.getColumn(1).getString());
    return found;
  });
}

std::vector<Series> StoreReader::series() const {
  return state_->reading([&] {
    std::vector<Series> found;
    SQLite::Statement query(*state_->database,
                            "SELECT id, quantity, metric, name, scope, layer, unit FROM series ORDER BY id");
    while (query.executeStep()) {
      if (query.getColumn(0).getInt64() != static_cast<std::int64_t>(found.size())) {
        throw FormatError(state_->file, "", "expected series numbered from 0 on without a gap");
      }
      found.push_back({query.getColumn(1).getString(), query.getColumn(2).getString(),
                       query.getColumn(3).getString(), query.getColumn(4).getString(),
                       query.getColumn(5).getInt64(), query.getColumn(6).getString()});
    }
    return found;
  });
}

StoreReader::Extent StoreReader::extent() const {
  return state_->reading([&] {
    Extent extent;
    SQLite::Statement query(
        *state_->database,
        "SELECT sum(n), min(first), max(last) FROM ("
        "SELECT count(*) * ? AS n, min(first) AS first, max(last) AS last FROM blocks UNION ALL "
        "SELECT count(*), min(step), max(step) FROM recent)");
    query.bind(1, kBlock);
    if (query.executeStep()) {
      extent.steps = query.getColumn(0).getInt64();
      extent.first = moved(query.getColumn(1).getInt64(), state_->shift);
      extent.last = moved(query.getColumn(2).getInt64(), state_->shift);
    }
    return extent;
  });
}

std::vector<Bucket> StoreReader::curve(std::uint32_t series, std::int64_t first, std::int64_t last,
                                       std::size_t points) const {
  return std::move(curves({&series, 1}, first, last, points).front());
}

std::vector<std::vector<Bucket>> StoreReader::curves(std::span<const std::uint32_t> series,
                                                     std::int64_t first, std::int64_t last,
                                                     std::size_t points) const {
  return state_->reading([&] {
    State& state = *state_;
    first = moved(first, -state.shift);
    last = moved(last, -state.shift);
    std::vector<std::vector<Bucket>> curves(series.size());
    const std::vector<State::Block> blocks = state.blocks(first, last);
    const State::Recent recent = state.recent(first, last);
    std::size_t rows = recent.steps.size();
    for (const State::Block& block : blocks) rows += state.rows_of(block, first, last);
    points = std::max<std::size_t>(points, 1);
    // The next finer level where it has only a few times as many points: they are merged.
    const std::size_t readable = kMerged * points;
    const bool each = rows <= readable;
    const bool fine = !each && rows / kFine <= readable;

    // Of the steps of a block only their ends are needed, unless points are smaller.
    std::map<std::int64_t, std::vector<std::int64_t>> steps;
    for (const State::Block& block : blocks) {
      if (each || fine) steps.emplace(block.number, state.steps_of(block.number));
    }
    for (std::size_t c = 0; c < series.size(); ++c) {
      std::vector<Bucket>& curve = curves[c];
      const auto add = [&](const Point& point, std::int64_t from, std::int64_t to) {
        if (point.count + point.bad > 0 && to >= first && from <= last)
          curve.push_back(bucket_of(point, from, to));
      };
      std::vector<Point> coarse;
      std::int64_t part = -1;
      for (const State::Block& block : blocks) {
        if (each) {
          const std::vector<double> column = state.column(series[c], block.number);
          const std::vector<std::int64_t>& at = steps.at(block.number);
          for (std::size_t i = 0; i < column.size(); ++i) add(store::point_of({&column[i], 1}), at[i], at[i]);
        } else if (fine) {
          const auto found = state.content<Point>("fine", "points", "block", series[c], block.number,
                                                  kFineOfBlock, store::point_of({}));
          const std::vector<std::int64_t>& at = steps.at(block.number);
          for (std::size_t i = 0; i < found.size(); ++i)
            add(found[i], at[i * kFine], at[i * kFine + kFine - 1]);
        } else {
          if (block.number / kCoarse != part) {
            part = block.number / kCoarse;
            coarse = state.content<Point>("coarse", "points", "part", series[c], part, kCoarse,
                                          store::point_of({}));
          }
          add(coarse[static_cast<std::size_t>(block.number % kCoarse)], block.first, block.last);
        }
      }
      // The rows at the end as points of the same size, or of each step.
      const std::size_t width = each ? 1 : fine ? kFine : kBlock;
      for (std::size_t row = 0; row < recent.steps.size(); row += width) {
        const std::size_t end = std::min(row + width, recent.steps.size());
        std::vector<double> numbers;
        for (std::size_t i = row; i < end; ++i) {
          const std::vector<double>& all = recent.numbers[i];
          numbers.push_back(series[c] < all.size() ? all[series[c]] : absent());
        }
        add(store::point_of(numbers), recent.steps[row], recent.steps[end - 1]);
      }
      shorten(curve, points);
      for (Bucket& bucket : curve) {
        bucket.first_step = moved(bucket.first_step, state.shift);
        bucket.last_step = moved(bucket.last_step, state.shift);
      }
    }
    return curves;
  });
}

StoreReader::Values StoreReader::values(std::span<const std::uint32_t> series, std::int64_t first,
                                        std::int64_t last) const {
  return state_->reading([&] {
    State& state = *state_;
    first = moved(first, -state.shift);
    last = moved(last, -state.shift);
    Values found;
    found.numbers.resize(series.size());
    for (const State::Block& block : state.blocks(first, last)) {
      const std::vector<std::int64_t> steps = state.steps_of(block.number);
      const auto begin = std::lower_bound(steps.begin(), steps.end(), first);
      const auto end = std::upper_bound(begin, steps.end(), last);
      found.steps.insert(found.steps.end(), begin, end);
      for (std::size_t c = 0; c < series.size(); ++c) {
        const std::vector<double> column = state.column(series[c], block.number);
        found.numbers[c].insert(found.numbers[c].end(), column.begin() + (begin - steps.begin()),
                                column.begin() + (end - steps.begin()));
      }
    }
    const State::Recent recent = state.recent(first, last);
    found.steps.insert(found.steps.end(), recent.steps.begin(), recent.steps.end());
    for (std::size_t c = 0; c < series.size(); ++c) {
      for (const std::vector<double>& row : recent.numbers) {
        found.numbers[c].push_back(series[c] < row.size() ? row[series[c]] : absent());
      }
    }
    for (std::int64_t& step : found.steps) step = moved(step, state.shift);
    return found;
  });
}

}  // namespace msprobe::monitor
