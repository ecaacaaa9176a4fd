// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include "../grad_probe_options.h"
#include "core.h"
#include "msprobe/grad_probe.h"
#include "port_tensor.h"

namespace {

namespace grad_probe = msprobe::grad_probe;

// Gradients of a framework behind a port, in the files of the gradient probe.
class GradWriter {
 public:
  explicit GradWriter(grad_probe::Options options) : writer_(std::move(options)) {}

  // named: a parameter's name, and what the port says of its gradient. One without memory is left out.
  void record(std::int64_t step, const std::vector<std::pair<std::string, py::object>>& named) {
    std::vector<PortTensor> tensors;
    tensors.reserve(named.size());
    std::vector<grad_probe::Gradient> gradients;
    for (const auto& [name, view] : named) {
      const PortTensor& tensor = tensors.emplace_back(view);
      const auto dtype = msprobe::dtype_named(tensor.dtype);
      if (tensor.address && dtype) gradients.push_back({name, tensor.view(*dtype)});
    }
    const py::gil_scoped_release no_gil;
    writer_.record(step, grad_probe::measure(gradients, writer_.options(), &pool_, writer_.spare()));
  }

  std::int64_t flush() {
    const py::gil_scoped_release no_gil;
    return writer_.flush();
  }

 private:
  grad_probe::Writer writer_;
  msprobe::ThreadPool pool_{0};
};

}  // namespace

void register_port_grad_probe(py::module_& m) {
  py::class_<GradWriter>(m, "GradWriter", py::is_final())
      .def(py::init([](std::filesystem::path dump_path, int rank, const std::string& level,
                       const GradBounds& bounds, const std::string& layout) {
             return std::make_unique<GradWriter>(
                 grad_probe_options(std::move(dump_path), rank, level, bounds, layout));
           }),
           py::arg("dump_path"), py::kw_only(), py::arg("rank") = 0, py::arg("level") = "L1",
           py::arg("bounds") = GradBounds(), py::arg("layout") = "npy")
      .def("record", &GradWriter::record, py::arg("step"), py::arg("views"))
      .def("flush", &GradWriter::flush);
}
