// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Included first by every file of the module, so that all see the same type casters.

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

namespace py = pybind11;

void register_errors(py::module_& m);
void register_log(py::module_& m);
void register_stats(py::module_& m);
void register_metrics(py::module_& m);
void register_engines(py::module_& m);
void register_operators(py::module_& m);
void register_result_error(py::module_& m);
void register_tensor_file(py::module_& m);
void register_trace(py::module_& m);
void register_trace_reader(py::module_& m);
void register_table(py::module_& m);
void register_grad_probe(py::module_& m);
void register_compare(py::module_& m);
void register_verdict(py::module_& m);
void register_compare_report(py::module_& m);
void register_overflow(py::module_& m);
void register_graph(py::module_& m);
void register_checkpoint(py::module_& m);
void register_stack_counter(py::module_& m);
void register_config(py::module_& m);
void register_config_check(py::module_& m);
void register_viewer(py::module_& m);
void register_rl(py::module_& m);
void register_monitor(py::module_& m);
void register_monitor_store(py::module_& m);
void register_dump(py::module_& m);
void register_port_grad_probe(py::module_& m);
