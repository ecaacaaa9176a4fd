// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "msprobe/torch_monitor.h"

/// The meter as Python has it.
using SharedMeter = std::shared_ptr<msprobe::torch_adapter::TensorMeter>;

void register_monitor(pybind11::module_& m);
void register_monitor_modules(pybind11::module_& m);
