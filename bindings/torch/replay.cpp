// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "replay.h"

#include <ATen/Functions.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/pt_file.h"
#include "msprobe/replay.h"
#include "msprobe/tensor_file.h"
#include "msprobe/torch.h"

namespace py = pybind11;

namespace {

namespace io = msprobe::io;

// An expanded tensor has more elements than its file has bytes: whoever runs on it needs memory for all.
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;

void check_count(std::int64_t count, const std::filesystem::path& path) {
  if (count > kMostElements) {
    throw msprobe::UnsupportedError(path.string() + ": the tensor has " + std::to_string(count) +
                                    " elements, expected at most 2^31");
  }
}

// Copies the memory from the first to the last element, so that the strides stay as they were recorded.
at::Tensor load_pt(const std::filesystem::path& path) {
  const io::PtTensorFile file = io::read_pt_tensor(path);
  const io::PtTensor& saved = file.tensor();
  const msprobe::TensorView view = saved.view();
  const std::int64_t count = msprobe::element_count(view);
  check_count(count, path);
  std::int64_t span = count == 0 ? 0 : 1;
  for (std::size_t i = 0; count > 0 && i < saved.shape.size(); ++i) {
    span += (saved.shape[i] - 1) * saved.strides[i];
  }
  const auto options = at::TensorOptions(msprobe::torch_adapter::scalar_type_of(saved.dtype));
  at::Tensor memory = at::empty({span}, options);
  if (span > 0) {
    const std::size_t bytes = static_cast<std::size_t>(span) * msprobe::element_size(saved.dtype);
    std::copy_n(saved.data, bytes, static_cast<std::uint8_t*>(memory.mutable_data_ptr()));
  }
  at::Tensor tensor = memory.as_strided(saved.shape, saved.strides);
  if (saved.conjugate) tensor = tensor.conj().resolve_conj();
  return saved.negative ? -tensor : tensor;
}

at::Tensor load_npy(const std::filesystem::path& path) {
  const io::InputFile file(path);
  const io::NpyHeader header = io::read_npy_header(path);
  check_count(header.count, path);
  std::vector<std::int64_t> shape = header.shape;
  if (header.fortran_order) std::reverse(shape.begin(), shape.end());
  const auto options = at::TensorOptions(msprobe::torch_adapter::scalar_type_of(header.dtype));
  at::Tensor tensor = at::empty(shape, options);
  if (header.count > 0) {
    const std::size_t bytes = static_cast<std::size_t>(header.count) * msprobe::element_size(header.dtype);
    file.read(header.data_offset, {static_cast<std::uint8_t*>(tensor.mutable_data_ptr()), bytes});
  }
  if (!header.fortran_order) return tensor;
  std::vector<std::int64_t> reversed;
  for (auto i = static_cast<std::int64_t>(shape.size()); i-- > 0;) reversed.push_back(i);
  return tensor.permute(reversed);
}

at::Tensor load_tensor(const std::filesystem::path& path) {
  const py::gil_scoped_release no_gil;
  const at::AutoDispatchBelowAutograd no_grad;
  if (path.extension() == ".npy") return load_npy(path);
  if (path.extension() == ".pt") return load_pt(path);
  throw msprobe::UnsupportedError(path.string() + ": expected a file of a tensor, .pt or .npy");
}

at::Tensor draw(const std::vector<std::int64_t>& shape, double min, double max, std::optional<double> mean,
                std::optional<double> norm, std::uint64_t seed) {
  const py::gil_scoped_release no_gil;
  at::Tensor tensor = at::empty(shape, at::TensorOptions(at::ScalarType::Double));
  msprobe::replay::draw({min, max, mean, norm}, seed,
                        {tensor.mutable_data_ptr<double>(), static_cast<std::size_t>(tensor.numel())});
  return tensor;
}

}  // namespace

void register_replay(py::module_& m) {
  m.def("load_tensor", &load_tensor, py::arg("path"));
  m.def("draw", &draw, py::arg("shape"), py::kw_only(), py::arg("min"), py::arg("max"),
        py::arg("mean") = py::none(), py::arg("norm") = py::none(), py::arg("seed") = 0);
}
