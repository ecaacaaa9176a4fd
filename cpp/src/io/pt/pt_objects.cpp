// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/pt/pt_objects.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/layout.h"
#include "io/in_quotes.h"
#include "io/pt/pt_names.h"

namespace msprobe::io {

// The arguments of one call, by position and type.
class PtObjects::Arguments {
 public:
  Arguments(std::string_view function, const PtTuple& tuple) : function_(function), items_(tuple.items) {}

  std::size_t size() const noexcept { return items_.size(); }
  const PtValue& operator[](std::size_t i) const { return *items_[i]; }

  template <typename T>
  const T& at(std::size_t i, const char* expected) const {
    const auto* const value = i < items_.size() ? items_[i]->as<T>() : nullptr;
    if (value == nullptr) fail(i, std::string("expected ") + expected);
    return *value;
  }

  std::vector<std::int64_t> integers(std::size_t i) const {
    const auto& tuple = at<PtTuple>(i, "a tuple of integers");
    if (tuple.items.size() > Layout::kMaxRank) fail(i, "expected at most 64 dimensions");
    std::vector<std::int64_t> values;
    for (const PtValue* item : tuple.items) {
      const auto* const value = item->as<std::int64_t>();
      if (value == nullptr || *value < 0) fail(i, "expected integers that are 0 or more");
      values.push_back(*value);
    }
    return values;
  }

  [[noreturn]] void fail(std::size_t i, const std::string& problem) const {
    throw PickleError{std::string(function_) + ": argument " + std::to_string(i) + ": " + problem +
                      (i < items_.size() ? ", found " + std::string(items_[i]->kind()) : ", found none")};
  }
  [[noreturn]] void fail(const std::string& problem) const {
    throw PickleError{std::string(function_) + ": " + problem};
  }

 private:
  std::string_view function_;
  const std::vector<const PtValue*>& items_;
};

struct PtObjects::Function {
  std::string_view name;
  PtValue* (PtObjects::*make)(const Arguments&);
};

namespace {

constexpr std::size_t kElementAlignment = 16;  // of the largest element, complex128

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// The dtype that a name such as "torch.float32" stands for.
std::optional<DType> torch_dtype(const PtValue& value) {
  constexpr std::string_view kModule = "torch.";
  const auto* const name = value.as<PtName>();
  if (name == nullptr || !name->name.starts_with(kModule)) return std::nullopt;
  return dtype_named(std::string_view(name->name).substr(kModule.size()));
}

// Elements from the first to the last of a tensor in memory, 0 for an empty one; nullopt where a number does
// not fit. Also refuses a shape whose bytes do not fit, even where memory is shared by many elements.
std::optional<std::int64_t> reach(const PtTensor& tensor) {
  auto bytes = static_cast<std::int64_t>(element_size(tensor.dtype));
  std::int64_t last = 0;
  bool empty = false;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const std::int64_t extent = tensor.shape[d];
    empty |= extent == 0;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes)) return std::nullopt;
    std::int64_t step = 0;
    if (empty || extent == 1) continue;
    if (__builtin_mul_overflow(extent - 1, tensor.strides[d], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return std::nullopt;
    }
  }
  if (empty) return 0;
  return __builtin_add_overflow(last, std::int64_t{1}, &last) ? std::nullopt : std::optional(last);
}

// Sets `data` of a tensor whose other fields are there.
void place(PtTensor& tensor, const PtObjects::Arguments& arguments) {
  if (tensor.shape.size() != tensor.strides.size()) {
    arguments.fail("expected as many strides as extents (" + std::to_string(tensor.shape.size()) +
                   "), found " + std::to_string(tensor.strides.size()));
  }
  const std::optional<std::int64_t> elements = reach(tensor);
  if (!elements) arguments.fail("the shape or the strides are too large for any memory");
  const std::span<const std::uint8_t> data = tensor.storage->data;
  tensor.data = data.data();
  if (*elements == 0) return;
  const auto available = static_cast<std::int64_t>(data.size() / element_size(tensor.dtype));
  if (*elements > available || tensor.offset > available - *elements) {
    arguments.fail("the tensor needs elements " + std::to_string(tensor.offset) + " to " +
                   std::to_string(tensor.offset) + " + " + std::to_string(*elements - 1) + " of storage " +
                   in_quotes(tensor.storage->key) + ", which has " + std::to_string(available));
  }
  tensor.data += static_cast<std::size_t>(tensor.offset) * element_size(tensor.dtype);
}

// {"conj": True, "neg": True}: the bits of lazy views. What else stands there (None, or a number for the
// memory of an NPU) says nothing about the values.
void set_bits(PtTensor& tensor, const PtObjects::Arguments& arguments, std::size_t i) {
  const auto* const metadata = i < arguments.size() ? arguments[i].as<PtDict>() : nullptr;
  if (metadata == nullptr) return;
  const auto is_set = [&](std::string_view key) {
    const PtValue* const value = metadata->find(key);
    const bool* const bit = value == nullptr ? nullptr : value->as<bool>();
    return bit != nullptr && *bit;
  };
  tensor.conjugate = is_set("conj");
  tensor.negative = is_set("neg");
}

// What all ways to rebuild a tensor begin with: storage, offset, shape, strides. nullopt for a kind of
// storage that persistent() did not know.
std::optional<PtTensor> first_four(const PtObjects::Arguments& arguments) {
  if (arguments.size() > 0 && arguments[0].as<PtObject>() != nullptr) return std::nullopt;
  PtTensor tensor;
  tensor.storage = &arguments.at<PtStorage>(0, "a storage");
  tensor.offset = arguments.at<std::int64_t>(1, "an integer");
  if (tensor.offset < 0) arguments.fail(1, "the offset of a tensor must be 0 or more");
  tensor.shape = arguments.integers(2);
  tensor.strides = arguments.integers(3);
  return tensor;
}

// As first_four(), with the dtype of the storage.
std::optional<PtTensor> of_typed_storage(const PtObjects::Arguments& arguments) {
  std::optional<PtTensor> tensor = first_four(arguments);
  if (!tensor) return tensor;
  if (!tensor->storage->dtype) arguments.fail("expected a storage with a dtype, found an untyped one");
  tensor->dtype = *tensor->storage->dtype;
  return tensor;
}

}  // namespace

const PtObjects::Function* PtObjects::find(std::string_view name) {
  static constexpr Function kFunctions[] = {
      {"torch._utils._rebuild_tensor", &PtObjects::rebuild_tensor},
      {"torch._utils._rebuild_tensor_v2", &PtObjects::rebuild_tensor_v2},
      {"torch._utils._rebuild_tensor_v3", &PtObjects::rebuild_tensor_v3},
      // As v2, and then something about the memory of the device.
      {"torch_npu.utils.storage._rebuild_npu_tensor", &PtObjects::rebuild_tensor_v2},
      {"torch._utils._rebuild_device_tensor_from_cpu_tensor", &PtObjects::rebuild_device_tensor},
      {"torch._utils._rebuild_parameter", &PtObjects::rebuild_parameter},
      {"torch._utils._rebuild_parameter_with_state", &PtObjects::rebuild_parameter},
      {"torch._tensor._rebuild_from_type", &PtObjects::rebuild_from_type},
      {"torch._tensor._rebuild_from_type_v2", &PtObjects::rebuild_from_type},
      {"torch.Size", &PtObjects::size},
      {"collections.OrderedDict", &PtObjects::ordered_dict},
      {"collections.defaultdict", &PtObjects::default_dict},
      {"_codecs.encode", &PtObjects::encode},
      {"builtins.bytes", &PtObjects::bytes},
      {"builtins.bytearray", &PtObjects::bytes},
  };
  const auto* const found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                         [name](const Function& f) { return f.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

PtValue* PtObjects::call(std::string_view name, const PtTuple& arguments) {
  const Function* const function = find(name);
  if (function == nullptr) return nullptr;
  constexpr int kMostNesting = 8;
  if (nesting_ == kMostNesting) throw PickleError{"calls are nested too deep"};
  ++nesting_;
  PtValue* const made = (this->*function->make)(Arguments(name, arguments));
  --nesting_;
  return made;
}

// ("storage", class, key, location, number of elements)
// Before torch 1.6 also ("module", class, file, source code of the class), which stands for the class.
PtValue* PtObjects::persistent(const PtValue& id) {
  const auto* const tuple = id.as<PtTuple>();
  if (tuple == nullptr) throw PickleError{"expected a tuple that names a storage"};
  const Arguments arguments("the name of a storage", *tuple);
  if (arguments.at<std::string>(0, "\"storage\"") == "module") {
    return values_.add(arguments.at<PtName>(1, "a class"));
  }
  if (arguments.at<std::string>(0, "\"storage\"") != "storage") arguments.fail(0, "expected \"storage\"");
  const std::string_view class_name = arguments.at<PtName>(1, "a class").name;
  const std::string_view key = arguments.at<std::string>(2, "a text");
  const std::string_view location = arguments.at<std::string>(3, "a text");
  const std::int64_t elements = arguments.at<std::int64_t>(4, "an integer");

  PtValue*& storage = storages_[{class_name, key}];
  if (storage != nullptr) return storage;
  const std::optional<DType> dtype = dtype_of_storage_class(last_part(class_name));
  if (!class_name.starts_with("torch") || (!dtype && last_part(class_name) != "UntypedStorage")) {
    PtObject object;
    object.class_name = class_name;
    object.arguments = &id;
    return storage = values_.add_boxed(std::move(object));
  }
  const std::span<const std::uint8_t> data = data_of(key);
  const std::size_t size = dtype ? element_size(*dtype) : 1;
  if (elements < 0 || data.size() % size != 0 || data.size() / size != static_cast<std::uint64_t>(elements)) {
    arguments.fail("storage " + in_quotes(key) + " should have " + std::to_string(elements) +
                   " elements of " + std::to_string(size) + " bytes, found " + std::to_string(data.size()) +
                   " bytes of data");
  }
  return storage = values_.add_boxed(PtStorage{key, location, dtype, data});
}

std::span<const std::uint8_t> PtObjects::data_of(std::string_view key) {
  const auto known = data_.find(key);
  if (known != data_.end()) return known->second;
  const auto found = find_data_(key);
  if (!found) throw PickleError{"storage " + in_quotes(key) + " has no data in the file"};
  std::span<const std::uint8_t> data = *found;
  if (copy_unaligned_ && reinterpret_cast<std::uintptr_t>(data.data()) % kElementAlignment != 0 &&
      !data.empty()) {
    auto& copy = copies_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(data.size()));
    std::memcpy(copy.get(), data.data(), data.size());
    data = {reinterpret_cast<const std::uint8_t*>(copy.get()), data.size()};
  }
  return data_[key] = data;
}

PtValue* PtObjects::add_tensor(PtTensor tensor) {
  const std::size_t bytes = 2 * sizeof(std::int64_t) * tensor.shape.size();
  return values_.add_boxed(std::move(tensor), bytes);
}

// (storage, offset, shape, strides)
PtValue* PtObjects::rebuild_tensor(const Arguments& arguments) {
  std::optional<PtTensor> tensor = of_typed_storage(arguments);
  if (!tensor) return nullptr;
  place(*tensor, arguments);
  return add_tensor(std::move(*tensor));
}

// (storage, offset, shape, strides, requires_grad, hooks, [metadata])
PtValue* PtObjects::rebuild_tensor_v2(const Arguments& arguments) {
  std::optional<PtTensor> tensor = of_typed_storage(arguments);
  if (!tensor) return nullptr;
  tensor->requires_grad = arguments.at<bool>(4, "a bool");
  set_bits(*tensor, arguments, 6);
  place(*tensor, arguments);
  return add_tensor(std::move(*tensor));
}

// (storage, offset, shape, strides, requires_grad, hooks, dtype, [metadata])
PtValue* PtObjects::rebuild_tensor_v3(const Arguments& arguments) {
  std::optional<PtTensor> tensor = first_four(arguments);
  if (!tensor) return nullptr;
  tensor->requires_grad = arguments.at<bool>(4, "a bool");
  arguments.at<PtName>(6, "a dtype");
  const std::optional<DType> dtype = torch_dtype(arguments[6]);
  if (!dtype) return nullptr;
  tensor->dtype = *dtype;
  set_bits(*tensor, arguments, 7);
  place(*tensor, arguments);
  return add_tensor(std::move(*tensor));
}

// (tensor in the memory of the host, dtype, device, requires_grad)
PtValue* PtObjects::rebuild_device_tensor(const Arguments& arguments) {
  if (arguments.size() > 0 && arguments[0].as<PtTensor>() == nullptr) return nullptr;
  PtTensor tensor = arguments.at<PtTensor>(0, "a tensor");
  tensor.requires_grad = arguments.at<bool>(3, "a bool");
  return torch_dtype(arguments[1]) == tensor.dtype ? add_tensor(std::move(tensor)) : nullptr;
}

// (tensor, requires_grad, hooks, [state])
PtValue* PtObjects::rebuild_parameter(const Arguments& arguments) {
  if (arguments.size() > 0 && arguments[0].as<PtObject>() != nullptr) return nullptr;
  PtTensor tensor = arguments.at<PtTensor>(0, "a tensor");
  tensor.requires_grad = arguments.at<bool>(1, "a bool");
  tensor.class_name = "torch.nn.parameter.Parameter";
  if (arguments.size() > 3) tensor.state = &arguments[3];
  return add_tensor(std::move(tensor));
}

// (function, class, arguments of the function, state)
PtValue* PtObjects::rebuild_from_type(const Arguments& arguments) {
  const PtName& function = arguments.at<PtName>(0, "a function");
  const PtName& class_name = arguments.at<PtName>(1, "a class");
  const PtTuple& inner = arguments.at<PtTuple>(2, "a tuple");
  const PtValue* const made = call(function.name, inner);
  if (made == nullptr || made->as<PtTensor>() == nullptr) return nullptr;
  PtTensor tensor = *made->as<PtTensor>();
  tensor.class_name = class_name.name;
  if (arguments.size() > 3) tensor.state = &arguments[3];
  return add_tensor(std::move(tensor));
}

// () or, of old, ([[key, value], ...])
PtValue* PtObjects::ordered_dict(const Arguments& arguments) {
  PtDict dict;
  if (arguments.size() > 0) {
    for (const PtValue* pair : arguments.at<PtList>(0, "a list of pairs").items) {
      const auto* const list = pair->as<PtList>();
      const auto* const tuple = pair->as<PtTuple>();
      if (list == nullptr && tuple == nullptr) arguments.fail(0, "expected a list of pairs");
      const auto& items = list != nullptr ? list->items : tuple->items;
      if (items.size() != 2) arguments.fail(0, "expected pairs of a key and a value");
      dict.entries.emplace_back(items[0], items[1]);
    }
  }
  const std::size_t bytes = dict.entries.size() * sizeof(dict.entries[0]);
  return values_.add_boxed(std::move(dict), 2 * bytes);
}

// (function for missing keys); the items are set later
PtValue* PtObjects::default_dict(const Arguments& arguments) {
  if (arguments.size() > 1) return nullptr;
  return values_.add_boxed(PtDict{});
}

PtValue* PtObjects::size(const Arguments& arguments) {
  PtTuple copy = arguments.at<PtTuple>(0, "a tuple");
  const std::size_t bytes = copy.items.size() * sizeof(const PtValue*);
  return values_.add(std::move(copy), bytes);
}

// (text, "latin1"): how protocol 2 writes bytes
PtValue* PtObjects::encode(const Arguments& arguments) {
  const auto& text = arguments.at<std::string>(0, "a text");
  if (const auto& encoding = arguments.at<std::string>(1, "\"latin1\"");
      encoding != "latin1" && encoding != "latin-1") {
    return nullptr;
  }
  values_.charge(text.size());
  PtBytes result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    if (byte < 0x80) {
      result.bytes += text[i];
      continue;
    }
    // Two bytes of UTF-8 hold the characters from 80 to FF: 110000xx 10xxxxxx.
    const auto next = i + 1 < text.size() ? static_cast<std::uint8_t>(text[i + 1]) : std::uint8_t{0};
    if ((byte & 0xFC) != 0xC0 || (next & 0xC0) != 0x80) {
      arguments.fail("expected characters below 256, as bytes are written");
    }
    result.bytes += static_cast<char>(byte << 6 | (next & 0x3F));
    ++i;
  }
  return values_.add(std::move(result));
}

// () or (bytes), or (text, "latin-1") for a bytearray
PtValue* PtObjects::bytes(const Arguments& arguments) {
  if (arguments.size() == 0) return values_.add(PtBytes{});
  if (arguments.size() == 2) return encode(arguments);
  PtBytes copy = arguments.at<PtBytes>(0, "bytes");
  const std::size_t size = copy.bytes.size();
  return values_.add(std::move(copy), size);
}

}  // namespace msprobe::io
