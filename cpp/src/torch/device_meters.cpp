// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/device_meters.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "device/cuda_device.h"
#include "device/host_device.h"
#include "msprobe/error.h"
#include "msprobe/torch_tensors.h"
#include "msprobe/torch_versions.h"

namespace msprobe::torch_adapter {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): set by tests
std::atomic<DeviceWay> chosen_way{DeviceWay::kNone};

// The folder that torch was loaded from. Its builds for CUDA have a library there that needs NVRTC, and knows
// where it is.
std::filesystem::path folder_of_torch() {
  Dl_info found{};
  const auto* const known = reinterpret_cast<const void*>(&at::get_num_threads);
  if (dladdr(known, &found) == 0 || found.dli_fname == nullptr) return {};
  return std::filesystem::path(found.dli_fname).parent_path();
}

std::vector<std::string> compilers() {
  return {(folder_of_torch() / "libcaffe2_nvrtc.so").string(), "libnvrtc.so.13", "libnvrtc.so.12",
          "libnvrtc.so.11.2", "libnvrtc.so"};
}

// One device, with its kernel or the reason why it has none. Never destroyed: results may outlive main().
struct Known {
  std::unique_ptr<device::Meter> meter;
  std::string name;
  std::string reason;
};

Known made(c10::Device of) {
  Known known;
  try {
    std::unique_ptr<device::Device> found;
    if (of.is_cpu()) {
      found = device::host_device();
    } else if (!kTellsStreams) {
      throw UnsupportedError("the kernel needs torch 2.11, which tells the streams that it uses");
    } else if (of.is_cuda()) {
      found = device::cuda_device(of.index(), compilers());
    } else {
      throw UnsupportedError("there is no kernel for devices of the kind " +
                             c10::DeviceTypeName(of.type(), /*lower_case=*/true));
    }
    known.name = found->name();
    known.meter = std::make_unique<device::Meter>(std::move(found));
  } catch (const std::exception& e) {
    known.reason = e.what();
  }
  return known;
}

struct AllKnown {
  std::mutex mutex;
  std::map<std::pair<c10::DeviceType, c10::DeviceIndex>, Known> devices;
};

AllKnown& all_known() {
  static auto& all = *new AllKnown();
  return all;
}

const Known& known(c10::Device of) {
  AllKnown& all = all_known();
  const std::lock_guard lock(all.mutex);
  const std::pair key(of.type(), of.has_index() ? of.index() : c10::DeviceIndex{0});
  const auto found = all.devices.find(key);
  if (found != all.devices.end()) return found->second;
  return all.devices.emplace(key, made(of)).first->second;
}

}  // namespace

void set_device_way(DeviceWay way) noexcept { chosen_way = way; }

bool is_elsewhere(const at::Tensor& tensor) { return !tensor.is_cpu() || chosen_way != DeviceWay::kNone; }

device::Meter* meter_of(c10::Device of) {
  const DeviceWay way = chosen_way;
  if (way == DeviceWay::kOperators || (of.is_cpu() && way != DeviceWay::kKernel)) return nullptr;
  return known(of).meter.get();
}

std::string way_of(c10::Device of) {
  if (chosen_way == DeviceWay::kOperators) return "operators of torch, as was asked for";
  const Known& found = known(of);
  return found.meter ? "kernel: " + found.name : "operators of torch: " + found.reason;
}

void collect_results() {
  AllKnown& all = all_known();
  const std::lock_guard lock(all.mutex);
  for (const auto& [key, one] : all.devices) {
    if (one.meter) one.meter->collect();
  }
}

c10::Stream current_stream(c10::Device of) { return c10::impl::VirtualGuardImpl(of.type()).getStream(of); }

device::Stream native_stream(c10::Stream stream) {
  if (stream.device_type() == c10::DeviceType::CPU) return nullptr;
  return native_handle(stream);
}

std::array<std::size_t, 3> kernel_work(c10::Device of) {
  device::Meter* const meter = meter_of(of);
  if (meter == nullptr) return {};
  const device::Meter::Work work = meter->work();
  return {work.launches, work.tensors, work.waits};
}

}  // namespace msprobe::torch_adapter
