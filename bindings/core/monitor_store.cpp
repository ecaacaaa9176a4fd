// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <memory>
#include <optional>
#include <tuple>

#include "core.h"
#include "msprobe/error.h"
#include "msprobe/monitor.h"
#include "msprobe/monitor_session.h"

namespace {

namespace monitor = msprobe::monitor;
using monitor::Bucket;
using monitor::Series;
using monitor::StoreReader;
using monitor::StoreWriter;

std::unique_ptr<StoreWriter> open_writer(const std::filesystem::path& path,
                                         std::optional<std::int64_t> resume_at,
                                         std::map<std::string, std::string> info, std::size_t queue_bytes) {
  StoreWriter::Options options;
  options.resume_at = resume_at;
  options.info = std::move(info);
  options.queue_bytes = queue_bytes;
  return std::make_unique<StoreWriter>(path, std::move(options));
}

// A point of a curve: [first step, last step, min, max, mean, count, bad].
py::list points(const std::vector<Bucket>& curve) {
  py::list result;
  for (const Bucket& b : curve) {
    result.append(py::make_tuple(b.first_step, b.last_step, b.min, b.max, b.mean, b.count, b.bad));
  }
  return result;
}

py::list curves(const StoreReader& reader, const std::vector<std::uint32_t>& series, std::int64_t first,
                std::int64_t last, std::size_t most) {
  std::vector<std::vector<Bucket>> found;
  {
    const py::gil_scoped_release no_gil;
    found = reader.curves(series, first, last, most);
  }
  py::list result;
  for (const std::vector<Bucket>& curve : found) result.append(points(curve));
  return result;
}

// (steps, a column of numbers for each series; None: it has none there).
py::tuple values_tuple(const StoreReader::Values& found) {
  py::list numbers;
  for (const std::vector<double>& of_series : found.numbers) {
    py::list column;
    for (const double number : of_series) {
      column.append(monitor::is_absent(number) ? py::object(py::none()) : py::object(py::float_(number)));
    }
    numbers.append(column);
  }
  return py::make_tuple(found.steps, numbers);
}

py::tuple series_values(const StoreReader& reader, const std::vector<std::uint32_t>& series,
                        std::int64_t first, std::int64_t last) {
  StoreReader::Values found;
  {
    const py::gil_scoped_release no_gil;
    found = reader.values(series, first, last);
  }
  return values_tuple(found);
}

using SeriesTuple = std::tuple<std::string, std::string, std::string, std::string, std::int64_t, std::string>;

// Plain values, which go from process to process: (series, (steps, columns)); None: there is none.
py::object past_tuple(const std::optional<monitor::Past>& past) {
  if (!past) return py::none();
  std::vector<SeriesTuple> series;
  for (const Series& s : past->series) {
    series.emplace_back(s.quantity, s.metric, s.name, s.scope, s.layer, s.unit);
  }
  return py::make_tuple(series, values_tuple(past->values));
}

using Column = std::vector<std::optional<double>>;

monitor::Past past_of(const std::vector<SeriesTuple>& series,
                      const std::pair<std::vector<std::int64_t>, std::vector<Column>>& values) {
  monitor::Past past;
  for (const auto& [quantity, metric, name, scope, layer, unit] : series) {
    past.series.push_back({quantity, metric, name, scope, layer, unit});
  }
  past.values.steps = values.first;
  for (const Column& column : values.second) {
    std::vector<double>& numbers = past.values.numbers.emplace_back();
    numbers.reserve(past.values.steps.size());
    for (const auto& number : column) numbers.push_back(number.value_or(monitor::absent()));
    numbers.resize(past.values.steps.size(), monitor::absent());
  }
  past.values.numbers.resize(past.series.size(),
                             std::vector<double>(past.values.steps.size(), monitor::absent()));
  return past;
}

py::tuple parting(const monitor::Parting& one) {
  return py::make_tuple(one.pair, one.step, one.reference, one.target, one.band);
}

// (partings, first difference or None, common steps); a parting: (pair, step, reference, target, band).
py::tuple partings(const StoreReader& reference, const StoreReader& target,
                   const std::vector<std::tuple<std::uint32_t, std::uint32_t, bool, bool, double>>& pairs,
                   const py::object& progress) {
  std::vector<monitor::SeriesPair> wanted;
  for (const auto& [a, b, has_noise, is_count, kept] : pairs)
    wanted.push_back({a, b, has_noise, is_count, kept});
  std::function<bool(double)> told;
  if (!progress.is_none()) {
    told = [&](double share) {
      const py::gil_scoped_acquire gil;
      return progress(share).cast<bool>();
    };
  }
  monitor::Partings found;
  {
    const py::gil_scoped_release no_gil;
    found = monitor::find_partings(reference, target, wanted, {}, told);
  }
  py::list all;
  for (const monitor::Parting& one : found.found) all.append(parting(one));
  const py::object first = found.first_difference ? py::object(parting(*found.first_difference)) : py::none();
  return py::make_tuple(all, first, found.common_steps);
}

const char* rule_kind_name(monitor::Rule::Kind kind) {
  using Kind = monitor::Rule::Kind;
  switch (kind) {
    case Kind::kNonFinite: return "nonfinite";
    case Kind::kLimit: return "limit";
    case Kind::kSpike: return "spike";
    case Kind::kDrift: return "drift";
    case Kind::kTurbulence: return "turbulence";
  }
  throw msprobe::InternalError("a rule of unknown kind");
}

monitor::Rule::Kind rule_kind_named(const std::string& name) {
  using Kind = monitor::Rule::Kind;
  for (const Kind kind : {Kind::kNonFinite, Kind::kLimit, Kind::kSpike, Kind::kDrift, Kind::kTurbulence}) {
    if (name == rule_kind_name(kind)) return kind;
  }
  throw msprobe::InvalidArgument("rule: expected nonfinite, limit, spike, drift or turbulence, found " +
                                 name);
}

}  // namespace

void register_monitor_store(py::module_& m) {
  const auto released = py::call_guard<py::gil_scoped_release>();

  py::class_<Series>(m, "MonitorSeries", py::is_final())
      .def(py::init([](std::string quantity, std::string metric, std::string name, std::string scope,
                       std::int64_t layer, std::string unit) {
             return Series{std::move(quantity), std::move(metric), std::move(name), std::move(scope), layer,
                           std::move(unit)};
           }),
           py::arg("quantity"), py::arg("metric") = "", py::arg("name") = "", py::arg("scope") = "model",
           py::arg("layer") = -1, py::arg("unit") = "")
      .def_readonly("quantity", &Series::quantity)
      .def_readonly("metric", &Series::metric)
      .def_readonly("name", &Series::name)
      .def_readonly("scope", &Series::scope)
      .def_readonly("layer", &Series::layer)
      .def_readonly("unit", &Series::unit)
      .def_property_readonly("key", &Series::key);

  py::class_<StoreWriter>(m, "MonitorStoreWriter", py::is_final())
      .def(py::init(&open_writer), py::arg("path"), py::kw_only(), py::arg("resume_at") = py::none(),
           py::arg("info") = std::map<std::string, std::string>(),
           py::arg("queue_bytes") = StoreWriter::Options().queue_bytes, released)
      .def("add_series", &StoreWriter::add_series, py::arg("series"))
      .def(
          "append",
          [](StoreWriter& writer, std::int64_t step, const std::vector<double>& numbers) {
            const py::gil_scoped_release no_gil;
            writer.append(step, numbers);
          },
          py::arg("step"), py::arg("numbers"))
      .def("flush", &StoreWriter::flush, released)
      .def_property_readonly("last_step", &StoreWriter::last_step);

  py::class_<StoreReader>(m, "MonitorStoreReader", py::is_final())
      .def(py::init<std::filesystem::path, std::int64_t>(), py::arg("path"), py::arg("shift") = 0, released)
      .def_property_readonly("path", &StoreReader::path)
      .def("info", &StoreReader::info, released)
      .def("series", &StoreReader::series, released)
      .def("extent",
           [](const StoreReader& reader) {
             const StoreReader::Extent extent = reader.extent();
             return py::make_tuple(extent.steps, extent.first, extent.last);
           })
      .def("curves", &curves, py::arg("series"), py::arg("first"), py::arg("last"), py::arg("points"))
      .def("values", &series_values, py::arg("series"), py::arg("first"), py::arg("last"));

  m.def("monitor_partings", &partings, py::arg("reference"), py::arg("target"), py::arg("pairs"),
        py::arg("progress") = py::none());
  m.def(
      "monitor_noise_band",
      [](const StoreReader& reference, std::uint32_t series, const std::vector<std::int64_t>& steps) {
        return monitor::noise_band(reference, series, steps);
      },
      py::arg("reference"), py::arg("series"), py::arg("steps"), released);

  using monitor::Rule;
  py::class_<Rule>(m, "MonitorRule", py::is_final())
      .def(py::init([](const std::string& kind, std::string name, std::vector<std::string> series,
                       double threshold, double ratio, double slack, bool falling, std::int64_t warm_up,
                       std::int64_t window, std::int64_t cooldown) {
             return Rule{rule_kind_named(kind),
                         std::move(name),
                         std::move(series),
                         threshold,
                         ratio,
                         slack,
                         falling,
                         warm_up,
                         window,
                         cooldown};
           }),
           py::arg("kind"), py::kw_only(), py::arg("name"), py::arg("series"), py::arg("threshold") = 0.0,
           py::arg("ratio") = 1.0, py::arg("slack") = 1.0, py::arg("falling") = false, py::arg("warm_up") = 0,
           py::arg("window") = 100, py::arg("cooldown") = 100)
      .def_property_readonly("kind", [](const Rule& rule) { return rule_kind_name(rule.kind); })
      .def_readonly("name", &Rule::name)
      .def_readonly("series", &Rule::series)
      .def_readonly("threshold", &Rule::threshold)
      .def_readonly("ratio", &Rule::ratio)
      .def_readonly("slack", &Rule::slack)
      .def_readonly("falling", &Rule::falling)
      .def_readonly("warm_up", &Rule::warm_up)
      .def_readonly("window", &Rule::window)
      .def_readonly("cooldown", &Rule::cooldown);
  m.def("monitor_default_rules", &monitor::default_rules);

  using monitor::Session;
  py::class_<Session>(m, "MonitorSession", py::is_final())
      .def(py::init([](std::vector<std::string> metrics, std::vector<std::string> levels,
                       std::vector<Rule> rules, std::int64_t every, bool apart) {
             return std::make_unique<Session>(
                 Session::Options{std::move(metrics), std::move(levels), std::move(rules), every, apart});
           }),
           py::kw_only(), py::arg("metrics") = std::vector<std::string>(),
           py::arg("levels") = std::vector<std::string>(), py::arg("rules") = std::vector<Rule>(),
           py::arg("every") = 1, py::arg("apart") = false)
      .def_property_readonly("labels", &Session::labels)
      .def_property_readonly("calls", &Session::calls)
      .def(
          "frame",
          [](Session& session, const std::string& quantity) {
            return session.frame(monitor::measured_named(quantity));
          },
          py::arg("quantity"))
      .def("take_rows", &Session::take_rows)
      .def("drop_rows", &Session::drop_rows)
      .def("open", &Session::open, py::arg("path"), py::arg("start"), py::arg("info"), released)
      .def("past", [](const Session& session) { return past_tuple(session.past()); })
      .def(
          "learn",
          [](Session& session, const std::vector<SeriesTuple>& series,
             const std::pair<std::vector<std::int64_t>, std::vector<Column>>& values) {
            session.learn(past_of(series, values));
          },
          py::arg("series"), py::arg("values"))
      .def(
          "set",
          [](Session& session, const std::string& quantity, const std::string& metric,
             const std::string& name,
             double value) { session.set(monitor::measured_named(quantity), metric, name, value); },
          py::arg("quantity"), py::arg("metric"), py::arg("name"), py::arg("value"))
      .def("evaluate", &Session::evaluate, py::arg("frame"), released)
      .def("numbers",
           [](Session& session) {
             py::dict found;  // by key
             const std::vector<double>& values = session.numbers();
             for (std::size_t i = 0; i < values.size(); ++i) {
               if (!monitor::is_absent(values[i])) found[py::str(session.keys()[i])] = values[i];
             }
             return found;
           })
      .def_property_readonly("keys", &Session::keys)
      .def("append", &Session::append, py::arg("step"), released)
      .def(
          "check",
          [](Session& session, std::int64_t step) {
            std::vector<monitor::Alarm> alarms;
            {
              const py::gil_scoped_release no_gil;
              alarms = session.check(step);
            }
            py::list found;  // [(series, rule, value, expected, score)], the most urgent first
            for (const monitor::Alarm& a : alarms) {
              found.append(py::make_tuple(a.series, a.rule, a.value, a.expected, a.score));
            }
            return found;
          },
          py::arg("step"))
      .def("clear", &Session::clear)
      .def("flush", &Session::flush, released);
  m.def("monitor_continue_alarms", &monitor::continue_alarms, py::arg("path"), py::arg("start"));
}
