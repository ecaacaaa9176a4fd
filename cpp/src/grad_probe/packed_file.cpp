// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "grad_probe/packed_file.h"

#include <algorithm>
#include <utility>

#include "base/crc32.h"
#include "grad_probe/packed_format.h"
#include "msprobe/error.h"
#include "msprobe/stats.h"

namespace msprobe::grad_probe {
namespace {

constexpr std::uint64_t kLargestIndex = std::uint64_t{1} << 30;
constexpr std::size_t kMostDimensions = 64;
constexpr std::int64_t kMostElements = std::int64_t{1} << 60;

std::int64_t elements_of(const std::vector<std::int64_t>& shape, const packed::Taker& index) {
  const auto has = [&shape](auto test) { return std::any_of(shape.begin(), shape.end(), test); };
  if (has([](std::int64_t extent) { return extent < 0; })) index.fail("a gradient has a negative extent");
  if (has([](std::int64_t extent) { return extent == 0; })) return 0;
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (count > kMostElements / extent) index.fail("a gradient has more than 2^60 elements");
    count *= extent;
  }
  return count;
}

PackedSigns take_signs(packed::Taker& index, const packed::Head& head, std::uint64_t first) {
  PackedSigns signs;
  signs.fortran_order = index.take<std::uint8_t>() != 0;
  const auto dimensions = index.take<std::uint8_t>();
  if (dimensions > kMostDimensions) index.fail("a gradient has more than 64 dimensions");
  index.take<std::uint16_t>();
  signs.keeper = index.take<std::int32_t>();
  for (std::size_t i = 0; i < dimensions; ++i) signs.shape.push_back(index.take<std::int64_t>());
  signs.count = elements_of(signs.shape, index);
  const auto offset = index.take<std::uint64_t>();
  signs.hash.low = index.take<std::uint64_t>();
  signs.hash.high = index.take<std::uint64_t>();
  const std::uint64_t bytes = stats::sign_bytes(signs.count);
  if (signs.keeper < 0 && (offset > head.sign_bytes || bytes > head.sign_bytes - offset)) {
    index.fail("the signs of a gradient lie outside of their step");
  }
  signs.offset = first + offset;
  return signs;
}

}  // namespace

PackedFile::PackedFile(const std::filesystem::path& path) : file_(path) {
  std::string magic(packed::kMagic.size(), '\0');
  if (file_.size() >= magic.size()) {
    file_.read(0, {reinterpret_cast<std::uint8_t*>(magic.data()), magic.size()});
  }
  if (magic != packed::kMagic) {
    throw FormatError(path.string(), "byte 0", "expected a packed gradient record of this version");
  }
  end_ = magic.size();
  while (read_step()) continue;
}

bool PackedFile::read_step() {
  const std::uint64_t left = file_.size() - end_;
  if (left == 0) return false;
  const auto stop = [this](const std::string& why) {
    cut_ = "byte " + std::to_string(end_) + ": " + why;
    return false;
  };
  packed::Head head{};
  if (left < sizeof(head)) return stop("the file ends inside of a step");
  file_.read(end_, {reinterpret_cast<std::uint8_t*>(&head), sizeof(head)});
  if (head.mark != packed::kStepMark) return stop("no step begins here");
  const std::uint64_t behind = left - sizeof(head);
  if (head.index_bytes > behind || head.sign_bytes > behind - head.index_bytes) {
    return stop("the file ends inside of step " + std::to_string(head.step));
  }
  if (head.index_bytes > kLargestIndex) return stop("the descriptions of a step have more than 1 GiB");
  std::string index(head.index_bytes, '\0');
  file_.read(end_ + sizeof(head), {reinterpret_cast<std::uint8_t*>(index.data()), index.size()});
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&head);
  const std::uint32_t crc = crc32(crc32(0, bytes + packed::kNotInCrc, sizeof(head) - packed::kNotInCrc),
                                  index.data(), index.size());
  if (crc != head.crc) return stop("step " + std::to_string(head.step) + " is damaged");

  packed::Taker taker(index, file_.path().string());
  PackedStep step;
  step.has_signs = (head.flags & packed::kHasSigns) != 0;
  step.summary = taker.take_text();
  const std::uint64_t first = end_ + sizeof(head) + head.index_bytes;
  for (std::uint32_t i = 0; i < head.parameters; ++i) {
    std::string name(taker.take_text());
    step.signs.insert_or_assign(std::move(name), take_signs(taker, head, first));
  }
  steps_.insert_or_assign(head.step, std::move(step));
  end_ = first + head.sign_bytes;
  return true;
}

const PackedSigns* PackedFile::find(std::int64_t step, std::string_view name) const {
  const auto at = steps_.find(step);
  if (at == steps_.end()) return nullptr;
  const auto signs = at->second.signs.find(name);
  return signs == at->second.signs.end() ? nullptr : &signs->second;
}

void PackedFile::read_bits(const PackedSigns& signs, std::uint64_t first, std::span<std::uint8_t> out) const {
  file_.read(signs.offset + first, out);
}

void PackedFile::check(const PackedSigns& signs, std::string_view name) const {
  constexpr std::size_t kPiece = 256 << 10;
  std::vector<std::uint8_t> piece;
  ContentHash hash;
  const std::uint64_t bytes = stats::sign_bytes(signs.count);
  for (std::uint64_t done = 0; done < bytes; done += piece.size()) {
    piece.resize(std::min<std::uint64_t>(kPiece, bytes - done));
    read_bits(signs, done, piece);
    hash += hash_part(piece.data(), piece.size(), done);
  }
  if (hash != signs.hash) {
    throw FormatError(path().string(), "byte " + std::to_string(signs.offset),
                      "the signs of " + std::string(name) + " are damaged");
  }
}

}  // namespace msprobe::grad_probe
