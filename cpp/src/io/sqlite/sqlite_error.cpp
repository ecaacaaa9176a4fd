// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/sqlite/sqlite_error.h"

#include <sqlite3.h>

#include <cerrno>

namespace msprobe::io {

int error_number_of(const SQLite::Exception& error) {
  switch (error.getErrorCode()) {
    case SQLITE_FULL: return ENOSPC;
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY: return EACCES;
    case SQLITE_NOMEM: return ENOMEM;
    case SQLITE_TOOBIG: return EFBIG;
    default: return EIO;
  }
}

}  // namespace msprobe::io
