// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "trace/item/type_name.h"
#include "trace/reader/trace_builder.h"

namespace msprobe::trace {
// ---- Open lists and objects

void TraceBuilder::name_entry() {
  if (open_frames_ == 0) return;
  Frame& parent = frame();
  const std::size_t index = parent.index++;
  if (holds_gradients_ && open_frames_ == 1 && !parent.is_object) return;  // parameter: [gradient]
  if (!path_.empty()) path_ += '.';
  if (parent.is_object) {
    path_ += parent.key();
  } else if (index < 10) {
    path_ += static_cast<char>('0' + index);
  } else {
    path_ += std::to_string(index);
  }
}

void TraceBuilder::open_frame(bool is_object) {
  const std::size_t path_length = path_.size();
  if (printed_frame_ > 0) {
    printed_.open();
    if (is_object) {  // the list is none that is printed
      set_composite_field(frames_[printed_frame_ - 2]);
      printed_frame_ = 0;
    }
  } else if (open_frames_ > 0 && frame().is_object) {
    printed_.clear();
    if (!is_object && may_be_list(frame())) {
      printed_.open();
      printed_frame_ = open_frames_ + 1;
    } else {
      set_composite_field(frame());
    }
  }
  name_entry();
  const bool is_placement = is_object && open_frames_ > 0 && frame().is_object && frame().key() == "dtensor";
  if (is_placement) placement_ = {};
  Frame& opened = frames_[open_frames_++];
  opened.open(is_object);
  opened.is_placement = is_placement;
  opened.path_length = path_length;
  opened.first_item = trace_.items_.size();
}

void TraceBuilder::close_frame() {
  Frame& closed = frame();
  if (closed.is_leaf) {
    drop_items(fitting(closed.first_item));  // what its fields looked like
    add_leaf(closed);
  } else if (closed.is_placement) {
    frames_[open_frames_ - 2].has_placement = true;
  }
  path_.resize(closed.path_length);
  if (printed_frame_ > 0) printed_.close();
  --open_frames_;
  if (printed_frame_ == open_frames_ + 1) {
    printed_frame_ = 0;
    set_field(frame(), Kind::kComposite, printed_.text());
  }
}

// ---- Values

void TraceBuilder::element_value(Kind kind, std::string_view text) {
  Frame& parent = frame();
  if (printed_frame_ > 0) printed_.add(kind, text);
  if (parent.is_object) set_field(parent, kind, text);
  if (kind == Kind::kNull) {
    const std::size_t path_length = path_.size();
    name_entry();
    add_null();
    path_.resize(path_length);
  } else {
    ++parent.index;
  }
}

void TraceBuilder::set_placement_field(std::string_view key, Kind kind, std::string_view text) {
  if (kind == Kind::kText && key == "mesh") {
    placement_.mesh = interned(text);
  } else if (kind == Kind::kComposite) {
    if (key == "shape") placement_.shape = interned(text);
    if (key == "placements") placement_.placements = interned(text);
    if (key == "mesh_shape") placement_.mesh_shape = interned(text);
    if (key == "mesh_dims") placement_.mesh_dims = interned(text);
    if (key == "coordinate") placement_.coordinate = interned(text);
  }
}

void TraceBuilder::set_field(Frame& frame, Kind kind, std::string_view text) {
  if (frame.is_placement) set_placement_field(frame.key(), kind, text);
  Item& leaf = frame.leaf;
  const bool is_text = kind == Kind::kText;
  const auto text_or_null = [&](const char* problem) {
    if (!is_text && kind != Kind::kNull) frame.problem = problem;
    return is_text ? text : std::string_view();
  };
  switch (frame.field) {
    case Field::kMax:
    case Field::kMin:
    case Field::kMean:
    case Field::kNorm:
    case Field::kValue: set_value(leaf, frame.field, kind, text); break;
    case Field::kMd5:
      set_value(leaf, frame.field, kind, text_or_null("\"md5\": expected a text or null"));
      break;
    case Field::kSketch:
      set_value(leaf, frame.field, kind, text_or_null("\"sketch\": expected a text or null"));
      break;
    case Field::kDataName:
      set_value(leaf, frame.field, kind, text_or_null("\"data_name\": expected a text or null"));
      break;
    case Field::kShape:
      if (kind != Kind::kComposite || !printed_.is_of_whole_numbers()) {
        frame.problem = "\"shape\": expected a list of whole numbers";
      }
      leaf.shape = interned(text);
      break;
    case Field::kType:
      frame.is_leaf = is_text;
      leaf.type = interned(text);
      break;
    case Field::kRequiresGrad:
      if (kind != Kind::kBool) frame.problem = "\"requires_grad\": expected true or false";
      leaf.requires_grad = text == "True";
      break;
    case Field::kDtype:
      leaf.dtype = interned(text_or_null("\"dtype\": expected a text or null"));
      leaf.dtype_number = number_of_dtype(leaf.dtype);
      break;
    case Field::kFormat:
    case Field::kGroupRanks: leaf.value = kept_scalar(kind, text); break;
    case Field::kGroupId:
      if (is_text) frame.group_id = interned(text);
      break;
    case Field::kOther: break;
  }
}

void TraceBuilder::set_value(Item& leaf, Field field, Kind kind, std::string_view text) {
  switch (field) {
    case Field::kMax: leaf.max = kept_scalar(kind, text); break;
    case Field::kMin: leaf.min = kept_scalar(kind, text); break;
    case Field::kMean: leaf.mean = kept_scalar(kind, text); break;
    case Field::kNorm: leaf.norm = kept_scalar(kind, text); break;
    case Field::kValue: leaf.value = kept_scalar(kind, text); break;
    case Field::kMd5: leaf.md5 = kept(text); break;
    case Field::kSketch: leaf.sketch = kept(text); break;
    case Field::kDataName: leaf.data_name = kept(text); break;
    default: break;
  }
}

std::uint8_t TraceBuilder::number_of_dtype(Text dtype) {
  if (dtype.length == 0) return Item::kNoDType;
  if (dtype.offset != last_dtype_.offset) {  // the same text is kept once
    last_dtype_ = dtype;
    const auto known = dtype_in_text(trace_.text(dtype));
    last_dtype_number_ = known ? static_cast<std::uint8_t>(*known) : Item::kNoDType;
  }
  return last_dtype_number_;
}

void TraceBuilder::add_null() {
  Item item;
  item.part = part_.value_or(Part::kSaved);
  item.path = interned(path_);
  trace_.items_.push_back(item);
}

void TraceBuilder::note_package(Text type) {
  const std::string_view text = trace_.text(type);
  if (!is_tensor_type(text)) return;
  const std::size_t dot = text.find('.');
  if (dot != std::string_view::npos) trace_.package_ = {.offset = type.offset, .length = fitting(dot)};
}

void TraceBuilder::add_leaf(Frame& frame) {
  Item& leaf = frame.leaf;
  leaf.kind = leaf.dtype.length > 0 ? Item::Kind::kTensor : Item::Kind::kValue;
  leaf.part = part_.value_or(Part::kSaved);
  leaf.path = interned(path_);
  if (frame.problem != nullptr) refuse_record(frame.problem);
  if (leaf.kind == Item::Kind::kTensor && trace_.package_.length == 0) note_package(leaf.type);
  trace_.has_md5_ |= leaf.md5.length > 0;
  if (frame.group_id.length > 0) {
    trace_.group_ids_.push_back({.item = fitting(trace_.items_.size()), .id = frame.group_id});
  }
  if (frame.has_placement && leaf.kind == Item::Kind::kTensor) {
    trace_.placements_.push_back({.item = fitting(trace_.items_.size()), .placement = placement_});
  }
  trace_.items_.push_back(leaf);
}

}  // namespace msprobe::trace
