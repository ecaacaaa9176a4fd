// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "torch/program_monitor_peers.h"

#include <cstring>
#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>

#include "msprobe/error.h"
#include "msprobe/log.h"

namespace msprobe::torch_adapter {
namespace {

// Of one program, so bytes lie as they do in memory. A message: head, new labels, rows.
struct HeadOfPeer {
  std::int64_t step;
  std::int64_t is_open;  // 0: the monitor has ended, and nothing follows
  std::int64_t has_loss;
  double loss;
};

[[noreturn]] void refuse_message() {
  throw InvalidArgument("gather: expected the messages of all processes as they were given");
}

template <typename T>
void put(std::string& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}

// What a process has sent; whatever it is, nothing outside of it is read.
class MessageOfPeer {
 public:
  explicit MessageOfPeer(std::string_view bytes) : left_(bytes) {}

  template <typename T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::string_view bytes = take(sizeof(T));
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

  std::string_view take(std::size_t bytes) {
    if (bytes > left_.size()) refuse_message();
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }

  // How many things follow, of at least so many bytes each.
  std::size_t take_count(std::size_t bytes_each) {
    const auto count = take<std::uint64_t>();
    if (count > left_.size() / bytes_each) refuse_message();
    return static_cast<std::size_t>(count);
  }

 private:
  std::string_view left_;
};

void put_row(std::string& out, const monitor::Row& row) {
  put(out, row.label);
  put(out, row.kind);
  put(out, row.sums);
  put(out, row.capacity);
  put(out, static_cast<std::uint64_t>(row.counts.size()));
  for (const double count : row.counts) put(out, count);
}

monitor::Row take_row(MessageOfPeer& message, const std::vector<std::uint32_t>& labels) {
  monitor::Row row;
  const auto label = message.take<std::uint32_t>();
  if (label >= labels.size()) refuse_message();
  row.label = labels[label];
  row.kind = message.take<monitor::Kind>();
  if (row.kind > monitor::Kind::kCounts) refuse_message();
  row.sums = message.take<monitor::Sums>();
  row.capacity = message.take<double>();
  row.counts.resize(message.take_count(sizeof(double)));
  for (double& count : row.counts) count = message.take<double>();
  return row;
}

}  // namespace

std::string ProgramPeers::message(std::int64_t step, const monitor::Frame& frame,
                                  std::optional<double> loss) {
  std::string out;
  put(out, HeadOfPeer{step, 1, loss.has_value() ? 1 : 0, loss.value_or(0)});
  const std::size_t known = series_.labels()->size();
  put(out, static_cast<std::uint64_t>(known - told_));
  for (; told_ < known; ++told_) {
    const monitor::Label one = series_.labels()->at(static_cast<std::uint32_t>(told_));
    put(out, static_cast<monitor::Measured>(one.group));
    put(out, static_cast<std::uint64_t>(one.name.size()));
    out += one.name;
  }
  std::uint64_t rows = 0;
  for (const monitor::Row& row : frame.rows()) rows += row.missing ? 0 : 1;
  put(out, rows);
  for (const monitor::Row& row : frame.rows()) {
    if (!row.missing) put_row(out, row);
  }
  return out;
}

std::optional<double> ProgramPeers::join(std::int64_t step, monitor::Frame& frame,
                                         std::optional<double> loss) {
  const std::string mine = message(step, frame, loss);
  left_ = true;  // after an error the others end as well, or cannot be reached
  const std::vector<std::string> everyone = options_.gather(mine);
  if (everyone.size() != labels_.size()) {
    throw InvalidArgument("gather: expected what " + std::to_string(labels_.size()) +
                          " processes gave, found " + std::to_string(everyone.size()));
  }
  double sum = 0;
  int losses = 0;
  for (std::size_t i = 0; i < everyone.size(); ++i) {
    const auto head = MessageOfPeer(everyone[i]).take<HeadOfPeer>();
    if (head.is_open == 0) throw Error("the monitor of process " + std::to_string(i) + " has ended");
    if (head.step != step) {
      throw Error("process " + std::to_string(i) + " is at step " + std::to_string(head.step) +
                  ": values of different steps are not put together");
    }
    if (head.has_loss == 0) continue;
    sum += head.loss;
    ++losses;
  }
  if (options_.rank == 0) {
    frame.clear();
    for (std::size_t i = 0; i < everyone.size(); ++i) add_rows(everyone[i], labels_[i], frame);
  }
  left_ = false;
  return losses > 0 ? std::optional(sum / losses) : std::nullopt;
}

void ProgramPeers::add_rows(std::string_view bytes, std::vector<std::uint32_t>& labels,
                            monitor::Frame& frame) {
  MessageOfPeer message(bytes);
  message.take<HeadOfPeer>();
  for (std::size_t left = message.take_count(sizeof(monitor::Measured) + sizeof(std::uint64_t)); left > 0;
       --left) {
    const auto of = message.take<monitor::Measured>();
    const auto place = static_cast<std::size_t>(of);
    if (place >= monitor::quantities().size() || !monitor::quantities()[place].kind) refuse_message();
    const std::string name(message.take(message.take_count(1)));
    labels.push_back(series_.label(of, name));
  }
  for (std::size_t left = message.take_count(sizeof(monitor::Sums)); left > 0; --left) {
    frame.add(take_row(message, labels));
  }
}

void ProgramPeers::leave(std::int64_t step) noexcept {
  if (std::exchange(left_, true)) return;
  try {
    std::string mine;
    put(mine, HeadOfPeer{step, 0, 0, 0});
    options_.gather(mine);
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, std::string("monitor: gather: ") + error.what());
  }
}

}  // namespace msprobe::torch_adapter
