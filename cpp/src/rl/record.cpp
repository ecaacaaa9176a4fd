// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
//
// What lies in a record: {record}/data/{key}/step{S}/rank{R}/micro_step{M}/{key}[.{entry}].npy
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/rl.h"

namespace msprobe::rl {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc{} && end == text.data() + text.size() && value >= 0;
  return is_number ? std::optional(value) : std::nullopt;
}

// The number behind `prefix`; nullopt: the name has another form.
std::optional<std::int64_t> numbered(const std::string& name, std::string_view prefix) {
  return name.starts_with(prefix) ? number_in(std::string_view(name).substr(prefix.size())) : std::nullopt;
}

// Calls `visit` for each entry of a folder, with its name.
template <typename Visit>
void for_each_in(const fs::path& folder, const Visit& visit) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    visit(*entry, entry->path().filename().string());
  }
  if (error) throw IoError("cannot read the directory", folder.string(), error.value());
}

bool is_folder(const fs::directory_entry& entry) {
  std::error_code error;
  return !entry.is_symlink(error) && entry.is_directory(error);
}

std::string entry_in(std::string_view stem, std::string_view key) {
  if (stem == key) return {};
  const bool belongs = stem.size() > key.size() && stem.starts_with(key) && stem[key.size()] == '.';
  return std::string(belongs ? stem.substr(key.size() + 1) : stem);
}

class Search {
 public:
  explicit Search(std::string_view key) : key_(key) {}

  std::vector<SavedArray> run(const fs::path& folder) {
    for_each_in(folder, [&](const fs::directory_entry& step, const std::string& name) {
      const auto number = numbered(name, "step");
      if (number && is_folder(step)) in_step(step.path(), *number);
    });
    std::sort(found_.begin(), found_.end(),
              [](const SavedArray& a, const SavedArray& b) { return a.place < b.place; });
    return std::move(found_);
  }

 private:
  void in_step(const fs::path& folder, std::int64_t step) {
    for_each_in(folder, [&](const fs::directory_entry& rank, const std::string& name) {
      const auto number = numbered(name, "rank");
      if (number && is_folder(rank)) in_rank(rank.path(), {step, *number, 0, {}});
    });
  }

  void in_rank(const fs::path& folder, Place place) {
    for_each_in(folder, [&](const fs::directory_entry& inner, const std::string& name) {
      if (const auto number = numbered(name, "micro_step"); number && is_folder(inner)) {
        place.micro_step = *number;
        for_each_in(inner.path(), [&](const fs::directory_entry& file, const std::string& file_name) {
          add(file, file_name, place);
        });
      } else {
        place.micro_step = 0;
        add(inner, name, place);  // saved without a micro-step
      }
    });
  }

  void add(const fs::directory_entry& file, std::string_view name, Place place) {
    constexpr std::string_view kEnding = ".npy";
    std::error_code error;
    if (!name.ends_with(kEnding) || file.is_symlink(error) || !file.is_regular_file(error)) return;
    name.remove_suffix(kEnding.size());
    place.entry = entry_in(name, key_);
    found_.push_back({std::move(place), file.path()});
  }

  std::string_view key_;
  std::vector<SavedArray> found_;
};

}  // namespace

bool Place::operator<(const Place& other) const {
  const auto place = [](const Place& of) { return std::tuple(of.step, of.rank, of.micro_step); };
  if (place(*this) != place(other)) return place(*this) < place(other);
  if (entry.empty() || other.entry.empty()) return entry.empty() && !other.entry.empty();
  const auto ours = number_in(entry);
  const auto theirs = number_in(other.entry);
  if (ours && theirs && *ours != *theirs) return *ours < *theirs;
  if (ours.has_value() != theirs.has_value()) return ours.has_value();
  return entry < other.entry;
}

std::vector<std::string> keys(const fs::path& record) {
  const fs::path data = record / "data";
  std::error_code error;
  if (!fs::is_directory(data, error)) {
    throw InvalidArgument(record.string() + ": expected the dump path of SingleSave, with a folder data");
  }
  std::vector<std::string> found;
  for_each_in(data, [&](const fs::directory_entry& entry, const std::string& name) {
    if (is_folder(entry)) found.push_back(name);
  });
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<SavedArray> arrays(const fs::path& record, const std::string& key) {
  const fs::path folder = record / "data" / key;
  std::error_code error;
  if (!fs::is_directory(folder, error)) return {};
  return Search(key).run(folder);
}

}  // namespace msprobe::rl
