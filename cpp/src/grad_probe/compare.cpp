// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <limits>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "grad_probe/rank_directory.h"
#include "grad_probe/sign_agreement.h"
#include "msprobe/grad_probe.h"
#include "msprobe/log.h"
#include "msprobe/table.h"

namespace msprobe::grad_probe {
namespace {

namespace fs = std::filesystem;

// A file with more elements is shared among the threads in pieces of this size.
constexpr std::int64_t kPieceElements = std::int64_t{32} << 20;
constexpr std::chrono::milliseconds kProgressInterval{50};

std::string both(const fs::path& path1, const fs::path& path2) {
  return path1.string() + " and " + path2.string();
}

std::vector<std::int64_t> common_numbers(const fs::path& path1, const fs::path& path2,
                                         std::string_view prefix, std::int64_t offset = 0) {
  const auto numbers1 = numbered_directories(path1, prefix);
  auto numbers2 = numbered_directories(path2, prefix);
  for (std::int64_t& number : numbers2) number += offset;
  std::vector<std::int64_t> common;
  std::set_intersection(numbers1.begin(), numbers1.end(), numbers2.begin(), numbers2.end(),
                        std::back_inserter(common));
  return common;
}

// Also for a broken link and what cannot be examined: opening it says what is wrong.
bool has_entry(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Of a cell of a csv file; kUnknown for what is no number.
double number_of(const std::string& text) {
  double value = kUnknown;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() ? value : kUnknown;
}

// Reads the parameter names of all steps of both sides.
class NameReader {
 public:
  NameReader(const fs::path& rank_dir1, const fs::path& rank_dir2, std::int64_t offset,
             const std::vector<std::int64_t>& steps)
      : rank_dirs_{rank_dir1, rank_dir2}, offsets_{0, offset}, steps_(steps) {}

  // Fills in names and cells: kMissing where a csv lists the parameter (or cannot be read), else kAbsent.
  void read(Comparison& comparison) {
    bool matched = false;
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      const bool first = read_csv_of(0, s);
      const bool second = read_csv_of(1, s);
      matched |= first && second;
    }
    if (!matched) {
      throw NothingToCompare(
          "no matched grad_summary.csv for comparison: no step has a readable one in both " +
          both(rank_dirs_[0], rank_dirs_[1]));
    }
    if (names_.empty()) {
      throw NothingToCompare("no matched parameter for comparison: the csv files in " +
                             both(rank_dirs_[0], rank_dirs_[1]) + " name none");
    }
    comparison.names = std::move(names_);
    comparison.cells.resize(comparison.names.size() * steps_.size());
    for (const auto& [name, step, norm] : listed_) {
      Similarity& cell = comparison.cells[name * steps_.size() + step];
      cell.state = Similarity::State::kMissing;
      if (!(cell.norm >= norm)) cell.norm = norm;  // NaN: not known yet
    }
  }

 private:
  bool read_csv_of(std::size_t side, std::size_t step) {
    const fs::path path = summary_file(rank_dirs_[side], steps_[step] - offsets_[side]);
    if (!has_entry(path)) {
      log(LogLevel::kWarning,
          "gradient comparison: " + path.string() +
              " does not exist; the names of its parameters are taken from the other csv files");
      return false;
    }
    try {
      const io::Table table = io::read_csv(path);
      const int column = table.column("param_name");
      if (column < 0) throw FormatError(path.string(), "line 1", "expected a column \"param_name\"");
      const int norm = table.column("norm");
      for (const io::Row& row : table.rows) {
        add(row[static_cast<std::size_t>(column)], step,
            norm < 0 ? kUnknown : number_of(row[static_cast<std::size_t>(norm)]));
      }
      return true;
    } catch (const Error& error) {
      log(LogLevel::kWarning, std::string("gradient comparison: ") + error.what() +
                                  "; the names of its parameters are taken from the other csv files");
      return false;
    }
  }

  void add(const std::string& name, std::size_t step, double norm) {
    const auto [entry, is_new] = indices_.try_emplace(name, names_.size());
    if (is_new) names_.push_back(name);
    listed_.push_back({entry->second, step, norm});
  }

  const fs::path rank_dirs_[2];
  const std::array<std::int64_t, 2> offsets_;  // between the steps of a side and those of the comparison
  const std::vector<std::int64_t>& steps_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t> indices_;
  struct Listed {
    std::size_t name, step;
    double norm;
  };
  std::vector<Listed> listed_;
};

bool is_level_l0(const fs::path& path) {
  if (path.extension() != ".csv") return false;
  try {
    return io::read_csv(path).column("MD5") >= 0;
  } catch (const Error&) {
    return false;
  }
}

[[noreturn]] void throw_no_steps(const fs::path& rank_dir1, const fs::path& rank_dir2) {
  std::string text = "no matched steps for comparison: " + both(rank_dir1, rank_dir2) +
                     " have no directory step{number} in common";
  for (const fs::path& directory : {rank_dir1, rank_dir2}) {
    std::error_code ignored;  // the directory was listed before
    for (fs::directory_iterator entry(directory, ignored); entry != fs::directory_iterator();
         entry.increment(ignored)) {
      if (!is_level_l0(entry->path())) continue;
      throw NothingToCompare(
          text + "; " + entry->path().string() +
          " was recorded at level L0, which writes no direction files: record at L1 or L2");
    }
  }
  throw NothingToCompare(text);
}

// Calls the progress function of the caller: only on its thread and not too often.
class Reporter {
 public:
  Reporter(const CompareOptions& options, std::size_t total) : options_(options), total_(total) {}

  void cell_done() noexcept { ++done_; }

  void pause() {
    if (!options_.progress || std::this_thread::get_id() != caller_) return;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    next_ = now + kProgressInterval;
    report();
  }

  void report() {
    if (options_.progress && !options_.progress(done_, total_)) {
      throw InvalidArgument("the comparison was cancelled");
    }
  }

 private:
  const CompareOptions& options_;
  const std::size_t total_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::chrono::steady_clock::time_point next_ =
      std::chrono::steady_clock::now() + kProgressInterval;  // of the caller
  std::atomic<std::size_t> done_ = 0;
};

SignBuffers& buffers_of_this_thread() {
  static thread_local SignBuffers buffers;
  return buffers;
}

// Fills in the cells of a comparison, first every file of ordinary size, then the large ones piece by piece.
class CellWorker {
 public:
  CellWorker(const fs::path& rank_dir1, const fs::path& rank_dir2, Comparison& comparison,
             const CompareOptions& options)
      : comparison_(comparison), pool_(options.threads), reporter_(options, comparison.cells.size()) {
    for (const std::int64_t step : comparison.steps) {
      step_dirs1_.push_back(step_directory(rank_dir1, step));
      step_dirs2_.push_back(step_directory(rank_dir2, step - options.offset));
    }
    for (const std::string& name : comparison.names) file_names_.push_back(direction_file_name(name));
  }

  void run() {
    pool_.parallel_for(comparison_.cells.size(), [this](std::size_t i) {
      if (compare_cell(i)) reporter_.cell_done();
      reporter_.pause();
    });
    for (const std::size_t cell : large_) compare_large(cell);
    reporter_.report();
  }

 private:
  // False when the cell is left for compare_large().
  bool compare_cell(std::size_t index) {
    Similarity& cell = comparison_.cells[index];
    const auto [path1, path2] = paths(index);
    const bool present1 = has_entry(path1);
    const bool present2 = has_entry(path2);
    if (!present1 || !present2) {
      // No file on either side and no csv that names it: the parameter had no gradient at this step.
      if (present1 || present2 || cell.state == Similarity::State::kMissing) {
        miss(cell, "the direction file does not exist: " + (present1 ? path2 : path1).string());
      }
      return true;
    }
    return guarded(cell, [&, &path1 = path1, &path2 = path2] {
      SignBuffers& buffers = buffers_of_this_thread();
      const DirectionPair pair(path1, path2, buffers);
      if (pair.count() > kPieceElements && pair.same_order()) {
        const std::lock_guard lock(mutex_);
        large_.push_back(index);
        return false;
      }
      finish(cell, pair.count_equal(buffers, [this] { reporter_.pause(); }), pair.count());
      return true;
    });
  }

  void compare_large(std::size_t index) {
    Similarity& cell = comparison_.cells[index];
    guarded(cell, [&] {
      const auto [path1, path2] = paths(index);
      const DirectionPair pair(path1, path2, buffers_of_this_thread());
      const auto pieces = static_cast<std::size_t>((pair.count() + kPieceElements - 1) / kPieceElements);
      std::atomic<std::int64_t> equal = 0;
      pool_.parallel_for(pieces, [&](std::size_t piece) {
        const std::int64_t begin = static_cast<std::int64_t>(piece) * kPieceElements;
        const std::int64_t end = std::min(pair.count(), begin + kPieceElements);
        equal += pair.count_equal(begin, end, buffers_of_this_thread(), [this] { reporter_.pause(); });
      });
      finish(cell, equal, pair.count());
      return true;
    });
    reporter_.cell_done();
  }

  std::pair<fs::path, fs::path> paths(std::size_t index) const {
    const std::size_t step = index % comparison_.steps.size();
    const std::string& file_name = file_names_[index / comparison_.steps.size()];
    return {step_dirs1_[step] / file_name, step_dirs2_[step] / file_name};
  }

  // Runs `work`; what is wrong with the files becomes the problem of the cell.
  template <typename Work>
  static bool guarded(Similarity& cell, const Work& work) {
    try {
      return work();
    } catch (const Incomparable& problem) {
      miss(cell, problem.what());
    } catch (const FormatError& problem) {
      miss(cell, problem.what());
    } catch (const IoError& problem) {
      miss(cell, problem.what());
    }
    return true;
  }

  static void finish(Similarity& cell, std::int64_t equal, std::int64_t count) {
    cell = {Similarity::State::kCompared, equal, count, {}, cell.norm};
  }

  static void miss(Similarity& cell, std::string problem) {
    cell = {Similarity::State::kMissing, 0, 0, std::move(problem), cell.norm};
  }

  Comparison& comparison_;
  ThreadPool pool_;
  Reporter reporter_;
  std::vector<fs::path> step_dirs1_;
  std::vector<fs::path> step_dirs2_;
  std::vector<std::string> file_names_;
  std::mutex mutex_;
  std::vector<std::size_t> large_;  // cells left for compare_large()
};

}  // namespace

NothingToCompare::~NothingToCompare() = default;

std::vector<int> matched_ranks(const fs::path& path1, const fs::path& path2) {
  for (const fs::path& path : {path1, path2}) {
    // A trailing slash would make lstat follow the link.
    const fs::path name = path.has_filename() ? path : path.parent_path();
    struct stat status{};
    if (::lstat(name.c_str(), &status) != 0) throw IoError("cannot read the directory", path.string(), errno);
    if (S_ISLNK(status.st_mode)) {
      throw InvalidArgument(path.string() + ": expected a directory, found a symbolic link");
    }
    if (!S_ISDIR(status.st_mode)) throw IoError("cannot read the directory", path.string(), ENOTDIR);
  }
  std::vector<int> ranks;
  for (const std::int64_t rank : common_numbers(path1, path2, kRankPrefix)) {
    if (rank <= std::numeric_limits<int>::max()) ranks.push_back(static_cast<int>(rank));
  }
  if (ranks.empty()) {
    throw NothingToCompare("no matched ranks for comparison, please dump data in same configuration: " +
                           both(path1, path2) + " have no directory rank{number} in common");
  }
  return ranks;
}

Comparison compare(const fs::path& rank_dir1, const fs::path& rank_dir2, const CompareOptions& options) {
  Comparison comparison;
  comparison.steps = common_numbers(rank_dir1, rank_dir2, kStepPrefix, options.offset);
  if (comparison.steps.empty()) throw_no_steps(rank_dir1, rank_dir2);
  NameReader(rank_dir1, rank_dir2, options.offset, comparison.steps).read(comparison);
  CellWorker(rank_dir1, rank_dir2, comparison, options).run();
  return comparison;
}

}  // namespace msprobe::grad_probe
