// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// The rules and the file of the free benchmark.

#include "msprobe/free_benchmark.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>

#include "base/shape_text.h"
#include "io/table/csv_text.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/table.h"

namespace msprobe::perturb {
namespace {

constexpr double kFirstThreshold = 2.05;
constexpr double kMostMeanError = 1e-4;
constexpr std::string_view kHeader =
    "rank,pert_mode,stage,step,api_name,max_rel,dtype,shape,output_index\r\n";

}  // namespace

std::string Finding::max_rel() const {
  switch (kind) {
    case Kind::kSymbolFlipping: return "symbol_flipping";
    case Kind::kRatio: return io::format_double(ratio - 1);
    default: return {};
  }
}

Finding judge(const Ratios& ratios, DType perturbed_dtype, bool backward, double threshold) {
  const double floor = ratio_floor(perturbed_dtype, backward);
  if (ratios.least_product < -floor * floor) {
    return {Finding::Kind::kSymbolFlipping, std::numeric_limits<double>::infinity()};
  }
  const double ratio =
      ratios.one_sided_nan > 0 ? std::numeric_limits<double>::quiet_NaN() : ratios.either_way();
  const bool is_consistent = ratio <= threshold;  // NaN is not
  return {is_consistent ? Finding::Kind::kConsistent : Finding::Kind::kRatio, ratio};
}

Finding judge(const Distance& distance, DType original_dtype) {
  if (!distance.other_is_finite || distance.count == 0) return {};
  const double allowed = original_dtype == DType::kFloat16    ? 0x1p-11
                         : original_dtype == DType::kBFloat16 ? 0x1p-8
                                                              : 0x1p-14;
  const double mean = distance.signed_sum / static_cast<double>(distance.count);
  const bool is_near = !distance.has_nan && distance.absolute <= allowed && distance.relative <= allowed &&
                       mean <= kMostMeanError;
  return {is_near ? Finding::Kind::kConsistent : Finding::Kind::kFar, 1};
}

double default_threshold(DType original_dtype, Mode mode) noexcept {
  if (mode == Mode::kNoChange) return 1;
  switch (original_dtype) {
    case DType::kFloat16: return 1.002;
    case DType::kBFloat16: return 1.004;
    default: return 1.0002;
  }
}

// ---- preheat

struct Preheat::Learnt {
  double threshold = kFirstThreshold;
  bool frozen = false;
  // of the step
  bool any = false;
  double largest = 0;
  std::optional<double> smallest_wrong;
};

Preheat::Preheat(std::int64_t steps, std::int64_t max_sample, Mode mode)
    : steps_(steps), max_sample_(max_sample), mode_(mode) {}

Preheat::~Preheat() = default;

bool Preheat::begin_call(std::string_view api) {
  auto found = calls_.find(api);
  if (found == calls_.end()) found = calls_.emplace(std::string(api), Calls{}).first;
  Calls& calls = found->second;
  const std::int64_t number = calls.now++;
  if (step_ == 0 || step_ > steps_) return false;
  // Spread over the calls that a step has.
  const std::int64_t before = std::max<std::int64_t>(calls.before, 1);
  const std::int64_t wanted = std::min((before + steps_ - 1) / steps_, max_sample_);
  return number < before && (number * wanted) / before != ((number + 1) * wanted) / before;
}

double Preheat::threshold(std::string_view api, DType dtype) const {
  const auto found = learnt_.find(std::pair(std::string(api), dtype));
  return found == learnt_.end() ? kFirstThreshold : found->second->threshold;
}

void Preheat::note(std::string_view api, DType dtype, double ratio, bool right_on_cpu) {
  auto& learnt = learnt_[std::pair(std::string(api), dtype)];
  if (!learnt) learnt = std::make_unique<Learnt>();
  learnt->any = true;
  learnt->largest = std::max(learnt->largest, ratio);
  if (!right_on_cpu) learnt->smallest_wrong = std::min(ratio, learnt->smallest_wrong.value_or(ratio));
}

void Preheat::end_step() {
  for (auto& [key, learnt] : learnt_) {
    if (learnt->any && !learnt->frozen) {
      if (learnt->smallest_wrong) {
        learnt->threshold = *learnt->smallest_wrong;
        learnt->frozen = true;
      } else {
        learnt->threshold = 1 + (learnt->threshold - 1) * (learnt->largest > learnt->threshold ? 2 : 0.5);
      }
      learnt->threshold = std::max(learnt->threshold, default_threshold(key.second, mode_));
    }
    learnt->any = false;
    learnt->largest = 0;
    learnt->smallest_wrong.reset();
  }
  for (auto& [api, calls] : calls_) {
    calls.before = std::max(calls.before, calls.now);
    calls.now = 0;
  }
  ++step_;
}

// ---- the file

RowFile::RowFile(std::filesystem::path path, std::int64_t rank, Mode mode, bool backward, std::int64_t step)
    : path_(std::move(path)), rank_(rank), mode_(mode), backward_(backward), step_(step) {}

RowFile::~RowFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RowFile::add(const Row& row) {
  std::string text;
  if (descriptor_ < 0) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, io::kFileMode);
    if (descriptor_ < 0) throw IoError("cannot create", path_.string(), errno);
    text = kHeader;
  }
  const std::string index = row.output_index ? std::to_string(*row.output_index) : std::string();
  const std::string cells[] = {std::to_string(rank_),
                               std::string(mode_name(mode_)),
                               backward_ ? "backward" : "forward",
                               std::to_string(step_),
                               row.api_name,
                               row.finding.max_rel(),
                               "torch." + std::string(dtype_name(row.dtype)),
                               "torch.Size(" + shape_text(row.shape) + ")",
                               index};
  bool is_first = true;
  for (const std::string& cell : cells) {
    if (!std::exchange(is_first, false)) text += ',';
    io::csv::append_cell(text, cell);
  }
  text += io::csv::kLineEnd;
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(descriptor_, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      const int reason = wrote < 0 ? errno : ENOSPC;
      // No half line stays; the next row goes where this one should be.
      if (::ftruncate(descriptor_, size_) == 0) ::lseek(descriptor_, size_, SEEK_SET);
      throw IoError("cannot write", path_.string(), reason);
    }
    done += static_cast<std::size_t>(wrote);
  }
  size_ += static_cast<std::int64_t>(text.size());
  ++rows_;
}

}  // namespace msprobe::perturb
