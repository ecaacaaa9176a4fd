// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "device/shared_object.h"

#include <dlfcn.h>

#include "msprobe/error.h"

namespace msprobe::device {

SharedObject::SharedObject(std::span<const std::string> names) {
  std::string tried;
  for (const std::string& name : names) {
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      name_ = name;
      return;
    }
    tried += (tried.empty() ? "" : ", ") + name;
  }
  throw UnsupportedError("device: none of these libraries can be loaded: " + tried);
}

void* SharedObject::address_of(const char* name) const {
  void* const address = dlsym(handle_, name);
  if (address == nullptr) throw UnsupportedError("device: " + name_ + " has no function " + name);
  return address;
}

}  // namespace msprobe::device
