// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "device/host_device.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace msprobe::device {
namespace {

class HostBlock {
 public:
  template <typename T>
  using PerThread = std::array<T, kThreads>;

  HostBlock(Shared& shared, Word number) : shared_(shared), number_(number) {}

  Shared& shared() const { return shared_; }
  Word number() const { return number_; }

  template <typename Step>
  void each(Step step) const {
    for (Word thread = 0; thread < kThreads; ++thread) step(thread);
  }

  void publish() const {}
  Word take_ticket(Word* ticket) const { return (*ticket)++; }
  Long published(const Long* word) const { return *word; }

 private:
  Shared& shared_;
  Word number_;
};

// As if the device were slow: a mark has passed when a later one is made, or when somebody waits for it. Who
// reads nothing before the work of the next step is queued waits for nothing then, and who does is counted.
class LateMark final : public Mark {
 public:
  explicit LateMark(std::shared_ptr<std::atomic<std::uint64_t>> made)
      : made_(std::move(made)), number_(++*made_) {}
  bool has_passed() override { return was_waited_for_ || *made_ > number_; }
  void wait() override { was_waited_for_ = true; }

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> made_;
  std::uint64_t number_;
  std::atomic<bool> was_waited_for_ = false;
};

class HostDevice final : public Device {
 public:
  std::string name() const override { return "processor"; }
  unsigned blocks_at_once() const override { return 16; }
  bool is_capturing(Stream) override { return false; }

  std::shared_ptr<void> memory(Stream, std::size_t bytes) override { return host_memory(bytes); }

  std::shared_ptr<void> host_memory(std::size_t bytes) override {
    const std::shared_ptr<std::byte[]> zeros(new std::byte[bytes]());
    return {zeros, zeros.get()};
  }

  void launch(Stream, const Table& table, unsigned blocks) override {
    const auto shared = std::make_unique<Shared>();
    for (unsigned number = 0; number < blocks; ++number) {
      HostBlock block(*shared, number);
      run_block(block, table);
    }
  }

  void copy_to_host(Stream, void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }

  std::unique_ptr<Mark> mark(Stream) override { return std::make_unique<LateMark>(made_); }

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> made_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace

std::unique_ptr<Device> host_device() { return std::make_unique<HostDevice>(); }

}  // namespace msprobe::device
