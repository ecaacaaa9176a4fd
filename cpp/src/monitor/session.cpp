// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <sstream>
#include <utility>

#include "msprobe/document.h"
#include "msprobe/error.h"
#include "msprobe/file.h"
#include "msprobe/log.h"
#include "msprobe/monitor_session.h"

namespace msprobe::monitor {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kStepsToLearn = 400;  // of an earlier record, which the rules see again

fs::path free_name(const fs::path& path) {
  for (int number = 1;; ++number) {
    fs::path name = path;
    name += "." + std::to_string(number);
    if (!fs::exists(fs::symlink_status(name))) return name;
  }
}

// Whatever cannot be read is not ours to remove.
bool is_without_steps(const fs::path& store) {
  try {
    return StoreReader(store).extent().steps == 0;
  } catch (const Error&) {
    return false;
  }
}

// An earlier record keeps its numbers under another name.
void put_aside(const fs::path& store) {
  const bool is_empty = is_without_steps(store);
  const fs::path kept = free_name(store);
  for (const char* const ending : {"", "-wal", "-shm"}) {
    fs::path from = store;
    fs::path to = kept;
    from += ending;
    to += ending;
    if (!fs::exists(fs::symlink_status(from))) continue;
    if (is_empty) {
      fs::remove(from);
    } else {
      fs::rename(from, to);
    }
  }
  if (!is_empty) {
    log(LogLevel::kWarning,
        store.string() + ": the record of an earlier run is kept as " + kept.filename().string());
  }
}

// -1: the line is none of ours.
std::int64_t step_of_alarm(const std::string& line, const fs::path& path) {
  try {
    const io::Value value = io::parse_json_document(line, path);
    const io::Value* step = value.find("step");
    const auto* number = step == nullptr ? nullptr : step->as<std::int64_t>();
    return number == nullptr ? -1 : *number;
  } catch (const FormatError&) {
    return -1;
  }
}

[[noreturn]] void refuse_path(const fs::path& path, const fs::filesystem_error& error) {
  throw IoError("cannot write", path.string(), error.code().value());
}

Kind kind_of_rows(const Quantity& of) {
  if (!of.kind) throw InternalError("monitor: " + std::string(of.name) + " has no rows");
  return *of.kind;
}

Session::Options checked(Session::Options options) {
  for (const std::string& name : options.metrics) {
    const auto all = metrics();
    if (std::none_of(all.begin(), all.end(), [&](const auto& one) { return one.name == name; })) {
      throw InvalidArgument("monitor: metrics: there is no metric \"" + name + "\"");
    }
  }
  for (const std::string& level : options.levels) {
    if (level != "parameter" && level != "layer" && level != "model") {
      throw InvalidArgument("monitor: levels: expected parameter, layer or model, found \"" + level + "\"");
    }
  }
  return options;
}

}  // namespace

void continue_alarms(const fs::path& path, std::int64_t start) {
  try {
    if (!fs::is_regular_file(path)) return;
    if (start == 0) {
      fs::rename(path, free_name(path));
      return;
    }
  } catch (const fs::filesystem_error& error) {
    refuse_path(path, error);
  }
  const io::InputFile file(path);
  std::string text(file.size(), '\0');
  file.read(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  std::istringstream lines(std::move(text));
  std::string kept;
  bool all = true;
  for (std::string line; std::getline(lines, line);) {
    const bool is_before = step_of_alarm(line, path) < start;
    if (is_before) kept += line + "\n";
    all = all && is_before;
  }
  if (!all) io::write_file(path, kept);
}

Session::Session(Options options) : options_(checked(std::move(options))), rules_(options_.rules) {}

void Session::open(const fs::path& path, std::int64_t start, std::map<std::string, std::string> info) {
  StoreWriter::Options of_store;
  of_store.info = std::move(info);
  try {
    io::make_directories(path.parent_path());
    if (fs::exists(fs::symlink_status(path))) {
      if (start > 0) {
        of_store.resume_at = start;
      } else {
        put_aside(path);
      }
    }
  } catch (const fs::filesystem_error& error) {
    refuse_path(path, error);
  }
  const bool resumes = of_store.resume_at.has_value();
  store_ = std::make_unique<StoreWriter>(path, std::move(of_store));
  if (resumes) log(LogLevel::kInfo, path.string() + ": the record goes on at step " + std::to_string(start));
  if (store_->last_step()) read_past(path);
}

void Session::read_past(const fs::path& path) {
  try {
    const StoreReader reader(path);
    Past past{reader.series(), {}};
    std::vector<std::uint32_t> all(past.series.size());
    std::iota(all.begin(), all.end(), 0);
    const std::int64_t last = reader.extent().last;
    const std::int64_t first = std::max<std::int64_t>(0, last - kStepsToLearn * options_.every);
    past.values = reader.values(all, first, last);
    past_ = std::move(past);
    learn(*past_);
  } catch (const Error& error) {
    log(LogLevel::kWarning, std::string("monitor: the rules begin anew: ") + error.what());
  }
}

void Session::learn(const Past& past) {
  std::vector<std::uint32_t> places;
  places.reserve(past.series.size());
  for (const Series& one : past.series) places.push_back(add_series(one));
  std::vector<double> values(keys_.size());
  for (std::size_t row = 0; row < past.values.steps.size(); ++row) {
    std::fill(values.begin(), values.end(), absent());
    for (std::size_t i = 0; i < places.size(); ++i) values[places[i]] = past.values.numbers[i][row];
    rules_.check(past.values.steps[row], values);
  }
}

bool Session::has_level(std::string_view level) const {
  return std::find(options_.levels.begin(), options_.levels.end(), level) != options_.levels.end();
}

std::uint32_t Session::add_series(const Series& series) {
  std::string key = series.key();
  if (const auto known = series_.find(key); known != series_.end()) return known->second;
  const std::uint32_t number = store_ ? store_->add_series(series) : static_cast<std::uint32_t>(keys_.size());
  for (std::size_t i = keys_.size(); i <= number; ++i) {
    keys_.push_back(i == number ? key : "");  // "": of a record whose series could not be read
    rules_.add_series(keys_.back());
  }
  series_.emplace(std::move(key), number);
  return number;
}

std::uint32_t Session::number_of(const Quantity& of, std::string_view metric, const std::string& name,
                                 std::string_view scope, std::int64_t layer) {
  return add_series({std::string(of.name), std::string(metric), name, std::string(scope), layer,
                     std::string(unit_of(of, metric))});
}

std::uint32_t Session::label(Measured of, const std::string& name) {
  const auto [found, is_new] = named_.try_emplace({of, name});
  if (!is_new) return found->second;
  found->second = labels_->add({0, name, static_cast<std::uint32_t>(of)});
  add_labels();
  return found->second;
}

const std::shared_ptr<Frame>& Session::frame(Measured of) {
  std::shared_ptr<Frame>& found = frames_[options_.apart ? of : Measured{}];
  if (!found) {
    found = std::make_shared<Frame>(options_.apart ? Frame::Again::kReplaces : Frame::Again::kMerges);
  }
  return found;
}

std::shared_ptr<Frame> Session::take_rows() {
  calls_->reset();
  return frame(Measured{})->take();
}

void Session::drop_rows() {
  calls_->reset();
  for (const auto& [of, frame] : frames_) frame->clear();
}

void Session::add_labels() {
  if (known_ == labels_->size()) return;
  const std::vector<Label> all = labels_->all();
  for (; known_ < all.size(); ++known_) {
    const Label& one = all[known_];
    if (one.group >= quantities().size()) {
      throw InvalidArgument("monitor: there is no quantity number " + std::to_string(one.group));
    }
    add_row(known_, static_cast<Measured>(one.group), one.name);
  }
}

void Session::add_row(std::uint32_t label, Measured of, const std::string& name) {
  const Quantity& row = quantity(of);
  const auto layer = layer_of(name);
  const bool of_parameter = row.scope == "parameter";
  if (!of_parameter || has_level("parameter")) {
    for (const std::string_view metric : chosen_metrics(row, options_.metrics)) {
      plan_.add(label, kind_of_rows(row), metric,
                number_of(row, metric, name, row.scope, layer ? layer->second : -1));
    }
  }
  if (!of_parameter) return;
  if (layer && has_level("layer")) add_member({of, "layer", layer->first}, label);
  if (has_level("model")) add_member({of, "model", ""}, label);
}

void Session::add_member(Group group, std::uint32_t label) {
  const auto [place, is_new] = new_groups_.emplace(group, new_members_.size());
  if (is_new) new_members_.emplace_back(std::move(group), std::vector<std::uint32_t>{});
  new_members_[place->second].second.push_back(label);
}

// Parameters come at the beginning: once they have, what they make together is decided.
void Session::add_groups() {
  new_groups_.clear();
  for (const auto& [group, labels] : std::exchange(new_members_, {})) {
    const Quantity& row = quantity(group.of);
    const auto layer = layer_of(group.name + ".");
    for (const std::string_view metric : chosen_metrics(row, options_.metrics)) {
      plan_.add_group(labels, kind_of_rows(row), metric,
                      number_of(row, metric, group.name, group.scope, layer ? layer->second : -1));
    }
  }
}

void Session::set(Measured of, std::string_view metric, const std::string& name, double value) {
  const bool of_parameter = of == Measured::kMatrix;
  const auto layer = of_parameter ? layer_of(name) : std::nullopt;
  const std::uint32_t number =
      number_of(quantity(of), metric, name, of_parameter ? "parameter" : "model", layer ? layer->second : -1);
  if (number >= numbers_.size()) numbers_.resize(number + 1, absent());
  numbers_[number] = value;
}

void Session::evaluate(const Frame& frame) {
  add_labels();
  add_groups();
  plan_.evaluate(frame, numbers_);
}

const std::vector<double>& Session::numbers() {
  numbers_.resize(std::max(numbers_.size(), keys_.size()), absent());
  return numbers_;
}

void Session::append(std::int64_t step) {
  if (store_) store_->append(step, numbers());
}

std::vector<Alarm> Session::check(std::int64_t step) { return rules_.check(step, numbers()); }

void Session::clear() { std::fill(numbers_.begin(), numbers_.end(), absent()); }

std::int64_t Session::flush() { return store_ ? store_->flush() : 0; }

}  // namespace msprobe::monitor
