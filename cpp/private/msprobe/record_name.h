// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "msprobe/export.h"

namespace msprobe::trace {

enum class NameKind : std::uint8_t { kCall, kModule, kGradients, kOther };
enum class Direction : std::uint8_t { kNone, kForward, kBackward };

/// The name of a record, taken apart. What its parts mean is known here and nowhere else.
///
/// | kind       | form                                             | for instance                     |
/// |------------|--------------------------------------------------|----------------------------------|
/// | kCall      | {prefix}.{path}.{count}.{direction}              | Functional.linear.5.forward      |
/// | kModule    | {prefix}.{path}.{type}.{direction}.{count}       | Module.blocks.0.MLP.backward.2   |
/// | kGradients | {prefix}.{path}.{type}.parameters_grad[.{count}] | Cell.fc1.Dense.parameters_grad   |
/// | kOther     | everything else: what save() was given, phases   | loss.0.debug, optimizer          |
///
/// The prefix says where a function or module comes from: Module and Cell for modules, Functional, Tensor,
/// Torch, Mint, Primitive, Distributed, NPU, Aten and whatever a script registers for functions. The path of
/// a module is its place in the model; that of a function is its name, behind that of its instance where the
/// prefix is Primitive (Primitive.matmul.MatMul.0.forward).
///
/// Refers to the text it was made of. All parts that a name does not have are empty.
class MSPROBE_API RecordName {
 public:
  explicit RecordName(std::string_view text) noexcept;

  std::string_view text() const noexcept { return text_; }
  NameKind kind() const noexcept { return kind_; }
  Direction direction() const noexcept { return direction_; }
  bool is_forward() const noexcept { return direction_ == Direction::kForward; }
  bool is_backward() const noexcept { return direction_ == Direction::kBackward; }

  /// Without direction and count: "Functional.linear", "Module.blocks.0.mlp.MLP". Of kOther the whole name.
  std::string_view callee() const noexcept { return callee_; }
  /// Digits: how often it was called before in the step.
  std::string_view count() const noexcept { return count_; }
  /// Of kCall: all but the direction, "Functional.linear.5".
  std::string_view call() const noexcept;

  std::string_view prefix() const noexcept { return callee_.substr(0, callee_.find('.')); }
  /// Of kCall, kModule and kGradients: "linear", "matmul.MatMul", "blocks.0.mlp".
  std::string_view path() const noexcept;
  /// Of kModule and kGradients: the class, "MLP".
  std::string_view type() const noexcept;
  /// Of kModule and kGradients: prefix and path, "Module.blocks.0.mlp".
  std::string_view place() const noexcept;
  /// Of kCall: the name of the function or operator, "linear", "MatMul".
  std::string_view function() const noexcept;

  /// Whether the prefix is that of modules, in any kind of name.
  bool has_module_prefix() const noexcept;
  /// Whether the prefix is that of functions which several processes call together.
  bool has_collective_prefix() const noexcept;

  /// The record of the same call in that direction: of kCall and kModule.
  std::string with(Direction direction) const;
  /// Appends that; of other kinds nothing.
  void append_with(Direction direction, std::string& out) const;

 private:
  std::string_view text_;
  std::string_view callee_;
  std::string_view count_;
  NameKind kind_ = NameKind::kOther;
  Direction direction_ = Direction::kNone;
};

/// Whether a name begins as those of functions do. That is a looser question than NameKind::kCall: it is also
/// asked of names that are no records.
bool begins_as_call(std::string_view name) noexcept;

}  // namespace msprobe::trace
