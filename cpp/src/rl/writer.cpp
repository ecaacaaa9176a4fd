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
#include "io/file/write_queue.h"
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

// A copy of a tensor, in C order.
struct Copy {
  std::string name;
  DType dtype;
  Shape shape;
  std::size_t bytes;
  std::unique_ptr<std::byte[]> data;

  explicit Copy(const NamedTensor& tensor)
      : name(tensor.name),
        dtype(tensor.view.dtype),
        shape(tensor.view.shape.begin(), tensor.view.shape.end()) {
    const Layout layout(tensor.view, false);
    const auto count = static_cast<std::size_t>(layout.count());
    bytes = count * element_size(dtype);
    data = std::make_unique_for_overwrite<std::byte[]>(bytes);  // a training waits: no memory is filled twice
    if (count == 0) return;
    if (layout.contiguous()) {
      std::copy_n(layout.at(0), bytes, data.get());
    } else {
      layout.gather(0, count, data.get());
    }
  }

  TensorView view() const { return {data.get(), dtype, shape, {}}; }
};

// What NumPy has for a dtype: itself, or one that holds all of its values.
DType numpy_dtype(DType dtype) {
  if (dtype == DType::kComplex32) return DType::kComplex64;
  const bool is_known = dtype == DType::kFloat16 || element_size(dtype) >= 4 || !is_floating(dtype);
  return is_known ? dtype : DType::kFloat32;
}

void write_npy(const fs::path& path, const Copy& tensor) {
  const DType dtype = numpy_dtype(tensor.dtype);
  io::AtomicFile file(path);
  file.write(io::npy_header(dtype, false, tensor.shape));
  if (dtype == tensor.dtype) {
    file.write(tensor.data.get(), tensor.bytes);
  } else {
    const std::size_t floats = dtype == DType::kComplex64 ? 2 : 1;  // of an element
    const std::size_t item = element_size(tensor.dtype);
    std::vector<float> converted(kPiece * floats);
    for (std::size_t at = 0; at < tensor.bytes; at += kPiece * item) {
      const std::size_t count = std::min(kPiece, (tensor.bytes - at) / item);
      convert_to_float(tensor.data.get() + at, tensor.dtype, count, converted.data());
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

void append_statistics(std::string& json, const std::string& outer, const Copy& tensor) {
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

std::string json_of(Value::Form form, const std::vector<Copy>& tensors) {
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

// A value on its way to the disk.
struct Waiting {
  fs::path folder;
  std::string key;
  Value::Form form;
  std::vector<Copy> tensors;

  void write() const {
    io::make_directories(folder);
    for (const Copy& tensor : tensors) {
      const std::string stem = tensor.name.empty() ? key : key + "." + tensor.name;
      write_npy(folder / io::file_name_of(stem, ".npy"), tensor);
    }
    io::write_file(folder / io::file_name_of(key, ".json"), json_of(form, tensors));  // last: all is there
  }
};

}  // namespace

struct Writer::State {
  State(fs::path dump_path_, std::size_t buffer_bytes)
      : dump_path(std::move(dump_path_)), queue("RL key data", buffer_bytes) {}

  const fs::path dump_path;
  io::WriteQueue queue;
};

Writer::Writer(fs::path dump_path, std::size_t buffer_bytes) {
  io::make_directories(dump_path);
  if (::access(dump_path.c_str(), W_OK | X_OK) != 0) {
    throw IoError("cannot write into the directory", dump_path.string(), errno);
  }
  state_ = std::make_unique<State>(std::move(dump_path), buffer_bytes);
}

Writer::~Writer() = default;

void Writer::save(const Value& value) {
  auto waiting = std::make_shared<Waiting>();
  waiting->folder = state_->dump_path / "data" / io::file_name_of(value.key) /
                    ("step" + std::to_string(value.step)) / ("rank" + std::to_string(value.rank));
  if (value.micro_step) waiting->folder /= "micro_step" + std::to_string(*value.micro_step);
  waiting->key = value.key;
  waiting->form = value.form;
  std::size_t bytes = 0;
  for (const NamedTensor& tensor : value.tensors) {
    waiting->tensors.emplace_back(tensor);
    bytes += waiting->tensors.back().bytes;
  }
  state_->queue.add(bytes, [waiting = std::move(waiting)] { waiting->write(); });
}

std::int64_t Writer::flush() { return state_->queue.flush(); }

}  // namespace msprobe::rl
