// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which devices have the kernel (cpp/src/device), and which have torch's operators alone.

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <string>

#include "device/meter.h"
#include "msprobe/torch.h"
#include "msprobe/torch_tensors.h"

namespace msprobe::torch_adapter {

/// The kernel of a device; null: its tensors are measured by operators. The first call for a device may take
/// some seconds, until the kernel is compiled.
device::Meter* meter_of(c10::Device device);

/// As the driver knows it; null for the default one.
device::Stream native_stream(c10::Stream stream);

/// The stream that work on a tensor is queued on at this moment.
c10::Stream current_stream(c10::Device device);

/// Queues the copies of what the kernel has found, on all devices; before results are fetched. Waits for
/// nothing.
void collect_results();

}  // namespace msprobe::torch_adapter
