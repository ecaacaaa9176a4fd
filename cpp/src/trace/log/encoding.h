// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The bytes of events and elements (docs/formats/trace_log.md). Little endian, unaligned inside an event.

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "msprobe/error.h"

namespace msprobe::trace {

inline constexpr std::string_view kLogMagic = "MSPROBE\x02";  // the last byte is the version
inline constexpr std::size_t kLogHeaderBytes = 64;
inline constexpr std::size_t kEventAlignment = 8;

/// Each event: u32 length of all of it (0: no event yet), u8 type, 3 bytes 0, then its fields, then zeros up
/// to a multiple of 8. The length is written last.
struct EventHead {
  std::uint32_t length;
  std::uint8_t type;
  std::uint8_t zeros[3];
};
static_assert(sizeof(EventHead) == 8);

enum class EventType : std::uint8_t { kRecord = 1, kPart, kFill, kConstruct, kStack, kHeader };

enum class Tag : std::uint8_t {
  kNull,
  kFalse,
  kTrue,
  kInteger,
  kBigInteger,
  kReal,
  kText,
  kComplex,
  kTensor,
  kTypedText,
  kTypedReal,
  kTypedInteger,
  kTypedBoolean,
  kSlice,
  kSize,
  kPlainText,
  kPlainInteger,
  kList,
  kObject,
  kKey,
  kEnd,
  kSlot
};

// Flags of a tensor.
inline constexpr std::uint8_t kRequiresGrad = 1;
inline constexpr std::uint8_t kWideShape = 2;  // extents as i64 instead of u32
inline constexpr std::uint8_t kHasChecksum = 4;
inline constexpr std::uint8_t kHasDataName = 8;
inline constexpr std::uint8_t kNonFinite = 16;  // counts of NaN and Inf follow
inline constexpr std::uint8_t kNumpy = 32;
inline constexpr std::uint8_t kHasPlacement = 64;
inline constexpr std::uint8_t kHasSketch = 128;
inline constexpr std::uint8_t kOtherDtype = 255;

// Flags of a framework.
inline constexpr std::uint8_t kQualifiesDtypes = 1;
inline constexpr std::uint8_t kHasRequiresGrad = 2;
inline constexpr std::uint8_t kHasRecompute = 4;

template <typename T>
void put(std::string& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

inline void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out.append(text);
}

inline void put_optional(std::string& out, std::optional<std::string_view> text) {
  put(out, static_cast<std::uint8_t>(text.has_value()));
  put_text(out, text.value_or(std::string_view()));
}

/// Reads what put() wrote. Every read is checked: logs of killed processes and hostile files come this way.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : rest_(bytes) {}
  bool empty() const noexcept { return rest_.empty(); }

  template <typename T>
  T take() {
    need(sizeof(T));
    T value;
    // Bytes, not text.
    std::memcpy(&value, rest_.data(), sizeof(T));  // NOLINT(bugprone-suspicious-stringview-data-usage)
    rest_.remove_prefix(sizeof(T));
    return value;
  }

  std::string_view take_text() { return take_bytes(take<std::uint32_t>()); }

  std::string_view take_bytes(std::size_t count) {
    need(count);
    const std::string_view result = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return result;
  }

  std::string_view rest() const noexcept { return rest_; }

 private:
  void need(std::size_t count) const {
    if (rest_.size() < count) throw FormatError("trace log", "", "an event ends too early");
  }
  std::string_view rest_;
};

}  // namespace msprobe::trace
