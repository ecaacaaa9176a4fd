// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

/// Whether this thread captures a CUDA graph: what the training calls is written down, and computes nothing,
/// so that it is no part of a step that could be recorded. Says so once in a process. Costs some nanoseconds
/// where no CUDA device is in use, and never makes torch begin to use one. Needs the GIL.
bool captures_graph();

void register_graph_capture(pybind11::module_& m);
