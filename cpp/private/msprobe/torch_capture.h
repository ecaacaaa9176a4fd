// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include "msprobe/export.h"

namespace msprobe::torch_adapter {

/// Whether the current stream of a device is captured into a graph (torch.cuda.graph): what is launched there
/// is written down, and run later. Nothing of ours may then be launched, waited for or allocated on that
/// device. Never of a CPU. Thread-safe.
MSPROBE_API bool is_captured(c10::Device device);

/// Who answers in torch's place: for tests, and with torch before 2.12, which tells it to Python alone.
/// nullptr: torch itself.
using CaptureQuestion = bool (*)(c10::Device device);
MSPROBE_API void set_capture_question(CaptureQuestion question);

}  // namespace msprobe::torch_adapter
