// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "io/pt/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "io/pt/pickle_graph.h"
#include "io/zip/zip_format.h"
#include "msprobe/error.h"

namespace msprobe::io {
namespace {

using Items = std::vector<const PtValue*>;

constexpr std::size_t kReference = sizeof(Items::value_type);

// Python 2 had other names for some modules, and protocol 2 still writes them.
std::string full_name(std::string_view module, std::string_view name) {
  if (module == "__builtin__") module = "builtins";
  if (module == "copy_reg") module = "copyreg";
  return std::string(module).append(1, '.').append(name);
}

class Machine {
 public:
  Machine(std::span<const std::uint8_t> pickle, PickleValues& values, const PickleCalls& calls)
      : pickle_(pickle),
        values_(values),
        calls_(calls),
        none_(values.add(PtValue::None{})),
        false_(values.add(false)),
        true_(values.add(true)),
        empty_tuple_(values.add(PtTuple{})) {}

  PtValue* run() {
    for (;;) {
      opcode_at_ = position_;
      const std::uint8_t opcode = number<std::uint8_t>();
      if (opcode == '.') return pop();
      step(opcode);
    }
  }

  // Byte of the opcode that is being worked on.
  std::size_t position() const noexcept { return opcode_at_; }

 private:
  void step(std::uint8_t opcode) {
    switch (opcode) {
      // Structure of the pickle.
      case 0x80: return protocol();
      case 0x95: return frame();
      // The stack.
      case '(': return mark();
      case '0': return discard();
      case '1': return static_cast<void>(pop_to_mark());
      case '2': return push(top());
      // The memo.
      case 'q': return memoize(number<std::uint8_t>());
      case 'r': return memoize(number<std::uint32_t>());
      case 0x94: return memoize(memo_.size());
      case 'h': return recall(number<std::uint8_t>());
      case 'j': return recall(number<std::uint32_t>());
      // Scalars.
      case 'N': return push(none_);
      case 0x88: return push(true_);
      case 0x89: return push(false_);
      case 'K': return integer(number<std::uint8_t>());
      case 'M': return integer(number<std::uint16_t>());
      case 'J': return integer(static_cast<std::int32_t>(number<std::uint32_t>()));
      case 0x8A: return long_integer(number<std::uint8_t>());
      case 0x8B: return long_integer(number<std::uint32_t>());
      case 'G': return real();
      // Text and bytes. 'T' and 'U' are str of Python 2.
      case 0x8C:
      case 'U': return text(number<std::uint8_t>());
      case 'X':
      case 'T': return text(number<std::uint32_t>());
      case 0x8D: return text(number<std::uint64_t>());
      case 'C': return bytes(number<std::uint8_t>());
      case 'B': return bytes(number<std::uint32_t>());
      case 0x8E:
      case 0x96: return bytes(number<std::uint64_t>());
      // Containers.
      case ']': return push_list({});
      case 'l': return push_list(pop_to_mark());
      case 'a': return append({pop()});
      case 'e': return append(pop_to_mark());
      case ')': return push(empty_tuple_);
      case 't': return push_tuple(pop_to_mark());
      case 0x85: return push_tuple(pop_some(1));
      case 0x86: return push_tuple(pop_some(2));
      case 0x87: return push_tuple(pop_some(3));
      case '}': return push(values_.add_boxed(PtDict{}));
      case 'd': return push_dict(pop_to_mark());
      case 's': return set_items(pop_some(2));
      case 'u': return set_items(pop_to_mark());
      case 0x8F: return push_set("builtins.set", {});
      case 0x90: return add_to_set(pop_to_mark());
      case 0x91: return push_set("builtins.frozenset", pop_to_mark());
      // Names and calls.
      case 'c': return global();
      case 0x93: return stack_global();
      case 'R':
      case 0x81: return call();
      case 0x92: return call_with_keywords();
      case 'b': return build();
      case 'Q': return push(calls_.persistent(*pop()));
      default:
        throw PickleError{"found opcode " + std::to_string(opcode) +
                          ", which is none of protocols 2 to 5 or is not supported"};
    }
  }

  // ---- input

  std::string_view take(std::uint64_t bytes) {
    if (bytes > pickle_.size() - position_) {
      throw PickleError{"expected " + std::to_string(bytes) + " more bytes, found the end after " +
                        std::to_string(pickle_.size() - position_)};
    }
    const std::string_view result(reinterpret_cast<const char*>(pickle_.data()) + position_, bytes);
    position_ += bytes;
    return result;
  }

  template <std::unsigned_integral T>
  T number() {
    const std::size_t at = position_;
    take(sizeof(T));
    return zip::get<T>(pickle_, at);
  }

  std::string_view line() {
    const auto rest = pickle_.subspan(position_);
    const auto end = std::find(rest.begin(), rest.end(), '\n');
    if (end == rest.end()) throw PickleError{"expected the end of a line"};
    const std::string_view result = take(static_cast<std::size_t>(end - rest.begin()));
    ++position_;
    return result;
  }

  void protocol() {
    const int version = number<std::uint8_t>();
    if (version < 2 || version > 5) {
      throw PickleError{"expected pickle protocol 2 to 5, found " + std::to_string(version)};
    }
  }

  void frame() {
    const auto length = number<std::uint64_t>();
    if (length > pickle_.size() - position_) throw PickleError{"a frame is longer than the pickle"};
  }

  // ---- stack and memo

  void push(PtValue* value) {
    values_.charge(2 * kReference);  // here, and in the container it goes to
    stack_.push_back(value);
  }

  // What is below the last mark is out of reach until the mark is gone.
  void require(std::size_t count) const {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor < count) {
      throw PickleError{"expected " + std::to_string(count) + " values on the stack, found " +
                        std::to_string(stack_.size() - floor)};
    }
  }
  PtValue* top() const {
    require(1);
    return stack_.back();
  }
  PtValue* pop() {
    PtValue* const value = top();
    stack_.pop_back();
    return value;
  }
  Items pop_some(std::size_t count) {
    require(count);
    return cut(stack_.size() - count);
  }
  Items pop_to_mark() {
    if (marks_.empty()) throw PickleError{"expected a mark on the stack"};
    const std::size_t first = marks_.back();
    marks_.pop_back();
    return cut(first);
  }
  Items cut(std::size_t first) {
    Items items(stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
    stack_.resize(first);
    return items;
  }

  void mark() {
    values_.charge(2 * sizeof(std::size_t));
    marks_.push_back(stack_.size());
  }

  void discard() {
    if (!marks_.empty() && marks_.back() == stack_.size()) {
      marks_.pop_back();
    } else {
      pop();
    }
  }

  void memoize(std::size_t index) {
    PtValue* const value = top();
    // Picklers number without gaps; every number costs them two bytes.
    if (index >= pickle_.size()) throw PickleError{"a number of the memo is larger than the pickle"};
    if (index >= memo_.size()) {
      values_.charge(2 * kReference * (index + 1 - memo_.size()));
      memo_.resize(index + 1);
    }
    memo_[index] = value;
  }

  void recall(std::size_t index) {
    if (index >= memo_.size() || memo_[index] == nullptr) {
      throw PickleError{"the memo has no value " + std::to_string(index)};
    }
    push(memo_[index]);
  }

  // ---- values

  void integer(std::int64_t value) { push(values_.add(value)); }

  void long_integer(std::uint64_t length) {
    const std::string_view digits = take(length);
    if (length > sizeof(std::int64_t)) {
      PtObject object;
      object.class_name = "builtins.int";
      object.arguments = values_.add(PtTuple{{values_.add(PtBytes{std::string(digits)}, length)}});
      return push(values_.add_boxed(std::move(object)));
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < length; ++i) {
      value |= std::uint64_t{static_cast<std::uint8_t>(digits[i])} << (8 * i);
    }
    const bool negative = length > 0 && (static_cast<std::uint8_t>(digits[length - 1]) & 0x80) != 0;
    if (negative && length < sizeof(value)) value |= ~std::uint64_t{0} << (8 * length);
    integer(static_cast<std::int64_t>(value));
  }

  void real() {
    std::uint64_t bits = 0;
    for (const char byte : take(sizeof(bits)))
      bits = bits << 8 | static_cast<std::uint8_t>(byte);  // big-endian
    push(values_.add(std::bit_cast<double>(bits)));
  }

  void text(std::uint64_t length) { push(values_.add(std::string(take(length)), length)); }
  void bytes(std::uint64_t length) { push(values_.add(PtBytes{std::string(take(length))}, length)); }

  void push_list(Items items) { push(values_.add(PtList{std::move(items)})); }
  void push_tuple(Items items) { push(values_.add(PtTuple{std::move(items)})); }

  void push_dict(const Items& items) {
    push(values_.add_boxed(PtDict{}));
    set_items(items);
  }

  void append(const Items& items) {
    PtValue& target = *top();
    auto* list = target.as<PtList>();
    if (auto* object = target.as<PtObject>()) list = &object->items;
    if (list == nullptr) throw refused(target, "append to");
    list->items.insert(list->items.end(), items.begin(), items.end());
  }

  void set_items(const Items& items) {
    PtValue& target = *top();
    auto* dict = target.as<PtDict>();
    if (auto* object = target.as<PtObject>()) dict = &object->entries;
    if (dict == nullptr) throw refused(target, "set items of");
    if (items.size() % 2 != 0) throw PickleError{"the last key of a dict has no value"};
    for (std::size_t i = 0; i < items.size(); i += 2) dict->entries.emplace_back(items[i], items[i + 1]);
  }

  // As protocol 2 writes them: a call with one list.
  void push_set(std::string_view class_name, Items items) {
    PtObject object;
    object.class_name = class_name;
    object.arguments = values_.add(PtTuple{{values_.add(PtList{std::move(items)})}}, kReference);
    push(values_.add_boxed(std::move(object)));
  }

  void add_to_set(const Items& items) {
    PtValue& target = *top();
    const auto* object = target.as<PtObject>();
    const auto* arguments =
        object == nullptr || object->class_name != "builtins.set" || object->arguments == nullptr
            ? nullptr
            : object->arguments->as<PtTuple>();
    if (arguments == nullptr || arguments->items.size() != 1 ||
        arguments->items[0]->as<PtList>() == nullptr) {
      throw refused(target, "add to");
    }
    auto& list = const_cast<PtValue*>(arguments->items[0])->as<PtList>()->items;
    list.insert(list.end(), items.begin(), items.end());
  }

  // ---- names and calls

  void global() {
    const std::string_view module = line();
    push_name(module, line());
  }

  void stack_global() {
    const auto* const name = pop()->as<std::string>();
    const auto* const module = pop()->as<std::string>();
    if (name == nullptr || module == nullptr) throw PickleError{"expected the name of a class as two texts"};
    push_name(*module, *name);
  }

  void push_name(std::string_view module, std::string_view name) {
    push(values_.add(PtName{full_name(module, name)}, module.size() + name.size()));
  }

  // A call of a name makes what the table says; any other call makes an object that says what was called.
  void call() {
    const PtValue& arguments = *pop();
    const PtValue& function = *pop();
    const auto* const tuple = arguments.as<PtTuple>();
    if (tuple == nullptr) throw refused(arguments, "call with", "a tuple");
    if (const auto* name = function.as<PtName>()) {
      if (name->name == "builtins.getattr" && name_attribute(*tuple)) return;
      if (PtValue* const made = calls_.call(name->name, *tuple)) return push(made);
    }
    push_object(function, arguments, nullptr);
  }

  // getattr(class, "name") is a name, too: so does Python 3.11.0 to 3.11.3 save the members of an
  // enumeration, and protocol 2 a class within a class. False for other arguments.
  bool name_attribute(const PtTuple& arguments) {
    if (arguments.items.size() != 2) return false;
    const auto* const owner = arguments.items[0]->as<PtName>();
    const auto* const attribute = arguments.items[1]->as<std::string>();
    if (owner == nullptr || attribute == nullptr) return false;
    PtName result{owner->name + "." + *attribute};
    const std::size_t size = result.name.size();
    push(values_.add(std::move(result), size));
    return true;
  }

  void call_with_keywords() {
    const PtValue* const keywords = pop();
    const PtValue& arguments = *pop();
    push_object(*pop(), arguments, keywords);
  }

  void push_object(const PtValue& function, const PtValue& arguments, const PtValue* keywords) {
    PtObject object;
    if (const auto* name = function.as<PtName>()) {
      object.class_name = name->name;
    } else if (const auto* callable = function.as<PtObject>()) {
      object.class_name = callable->class_name;
    } else {
      throw refused(function, "call");
    }
    object.arguments = &arguments;
    object.keywords = keywords;
    push(values_.add_boxed(std::move(object)));
  }

  void build() {
    const PtValue* const state = pop();
    PtValue& target = *top();
    if (auto* object = target.as<PtObject>()) {
      object->state = state;
    } else if (auto* dict = target.as<PtDict>()) {
      dict->attributes = state;
    } else if (auto* tensor = target.as<PtTensor>()) {
      tensor->state = state;
    } else {
      throw refused(target, "set the state of");
    }
  }

  static PickleError refused(const PtValue& value, const std::string& doing,
                             const std::string& expected = "") {
    return {"cannot " + doing + " " + std::string(value.kind()) +
            (expected.empty() ? "" : ", expected " + expected)};
  }

  std::span<const std::uint8_t> pickle_;
  PickleValues& values_;
  const PickleCalls& calls_;
  std::size_t position_ = 0;
  std::size_t opcode_at_ = 0;
  std::vector<PtValue*> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PtValue*> memo_;
  // Shared by all places they stand in.
  PtValue* none_;
  PtValue* false_;
  PtValue* true_;
  PtValue* empty_tuple_;
};

}  // namespace

PtValue* PickleValues::add(PtValue::Content content, std::size_t extra_bytes) {
  charge(sizeof(PtValue) + extra_bytes);
  return &values_.emplace_back(std::move(content));
}

void PickleValues::charge(std::size_t bytes) {
  if (bytes > left_) throw PickleError{"the values would need more than 2 GiB of memory"};
  left_ -= bytes;
}

const PtValue* run_pickle(std::span<const std::uint8_t> pickle, const std::string& path,
                          const std::string& where, PickleValues& values, const PickleCalls& calls,
                          std::size_t* length) {
  Machine machine(pickle, values, calls);
  PtValue* root = nullptr;
  try {
    root = machine.run();
  } catch (const PickleError& error) {
    throw FormatError(path, where + " byte " + std::to_string(machine.position()), error.what());
  }
  try {
    make_finite(*root, most_steps(pickle.size()), values);
  } catch (const PickleError& error) {
    throw FormatError(path, where, error.what());
  }
  if (length != nullptr) *length = machine.position() + 1;  // behind the opcode that ends it
  return root;
}

}  // namespace msprobe::io
