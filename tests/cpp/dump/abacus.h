// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A framework of a hundred lines, with tensors, functions, modules and a backward: what an adapter for any
/// framework has to do. Its tensors are vectors, its backward a list of functions.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/dump.h"

namespace msprobe::test::abacus {

inline const trace::Framework kAbacus{.name = "abacus",
                                      .package = "abacus",
                                      .qualifies_dtypes = false,
                                      .has_requires_grad = false,
                                      .has_recompute = false};

struct Tensor {
  std::vector<float> values;
  std::shared_ptr<std::vector<float>> gradient = std::make_shared<std::vector<float>>();
};

// ---- The adapter: values for a session, and names for calls.

class Adapter {
 public:
  explicit Adapter(dump::Options options) : session(std::move(options)) { session.set_collecting(true); }

  static void put(dump::ValueWriter& to, const std::vector<float>& values) {
    const std::int64_t shape[] = {static_cast<std::int64_t>(values.size())};
    trace::TensorElement element;
    element.dtype = DType::kFloat32;
    element.shape = shape;
    element.statistics = trace::measure({values.data(), DType::kFloat32, shape, {}}, {});
    to.out().tensor(element);
  }

  struct Values final : dump::CallValues {
    void arguments(dump::ValueWriter& to) override {
      to.item(0, [&] { put(to, in.values); });
    }
    void results(dump::ValueWriter& to) override {
      to.item(0, [&] { put(to, out.values); });
    }
    void parameters(dump::ValueWriter& to) override {
      if (weight) to.member("weight", [&] { to.out().real(*weight); });
    }
    Tensor in, out;
    const float* weight = nullptr;
  };

  std::string number(const std::string& what) { return std::to_string(counts_[what]++); }

  void write_backward(const std::string& forward, bool is_module,
                      const std::shared_ptr<const dump::Frame>& in, const Tensor& input,
                      const Tensor& output) {
    const std::string name = dump::backward_name(forward);
    const dump::Backward backward{name, is_module, in.get()};
    trace::ElementWriter arrived, leaving;
    dump::ValueWriter of_output(arrived, name), of_input(leaving, name);
    put(of_output, *output.gradient);
    put(of_input, *input.gradient);
    session.write_backward(backward, session.begin_backward(backward), {arrived.bytes(), arrived.worst()},
                           {leaving.bytes(), leaving.worst()});
  }

  dump::Session session;
  std::vector<std::function<void()>> tape;  // of the backward, last first

 private:
  std::map<std::string, int> counts_;
};

// ---- The framework: each element by itself. `slope`: of the result, by the argument and a factor.

inline Tensor call(Adapter& adapter, const std::string& function, const Tensor& in,
                   const std::function<float(float)>& value, const std::function<float(float)>& slope) {
  const std::string callee = "Bead." + function;
  dump::Call call{.name = callee + "." + adapter.number(callee) + ".forward"};
  Adapter::Values values;
  values.in = in;
  adapter.session.begin_call(call, values);
  for (const float element : in.values) values.out.values.push_back(value(element));
  adapter.session.end_call(call, values);
  const auto module = adapter.session.recorder().innermost();
  adapter.tape.emplace_back([&adapter, call, module, in, out = values.out, slope] {
    for (std::size_t i = 0; i < in.values.size(); ++i) {
      in.gradient->push_back((*out.gradient)[i] * slope(in.values[i]));
    }
    if (call.watches_backward) adapter.write_backward(call.name, false, module, in, out);
  });
  return values.out;
}

/// Multiplies by its weight, then cuts off what is below 0.
struct Frame {
  std::string path;
  float weight;

  Tensor operator()(Adapter& adapter, const Tensor& in) const {
    const std::string callee = "Module." + path + ".Frame";
    dump::Call call{.name = callee + ".forward." + adapter.number(callee)};
    Adapter::Values values;
    values.in = in;
    values.weight = &weight;
    adapter.session.begin_module(call);
    const float w = weight;
    const Tensor product =
        abacus::call(adapter, "scale", in, [w](float x) { return w * x; }, [w](float) { return w; });
    values.out = abacus::call(
        adapter, "relu", product, [](float x) { return x > 0 ? x : 0; },
        [](float x) { return x > 0 ? 1.0F : 0.0F; });
    const auto around = adapter.session.recorder().innermost();
    adapter.session.end_module(call, &values);
    if (call.watches_backward) {
      adapter.tape.emplace(adapter.tape.end() - 2, [&adapter, call, parent = around->parent, values] {
        adapter.write_backward(call.name, true, parent, values.in, values.out);
      });
    }
    return values.out;
  }
};

/// One step of a training of two frames; its files are in `directory`.
inline void train(const std::filesystem::path& directory, float second_weight, dump::Options options = {}) {
  options.framework = kAbacus;
  Adapter adapter(std::move(options));
  adapter.session.recorder().open(directory);
  const Tensor x{{1, -2, 3}};
  const Tensor y = Frame{"layers.1", second_weight}(adapter, Frame{"layers.0", 2}(adapter, x));
  y.gradient->assign(y.values.size(), 1);
  for (auto step = adapter.tape.rbegin(); step != adapter.tape.rend(); ++step) (*step)();
  adapter.session.end_step();
  adapter.session.recorder().close();
}

}  // namespace msprobe::test::abacus
