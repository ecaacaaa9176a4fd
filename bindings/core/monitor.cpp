// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "msprobe/monitor.h"

#include <cmath>
#include <memory>
#include <unordered_map>

#include "core.h"
#include "msprobe/error.h"
#include "msprobe/monitor_frame.h"
#include "msprobe/monitor_session.h"
#include "msprobe/stats.h"
#include "msprobe/trainer_mon.h"
#include "port_tensor.h"

namespace {

namespace monitor = msprobe::monitor;
using monitor::Frame;
using monitor::Row;

// A number as Python has it: int where it is a count.
py::object number(const Row& row, const std::string& op) {
  const double value = monitor::scalar(row, op);
  const monitor::Metric* metric = monitor::find_metric(monitor::Kind::kTensor, op);
  if (metric != nullptr && metric->integral && std::isfinite(value)) {
    return py::int_(static_cast<std::int64_t>(value));
  }
  return py::float_(value);
}

py::object value_of(const Row& row, const std::string& op) {
  const bool has_no_tensor = row.missing || !row.given.empty();
  if (op == "shape") return has_no_tensor ? py::object(py::float_(NAN)) : py::object(py::cast(row.shape));
  if (op == "dtype") {
    if (has_no_tensor) return py::float_(NAN);
    return py::str("torch." + std::string(msprobe::dtype_name(row.dtype)));
  }
  return number(row, op);
}

// [(label, micro step, [values])], one for each row.
py::list frame_values(const Frame& frame, const std::vector<std::string>& ops) {
  py::list result;
  for (const Row& row : frame.rows()) {
    py::list numbers;
    for (const std::string& op : ops) numbers.append(value_of(row, op));
    result.append(py::make_tuple(row.label, row.micro_step, numbers));
  }
  return result;
}

// Rows in the order in which they were numbered; with `labels` those of each group together, the group of the
// earliest row first.
void sort(Frame& frame, const monitor::Labels* labels) {
  frame.sort([](const Row& row) { return static_cast<std::size_t>(row.call); });
  if (labels == nullptr) return;
  const std::vector<monitor::Label> all = labels->all();
  const auto group_of = [&](const Row& row) { return row.label < all.size() ? all[row.label].group : 0; };
  std::unordered_map<std::uint32_t, std::size_t> order;
  for (const Row& row : frame.rows()) order.try_emplace(group_of(row), order.size());
  frame.sort([&](const Row& row) { return order.at(group_of(row)); });
}

// What the port of a framework says of a tensor, as a row.
Row row_of(std::uint32_t label, const PortTensor& tensor, std::int32_t micro_step, double eps) {
  Row row;
  row.label = label;
  row.micro_step = micro_step;
  row.dtype = tensor.readable_dtype();
  row.shape = tensor.shape;
  msprobe::stats::SummaryOptions options;
  options.powers = true;
  options.small = eps;
  row.sums = monitor::sums_of(msprobe::stats::summarize(tensor.view(row.dtype), options));
  return row;
}

// Labels and options of one kind of csv file.
class CsvTable {
 public:
  CsvTable(std::vector<std::string> ops, int digits, bool micro_steps, bool qualifies_dtypes)
      : options_{std::move(ops), digits, micro_steps, qualifies_dtypes} {}

  std::string header() const { return monitor::csv_header(options_); }

  std::string rows(const Frame& frame, const monitor::Labels& labels, std::int64_t step) const {
    return monitor::csv_rows(frame.rows(), labels, step, options_);
  }

 private:
  monitor::CsvOptions options_;
};

monitor::AlertRule alert_rule(const std::string& name, std::optional<double> threshold) {
  using Kind = monitor::AlertRule::Kind;
  if (name == "AnomalyTurbulence") return {Kind::kTurbulence, threshold};
  if (name == "AnomalyNan") return {Kind::kNan, threshold};
  throw msprobe::InvalidArgument("rule_name: expected AnomalyTurbulence or AnomalyNan, found " + name);
}

const char* kind_name(monitor::Kind kind) {
  switch (kind) {
    case monitor::Kind::kTensor: return "tensor";
    case monitor::Kind::kPair: return "pair";
    case monitor::Kind::kCounts: return "counts";
  }
  throw msprobe::InternalError("a row of unknown kind");
}

py::list metric_rows() {
  py::list rows;
  for (const monitor::Metric& metric : monitor::metrics()) {
    rows.append(
        py::make_tuple(kind_name(metric.kind), metric.name, metric.formula, metric.unit, metric.source));
  }
  return rows;
}

py::list quantity_rows() {
  py::list rows;
  for (const monitor::Quantity& one : monitor::quantities()) {
    py::list metrics;
    for (const std::string_view metric : one.metrics) metrics.append(metric);
    rows.append(py::make_tuple(one.name, one.group, one.kind ? kind_name(*one.kind) : "number", one.meaning,
                               py::tuple(metrics), one.cost, one.source, one.scope));
  }
  return rows;
}

}  // namespace

void register_monitor(py::module_& m) {
  m.def("monitor_metrics", &metric_rows);
  m.def("monitor_quantities", &quantity_rows);
  m.def(
      "monitor_unit",
      [](std::size_t quantity, const std::string& metric) {
        return monitor::unit_of(monitor::quantities()[quantity], metric);
      },
      py::arg("quantity"), py::arg("metric"));
  m.def(
      "monitor_chosen_metrics",
      [](std::size_t quantity, const std::vector<std::string>& wanted) {
        return monitor::chosen_metrics(monitor::quantities()[quantity], wanted);
      },
      py::arg("quantity"), py::arg("wanted"));

  py::class_<monitor::CallCounter, std::shared_ptr<monitor::CallCounter>>(m, "MonitorCalls", py::is_final())
      .def("next", &monitor::CallCounter::next);

  py::class_<Frame, std::shared_ptr<Frame>>(m, "MonitorFrame", py::is_final())
      .def(py::init<>())
      .def("__len__", &Frame::size)
      .def("clear", &Frame::clear)
      .def("is_complete", &Frame::is_complete)
      .def("bring", &Frame::bring, py::call_guard<py::gil_scoped_release>())
      .def("complete", &Frame::complete, py::call_guard<py::gil_scoped_release>())
      .def("take", &Frame::take)
      .def("sums",
           [](const Frame& frame) {
             std::vector<double> sums;
             for (const Row& row : frame.rows()) sums.push_back(row.sums.sum);
             return sums;
           })
      .def("values", &frame_values, py::arg("ops"))
      .def(
          "add_value",
          [](Frame& frame, std::uint32_t label, double value, std::uint32_t call, double eps) {
            Row row = monitor::row_of_value(label, value, eps);
            row.call = call;
            frame.add(std::move(row));
          },
          py::arg("label"), py::arg("value"), py::arg("call") = 0, py::arg("eps") = 1e-8)
      .def(
          "add_tensor",
          [](Frame& frame, std::uint32_t label, const py::object& view, std::int32_t micro_step, double eps) {
            const PortTensor tensor(view);
            const py::gil_scoped_release no_gil;
            frame.add(row_of(label, tensor, micro_step, eps));
          },
          py::arg("label"), py::arg("view"), py::arg("micro_step") = -1, py::arg("eps") = 1e-8)
      .def(
          "add_numbers",
          [](Frame& frame, std::uint32_t label, std::vector<std::pair<std::string, double>> numbers,
             std::uint32_t call) {
            Row row;
            row.label = label;
            row.call = call;
            row.given = std::move(numbers);
            frame.add(std::move(row));
          },
          py::arg("label"), py::arg("numbers"), py::arg("call") = 0)
      .def("calls",
           [](const Frame& frame) {
             std::vector<std::uint32_t> calls;
             for (const Row& row : frame.rows()) calls.push_back(row.call);
             return calls;
           })
      .def(
          "scale",
          [](Frame& frame, const std::vector<std::uint32_t>& labels, double factor) {
            frame.scale(labels, factor);
          },
          py::arg("labels"), py::arg("factor"))
      .def("sort", &sort, py::arg("labels") = nullptr);

  py::class_<monitor::Labels, std::shared_ptr<monitor::Labels>>(m, "MonitorLabels", py::is_final())
      .def(
          "add",
          [](monitor::Labels& labels, int stage, std::string name, std::uint32_t group) {
            return labels.add({stage, std::move(name), group});
          },
          py::arg("stage"), py::arg("name"), py::arg("group") = 0)
      .def("__len__", &monitor::Labels::size)
      .def("all", [](const monitor::Labels& labels) {
        std::vector<std::tuple<int, std::string, std::uint32_t>> all;
        for (const monitor::Label& label : labels.all())
          all.emplace_back(label.stage, label.name, label.group);
        return all;
      });

  py::class_<CsvTable>(m, "MonitorCsv", py::is_final())
      .def(py::init<std::vector<std::string>, int, bool, bool>(), py::arg("ops"), py::arg("digits"),
           py::arg("micro_steps"), py::arg("qualifies_dtypes") = true)
      .def("header", &CsvTable::header)
      .def("rows", &CsvTable::rows, py::arg("frame"), py::arg("labels"), py::arg("step"));

  py::class_<monitor::Alerts>(m, "MonitorAlerts", py::is_final())
      .def(py::init([](const std::vector<std::pair<std::string, std::optional<double>>>& rules,
                       std::vector<std::string> ops) {
             std::vector<monitor::AlertRule> all;
             for (const auto& [name, threshold] : rules) all.push_back(alert_rule(name, threshold));
             return std::make_unique<monitor::Alerts>(std::move(all), std::move(ops));
           }),
           py::arg("rules"), py::arg("ops"))
      .def(
          "check",
          [](monitor::Alerts& alerts, const Frame& frame) {
            std::vector<std::tuple<std::size_t, std::size_t, std::size_t, double, double>> found;
            for (const monitor::Alert& a : alerts.check(frame)) {
              found.emplace_back(a.row, a.op, a.rule, a.value, a.mean);
            }
            return found;
          },
          py::arg("frame"));
}
