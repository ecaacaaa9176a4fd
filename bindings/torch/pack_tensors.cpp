// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "pack_tensors.h"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/utils/pybind.h>

#include <array>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "measured_tensors.h"
#include "msprobe/stats.h"
#include "msprobe/torch.h"

namespace py = pybind11;

namespace {

namespace stats = msprobe::stats;

constexpr std::int64_t kPackedElementsForThreads = 1 << 20;  // fewer are done before threads would have begun

// As mindstudio-probe computes them: in float32, or in the type of the tensor.
double rounded(double value, at::ScalarType type) {
  const auto single = static_cast<float>(value);
  if (type == at::ScalarType::Half) return static_cast<float>(static_cast<at::Half>(single));
  if (type == at::ScalarType::BFloat16) return static_cast<float>(static_cast<at::BFloat16>(single));
  return single;
}

// None where there is nothing to say: no elements, NaN alone, or complex ones.
py::object statistics(const stats::Summary& summary, at::ScalarType rounded_to) {
  if (summary.count == 0 || !summary.max || summary.mean_imag) return py::none();
  py::dict result;
  result["max"] = rounded(*summary.max, rounded_to);
  result["min"] = rounded(*summary.min, rounded_to);
  result["mean"] = rounded(*summary.mean, rounded_to);
  result["norm"] = rounded(summary.norm, rounded_to);
  return result;
}

py::dict fingerprint(const at::Tensor& tensor, std::uint32_t crc32) {
  py::dict result;
  result["dtype"] = std::string("torch.") + torch::getTHPDtype(tensor.scalar_type())->name;
  result["shape"] = py::cast(tensor.sizes().vec());
  std::array<char, 9> digits;
  std::snprintf(digits.data(), digits.size(), "%08x", crc32);
  result["crc32"] = digits.data();
  return result;
}

py::list pack_tensors(const py::list& tensors, bool in_float32, unsigned threads) {
  std::vector<std::optional<at::Tensor>> plain;
  std::vector<stats::Request> requests;
  stats::SummaryOptions options;
  options.checksum = stats::SummaryOptions::Checksum::kNative;
  std::int64_t elements = 0;
  for (const py::handle item : tensors) {
    std::optional<at::Tensor>& tensor = plain.emplace_back(tensor_of(item.ptr()));
    try {
      if (!tensor) continue;
      requests.push_back({msprobe::torch_adapter::view_of(*tensor), options});
      elements += tensor->numel();
    } catch (const std::exception&) {
      tensor.reset();  // to be asked alone, which says why
    }
  }
  std::vector<stats::Summary> summaries;
  {
    std::optional<py::gil_scoped_release> no_gil;
    if (elements >= kElementsWithoutGil) no_gil.emplace();
    std::optional<msprobe::ThreadPool> pool;
    if (elements >= kPackedElementsForThreads && threads > 1) pool.emplace(threads);
    summaries = stats::summarize_all(requests, pool ? &*pool : nullptr);
  }
  py::list result;
  auto summary = summaries.begin();
  for (const std::optional<at::Tensor>& tensor : plain) {
    if (!tensor) {
      result.append(py::none());
      continue;
    }
    const at::ScalarType rounded_to = in_float32 ? at::ScalarType::Float : tensor->scalar_type();
    result.append(py::make_tuple(statistics(*summary, rounded_to), fingerprint(*tensor, *summary->crc32)));
    ++summary;
  }
  return result;
}

}  // namespace

void register_pack_tensors(py::module_& m) {
  m.def("pack_tensors", &pack_tensors, py::arg("tensors"), py::kw_only(), py::arg("in_float32"),
        py::arg("threads"));
}
