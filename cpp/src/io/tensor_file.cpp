// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/tensor_file.h"

#include <functional>
#include <utility>

#include "io/file/mapped_file.h"
#include "msprobe/pt_file.h"

namespace msprobe::io {

struct TensorFile::State {
  std::filesystem::path path;
  std::optional<PtTensorFile> pt;
  std::optional<MappedFile> npy;
  NpyHeader header;
  std::vector<std::int64_t> strides;
  TensorView view;
  std::span<const std::uint8_t> file;  // as it is mapped
  std::optional<std::uint32_t> checksum;

  explicit State(std::filesystem::path path_) : path(std::move(path_)) {
    if (path.extension() == ".npy") {
      map_npy();
    } else {
      pt.emplace(open_pt_tensor(path));
      view = pt->view();
      file = pt->memory();
      checksum = pt->checksum();
    }
  }

 private:
  void map_npy() {
    npy.emplace(path);
    file = npy->bytes();
    header = parse_npy_header(file, file.size(), path.string());
    strides.resize(header.shape.size());
    std::int64_t step = 1;
    for (std::size_t i = 0; i < strides.size(); ++i) {
      const std::size_t axis = header.fortran_order ? i : strides.size() - 1 - i;
      strides[axis] = step;
      step *= header.shape[axis];
    }
    view = {file.data() + header.data_offset, header.dtype, header.shape, strides};
  }
};

TensorFile::TensorFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
TensorFile::TensorFile(TensorFile&&) noexcept = default;
TensorFile& TensorFile::operator=(TensorFile&&) noexcept = default;
TensorFile::~TensorFile() = default;

TensorFile TensorFile::open(const std::filesystem::path& path) {
  return TensorFile(std::make_unique<State>(path));
}

const TensorView& TensorFile::view() const noexcept { return state_->view; }
const std::filesystem::path& TensorFile::path() const noexcept { return state_->path; }

std::span<const std::uint8_t> TensorFile::storage() const noexcept {
  return state_->pt ? state_->pt->storage() : state_->file;
}

std::optional<std::uint32_t> TensorFile::checksum() const noexcept { return state_->checksum; }

std::optional<std::uint64_t> TensorFile::offset() const noexcept {
  const std::span<const std::uint8_t> file = state_->file;
  const auto* const data = static_cast<const std::uint8_t*>(state_->view.data);
  const std::less_equal<> before;
  if (!before(file.data(), data) || !before(data, file.data() + file.size())) return std::nullopt;
  return static_cast<std::uint64_t>(data - file.data());
}

}  // namespace msprobe::io
