// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The yardstick: a read-only sum of memory, as fast as plain vector code gets, with nothing else done.
/// Exported as C functions, so that the Python benchmarks measure against the very same code (ctypes).

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MSPROBE_BENCH_API __attribute__((visibility("default")))
#else
#define MSPROBE_BENCH_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// Sums of `count` elements from `data` on, in eight independent vector accumulators.
MSPROBE_BENCH_API double plain_read_f32(const float* data, size_t count);
MSPROBE_BENCH_API double plain_read_f64(const double* data, size_t count);
MSPROBE_BENCH_API uint64_t plain_read_u64(const uint64_t* data, size_t count);

/// The same for bfloat16, every element widened to float first: what "a sum of the tensor" costs, where
/// plain_read_u64 over the same bytes is what reading the memory costs.
MSPROBE_BENCH_API double plain_read_bf16(const uint16_t* data, size_t count);

/// Sums, as 64-bit integers, of `count` pieces of memory, with `threads` threads that take parts of 1 MiB in
/// turn. The last bytes of a piece, fewer than 8, are left out.
MSPROBE_BENCH_API uint64_t plain_read_all(const void* const* data, const size_t* bytes, size_t count,
                                          unsigned threads);

/// Bytes of one vector register of the instruction set this was compiled for.
MSPROBE_BENCH_API unsigned plain_read_vector_bytes(void);

#ifdef __cplusplus
}
#endif
