// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/tensor_file.h"

#include <filesystem>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "../held.h"
#include "buffer.h"
#include "core.h"
#include "decoded.h"
#include "host_tensor.h"
#include "msprobe/error.h"
#include "msprobe/pt_file.h"

using msprobe::DType;

const char* buffer_format_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return "d";
    case DType::kFloat32: return "f";
    case DType::kFloat16: return "e";
    case DType::kInt64: return "q";
    case DType::kInt32: return "i";
    case DType::kInt16: return "h";
    case DType::kInt8: return "b";
    case DType::kUInt64: return "Q";
    case DType::kUInt32:
    case DType::kComplex32: return "I";
    case DType::kUInt16:
    case DType::kBFloat16: return "H";
    case DType::kBool: return "?";
    case DType::kComplex64: return "Zf";
    case DType::kComplex128: return "Zd";
    default: return "B";  // uint8 and the fp8 kinds
  }
}

namespace {

namespace io = msprobe::io;

void write_pt(const std::filesystem::path& path, const py::buffer& array,
              const std::optional<std::string>& name, bool requires_grad) {
  const BufferTensor tensor(array, "write_pt", dtype_named("write_pt", name));
  const py::gil_scoped_release no_gil;
  io::write_pt(path, tensor.view(), requires_grad);
}

// What Python gets of a file keeps the mapping alive.
struct Tensor {
  std::shared_ptr<io::PtFile> file;
  const io::PtTensor* tensor;
  Held<> state;
};

struct Storage {
  std::shared_ptr<io::PtFile> file;
  const io::PtStorage* storage;
};

struct Name {
  std::string name;
};

struct Object {
  std::string class_name;
  Held<> arguments, keywords, state, items, entries;
};

py::buffer_info buffer_of(const Tensor& self) {
  const io::PtTensor& tensor = *self.tensor;
  const auto item = static_cast<py::ssize_t>(msprobe::element_size(tensor.dtype));
  std::vector<py::ssize_t> strides(tensor.strides.begin(), tensor.strides.end());
  for (py::ssize_t& stride : strides) stride *= item;
  return {const_cast<std::uint8_t*>(tensor.data),
          item,
          buffer_format_of(tensor.dtype),
          static_cast<py::ssize_t>(tensor.shape.size()),
          {tensor.shape.begin(), tensor.shape.end()},
          std::move(strides),
          /*readonly=*/true};
}

py::buffer_info buffer_of(const HostTensor& self) {
  const auto item = static_cast<py::ssize_t>(msprobe::element_size(self.dtype));
  const std::vector<py::ssize_t> shape(self.shape.begin(), self.shape.end());
  std::vector<py::ssize_t> strides(shape.size());
  py::ssize_t step = item;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = self.strides.empty() ? step : static_cast<py::ssize_t>(self.strides[d]) * item;
    step *= shape[d];
  }
  return {const_cast<void*>(self.data),
          item,
          buffer_format_of(self.dtype),
          static_cast<py::ssize_t>(shape.size()),
          shape,
          std::move(strides),
          /*readonly=*/true};
}

HostTensor open_tensor(const std::filesystem::path& path) {
  const py::gil_scoped_release no_gil;
  auto file = std::make_shared<io::TensorFile>(io::TensorFile::open(path));
  const msprobe::TensorView& view = file->view();
  return {file,
          view.data,
          view.dtype,
          {view.shape.begin(), view.shape.end()},
          {view.strides.begin(), view.strides.end()}};
}

py::buffer_info buffer_of(const Storage& self) {
  return {const_cast<std::uint8_t*>(self.storage->data.data()),
          1,
          "B",
          1,
          {static_cast<py::ssize_t>(self.storage->data.size())},
          {1},
          /*readonly=*/true};
}

py::object dtype_text(const std::optional<DType>& dtype) {
  return dtype ? escaped_text(msprobe::dtype_name(*dtype)) : py::none();
}

// Turns values into Python objects, each of them once.
class Conversion {
 public:
  Conversion(std::shared_ptr<io::PtFile> file, const std::string& path, bool check)
      : file_(std::move(file)), path_(path), check_(check) {}

  py::object of(const io::PtValue* value) {
    if (value == nullptr) return py::none();
    const auto known = done_.find(value);
    if (known != done_.end()) return known->second;
    return done_[value] = make(*value);
  }

 private:
  py::object make(const io::PtValue& value) {
    if (const auto* item = value.as<bool>()) return py::bool_(*item);
    if (const auto* item = value.as<std::int64_t>()) return py::int_(*item);
    if (const auto* item = value.as<double>()) return py::float_(*item);
    if (const auto* item = value.as<std::string>()) return escaped_text(*item);
    if (const auto* item = value.as<io::PtBytes>()) return py::bytes(item->bytes);
    if (const auto* item = value.as<io::PtName>()) return py::cast(Name{item->name});
    if (const auto* item = value.as<io::PtList>()) return list(*item);
    if (const auto* item = value.as<io::PtTuple>()) return py::tuple(list({item->items}));
    if (const auto* item = value.as<io::PtDict>()) return dict(*item);
    if (const auto* item = value.as<io::PtStorage>()) return py::cast(Storage{file_, checked(item)});
    if (const auto* item = value.as<io::PtTensor>()) {
      checked(item->storage);
      return py::cast(Tensor{file_, item, of(item->state)});
    }
    if (const auto* item = value.as<io::PtObject>()) return object(*item);
    return py::none();
  }

  // Of an integer that 64 bits do not hold; null for other objects.
  static const io::PtBytes* digits_of(const io::PtObject& object) {
    const auto* const tuple = object.class_name != "builtins.int" || object.arguments == nullptr
                                  ? nullptr
                                  : object.arguments->as<io::PtTuple>();
    return tuple == nullptr || tuple->items.size() != 1 ? nullptr : tuple->items[0]->as<io::PtBytes>();
  }

  py::list list(const io::PtList& items) {
    py::list result;
    for (const io::PtValue* item : items.items) result.append(of(item));
    return result;
  }

  py::dict dict(const io::PtDict& items) {
    py::dict result;
    for (const auto& [key, value] : items.entries) {
      const py::object python_key = of(key);
      if (PyObject_Hash(python_key.ptr()) == -1) {
        PyErr_Clear();
        throw msprobe::FormatError(
            path_, "", "a dict has " + std::string(key->kind()) + " with changeable parts as a key");
      }
      result[python_key] = of(value);
    }
    return result;
  }

  py::object object(const io::PtObject& object) {
    if (const io::PtBytes* digits = digits_of(object)) {
      return py::module_::import("builtins")
          .attr("int")
          .attr("from_bytes")(py::bytes(digits->bytes), "little", py::arg("signed") = true);
    }
    return py::cast(Object{std::string(object.class_name), of(object.arguments), of(object.keywords),
                           of(object.state), list(object.items), dict(object.entries)});
  }

  const io::PtStorage* checked(const io::PtStorage* storage) {
    if (check_ && checked_.insert(storage).second) {
      const py::gil_scoped_release no_gil;
      file_->check(*storage);
    }
    return storage;
  }

  std::shared_ptr<io::PtFile> file_;
  const std::string& path_;
  bool check_;
  std::unordered_map<const io::PtValue*, Held<>> done_;
  std::unordered_set<const io::PtStorage*> checked_;
};

py::object read_pt(const std::filesystem::path& path, bool check) {
  std::shared_ptr<io::PtFile> file;
  {
    const py::gil_scoped_release no_gil;
    file = std::make_shared<io::PtFile>(io::PtFile::open(path));
  }
  return Conversion(file, path.string(), check).of(&file->root());
}

void register_tensor(py::module_& m) {
  const auto get = [](auto io::PtTensor::* field) {
    return [field](const Tensor& self) { return self.tensor->*field; };
  };
  py::class_<Tensor>(m, "PtTensor", py::buffer_protocol(), py::is_final())
      .def_buffer([](Tensor& self) { return buffer_of(self); })
      .def_property_readonly("dtype", [](const Tensor& self) { return dtype_text(self.tensor->dtype); })
      .def_property_readonly("shape",
                             [](const Tensor& self) { return py::tuple(py::cast(self.tensor->shape)); })
      .def_property_readonly("strides",
                             [](const Tensor& self) { return py::tuple(py::cast(self.tensor->strides)); })
      .def_property_readonly("offset", get(&io::PtTensor::offset))
      .def_property_readonly("requires_grad", get(&io::PtTensor::requires_grad))
      .def_property_readonly("conjugate", get(&io::PtTensor::conjugate))
      .def_property_readonly("negative", get(&io::PtTensor::negative))
      .def_property_readonly("class_name",
                             [](const Tensor& self) { return escaped_text(self.tensor->class_name); })
      .def_property_readonly("storage",
                             [](const Tensor& self) { return Storage{self.file, self.tensor->storage}; })
      .def_property_readonly("state", [](const Tensor& self) { return self.state; });
}

}  // namespace

void register_tensor_file(py::module_& m) {
  register_tensor(m);
  py::class_<HostTensor>(m, "HostTensor", py::buffer_protocol(), py::is_final())
      .def_buffer([](HostTensor& self) { return buffer_of(self); })
      .def_property_readonly(
          "dtype", [](const HostTensor& self) { return escaped_text(msprobe::dtype_name(self.dtype)); })
      .def_property_readonly("shape", [](const HostTensor& self) { return py::tuple(py::cast(self.shape)); });
  m.def("open_tensor", &open_tensor, py::arg("path"));
  py::class_<Storage>(m, "PtStorage", py::buffer_protocol(), py::is_final())
      .def_buffer([](Storage& self) { return buffer_of(self); })
      .def_property_readonly("key", [](const Storage& self) { return escaped_text(self.storage->key); })
      .def_property_readonly("location",
                             [](const Storage& self) { return escaped_text(self.storage->location); })
      .def_property_readonly("dtype", [](const Storage& self) { return dtype_text(self.storage->dtype); });
  py::class_<Name>(m, "PtName", py::is_final()).def_property_readonly("name", [](const Name& self) {
    return escaped_text(self.name);
  });
  py::class_<Object>(m, "PtObject", py::is_final())
      .def_property_readonly("class_name", [](const Object& self) { return escaped_text(self.class_name); })
      .def_readonly("arguments", &Object::arguments)
      .def_readonly("keywords", &Object::keywords)
      .def_readonly("state", &Object::state)
      .def_readonly("items", &Object::items)
      .def_readonly("entries", &Object::entries);
  m.def("read_pt", &read_pt, py::arg("path"), py::kw_only(), py::arg("check") = true);
  m.def("write_pt", &write_pt, py::arg("path"), py::arg("array"), py::kw_only(),
        py::arg("dtype") = py::none(), py::arg("requires_grad") = false);
}
