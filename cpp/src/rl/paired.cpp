// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "rl/paired.h"

#include <algorithm>
#include <utility>

#include "base/layout.h"

namespace msprobe::rl {

Paired paired(std::vector<SavedArray> reference, std::vector<SavedArray> target) {
  Paired result;
  auto r = target.begin();
  for (SavedArray& l : reference) {
    for (; r != target.end() && r->place < l.place; ++r) result.target_only.push_back(std::move(r->place));
    if (r != target.end() && r->place == l.place) {
      result.pairs.push_back({std::move(l.place), std::move(l.file), std::move(r->file)});
      ++r;
    } else {
      result.reference_only.push_back(std::move(l.place));
    }
  }
  for (; r != target.end(); ++r) result.target_only.push_back(std::move(r->place));
  return result;
}

CommonPart common_part(const Shape& reference, const Shape& target) {
  if (reference == target) return {reference, false, true};
  if (reference.size() != target.size()) {
    const auto count = [](const Shape& shape) {
      std::int64_t product = 1;
      for (const std::int64_t extent : shape) product *= extent;
      return product;
    };
    const std::int64_t ours = count(reference);
    const std::int64_t theirs = count(target);
    return {{std::min(ours, theirs)}, true, ours == theirs};
  }
  CommonPart part{reference, false, false};
  for (std::size_t d = 0; d < reference.size(); ++d) part.shape[d] = std::min(reference[d], target[d]);
  return part;
}

ArrayReader::ArrayReader(const std::filesystem::path& path)
    : path_(path), file_(std::make_unique<io::InputFile>(path)) {
  constexpr std::uint64_t kLongestHead = 64 << 10;
  constexpr std::uint64_t kUsualHead = 256;
  std::vector<std::uint8_t> head(std::min(file_->size(), kUsualHead));
  file_->read(0, head);
  // The usual header is short; a longer one says so in its first bytes.
  if (head.size() == kUsualHead && (head[9] > 0 || head[8] > kUsualHead - 12 || head[6] > 1)) {
    head.resize(std::min(file_->size(), kLongestHead));
    file_->read(0, head);
  }
  header_ = io::parse_npy_header(head, file_->size(), path.string());
}

void ArrayReader::choose(const CommonPart& part) {
  // Elements follow each other when nothing but rows at the end is left out.
  const bool begins_alike =
      part.is_flat || part.is_whole ||
      std::equal(part.shape.begin() + (part.shape.empty() ? 0 : 1), part.shape.end(),
                 header_.shape.begin() + (header_.shape.empty() ? 0 : 1), header_.shape.end());
  if (begins_alike && (!header_.fortran_order || header_.shape.size() < 2)) return;
  mapped_.emplace(io::TensorFile::open(path_));
  view_ = mapped_->view();
  if (part.is_flat) return;
  shape_ = part.shape;
  strides_.assign(view_.strides.begin(), view_.strides.end());
  view_.shape = shape_;
  view_.strides = strides_;
}

void ArrayReader::read(std::int64_t first, std::size_t count, std::byte* out) const {
  const std::size_t item = element_size(header_.dtype);
  if (!mapped_) {
    const std::uint64_t at = header_.data_offset + static_cast<std::uint64_t>(first) * item;
    file_->read(at, {reinterpret_cast<std::uint8_t*>(out), count * item});
    return;
  }
  const Layout layout(view_, false);
  if (layout.contiguous()) {
    std::copy_n(layout.at(first), count * item, out);
  } else {
    layout.gather(first, count, out);
  }
}

}  // namespace msprobe::rl
