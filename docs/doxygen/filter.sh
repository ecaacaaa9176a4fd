#!/bin/sh
# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
#
# What Doxygen reads of a header: the first comment is that of the file, and one behind a declaration belongs to it.
exec sed -E -e '0,/^\/\/\/ /s//\/\/\/ \\file\n\/\/\/ /' -e 's@^( +[^/ ].*[;,{]|  k[A-Za-z0-9]+) +// @\1 ///< @' "$1"
