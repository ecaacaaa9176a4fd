// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <SQLiteCpp/SQLiteCpp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "io/sqlite/sqlite_error.h"
#include "monitor/store_format.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/log.h"
#include "msprobe/monitor.h"

namespace msprobe::monitor {
namespace {

// What could not be written is tried again after this time, or when more has come.
constexpr std::chrono::seconds kRetry{2};

IoError io_error(const std::filesystem::path& path, const SQLite::Exception& error) {
  return {"cannot write", path.string(), io::error_number_of(error)};
}

}  // namespace

namespace store {

struct Step {
  std::int64_t step;
  std::vector<double> numbers;
};

// The database, used by one thread at a time. Throws SQLite::Exception but for the constructor.
class Tables {
 public:
  Tables(const std::filesystem::path& path, const StoreWriter::Options& options) : path_(path.string()) {
    const bool is_there = std::filesystem::exists(path);
    if (is_there && !options.resume_at) {
      throw InvalidArgument(path_ + ": there is a record already, expected another folder, or to resume it");
    }
    if (!path.parent_path().empty()) io::make_directories(path.parent_path());
    try {
      open(is_there);
      if (is_there) {
        check_format(*database_, path_);
        cut(*options.resume_at);
      }
      set_info(options);
    } catch (const SQLite::Exception& error) {
      throw io_error(path, error);
    }
  }

  // Somebody has removed or moved the file: what is written would be nowhere.
  bool is_gone() const {
    std::error_code ignored;
    return !std::filesystem::exists(path_, ignored);
  }

  // An empty record where the file was; one that is there again is left alone. When it throws, there is none,
  // and nothing but this may be called.
  void begin_anew(const StoreWriter::Options& options) {
    if (!is_gone()) throw IoError("cannot write", path_, EEXIST);
    database_.reset();
    rows_ = 0;
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    if (!folder.empty()) io::make_directories(folder);
    try {
      open(false);
      set_info(options);
    } catch (const SQLite::Exception&) {
      database_.reset();
      for (const char* end : {"", "-wal", "-shm"}) {
        std::error_code ignored;
        std::filesystem::remove(path_ + end, ignored);
      }
      throw;
    }
  }

  std::vector<Series> series() {
    std::vector<Series> all;
    SQLite::Statement query(*database_,
                            "SELECT quantity, metric, name, scope, layer, unit FROM series ORDER BY id");
    while (query.executeStep()) {
      all.push_back({query.getColumn(0).getString(), query.getColumn(1).getString(),
                     query.getColumn(2).getString(), query.getColumn(3).getString(),
                     query.getColumn(4).getInt64(), query.getColumn(5).getString()});
    }
    return all;
  }

  std::optional<std::int64_t> last_step() {
    SQLite::Statement query(
        *database_,
        "SELECT max(step) FROM (SELECT max(step) AS step FROM recent UNION SELECT max(last) FROM blocks)");
    if (!query.executeStep() || query.getColumn(0).isNull()) return std::nullopt;
    return query.getColumn(0).getInt64();
  }

  // All of it, or nothing.
  void write(std::span<const Series> new_series, std::size_t first_id, std::span<const Step> steps) {
    const std::int64_t rows = rows_;
    try {
      SQLite::Transaction transaction(*database_);
      insert_series(new_series, first_id);
      SQLite::Statement insert(*database_, "INSERT INTO recent VALUES (?, ?, ?)");
      for (const Step& step : steps) {
        insert.bind(1, rows_);
        insert.bind(2, step.step);
        bind_blob<double>(insert, 3, step.numbers);
        insert.exec();
        insert.reset();
        if (++rows_ % kBlock == 0) make_block(rows_ / kBlock - 1, first_id + new_series.size());
      }
      transaction.commit();
    } catch (...) {
      rows_ = rows;
      throw;
    }
  }

  // A record that is complete is one file, which can be read where nothing can be written.
  void finish() noexcept {
    try {
      if (!database_) return;
      database_->setBusyTimeout(0);
      database_->exec("PRAGMA journal_mode = DELETE");
    } catch (const SQLite::Exception&) {  // somebody reads it: the log stays beside it
      log(LogLevel::kDebug, "monitor: " + path_ + ": its log stays beside it");
    }
  }

 private:
  void open(bool is_there) {
    if (!is_there) io::OutputFile(path_).close();  // SQLite would give it other permissions
    const int flags = SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX;
    database_ = std::make_unique<SQLite::Database>(path_, flags, kBusyMilliseconds);
    if (!is_there) database_->exec("PRAGMA page_size = 8192");
    // A commit is one write to the log: readers do not wait, and a killed process loses nothing that was
    // committed.
    database_->exec("PRAGMA journal_mode = WAL");
    database_->exec("PRAGMA synchronous = NORMAL");
    if (is_there) return;
    SQLite::Transaction transaction(*database_);
    database_->exec(std::string(kTables));
    database_->exec("INSERT INTO info VALUES ('format', '" + std::string(kFormat) + "')");
    transaction.commit();
  }

  void set_info(const StoreWriter::Options& options) {
    SQLite::Statement add(*database_, "INSERT OR REPLACE INTO info VALUES (?, ?)");
    for (const auto& [key, value] : options.info) {
      add.bind(1, key);
      add.bind(2, value);
      add.exec();
      add.reset();
    }
  }

  void insert_series(std::span<const Series> new_series, std::size_t first_id) {
    if (new_series.empty()) return;
    SQLite::Statement insert(*database_, "INSERT INTO series VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    for (const Series& one : new_series) {
      insert.bind(1, static_cast<std::int64_t>(first_id++));
      insert.bind(2, one.key());
      insert.bind(3, one.quantity);
      insert.bind(4, one.metric);
      insert.bind(5, one.name);
      insert.bind(6, one.scope);
      insert.bind(7, one.layer);
      insert.bind(8, one.unit);
      insert.exec();
      insert.reset();
    }
  }

  // The rows of `recent`, kBlock of them, become columns.
  void make_block(std::int64_t block, std::size_t series) {
    std::vector<std::int64_t> steps;
    std::vector<double> columns(series * kBlock, absent());
    SQLite::Statement rows(*database_, "SELECT step, numbers FROM recent ORDER BY row");
    while (rows.executeStep()) {
      const std::size_t row = steps.size();
      steps.push_back(rows.getColumn(0).getInt64());
      const auto numbers = read_blob<double>(rows.getColumn(1), path_);
      for (std::size_t s = 0; s < std::min(series, numbers.size()); ++s)
        columns[s * kBlock + row] = numbers[s];
    }
    SQLite::Statement add_block(*database_, "INSERT INTO blocks VALUES (?, ?, ?, ?)");
    add_block.bind(1, block);
    add_block.bind(2, steps.front());
    add_block.bind(3, steps.back());
    bind_blob<std::int64_t>(add_block, 4, steps);
    add_block.exec();
    SQLite::Statement add_column(*database_, "INSERT INTO columns VALUES (?, ?, ?)");
    SQLite::Statement add_fine(*database_, "INSERT INTO fine VALUES (?, ?, ?)");
    for (std::size_t s = 0; s < series; ++s) {
      const std::span<const double> column(columns.data() + s * kBlock, kBlock);
      if (std::all_of(column.begin(), column.end(), is_absent)) continue;
      insert(add_column, s, block, column);
      std::vector<Point> fine;
      fine.reserve(kFineOfBlock);
      for (std::int64_t i = 0; i < kFineOfBlock; ++i) {
        fine.push_back(point_of(column.subspan(static_cast<std::size_t>(i * kFine), kFine)));
      }
      insert(add_fine, s, block, std::span<const Point>(fine));
      add_coarse(s, block, together(fine));
    }
    database_->exec("DELETE FROM recent");
  }

  template <typename T>
  static void insert(SQLite::Statement& statement, std::size_t series, std::int64_t block,
                     std::span<const T> content) {
    statement.bind(1, static_cast<std::int64_t>(series));
    statement.bind(2, block);
    bind_blob<T>(statement, 3, content);
    statement.exec();
    statement.reset();
  }

  void add_coarse(std::size_t series, std::int64_t block, const Point& point) {
    SQLite::Statement find(*database_, "SELECT points FROM coarse WHERE series = ? AND part = ?");
    find.bind(1, static_cast<std::int64_t>(series));
    find.bind(2, block / kCoarse);
    std::vector<Point> points;
    if (find.executeStep()) points = read_blob<Point>(find.getColumn(0), path_);
    points.resize(static_cast<std::size_t>(block % kCoarse), point_of({}));  // it had no numbers there
    points.push_back(point);
    SQLite::Statement replace(*database_, "INSERT OR REPLACE INTO coarse VALUES (?, ?, ?)");
    insert(replace, series, block / kCoarse, std::span<const Point>(points));
  }

  // Removes everything from step `at` on, and counts the rows that stay.
  void cut(std::int64_t at) {
    SQLite::Transaction transaction(*database_);
    SQLite::Statement find(*database_, "SELECT min(block) FROM blocks WHERE last >= ?");
    find.bind(1, at);
    if (find.executeStep() && !find.getColumn(0).isNull()) reopen_block(find.getColumn(0).getInt64());
    SQLite::Statement remove(*database_, "DELETE FROM recent WHERE step >= ?");
    remove.bind(1, at);
    remove.exec();
    SQLite::Statement count(*database_,
                            "SELECT (SELECT count(*) FROM recent) + ? * (SELECT count(*) FROM blocks)");
    count.bind(1, kBlock);
    count.executeStep();
    rows_ = count.getColumn(0).getInt64();
    transaction.commit();
  }

  // A block becomes rows again, and all behind it goes.
  void reopen_block(std::int64_t block) {
    database_->exec("DELETE FROM recent");
    SQLite::Statement find(*database_, "SELECT steps FROM blocks WHERE block = ?");
    find.bind(1, block);
    find.executeStep();
    const auto steps = read_blob<std::int64_t>(find.getColumn(0), path_);
    const auto count =
        static_cast<std::size_t>(database_->execAndGet("SELECT count(*) FROM series").getInt64());
    std::vector<std::vector<double>> rows(steps.size(), std::vector<double>(count, absent()));
    SQLite::Statement columns(*database_, "SELECT series, numbers FROM columns WHERE block = ?");
    columns.bind(1, block);
    while (columns.executeStep()) {
      const auto series = static_cast<std::size_t>(columns.getColumn(0).getInt64());
      const auto numbers = read_blob<double>(columns.getColumn(1), path_);
      for (std::size_t row = 0; series < count && row < std::min(rows.size(), numbers.size()); ++row) {
        rows[row][series] = numbers[row];
      }
    }
    SQLite::Statement insert(*database_, "INSERT INTO recent VALUES (?, ?, ?)");
    for (std::size_t row = 0; row < rows.size(); ++row) {
      insert.bind(1, block * kBlock + static_cast<std::int64_t>(row));
      insert.bind(2, steps[row]);
      bind_blob<double>(insert, 3, rows[row]);
      insert.exec();
      insert.reset();
    }
    for (const char* table : {"blocks", "columns", "fine"}) {
      SQLite::Statement remove(*database_, std::string("DELETE FROM ") + table + " WHERE block >= ?");
      remove.bind(1, block);
      remove.exec();
    }
    cut_coarse(block);
  }

  void cut_coarse(std::int64_t block) {
    SQLite::Statement remove(*database_, "DELETE FROM coarse WHERE part > ?");
    remove.bind(1, block / kCoarse);
    remove.exec();
    std::vector<std::pair<std::int64_t, std::vector<Point>>> parts;
    SQLite::Statement find(*database_, "SELECT series, points FROM coarse WHERE part = ?");
    find.bind(1, block / kCoarse);
    while (find.executeStep()) {
      parts.emplace_back(find.getColumn(0).getInt64(), read_blob<Point>(find.getColumn(1), path_));
    }
    find.reset();
    SQLite::Statement replace(*database_, "INSERT OR REPLACE INTO coarse VALUES (?, ?, ?)");
    for (auto& [series, points] : parts) {
      const auto kept = std::min(points.size(), static_cast<std::size_t>(block % kCoarse));
      insert(replace, static_cast<std::size_t>(series), block / kCoarse,
             std::span<const Point>(points.data(), kept));
    }
  }

  std::string path_;
  std::unique_ptr<SQLite::Database> database_;
  std::int64_t rows_ = 0;  // of all steps
};

}  // namespace store

struct StoreWriter::State {
  State(std::filesystem::path where, Options wanted)
      : path(std::move(where)), options(std::move(wanted)), tables(path, options) {
    for (const Series& one : tables.series()) {
      ids.emplace(one.key(), static_cast<std::uint32_t>(series.size()));
      series.push_back(one);
    }
    stored_series = series.size();
    last = tables.last_step();
    thread = std::thread([this] { run(); });
  }

  bool has_content() const { return !queue.empty() || stored_series < series.size(); }

  // The writing thread.
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      if (failed) {
        wake.wait_for(lock, kRetry, [&] { return stop || urged; });
      } else {
        wake.wait(lock, [&] { return stop || urged || has_content(); });
      }
      urged = false;
      if (has_content()) write_all(lock);
      idle.notify_all();
      if (stop && (failed || !has_content())) return;
    }
  }

  void write_all(std::unique_lock<std::mutex>& lock) {
    busy = true;
    lock.unlock();
    const bool is_new = gone || tables.is_gone();
    lock.lock();
    std::vector<store::Step> batch(std::make_move_iterator(queue.begin()),
                                   std::make_move_iterator(queue.end()));
    queue.clear();
    const std::size_t first_id = is_new ? 0 : stored_series;
    const std::vector<Series> new_series(series.begin() + static_cast<std::ptrdiff_t>(first_id),
                                         series.end());
    lock.unlock();
    std::string problem;
    bool is_begun = !is_new;
    try {
      if (is_new) {
        tables.begin_anew(options);
        is_begun = true;
      }
      tables.write(new_series, first_id, batch);
    } catch (const SQLite::Exception& e) {
      problem = io_error(path, e).what();
    } catch (const std::exception& e) {
      problem = e.what();
    }
    lock.lock();
    busy = false;
    gone = !is_begun;
    if (is_new && is_begun) {
      notice = path.string() + " was removed: the record begins anew";
      stored_series = 0;
    }
    if (problem.empty()) {
      stored_series = first_id + new_series.size();
      for (const store::Step& step : batch) queued_bytes -= step.numbers.size() * sizeof(double);
      failed = is_bad = false;
      return;
    }
    failed = true;
    error = problem;
    queue.insert(queue.begin(), std::make_move_iterator(batch.begin()), std::make_move_iterator(batch.end()));
  }

  // Tells of a failure once, from a thread of the caller.
  void tell() {
    std::string text, anew;
    {
      const std::lock_guard lock(mutex);
      if (error.empty() && notice.empty()) return;
      anew.swap(notice);
      if (!error.empty()) {
        if (!is_bad) text = error;
        is_bad = true;
        error.clear();
      }
    }
    if (!anew.empty()) log(LogLevel::kWarning, "monitor: " + anew);
    if (!text.empty()) log(LogLevel::kWarning, "monitor: " + text + "; training goes on, it is tried again");
  }

  bool is_child() const { return getpid() != process; }

  const std::filesystem::path path;
  const Options options;
  const pid_t process = getpid();
  store::Tables tables;  // of the writing thread, once that runs
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable idle;
  std::unordered_map<std::string, std::uint32_t> ids;
  std::vector<Series> series;
  std::size_t stored_series = 0;
  std::deque<store::Step> queue;
  std::size_t queued_bytes = 0;
  std::int64_t lost = 0;
  std::optional<std::int64_t> last;
  bool stop = false;
  bool busy = false;
  bool urged = false;   // somebody waits for an attempt
  bool failed = false;  // the last attempt
  bool is_bad = false;  // a failure has been told, and none has succeeded since
  bool gone = false;    // the file was, and no other has been begun
  std::string error;
  std::string notice;
  std::thread thread;
};

StoreWriter::StoreWriter(std::filesystem::path path, Options options)
    : state_(std::make_unique<State>(std::move(path), std::move(options))) {}

StoreWriter::~StoreWriter() {
  if (state_->is_child()) {  // the thread is not there
    state_->thread.detach();
    (void)state_.release();  // NOLINT(bugprone-unused-return-value): what the parent uses stays as it is
    return;
  }
  flush();
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
  state_->tables.finish();
}

std::uint32_t StoreWriter::add_series(const Series& series) {
  const std::lock_guard lock(state_->mutex);
  const auto [known, is_new] =
      state_->ids.try_emplace(series.key(), static_cast<std::uint32_t>(state_->series.size()));
  if (is_new) state_->series.push_back(series);
  return known->second;
}

void StoreWriter::append(std::int64_t step, std::span<const double> values) {
  if (state_->is_child()) return;
  state_->tell();
  {
    std::unique_lock lock(state_->mutex);
    if (state_->last && step <= *state_->last) {
      throw InvalidArgument(state_->path.string() + ": expected a step above " +
                            std::to_string(*state_->last) + ", found " + std::to_string(step));
    }
    state_->last = step;
    const std::size_t bytes = values.size() * sizeof(double);
    const auto has_room = [&] {
      return state_->failed || state_->queued_bytes + bytes <= state_->options.queue_bytes ||
             state_->queue.empty();
    };
    state_->idle.wait(lock, has_room);
    while (!state_->queue.empty() && state_->queued_bytes + bytes > state_->options.queue_bytes) {
      state_->queued_bytes -= state_->queue.front().numbers.size() * sizeof(double);
      state_->queue.pop_front();
      ++state_->lost;
    }
    state_->queue.push_back({step, {values.begin(), values.end()}});
    state_->queued_bytes += bytes;
  }
  state_->wake.notify_all();
}

std::int64_t StoreWriter::flush() {
  if (state_->is_child()) return 0;
  std::int64_t waiting = 0;
  {
    std::unique_lock lock(state_->mutex);
    state_->urged = true;
    state_->wake.notify_all();
    state_->idle.wait(lock, [&] { return !state_->urged && !state_->busy; });
    waiting = state_->lost + static_cast<std::int64_t>(state_->queue.size());
  }
  state_->tell();
  return waiting;
}

std::optional<std::int64_t> StoreWriter::last_step() const {
  const std::lock_guard lock(state_->mutex);
  return state_->last;
}

}  // namespace msprobe::monitor
