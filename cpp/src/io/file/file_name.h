// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace msprobe::io {

/// A name of any text (of a parameter, a key) as the name of one file or folder, ending in `ending`; other
/// names give other ones. Characters that cannot stand there ('/', '%', control characters) become %XX, and
/// so do the dots of "." and ".." alone; an empty name becomes "%". A name too long for the file system is
/// cut and gets a hash.
std::string file_name_of(std::string_view name, std::string_view ending = {});

}  // namespace msprobe::io
