// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Whether what a call of a model returned can still lead to something, without keeping it alive.

#include <pybind11/pybind11.h>

void register_results_watch(pybind11::module_& m);
