// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "device/device.h"
#include "msprobe/export.h"

namespace msprobe::device {

/// The processor in the place of a device, for tests: the same kernel, compiled by the same compiler as this
/// library, and nothing later than when it is queued. Its marks pass late all the same, so that tests see who
/// would wait for a device.
MSPROBE_API std::unique_ptr<Device> host_device();

}  // namespace msprobe::device
