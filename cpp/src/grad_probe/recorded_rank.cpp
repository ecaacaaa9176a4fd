// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "grad_probe/recorded_rank.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "grad_probe/rank_directory.h"
#include "msprobe/grad_probe.h"
#include "msprobe/log.h"
#include "msprobe/table.h"

namespace msprobe::grad_probe {
namespace {

namespace fs = std::filesystem;

// Also for a broken link and what cannot be examined: opening it says what is wrong.
bool has_entry(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

// Signs of a gradient that is the same in several ranks, one of which keeps them.
class KeptElsewhere final : public Signs {
 public:
  KeptElsewhere(const RecordedRank& rank, std::int64_t step, std::string name, const PackedSigns& own)
      : rank_(rank), step_(step), name_(std::move(name)), own_(own) {
    shape_ = own.shape;
    fortran_order_ = own.fortran_order;
    count_ = own.count;
  }

  const ContentHash* hash() const noexcept override { return &own_.hash; }

  void read(std::int64_t first, std::span<std::uint8_t> out) const override {
    const PackedFile& keeper = rank_.keeper(own_.keeper);
    const PackedSigns* const kept = keeper.find(step_, name_);
    const std::string where = "rank " + std::to_string(own_.keeper) + ", which keeps the signs of " + name_ +
                              " at step " + std::to_string(step_) + " for its replicas, has ";
    if (kept == nullptr || kept->keeper >= 0) throw Incomparable(where + "none: " + keeper.path().string());
    if (kept->hash != own_.hash || kept->shape != own_.shape) {
      throw Incomparable(where + "others: the replicas are not equal");
    }
    signs_of_packed(keeper, *kept, name_)->read(first, out);
  }

 private:
  const RecordedRank& rank_;
  std::int64_t step_;
  std::string name_;
  const PackedSigns& own_;
};

}  // namespace

RecordedRank::RecordedRank(fs::path directory) : directory_(std::move(directory)) {
  const fs::path packed = directory_ / kPackedName;
  if (!has_entry(packed)) {
    steps_ = numbered_directories(directory_, kStepPrefix);
    return;
  }
  packed_ = std::make_unique<PackedFile>(packed);
  if (!packed_->cut().empty()) {
    log(LogLevel::kWarning, packed.string() + ": " + packed_->cut() + "; what lies before is read");
  }
  for (const auto& [step, content] : packed_->steps()) {
    if (content.has_signs) steps_.push_back(step);
  }
}

std::vector<std::int64_t> RecordedRank::summarized_steps() const {
  std::vector<std::int64_t> steps;
  if (packed_) {
    for (const auto& [step, content] : packed_->steps()) steps.push_back(step);
    return steps;
  }
  std::error_code error;
  for (fs::directory_iterator entry(directory_, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().extension() != ".csv") continue;
    if (const auto step = number_after(kSummaryPrefix, entry->path().stem().string())) steps.push_back(*step);
  }
  if (error) throw IoError("cannot list the directory", directory_.string(), error.value());
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::optional<std::string> RecordedRank::summary(std::int64_t step) const {
  if (packed_) {
    const auto at = packed_->steps().find(step);
    return at == packed_->steps().end() ? std::nullopt : std::optional(at->second.summary);
  }
  const fs::path path = summary_file(directory_, step);
  if (!has_entry(path)) return std::nullopt;
  return io::read_csv_text(path);
}

std::string RecordedRank::summary_place(std::int64_t step) const {
  return packed_ ? packed_->path().string() + ", step " + std::to_string(step)
                 : summary_file(directory_, step).string();
}

bool RecordedRank::has_signs(std::int64_t step, const std::string& name) const {
  if (packed_) return packed_->find(step, name) != nullptr;
  return has_entry(step_directory(directory_, step) / direction_file_name(name));
}

std::string RecordedRank::signs_place(std::int64_t step, const std::string& name) const {
  return packed_ ? packed_->path().string() + ", step " + std::to_string(step) + ", " + name
                 : (step_directory(directory_, step) / direction_file_name(name)).string();
}

std::unique_ptr<Signs> RecordedRank::signs(std::int64_t step, const std::string& name) const {
  if (!packed_) return signs_of_npy(step_directory(directory_, step) / direction_file_name(name));
  const PackedSigns* const found = packed_->find(step, name);
  if (found == nullptr) throw Incomparable("there are no signs: " + signs_place(step, name));
  if (found->keeper >= 0) return std::make_unique<KeptElsewhere>(*this, step, name, *found);
  return signs_of_packed(*packed_, *found, name);
}

const PackedFile& RecordedRank::keeper(int rank) const {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<PackedFile>& file = keepers_[rank];
  if (!file) {
    // Not by the parent of a path that ends in "." or in a slash.
    const fs::path ranks = fs::weakly_canonical(directory_).parent_path();
    file = std::make_unique<PackedFile>(rank_directory(ranks, rank) / kPackedName);
  }
  return *file;
}

}  // namespace msprobe::grad_probe
