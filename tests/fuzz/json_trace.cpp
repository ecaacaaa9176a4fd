// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>

#include "fuzz_target.h"
#include "io/utf8.h"
#include "msprobe/trace_reader.h"

using namespace msprobe::fuzz;
using msprobe::trace::Item;
using msprobe::trace::Record;
using msprobe::trace::Scalar;
using msprobe::trace::Trace;

namespace {

void check_text(std::string_view text) {
  promise(msprobe::io::find_invalid_utf8(text) == std::string_view::npos, "every text is UTF-8");
}

void check_scalar(const Trace& trace, const Scalar& scalar) {
  check_text(trace.text(scalar));
  const bool is_number = scalar.kind == Scalar::Kind::kInteger || scalar.kind == Scalar::Kind::kFloat;
  promise(trace.number(scalar).has_value() == is_number, "numbers, and nothing else, have a value");
}

void check_item(const Trace& trace, const Item& item) {
  for (const auto text : {item.path, item.type, item.dtype, item.shape, item.md5, item.data_name}) {
    check_text(trace.text(text));
  }
  for (const Scalar& scalar : {item.max, item.min, item.mean, item.norm, item.value})
    check_scalar(trace, scalar);
  promise((item.kind == Item::Kind::kTensor) == (item.dtype.length > 0), "a tensor is what has a dtype");
  promise(item.kind != Item::Kind::kNull || item.type.length == 0, "null has no type");
}

bool same(const Trace& target, const Item& a, const Trace& reference, const Item& b) {
  const auto same_scalar = [&](const Scalar& x, const Scalar& y) {
    return x.kind == y.kind && target.text(x) == reference.text(y);
  };
  const auto same_text = [&](msprobe::trace::Text x, msprobe::trace::Text y) {
    return target.text(x) == reference.text(y);
  };
  const msprobe::trace::TensorPlacement* const place = target.placement(a);
  const msprobe::trace::TensorPlacement* const other_place = reference.placement(b);
  const bool same_place =
      place == nullptr || other_place == nullptr
          ? place == other_place
          : same_text(place->shape, other_place->shape) && same_text(place->mesh, other_place->mesh);
  return same_place && target.group_id(a) == reference.group_id(b) && a.part == b.part && a.kind == b.kind &&
         a.requires_grad == b.requires_grad && same_text(a.path, b.path) && same_text(a.type, b.type) &&
         same_text(a.dtype, b.dtype) && same_text(a.shape, b.shape) && same_text(a.md5, b.md5) &&
         same_text(a.data_name, b.data_name) && same_scalar(a.max, b.max) && same_scalar(a.min, b.min) &&
         same_scalar(a.mean, b.mean) && same_scalar(a.norm, b.norm) && same_scalar(a.value, b.value);
}

// The bytes of a record are a value of their own: read alone, they give the same items.
void check_bytes(const Trace& trace, const Record& record, std::string_view file) {
  promise(record.begin <= record.end && record.end <= file.size(), "a record stands within its file");
  if (record.begin == record.end) return;
  const std::string_view value = file.substr(record.begin, record.end - record.begin);
  const bool gradients = trace.name(record).find(".parameters_grad") != std::string_view::npos;
  const std::string alone = std::string(R"({"data":{")") + (gradients ? "x.parameters_grad" : "x") +
                            "\":" + std::string(value) + "}}";
  const Trace again = msprobe::trace::parse_trace(alone, trace.path());
  promise(again.records().size() == 1, "the bytes of a record hold one record");
  const auto items = trace.items(record);
  const auto items_again = again.items(again.records()[0]);
  promise(items.size() == items_again.size(), "the bytes of a record hold as many items");
  for (std::size_t i = 0; i < items.size(); ++i) {
    promise(same(trace, items[i], again, items_again[i]), "the bytes of a record hold its items");
  }
}

void check(const Trace& trace, std::string_view file) {
  for (const auto text : {trace.task(), trace.level(), trace.framework(), trace.dump_data_dir()})
    check_text(text);
  for (std::size_t i = 0; i < trace.records().size(); ++i) {
    const Record& record = trace.records()[i];
    check_text(trace.name(record));
    promise(trace.find(trace.name(record)) == i, "a record is found by its name");
    for (const Item& item : trace.items(record)) check_item(trace, item);
    if (i < 20) check_bytes(trace, record, file);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file = as_text(data, size);
  for (const char* name : {"dump.json", "debug.json"}) {
    refuse_or([&] { check(msprobe::trace::parse_trace(std::string(file), name), file); });
  }
  return 0;
}
