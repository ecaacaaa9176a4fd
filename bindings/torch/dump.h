// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

/// First the options, which a session takes.
void register_dump_options(pybind11::module_& m);
void register_dump(pybind11::module_& m);
