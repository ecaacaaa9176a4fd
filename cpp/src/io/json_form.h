// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msprobe::io {

/// A stretch of the bytes of a JSON value, and what stands behind it that may be another in the next one.
class JsonPiece {
 public:
  enum class Hole { kNone, kNumber, kText };

  JsonPiece() = default;
  JsonPiece(std::string_view bytes, Hole hole) : bytes_(bytes), hole_(hole) {}

  /// Where this piece and what stands in its hole end; null: they do not stand at `begin`. `value`: what
  /// stands there, empty without a hole.
  ///
  /// What it takes, a JsonScanner would take. It refuses what that has to look at: texts of more than 4096
  /// bytes, with escapes, or with others than ASCII characters; numbers of more than 32 characters or with
  /// more than two digits in their exponent. Zeros stand behind `end` (json_bytes.h).
  char* match(char* begin, const char* end, std::string_view& value) const;

  Hole hole() const noexcept { return hole_; }
  bool operator==(const JsonPiece&) const = default;

 private:
  std::string bytes_;
  Hole hole_ = Hole::kNone;
};

/// A number, or a text without its quotes, at [begin, end) of the bytes of a value.
struct JsonHole {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The pieces of a value with these holes, which come in their order.
std::vector<JsonPiece> pieces_of(std::string_view bytes, std::span<const JsonHole> holes);

/// JSON objects that were read before, with holes where others like them have other numbers and texts, and
/// what was made of each. An object that has one of these forms needs no reading: all that is new stands in
/// its holes. A tree: forms that begin alike share their first pieces. Not thread-safe.
template <typename Meaning>
class JsonForms {
 public:
  /// What was made of the object whose form stands at `at`, which is moved behind it; null: none does.
  /// `values`: what stands in the holes. Finds most quickly what follows in the order of the last time.
  const Meaning* match(char*& at, const char* end, std::vector<std::string_view>& values) {
    values.clear();
    char* place = at;
    for (Node* node = &root_; node != nullptr; node = node->take(place, end, values)) {
      if (!node->meaning) continue;
      at = place;
      return &*node->meaning;
    }
    return nullptr;
  }

  /// `bytes`: an object that was read, with its brackets. One of the same form that is there stays.
  void add(std::string_view bytes, std::span<const JsonHole> holes, Meaning meaning) {
    Node* node = &root_;
    for (JsonPiece& piece : pieces_of(bytes, holes)) node = node->next_or_new(std::move(piece));
    if (!node->meaning) node->meaning = std::move(meaning);
  }

  void clear() { root_ = {}; }

 private:
  static constexpr std::size_t kMostNext = 64;

  struct Node {
    JsonPiece piece;
    std::vector<std::unique_ptr<Node>> next;
    std::size_t last = 0;            // the one of them that was taken last
    std::size_t successor = 0;       // the sibling that was taken after this one
    std::size_t oldest = 0;          // of next, when it is full
    std::optional<Meaning> meaning;  // where an object ends

    Node* take(char*& place, const char* end, std::vector<std::string_view>& values) {
      if (next.empty()) return nullptr;
      const auto takes = [&](std::size_t i) {
        std::string_view value;
        char* const after = next[i]->piece.match(place, end, value);
        if (after == nullptr) return false;
        place = after;
        if (next[i]->piece.hole() != JsonPiece::Hole::kNone) values.push_back(value);
        return true;
      };
      std::size_t found = next[last]->successor;
      if (!takes(found)) {
        found = 0;
        while (found < next.size() && !takes(found)) ++found;
        if (found == next.size()) return nullptr;
      }
      follow(found);
      return next[found].get();
    }

    Node* next_or_new(JsonPiece wanted) {
      std::size_t i = 0;
      while (i < next.size() && next[i]->piece != wanted) ++i;
      if (i == next.size()) {
        auto made = std::make_unique<Node>();
        made->piece = std::move(wanted);
        if (next.size() == kMostNext) {
          i = oldest++ % kMostNext;
          next[i] = std::move(made);
        } else {
          next.push_back(std::move(made));
        }
      }
      follow(i);
      return next[i].get();
    }

    void follow(std::size_t i) {
      next[last]->successor = i;
      last = i;
    }
  };

  Node root_;
};

}  // namespace msprobe::io
