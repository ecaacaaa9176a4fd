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
  std::vector<double> right, wrong;  // ratios of this step
};

Preheat::Preheat(std::int64_t steps, std::int64_t max_sample, Mode mode)
    : steps_(steps), max_sample_(max_sample), mode_(mode) {}

Preheat::~Preheat() = default;

std::int64_t Preheat::samples_of(const Calls& calls) const {
  return std::min((calls.first + steps_ - 1) / steps_, max_sample_);
}

bool Preheat::begin_call(std::string_view api) {
  auto found = calls_.find(api);
  if (found == calls_.end()) found = calls_.emplace(std::string(api), Calls{}).first;
  Calls& calls = found->second;
  const std::int64_t number = ++calls.now;
  if (step_ == 0 || step_ >= steps_ || calls.first == 0) return false;
  for (std::int64_t i = 0; i < samples_of(calls); ++i) {
    if ((steps_ * i + step_) % calls.first != number % calls.first || number > calls.first) continue;
    ++calls.sampled;
    return true;
  }
  return false;
}

double Preheat::threshold(std::string_view api, DType dtype) const {
  const auto found = learnt_.find(std::pair(std::string(api), dtype));
  return found == learnt_.end() ? kFirstThreshold : found->second->threshold;
}

void Preheat::note(std::string_view api, DType dtype, double ratio, bool right_on_cpu) {
  auto& learnt = learnt_[std::pair(std::string(api), dtype)];
  if (!learnt) learnt = std::make_unique<Learnt>();
  if (learnt->frozen) return;
  (right_on_cpu ? learnt->right : learnt->wrong).push_back(ratio);
  const auto calls = calls_.find(api);
  if (calls == calls_.end() || calls->second.sampled < samples_of(calls->second)) return;
  for (auto& [key, of_dtype] : learnt_) {
    if (key.first == api && !of_dtype->frozen) learn(*of_dtype, key.second);
  }
}

void Preheat::learn(Learnt& learnt, DType dtype) const {
  const std::vector<double>& right = learnt.right;
  const std::vector<double>& wrong = learnt.wrong;
  if (right.empty() && wrong.empty()) return;
  const double least_wrong = wrong.empty() ? 0 : *std::min_element(wrong.begin(), wrong.end());
  const double most_right = right.empty() ? 0 : *std::max_element(right.begin(), right.end());
  if (wrong.empty()) {
    learnt.threshold = 1 + (learnt.threshold - 1) * (most_right > learnt.threshold ? 2 : 0.5);
  } else if (right.empty() || least_wrong > most_right) {
    learnt.threshold = std::min(least_wrong, learnt.threshold);
    learnt.frozen = true;
  }
  learnt.threshold = std::max(learnt.threshold, default_threshold(dtype, mode_));
}

void Preheat::end_step() {
  for (auto& [key, learnt] : learnt_) {
    learnt->right.clear();
    learnt->wrong.clear();
  }
  for (auto& [api, calls] : calls_) {
    if (step_ == 0) calls.first = calls.now;
    calls.now = calls.sampled = 0;
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
    descriptor_ = io::open_regular(path_, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
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
