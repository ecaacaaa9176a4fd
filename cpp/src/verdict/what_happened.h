// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How a tensor is told that goes into a call and is another one: by which name, and what became of it on its
/// way. It decides nothing.

#include "verdict/calls.h"
#include "verdict/findings.h"

namespace msprobe::verdict {

/// Of `row`, that has the value of the item `source` of the reference, and of `ours` of the target; kNoItem:
/// nobody has its value there. Changes name, record, kind and reason of the finding.
void tell_what_happened(const Calls& calls, const ItemPair& row, ItemIndex source, ItemIndex ours,
                        Finding& finding);

}  // namespace msprobe::verdict
