// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "device/to_host.h"

#include "msprobe/error.h"

namespace msprobe::device {

void ToHost::empty(Buffer& buffer, const Take& take) {
  if (!buffer.mark) return;
  waits_->wait_for(*buffer.mark);
  buffer.mark.reset();
  take(static_cast<const std::byte*>(buffer.memory.get()), buffer.bytes);
}

void ToHost::bring(Device& device, Stream stream, const std::function<void(const Add&)>& pieces,
                   const Take& take) {
  if (device.is_capturing(stream)) throw UnsupportedError("copy: the stream is captured into a graph");
  const std::lock_guard lock(mutex_);
  for (Buffer& buffer : buffers_) {
    buffer.mark.reset();  // of one that ended in an error
    if (!buffer.memory) buffer.memory = device.host_memory(kBytes);
  }
  std::size_t turn = 0;
  pieces([&](const void* from, std::size_t bytes) {
    if (bytes > kBytes) throw InvalidArgument("copy: a piece is larger than a buffer");
    Buffer& buffer = buffers_[turn];
    turn = 1 - turn;
    empty(buffer, take);
    device.copy_to_host(stream, buffer.memory.get(), from, bytes);
    buffer.mark = device.mark(stream);
    buffer.bytes = bytes;
  });
  empty(buffers_[turn], take);  // the older one
  empty(buffers_[1 - turn], take);
}

}  // namespace msprobe::device
