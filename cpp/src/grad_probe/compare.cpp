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
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "grad_probe/agreements.h"
#include "grad_probe/rank_directory.h"
#include "grad_probe/recorded_rank.h"
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

// Those of the second side get `offset` added.
std::vector<std::int64_t> common_numbers(const std::vector<std::int64_t>& numbers1,
                                         std::vector<std::int64_t> numbers2, std::int64_t offset = 0) {
  for (std::int64_t& number : numbers2) number += offset;
  std::vector<std::int64_t> common;
  std::set_intersection(numbers1.begin(), numbers1.end(), numbers2.begin(), numbers2.end(),
                        std::back_inserter(common));
  return common;
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
  NameReader(const RecordedRank& rank1, const RecordedRank& rank2, std::int64_t offset,
             const std::vector<std::int64_t>& steps)
      : sides_{&rank1, &rank2}, offsets_{0, offset}, steps_(steps) {}

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
          both(sides_[0]->directory(), sides_[1]->directory()));
    }
    if (names_.empty()) {
      throw NothingToCompare("no matched parameter for comparison: the csv files in " +
                             both(sides_[0]->directory(), sides_[1]->directory()) + " name none");
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
    const std::int64_t number = steps_[step] - offsets_[side];
    const std::string place = sides_[side]->summary_place(number);
    try {
      const std::optional<std::string> text = sides_[side]->summary(number);
      if (!text) {
        log(LogLevel::kWarning,
            "gradient comparison: " + place +
                " does not exist; the names of its parameters are taken from the other csv files");
        return false;
      }
      const io::Table table = io::parse_csv(*text, place);
      const int column = table.column("param_name");
      if (column < 0) throw FormatError(place, "line 1", "expected a column \"param_name\"");
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

  const std::array<const RecordedRank*, 2> sides_;
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

bool is_level_l0(const RecordedRank& rank, std::int64_t step) {
  try {
    const auto text = rank.summary(step);
    return text && io::parse_csv(*text, rank.summary_place(step)).column("MD5") >= 0;
  } catch (const Error&) {
    return false;
  }
}

[[noreturn]] void throw_no_steps(const RecordedRank& rank1, const RecordedRank& rank2) {
  std::string text = "no matched steps for comparison: " + both(rank1.directory(), rank2.directory()) +
                     " have no directory step{number} in common";
  for (const RecordedRank* rank : {&rank1, &rank2}) {
    for (const std::int64_t step : rank->summarized_steps()) {
      if (!is_level_l0(*rank, step)) continue;
      throw NothingToCompare(
          text + "; " + rank->summary_place(step) +
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
  CellWorker(const RecordedRank& rank1, const RecordedRank& rank2, Comparison& comparison,
             const CompareOptions& options)
      : comparison_(comparison),
        first_(rank1),
        second_(rank2),
        offset_(options.offset),
        known_(options.agreements.get()),
        pool_(options.threads),
        reporter_(options, comparison.cells.size()) {}

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
    const auto [step, name] = place(index);
    cell.in_first = first_.has_signs(step, name);
    cell.in_second = second_.has_signs(step - offset_, name);
    if (!cell.in_first || !cell.in_second) {
      // No signs on either side and no csv that names it: the parameter had no gradient at this step.
      if (cell.in_first || cell.in_second || cell.state == Similarity::State::kMissing) {
        const bool is_second = cell.in_first;
        miss(cell,
             "the direction file does not exist: " +
                 (is_second ? second_.signs_place(step - offset_, name) : first_.signs_place(step, name)));
      }
      return true;
    }
    return guarded(cell, [&] {
      SignBuffers& buffers = buffers_of_this_thread();
      const DirectionPair pair = pair_of(index);
      if (const auto equal = known(pair)) {
        finish(cell, *equal, pair.count());
        return true;
      }
      if (pair.count() > kPieceElements && pair.same_order()) {
        const std::lock_guard lock(mutex_);
        large_.push_back(index);
        return false;
      }
      const std::int64_t equal = pair.count_equal(buffers, [this] { reporter_.pause(); });
      remember(pair, equal);
      finish(cell, equal, pair.count());
      return true;
    });
  }

  void compare_large(std::size_t index) {
    Similarity& cell = comparison_.cells[index];
    guarded(cell, [&] {
      const DirectionPair pair = pair_of(index);
      const auto pieces = static_cast<std::size_t>((pair.count() + kPieceElements - 1) / kPieceElements);
      std::atomic<std::int64_t> equal = 0;
      pool_.parallel_for(pieces, [&](std::size_t piece) {
        const std::int64_t begin = static_cast<std::int64_t>(piece) * kPieceElements;
        const std::int64_t end = std::min(pair.count(), begin + kPieceElements);
        equal += pair.count_equal(begin, end, buffers_of_this_thread(), [this] { reporter_.pause(); });
      });
      remember(pair, equal);
      finish(cell, equal, pair.count());
      return true;
    });
    reporter_.cell_done();
  }

  std::pair<std::int64_t, const std::string&> place(std::size_t index) const {
    const std::size_t steps = comparison_.steps.size();
    return {comparison_.steps[index % steps], comparison_.names[index / steps]};
  }

  DirectionPair pair_of(std::size_t index) const {
    const auto [step, name] = place(index);
    return {first_.signs(step, name), second_.signs(step - offset_, name)};
  }

  // Of signs that were compared before, in another rank.
  std::optional<std::int64_t> known(const DirectionPair& pair) const {
    const std::optional<SignHashes> hashes = pair.hashes();
    if (!hashes) return std::nullopt;
    if (hashes->first == hashes->second) return pair.count();
    return known_ == nullptr ? std::nullopt : known_->find(*hashes);
  }
  void remember(const DirectionPair& pair, std::int64_t equal) const {
    const std::optional<SignHashes> hashes = pair.hashes();
    if (known_ != nullptr && hashes) known_->add(*hashes, equal);
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
    cell.state = Similarity::State::kCompared;
    cell.equal = equal;
    cell.count = count;
  }

  static void miss(Similarity& cell, std::string problem) {
    cell.state = Similarity::State::kMissing;
    cell.problem = std::move(problem);
  }

  Comparison& comparison_;
  const RecordedRank& first_;
  const RecordedRank& second_;
  const std::int64_t offset_;
  Agreements* const known_;
  ThreadPool pool_;
  Reporter reporter_;
  std::mutex mutex_;
  std::vector<std::size_t> large_;  // cells left for compare_large()
};

}  // namespace

NothingToCompare::~NothingToCompare() = default;

std::shared_ptr<Agreements> make_agreements() { return std::make_shared<Agreements>(); }

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
  for (const std::int64_t rank :
       common_numbers(numbered_directories(path1, kRankPrefix), numbered_directories(path2, kRankPrefix))) {
    if (rank <= std::numeric_limits<int>::max()) ranks.push_back(static_cast<int>(rank));
  }
  if (ranks.empty()) {
    throw NothingToCompare("no matched ranks for comparison, please dump data in same configuration: " +
                           both(path1, path2) + " have no directory rank{number} in common");
  }
  return ranks;
}

bool is_empty_record(const fs::path& rank_dir) {
  const RecordedRank rank(rank_dir);
  return rank.steps().empty() && std::ranges::none_of(rank.summarized_steps(), [&](std::int64_t step) {
           const auto text = rank.summary(step);
           return text && !io::parse_csv(*text, rank.summary_place(step)).rows.empty();
         });
}

Comparison compare(const fs::path& rank_dir1, const fs::path& rank_dir2, const CompareOptions& options) {
  const RecordedRank rank1(rank_dir1);
  const RecordedRank rank2(rank_dir2);
  Comparison comparison;
  comparison.steps_of_first = rank1.steps();
  comparison.steps_of_second = rank2.steps();
  comparison.steps = common_numbers(rank1.steps(), rank2.steps(), options.offset);
  if (comparison.steps.empty()) throw_no_steps(rank1, rank2);
  NameReader(rank1, rank2, options.offset, comparison.steps).read(comparison);
  CellWorker(rank1, rank2, comparison, options).run();
  return comparison;
}

}  // namespace msprobe::grad_probe
