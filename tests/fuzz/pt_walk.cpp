// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "pt_walk.h"

#include <algorithm>
#include <functional>

#include "fuzz_target.h"
#include "io/pt/pickle.h"

namespace msprobe::fuzz {
namespace {

using io::PtDict;
using io::PtObject;
using io::PtStorage;
using io::PtTensor;
using io::PtValue;

volatile unsigned touched = 0;

class Walk {
 public:
  explicit Walk(std::uint64_t most) : left_(most) {}

  void into(const PtValue* value, int depth) {
    if (value == nullptr) return;
    promise(depth <= io::kPtDepth, "no path is longer than kPtDepth");
    promise(left_-- > 0, "a walk ends");
    promise(!value->kind().empty(), "a value has a kind");
    if (const auto* list = value->as<io::PtList>()) {
      for (const PtValue* item : list->items) into(item, depth + 1);
    } else if (const auto* tuple = value->as<io::PtTuple>()) {
      for (const PtValue* item : tuple->items) into(item, depth + 1);
    } else if (const auto* dict = value->as<PtDict>()) {
      into_dict(*dict, depth);
    } else if (const auto* tensor = value->as<PtTensor>()) {
      check(*tensor);
      into(tensor->state, depth + 1);
    } else if (const auto* storage = value->as<PtStorage>()) {
      touch(storage->data.data(), storage->data.size());
    } else if (const auto* object = value->as<PtObject>()) {
      promise(!object->class_name.empty() || object->class_name.data() != nullptr, "an object has a class");
      into(object->arguments, depth + 1);
      into(object->keywords, depth + 1);
      into(object->state, depth + 1);
      for (const PtValue* item : object->items.items) into(item, depth + 1);
      into_dict(object->entries, depth);
    }
  }

 private:
  void into_dict(const PtDict& dict, int depth) {
    promise(dict.find("no such key") == nullptr || !dict.entries.empty(), "an empty dict has no entries");
    for (const auto& [key, value] : dict.entries) {
      into(key, depth + 1);
      into(value, depth + 1);
    }
    into(dict.attributes, depth + 1);
  }

  static void touch(const std::uint8_t* data, std::size_t size) {
    if (size > 0) touched = touched + data[0] + data[size - 1];
  }

  static void check(const PtTensor& tensor) {
    promise(tensor.storage != nullptr, "a tensor has a storage");
    promise(tensor.shape.size() == tensor.strides.size(), "as many strides as extents");
    const auto item = static_cast<std::int64_t>(element_size(tensor.dtype));
    std::int64_t last = 0;
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      if (tensor.shape[d] == 0) return;
      promise(tensor.shape[d] > 0 && tensor.strides[d] >= 0, "extents and strides are not negative");
      last += (tensor.shape[d] - 1) * tensor.strides[d];
    }
    const std::less_equal<const std::uint8_t*> not_behind;
    const std::uint8_t* const begin = tensor.storage->data.data();
    promise(not_behind(begin, tensor.data) && static_cast<std::uint64_t>(tensor.data - begin) +
                                                      static_cast<std::uint64_t>((last + 1) * item) <=
                                                  tensor.storage->data.size(),
            "every element lies within the storage");
    promise(element_count(tensor.view()) > 0, "a tensor that is not empty has elements");
    touch(tensor.data, static_cast<std::size_t>((last + 1) * item));
  }

  std::uint64_t left_;
};

}  // namespace

void walk(const PtValue& root, std::size_t description_bytes) {
  Walk(io::most_steps(description_bytes)).into(&root, 1);
}

}  // namespace msprobe::fuzz
