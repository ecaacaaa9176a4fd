// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "msprobe/export.h"

namespace msprobe::device {

/// A GPU by the driver's own interface, loaded at this moment: nothing of CUDA is needed to build this
/// library, or to load it. Compiles the kernel or takes it from the cache, some seconds the first time.
///
/// `compilers`: where NVRTC may be (kernel_binary.h). Streams are those of the device's primary context, as
/// torch and the runtime of CUDA use them. Throws UnsupportedError where the driver, the compiler or the
/// device does not serve.
MSPROBE_API std::unique_ptr<Device> cuda_device(int ordinal, const std::vector<std::string>& compilers);

}  // namespace msprobe::device
