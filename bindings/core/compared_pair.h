// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core.h"
#include "msprobe/step_walk.h"

/// `DumpPair` of Python: a pair of dumps with what was measured of them.
struct ComparedPair {
  msprobe::compare::DumpPair pair;
  std::vector<msprobe::compare::RealMetrics>
      metrics;                                        // empty until measure(), and unless it has the elements
  std::vector<msprobe::metrics::Distance> distances;  // empty until walk()
};

/// A place that was looked at, as a dict: name, distance, at_least, bias, excess, sum.
py::dict judged(const msprobe::compare::Judged& one);
