// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <string>
#include <unordered_map>
#include <vector>

#include "msprobe/dump.h"
#include "msprobe/error.h"
#include "msprobe/torch.h"
#include "msprobe/torch_dump.h"
#include "msprobe/torch_tensors.h"
#include "torch/device_meters.h"
#include "torch/tensor.h"

namespace msprobe::torch_adapter {
namespace {

std::string entry(const at::Tensor& tensor, bool with_requires_grad, const stats::Summary& summary) {
  std::string text = "{";
  if (with_requires_grad) {
    text.append("\"requires_grad\": ").append(tensor.requires_grad() ? "true" : "false").append(", ");
  }
  text.append("\"dtype\": \"torch.")
      .append(dtype_name(*dtype_of(tensor.scalar_type())))
      .append("\", \"shape\": [");
  for (const std::int64_t size : tensor.sizes()) {
    if (text.back() != '[') text += ", ";
    text += std::to_string(size);
  }
  return text.append("], ").append(dump::state_members(summary)).append("}");
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
         why_unreadable(tensor).empty();
}

}  // namespace

std::vector<std::string> state_entries(const std::vector<at::Tensor>& tensors, bool with_requires_grad) {
  stats::SummaryOptions options;
  std::vector<std::string> entries(tensors.size());
  std::unordered_map<std::string, std::vector<std::size_t>> elsewhere;  // by device
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    try {
      if (!is_plain(tensor)) continue;
      if (!is_elsewhere(tensor)) {
        options.checksum = stats::SummaryOptions::Checksum::kNative;
        options.sketch = tensor.dim() > 0;
        entries[i] = entry(tensor, with_requires_grad, summarize(tensor, options));
      } else {
        elsewhere[tensor.device().str()].push_back(i);
      }
    } catch (const std::exception&) {  // of msprobe or of torch: whoever looks at it alone will meet it again
      entries[i].clear();
    }
  }
  for (const auto& [device, indices] : elsewhere) {
    try {
      std::vector<DeviceRequest> requests;
      // A checksum would need all elements on the host; the sketch has a digest.
      options.checksum = stats::SummaryOptions::Checksum::kNone;
      for (const std::size_t i : indices) {
        options.sketch = tensors[i].dim() > 0;
        requests.push_back({resolved(tensors[i]), options});
      }
      const std::vector<stats::Summary> summaries = summarize_on_device(requests);
      for (std::size_t k = 0; k < indices.size(); ++k) {
        entries[indices[k]] = entry(tensors[indices[k]], with_requires_grad, summaries[k]);
      }
    } catch (const std::exception&) {
      for (const std::size_t i : indices) entries[i].clear();
    }
  }
  return entries;
}

}  // namespace msprobe::torch_adapter
