// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "core.h"
#include "msprobe/version.h"

PYBIND11_MODULE(_core, m) {
  m.doc() = "Native core: statistics and gradient-probe comparison. Needs no torch.";
  m.attr("__version__") = MSPROBE_VERSION;
#ifdef MSPROBE_BUILT_WITH_TORCH
  m.attr("built_with_torch") = MSPROBE_BUILT_WITH_TORCH;
#else
  m.attr("built_with_torch") = pybind11::none();
#endif
  register_errors(m);
  register_log(m);
  register_stats(m);
  register_metrics(m);
  register_engines(m);
  register_operators(m);
  register_result_error(m);
  register_tensor_file(m);
  register_trace(m);
  register_trace_reader(m);
  register_table(m);
  register_grad_probe(m);
  register_compare(m);
  register_verdict(m);
  register_compare_report(m);
  register_overflow(m);
  register_graph(m);
  register_checkpoint(m);
  register_stack_counter(m);
  register_config(m);
  register_config_check(m);
  register_viewer(m);
  register_rl(m);
  register_monitor(m);
  register_monitor_store(m);
  register_dump(m);
  register_port_grad_probe(m);
}
