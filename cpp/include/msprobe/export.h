// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// MSPROBE_API marks what libmsprobe exports; everything else is hidden.
#if defined(__GNUC__)
#define MSPROBE_API __attribute__((visibility("default")))
#else
#define MSPROBE_API
#endif
