// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What some versions of torch lack: the only file that asks for the version.

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/version.h>

#include <optional>

#include "msprobe/tensor_view.h"

#define MSPROBE_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace msprobe::torch_adapter {

/// Of the types that came after torch 2.1; nullopt: another one.
inline std::optional<DType> newer_dtype_of(at::ScalarType type) noexcept {
  switch (type) {
#if MSPROBE_TORCH_AT_LEAST(2, 2)
    case at::ScalarType::Float8_e4m3fnuz: return DType::kFloat8E4M3FNUZ;
    case at::ScalarType::Float8_e5m2fnuz: return DType::kFloat8E5M2FNUZ;
#endif
#if MSPROBE_TORCH_AT_LEAST(2, 3)
    case at::ScalarType::UInt64: return DType::kUInt64;
    case at::ScalarType::UInt32: return DType::kUInt32;
    case at::ScalarType::UInt16: return DType::kUInt16;
#endif
#if MSPROBE_TORCH_AT_LEAST(2, 7)
    case at::ScalarType::Float8_e8m0fnu: return DType::kFloat8E8M0FNU;
#endif
    default: return std::nullopt;
  }
}

/// Before 2.11 torch does not tell which stream of a driver a stream of its own is.
inline constexpr bool kTellsStreams = MSPROBE_TORCH_AT_LEAST(2, 11);

/// The stream as the driver knows it; null where torch does not tell.
inline void* native_handle([[maybe_unused]] c10::Stream stream) {
#if MSPROBE_TORCH_AT_LEAST(2, 11)
  return c10::impl::VirtualGuardImpl(stream.device_type()).getStreamNativeHandle(stream);
#else
  return nullptr;
#endif
}

/// Before 2.12 torch tells Python alone whether a stream is captured.
inline constexpr bool kTellsCapture = MSPROBE_TORCH_AT_LEAST(2, 12);

/// Whether the current stream of a device is captured, as far as torch tells.
inline bool stream_captures([[maybe_unused]] c10::Device device) {
#if MSPROBE_TORCH_AT_LEAST(2, 12)
  const c10::impl::VirtualGuardImpl guard(device.type());
  return guard.isStreamCapturing(guard.getStream(device));
#else
  return false;
#endif
}

/// Whether the next question for an active mode of torch functions is answered "no", on this thread. False:
/// torch cannot be told to (before 2.13).
inline bool skip_next_question([[maybe_unused]] bool on) {
#if MSPROBE_TORCH_AT_LEAST(2, 13)
  at::impl::PythonTorchFunctionTLS::exchange_skip_next(on);
  return true;
#else
  return false;
#endif
}

}  // namespace msprobe::torch_adapter

#undef MSPROBE_TORCH_AT_LEAST
