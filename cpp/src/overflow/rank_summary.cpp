// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "overflow/rank_summary.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "msprobe/record_name.h"
#include "overflow/bad_value.h"
#include "trace/item/uninitialised.h"

namespace msprobe::overflow {
namespace {

using trace::Record;
using trace::Trace;

// Walks through the records of one rank in the order of the file.
class RankLook {
 public:
  RankLook(const Trace& trace, RankSummary& summary) : trace_(trace), summary_(summary), reader_(trace) {}

  void run() {
    for (const Record& record : trace_.records()) {
      const std::string_view name = trace_.name(record);
      if (is_communication(name)) {
        add_communication(record, name);
      } else if (!trace::is_uninitialised(name)) {
        look_at(record, name);
      }
      ++number_;
    }
    summary_.record_count = number_;
    summary_.groups = reader_.take_groups();
    summary_.has_statistics = has_statistics();
  }

 private:
  void look_at(const Record& record, std::string_view name) {
    const BadValues values = find_bad_values(trace_, record);
    if (values.gradient != nullptr && !summary_.gradient) {
      summary_.gradient = candidate(record, name, Cause::kGradient, describe(trace_, *values.gradient));
    }
    if (std::max(values.worst_in, values.worst_out) == Badness::kNan) with_nan_.insert(name);
    if (values.out == nullptr) return;
    if (trace::is_deliberate_fill(name, values.worst_in, values.worst_out)) {
      if (summary_.fill_count++ == 0) summary_.first_fill = name;
    } else if (values.tensor_in == nullptr) {
      if (!had_nan_in_forward(name)) add_maker(record, name, values);
    } else if (is_nan_of_fill(values)) {
      add_maker(record, name, values);
    } else if (may_come_from_outside(values)) {
      summary_.outside = candidate(record, name, Cause::kOutside,
                                   describe(trace_, *values.tensor_in) +
                                       " when the call begins, and no recorded call made it: a weight, a "
                                       "buffer, data, or a call that was not recorded");
    }
  }

  // Infinities that somebody has written before are what a mask leaves; a NaN never is.
  bool may_come_from_outside(const BadValues& values) const noexcept {
    if (summary_.outside || is_contaminated_) return false;
    return values.worst_out == Badness::kNan || summary_.fill_count == 0;
  }

  // A backward uses what its forward got and gave: NaN there explains NaN here.
  bool had_nan_in_forward(std::string_view name) const {
    if (with_nan_.empty()) return false;
    const trace::RecordName parts(name);
    return parts.is_backward() && with_nan_.contains(parts.with(trace::Direction::kForward));
  }

  // Of the infinities of a mask, as softmax does where everything is masked.
  bool is_nan_of_fill(const BadValues& values) const noexcept {
    return values.worst_in == Badness::kInfinite && values.worst_out == Badness::kNan &&
           summary_.fill_count > 0 && summary_.makers.empty() && !summary_.outside && !is_contaminated_;
  }

  void add_maker(const Record& record, std::string_view name, const BadValues& values) {
    const std::size_t segment = summary_.communications.size();
    if (summary_.maker_in(segment) != nullptr) return;
    const std::string result = describe(trace_, *values.out);
    Candidate maker;
    if (values.parameter != nullptr) {
      maker = candidate(record, name, Cause::kParameter,
                        describe(trace_, *values.parameter) + " when the call begins; " + result);
    } else if (values.scalar_in != nullptr) {
      maker = candidate(record, name, Cause::kArgument,
                        "the argument " + describe(trace_, *values.scalar_in) + "; " + result);
    } else if (values.tensor_in != nullptr) {
      maker =
          candidate(record, name, Cause::kComputed,
                    describe(trace_, *values.tensor_in) + " since the program wrote infinities, first in " +
                        summary_.first_fill + "; " + result);
    } else {
      maker = candidate(record, name, Cause::kComputed, "all that went in is good; " + result);
    }
    summary_.makers.emplace_back(segment, std::move(maker));
  }

  void add_communication(const Record& record, std::string_view name) {
    Communication communication;
    communication.record = number_;
    communication.first_transfer = static_cast<std::uint32_t>(summary_.transfers.size());
    communication.name_begin = static_cast<std::uint32_t>(summary_.names.size());
    communication.name_size = static_cast<std::uint32_t>(name.size());
    communication.begin = static_cast<std::uint32_t>(record.begin);  // files are below 4 GiB
    communication.end = static_cast<std::uint32_t>(record.end);
    summary_.names += name;
    reader_.read(record, summary_.transfers);
    for (std::size_t i = communication.first_transfer; i < summary_.transfers.size(); ++i) {
      Transfer& transfer = summary_.transfers[i];
      transfer.is_fill = transfer.sent == Badness::kInfinite && summary_.fill_count > 0 &&
                         summary_.makers.empty() && !is_contaminated_;
      is_contaminated_ |= transfer.received != Badness::kGood;
    }
    communication.transfer_count =
        static_cast<std::uint32_t>(summary_.transfers.size()) - communication.first_transfer;
    summary_.communications.push_back(communication);
  }

  Candidate candidate(const Record& record, std::string_view name, Cause cause, std::string reason) const {
    return {number_, cause, std::string(name), std::move(reason), record.begin, record.end};
  }

  bool has_statistics() const noexcept {
    for (const Record& record : trace_.records()) {
      for (const trace::Item& item : trace_.items(record)) {
        if (item.max.kind > trace::Scalar::Kind::kNull) return true;
      }
    }
    return false;
  }

  const Trace& trace_;
  RankSummary& summary_;
  CommunicationReader reader_;
  std::uint32_t number_ = 0;  // of the present record
  bool is_contaminated_ = false;
  std::unordered_set<std::string_view> with_nan_;  // records with one in what went in or came out
};

}  // namespace

const Candidate* RankSummary::maker_in(std::size_t segment) const noexcept {
  const auto found =
      std::lower_bound(makers.begin(), makers.end(), segment,
                       [](const auto& maker, std::size_t wanted) { return maker.first < wanted; });
  return found != makers.end() && found->first == segment ? &found->second : nullptr;
}

const Candidate* RankSummary::maker_before(std::size_t number) const noexcept {
  const auto behind =
      std::upper_bound(makers.begin(), makers.end(), number,
                       [](std::size_t wanted, const auto& maker) { return wanted < maker.first; });
  return behind == makers.begin() ? nullptr : &std::prev(behind)->second;
}

RankSummary summarize_rank(int rank, const std::filesystem::path& directory) {
  RankSummary summary;
  summary.rank = rank;
  summary.directory = directory;
  const Trace trace = trace::read_trace(directory / "dump.json");
  RankLook(trace, summary).run();
  return summary;
}

}  // namespace msprobe::overflow
