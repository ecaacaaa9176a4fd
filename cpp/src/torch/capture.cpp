// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "msprobe/torch_capture.h"
#include "msprobe/torch_versions.h"

namespace msprobe::torch_adapter {
namespace {

std::atomic<CaptureQuestion> question_in_place{nullptr};

}  // namespace

bool is_captured(c10::Device device) {
  if (const CaptureQuestion question = question_in_place.load(std::memory_order_relaxed))
    return question(device);
  if (device.is_cpu()) return false;
  return stream_captures(device);
}

void set_capture_question(CaptureQuestion question) { question_in_place = question; }

}  // namespace msprobe::torch_adapter
