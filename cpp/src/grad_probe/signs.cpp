// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "grad_probe/signs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "grad_probe/direction_file.h"
#include "msprobe/file.h"
#include "msprobe/stats.h"
#include "msprobe/tensor_file.h"

namespace msprobe::grad_probe {
namespace {

constexpr std::uint64_t kLongestHead = 64 << 10;

class NpySigns final : public Signs {
 public:
  explicit NpySigns(const std::filesystem::path& path) : file_(path) {
    head_.resize(std::min(file_.size(), kLongestHead));
    file_.read(0, head_);
    io::NpyHeader header = io::parse_npy_header(head_, file_.size(), path.string());
    if (header.dtype != DType::kBool) throw Incomparable("tensor type is not bool: " + path.string());
    shape_ = std::move(header.shape);
    fortran_order_ = header.fortran_order;
    count_ = header.count;
    data_offset_ = header.data_offset;
  }

  void read(std::int64_t first, std::span<std::uint8_t> out) const override {
    const std::uint64_t from = data_offset_ + static_cast<std::uint64_t>(first);
    const std::size_t known =
        from < head_.size() ? std::min<std::size_t>(out.size(), head_.size() - from) : 0;
    std::copy_n(head_.data() + (known > 0 ? from : 0), known, out.data());
    file_.read(from + known, out.subspan(known));
  }

 private:
  io::InputFile file_;
  std::vector<std::uint8_t> head_;  // of the file: a small one is read at once
  std::uint64_t data_offset_ = 0;
};

class BitSigns final : public Signs {
 public:
  BitSigns(const PackedFile& file, const PackedSigns& signs, std::string_view name)
      : file_(file), signs_(signs), name_(name) {
    shape_ = signs.shape;
    fortran_order_ = signs.fortran_order;
    count_ = signs.count;
  }

  const ContentHash* hash() const noexcept override { return &signs_.hash; }

  void read(std::int64_t first, std::span<std::uint8_t> out) const override {
    if (first == 0)
      file_.check(signs_, name_);  // reading them once more is an eighth of what is done with them
    const auto skipped = static_cast<std::size_t>(first % 8);
    std::vector<std::uint8_t> bits((skipped + out.size() + 7) / 8);
    file_.read_bits(signs_, static_cast<std::uint64_t>(first / 8), bits);
    std::size_t done = skipped == 0 ? out.size() / 8 * 8 : 0;
    expand(std::span(bits).first(done / 8), out.data());
    for (; done < out.size(); ++done) {
      const std::size_t at = skipped + done;
      out[done] = static_cast<std::uint8_t>(bits[at / 8] >> at % 8 & 1);
    }
  }

 private:
  const PackedFile& file_;
  const PackedSigns& signs_;
  std::string name_;
};

}  // namespace

std::unique_ptr<Signs> signs_of_npy(const std::filesystem::path& path) {
  return std::make_unique<NpySigns>(path);
}

std::unique_ptr<Signs> signs_of_packed(const PackedFile& file, const PackedSigns& signs,
                                       std::string_view name) {
  return std::make_unique<BitSigns>(file, signs, name);
}

}  // namespace msprobe::grad_probe
