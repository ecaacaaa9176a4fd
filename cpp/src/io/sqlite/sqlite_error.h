// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <SQLiteCpp/Exception.h>

namespace msprobe::io {

/// What the operating system would call the reason why a database could not be written, for an IoError.
int error_number_of(const SQLite::Exception& error);

}  // namespace msprobe::io
