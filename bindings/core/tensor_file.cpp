// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "buffer.h"
#include "core.h"
#include "msprobe/error.h"
#include "msprobe/pt_file.h"

namespace {

namespace io = msprobe::io;
using msprobe::DType;

std::optional<DType> dtype_from(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  const std::optional<DType> dtype = msprobe::dtype_named(*name);
  if (!dtype) throw msprobe::InvalidArgument("write_pt: there is no dtype \"" + *name + '"');
  return dtype;
}

void write_pt(const std::filesystem::path& path, const py::buffer& array,
              const std::optional<std::string>& dtype, bool requires_grad) {
  const BufferTensor tensor(array, "write_pt", dtype_from(dtype));
  const py::gil_scoped_release no_gil;
  io::write_pt(path, tensor.view(), requires_grad);
}

}  // namespace

void register_tensor_file(py::module_& m) {
  m.def("write_pt", &write_pt, py::arg("path"), py::arg("array"), py::kw_only(),
        py::arg("dtype") = py::none(), py::arg("requires_grad") = false);
}
