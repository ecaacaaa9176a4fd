// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <memory>
#include <utility>

#include "base/convert.h"
#include "base/layout.h"
#include "io/file/file_name.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/rl.h"
#include "msprobe/stats.h"
#include "msprobe/tensor_file.h"
#include "trace/json/json_text.h"

namespace msprobe::rl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = 65536;  // elements that are converted at once

// A tensor in C order.
struct Ordered {
  std::string_view name;
  DType dtype;
  std::span<const std::int64_t> shape;
  std::size_t bytes;
  const std::byte* data = nullptr;
  std::unique_ptr<std::byte[]> copy;  // of one that is not in this order

  explicit Ordered(const NamedTensor& tensor)
      : name(tensor.name), dtype(tensor.view.dtype), shape(tensor.view.shape) {
    const Layout layout(tensor.view, false);
    const auto count = static_cast<std::size_t>(layout.count());
    bytes = count * element_size(dtype);
    if (count == 0) return;
    if (layout.contiguous()) {
      data = layout.at(0);
    } else {
      copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
      layout.gather(0, count, copy.get());
      data = copy.get();
    }
  }

  TensorView view() const { return {data, dtype, shape, {}}; }
};

// What NumPy has for a dtype: itself, or one that holds all of its values.
DType numpy_dtype(DType dtype) {
  if (dtype == DType::kComplex32) return DType::kComplex64;
  const bool is_known = dtype == DType::kFloat16 || element_size(dtype) >= 4 || !is_floating(dtype);
  return is_known ? dtype : DType::kFloat32;
}

void write_npy(const fs::path& path, const Ordered& tensor) {
  const DType dtype = numpy_dtype(tensor.dtype);
  io::AtomicFile file(path);
  file.write(io::npy_header(dtype, false, tensor.shape));
  if (dtype == tensor.dtype) {
    file.write(tensor.data, tensor.bytes);
  } else {
    const std::size_t floats = dtype == DType::kComplex64 ? 2 : 1;  // of an element
    const std::size_t item = element_size(tensor.dtype);
    std::vector<float> converted(kPiece * floats);
    for (std::size_t at = 0; at < tensor.bytes; at += kPiece * item) {
      const std::size_t count = std::min(kPiece, (tensor.bytes - at) / item);
      convert_to_float(tensor.data + at, tensor.dtype, count, converted.data());
      file.write(converted.data(), count * floats * sizeof(float));
    }
  }
  file.commit();
}

// A member as json.dump(indent=4) writes it.
void append_member(std::string& json, const std::string& indent, std::string_view name,
                   std::optional<double> value, bool in_float32) {
  json += indent + '"';
  json.append(name).append("\": ");
  if (value) {
    // mindstudio-probe's statistics are in float32.
    trace::append_json_real(json, in_float32 ? static_cast<double>(static_cast<float>(*value)) : *value);
  } else {
    json += "null";
  }
  json += ",\n";
}

void append_statistics(std::string& json, const std::string& outer, const Ordered& tensor) {
  const stats::Summary summary = stats::summarize(tensor.view());
  const std::string indent = outer + "    ";
  const bool in_float32 = tensor.dtype != DType::kFloat64 && tensor.dtype != DType::kComplex128;
  json += "{\n";
  append_member(json, indent, "max", summary.max, in_float32);
  append_member(json, indent, "min", summary.min, in_float32);
  append_member(json, indent, "mean", summary.mean, in_float32);
  append_member(json, indent, "norm", summary.norm, in_float32);
  json += indent + "\"shape\": [";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    json += (i > 0 ? ",\n" : "\n") + indent + "    " + std::to_string(tensor.shape[i]);
  }
  json += (tensor.shape.empty() ? "]\n" : "\n" + indent + "]\n") + outer + "}";
}

std::string json_of(Value::Form form, const std::vector<Ordered>& tensors) {
  std::string json = "{\n    \"data\": ";
  if (form == Value::Form::kTensor) {
    append_statistics(json, "    ", tensors.front());
    return json + "\n}";
  }
  const bool is_list = form == Value::Form::kList;
  json += is_list ? '[' : '{';
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    json += i > 0 ? ",\n        " : "\n        ";
    if (!is_list) {
      trace::append_json_string(json, tensors[i].name);
      json += ": ";
    }
    append_statistics(json, "        ", tensors[i]);
  }
  if (!tensors.empty()) json += "\n    ";
  json += is_list ? "]\n}" : "}\n}";
  return json;
}

}  // namespace

Writer::Writer(fs::path dump_path) : dump_path_(std::move(dump_path)) {
  io::make_directories(dump_path_);
  if (::access(dump_path_.c_str(), W_OK | X_OK) != 0) {
    throw IoError("cannot write into the directory", dump_path_.string(), errno);
  }
}

void Writer::save(const Value& value) const {
  fs::path folder = dump_path_ / "data" / io::file_name_of(value.key) /
                    ("step" + std::to_string(value.step)) / ("rank" + std::to_string(value.rank));
  if (value.micro_step) folder /= "micro_step" + std::to_string(*value.micro_step);
  io::make_directories(folder);
  std::vector<Ordered> tensors;
  tensors.reserve(value.tensors.size());
  for (const NamedTensor& tensor : value.tensors) tensors.emplace_back(tensor);
  for (const Ordered& tensor : tensors) {
    std::string stem(value.key);
    if (!tensor.name.empty()) stem.append(".").append(tensor.name);
    write_npy(folder / io::file_name_of(stem, ".npy"), tensor);
  }
  // Last: all is there.
  io::write_file(folder / io::file_name_of(value.key, ".json"), json_of(value.form, tensors));
}

}  // namespace msprobe::rl
