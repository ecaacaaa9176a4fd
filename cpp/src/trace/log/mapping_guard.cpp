// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/log/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace msprobe::trace {
namespace {

struct Guarded {
  std::atomic<bool> taken{false};
  std::atomic<std::uintptr_t> base{0};
  std::atomic<std::size_t> bytes{0};  // 0: not in use
  std::atomic<bool> needed{false};
};

std::array<Guarded, 256> guarded;
struct sigaction handler_before{};
std::atomic<bool> is_handed_on{false};
std::uintptr_t page_bytes = 4096;

// Nothing but what a handler may do: no memory, no lock.
bool replace_page(std::uintptr_t address) {
  for (Guarded& one : guarded) {
    const std::size_t bytes = one.bytes.load(std::memory_order_acquire);
    const std::uintptr_t base = one.base.load(std::memory_order_relaxed);
    if (bytes == 0 || address < base || address >= base + bytes) continue;
    void* const page = reinterpret_cast<void*>(address / page_bytes * page_bytes);  // NOLINT: an address
    if (::mmap(page, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED) {
      return false;
    }
    one.needed.store(true, std::memory_order_relaxed);
    return true;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool is_done = replace_page(reinterpret_cast<std::uintptr_t>(info->si_addr));
  errno = error;
  if (is_done) return;
  // A handler that hands on to the one before it may have come back to this one.
  const bool is_default = (handler_before.sa_flags & SA_SIGINFO) == 0 &&
                          (handler_before.sa_handler == SIG_DFL || handler_before.sa_handler == SIG_IGN);
  if (is_default || is_handed_on.exchange(true)) {
    ::signal(signal, SIG_DFL);  // the instruction is tried again, and ends the process
  } else if ((handler_before.sa_flags & SA_SIGINFO) != 0) {
    handler_before.sa_sigaction(signal, info, context);
  } else {
    handler_before.sa_handler(signal);
  }
}

void install_handler() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction now{};
  if (::sigaction(SIGBUS, nullptr, &now) != 0) return;
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_bus_error) return;
  handler_before = now;
  struct sigaction ours{};
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&ours.sa_mask);
  ::sigaction(SIGBUS, &ours, nullptr);
}

}  // namespace

MappingGuard::MappingGuard(char* base, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < guarded.size(); ++i) {
    if (guarded[i].taken.exchange(true)) continue;
    guarded[i].needed.store(false);
    guarded[i].base.store(reinterpret_cast<std::uintptr_t>(base));
    guarded[i].bytes.store(bytes, std::memory_order_release);
    slot_ = static_cast<int>(i);
    install_handler();
    return;
  }
}

MappingGuard::~MappingGuard() {
  if (slot_ < 0) return;
  Guarded& own = guarded[static_cast<std::size_t>(slot_)];
  own.bytes.store(0);
  own.taken.store(false);
}

bool was_cut(std::string_view mapped) noexcept {
  const char* const base = mapped.data();
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  for (const Guarded& one : guarded) {
    if (one.bytes.load(std::memory_order_acquire) == 0 || one.base.load() != address) continue;
    static_cast<void>(*static_cast<const volatile char*>(base));
    return one.needed.load();
  }
  return false;
}

}  // namespace msprobe::trace
