// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_device.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "device/kernel_binary.h"
#include "device/shared_object.h"
#include "msprobe/error.h"

namespace msprobe::device {
namespace {

// As cuda.h declares them. 0 is success.
using Code = int;
using Context = void*;
using Module = void*;
using Function = void*;
using Event = void*;
using Address = unsigned long long;

constexpr int kMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_*
constexpr int kMajor = 75;
constexpr int kMinor = 76;
constexpr int kSharedPerMultiprocessor = 81;
constexpr unsigned kNoTiming = 2;           // CU_EVENT_DISABLE_TIMING
constexpr unsigned kPortableAndMapped = 3;  // CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
constexpr int kRelaxed = 2;                 // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr Code kNotReady = 600;             // CUDA_ERROR_NOT_READY
constexpr Code kImplicitCapture = 906;      // CUDA_ERROR_STREAM_CAPTURE_IMPLICIT

struct Driver {
  Driver() : library(std::array{std::string("libcuda.so.1")}) {
    library.find("cuInit", init);
    library.find("cuGetErrorString", error_string);
    library.find("cuDeviceGet", device);
    library.find("cuDeviceGetName", device_name);
    library.find("cuDeviceGetAttribute", attribute);
    library.find("cuDevicePrimaryCtxRetain", retain);
    library.find("cuCtxPushCurrent_v2", push);
    library.find("cuCtxPopCurrent_v2", pop);
    library.find("cuModuleLoadData", load);
    library.find("cuModuleGetFunction", function);
    library.find("cuLaunchKernel", launch);
    library.find("cuMemAlloc_v2", allocate);
    library.find("cuMemFree_v2", release);
    library.find("cuMemsetD8Async", fill);
    library.find("cuMemHostAlloc", allocate_host);
    library.find("cuMemFreeHost", release_host);
    library.find("cuMemcpyDtoHAsync_v2", copy_to_host);
    library.find("cuEventCreate", create_event);
    library.find("cuEventDestroy_v2", destroy_event);
    library.find("cuEventRecord", record);
    library.find("cuEventQuery", query);
    library.find("cuEventSynchronize", wait);
    library.find("cuStreamIsCapturing", is_capturing);
    library.find("cuThreadExchangeStreamCaptureMode", exchange_capture_mode);
    check(init(0), "its start");
  }

  void check(Code code, const char* what) const {
    if (code == 0) return;
    const char* text = nullptr;
    error_string(code, &text);
    throw UnsupportedError(std::string("device: CUDA: ") + what + ": " +
                           (text != nullptr ? text : "error " + std::to_string(code)));
  }

  SharedObject library;
  Code (*init)(unsigned) = nullptr;
  Code (*error_string)(Code, const char**) = nullptr;
  Code (*device)(int*, int) = nullptr;
  Code (*device_name)(char*, int, int) = nullptr;
  Code (*attribute)(int*, int, int) = nullptr;
  Code (*retain)(Context*, int) = nullptr;
  Code (*push)(Context) = nullptr;
  Code (*pop)(Context*) = nullptr;
  Code (*load)(Module*, const void*) = nullptr;
  Code (*function)(Function*, Module, const char*) = nullptr;
  Code (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
                 void**, void**) = nullptr;
  Code (*allocate)(Address*, std::size_t) = nullptr;
  Code (*release)(Address) = nullptr;
  Code (*fill)(Address, unsigned char, std::size_t, Stream) = nullptr;
  Code (*allocate_host)(void**, std::size_t, unsigned) = nullptr;
  Code (*release_host)(void*) = nullptr;
  Code (*copy_to_host)(void*, Address, std::size_t, Stream) = nullptr;
  Code (*create_event)(Event*, unsigned) = nullptr;
  Code (*destroy_event)(Event) = nullptr;
  Code (*record)(Event, Stream) = nullptr;
  Code (*query)(Event) = nullptr;
  Code (*wait)(Event) = nullptr;
  Code (*is_capturing)(Stream, int*) = nullptr;
  Code (*exchange_capture_mode)(int*) = nullptr;
};

const Driver& driver() {
  static const Driver loaded;
  return loaded;
}

// Makes a context the thread's own for a moment. While another stream is captured, calls that wait for
// nothing there are allowed to this thread, as torch's own allocator allows them to itself.
class Inside {
 public:
  explicit Inside(Context context) {
    driver().check(driver().push(context), "its context");
    driver().exchange_capture_mode(&mode_);
  }
  ~Inside() {  // NOLINT(bugprone-exception-escape): the driver was loaded by the constructor
    driver().exchange_capture_mode(&mode_);
    Context popped = nullptr;
    driver().pop(&popped);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  int mode_ = kRelaxed;
};

// Gives something back; where the process ends, and the driver with it, there is nothing to give it to.
template <typename Release>
void give_back(Context context, Release release) {
  if (driver().push(context) != 0) return;
  release();
  Context popped = nullptr;
  driver().pop(&popped);
}

class CudaMark final : public Mark {
 public:
  CudaMark(Context context, Stream stream) : context_(context) {
    const Inside inside(context_);
    driver().check(driver().create_event(&event_, kNoTiming), "an event");
    driver().check(driver().record(event_, stream), "an event");
  }
  // NOLINTNEXTLINE(bugprone-exception-escape): the driver was loaded by the constructor
  ~CudaMark() override {
    give_back(context_, [this] { driver().destroy_event(event_); });
  }
  CudaMark(const CudaMark&) = delete;
  CudaMark& operator=(const CudaMark&) = delete;

  bool has_passed() override {
    const Inside inside(context_);
    const Code code = driver().query(event_);
    if (code == kNotReady) return false;
    driver().check(code, "an event");
    return true;
  }

  void wait() override {
    const Inside inside(context_);
    driver().check(driver().wait(event_), "an event");
  }

 private:
  Context context_;
  Event event_ = nullptr;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, const std::vector<std::string>& compilers) {
    const Driver& cuda = driver();
    cuda.check(cuda.device(&device_, ordinal), "the device");
    std::array<char, 256> name{};
    cuda.check(cuda.device_name(name.data(), static_cast<int>(name.size()) - 1, device_),
               "the device's name");
    name_ = name.data();
    const int architecture = 10 * attribute(kMajor) + attribute(kMinor);
    const auto shared = static_cast<std::size_t>(attribute(kSharedPerMultiprocessor));
    blocks_ = static_cast<unsigned>(attribute(kMultiprocessors)) * (shared >= 2 * sizeof(Shared) ? 2 : 1);
    const std::string binary = kernel_binary(Compiler(compilers), architecture, kernel_folder());
    cuda.check(cuda.retain(&context_, device_), "its context");
    const Inside inside(context_);
    Module module = nullptr;
    cuda.check(cuda.load(&module, binary.data()), "the kernel");
    cuda.check(cuda.function(&kernel_, module, "msprobe_measure"), "the kernel");
  }

  std::string name() const override { return name_; }
  unsigned blocks_at_once() const override { return blocks_; }

  bool is_capturing(Stream stream) override {
    const Inside inside(context_);
    int status = 0;
    const Code code = driver().is_capturing(stream, &status);
    if (code == kImplicitCapture) return true;  // the default stream, while another one is captured
    driver().check(code, "a stream");
    return status != 0;
  }

  std::shared_ptr<void> memory(Stream stream, std::size_t bytes) override {
    const Inside inside(context_);
    Address address = 0;
    driver().check(driver().allocate(&address, bytes), "memory of the device");
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver has addresses as integers
    std::shared_ptr<void> owned(reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)),
                                [context = context_](void* memory) {
                                  give_back(context, [memory] { driver().release(address_of(memory)); });
                                });
    driver().check(driver().fill(address, 0, bytes, stream), "memory of the device");
    return owned;
  }

  std::shared_ptr<void> host_memory(std::size_t bytes) override {
    const Inside inside(context_);
    void* memory = nullptr;
    driver().check(driver().allocate_host(&memory, bytes, kPortableAndMapped), "memory of the host");
    return {memory, [context = context_](void* owned) {
              give_back(context, [owned] { driver().release_host(owned); });
            }};
  }

  void launch(Stream stream, const Table& table, unsigned blocks) override {
    const Inside inside(context_);
    std::array<void*, 1> arguments{const_cast<Table*>(&table)};
    driver().check(
        driver().launch(kernel_, blocks, 1, 1, kThreads, 1, 1, 0, stream, arguments.data(), nullptr),
        "the kernel");
  }

  void copy_to_host(Stream stream, void* to, const void* from, std::size_t bytes) override {
    const Inside inside(context_);
    driver().check(driver().copy_to_host(to, address_of(from), bytes, stream), "a copy to the host");
  }

  std::unique_ptr<Mark> mark(Stream stream) override { return std::make_unique<CudaMark>(context_, stream); }

 private:
  static Address address_of(const void* memory) {
    return static_cast<Address>(reinterpret_cast<std::uintptr_t>(memory));
  }

  int attribute(int which) const {
    int value = 0;
    driver().check(driver().attribute(&value, which, device_), "the device");
    return value;
  }

  int device_ = 0;
  std::string name_;
  unsigned blocks_ = 0;
  Context context_ = nullptr;
  Function kernel_ = nullptr;
};

}  // namespace

std::unique_ptr<Device> cuda_device(int ordinal, const std::vector<std::string>& compilers) {
  return std::make_unique<CudaDevice>(ordinal, compilers);
}

}  // namespace msprobe::device
