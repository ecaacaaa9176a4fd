// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "random_state.h"

#include <cstring>

namespace {

at::CPUGeneratorImpl& cpu_generator(const at::Generator& generator) {
  return *static_cast<at::CPUGeneratorImpl*>(generator.unsafeGetGeneratorImpl());
}

bool same_bytes(const at::Tensor& left, const at::Tensor& right) {
  return left.nbytes() == right.nbytes() &&
         std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

}  // namespace

RandomState::OfCpu::OfCpu(at::Generator of) : generator(std::move(of)) {
  at::CPUGeneratorImpl& impl = cpu_generator(generator);
  const std::lock_guard lock(impl.mutex_);
  engine = impl.engine().data();
  float_sample = impl.next_float_normal_sample();
  double_sample = impl.next_double_normal_sample();
}

RandomState::RandomState(const std::vector<at::Generator>& others) {
  of_cpu_.reserve(1);
  of_cpu_.emplace_back(at::detail::getDefaultCPUGenerator());
  for (const at::Generator& generator : others) {
    if (generator.device().is_cpu()) {
      of_cpu_.emplace_back(generator);
    } else {
      of_devices_.emplace_back(generator, generator.get_state());
    }
  }
}

bool RandomState::operator==(const RandomState& other) const {
  for (std::size_t i = 0; i < of_cpu_.size(); ++i) {
    const OfCpu& a = of_cpu_[i];
    const OfCpu& b = other.of_cpu_[i];
    if (a.engine.left_ != b.engine.left_ || a.engine.next_ != b.engine.next_ ||
        a.engine.seed_ != b.engine.seed_ || a.engine.state_ != b.engine.state_ ||
        a.float_sample != b.float_sample || a.double_sample != b.double_sample) {
      return false;
    }
  }
  for (std::size_t i = 0; i < of_devices_.size(); ++i) {
    if (!same_bytes(of_devices_[i].second, other.of_devices_[i].second)) return false;
  }
  return true;
}

void RandomState::restore() const {
  for (const OfCpu& state : of_cpu_) {
    at::CPUGeneratorImpl& impl = cpu_generator(state.generator);
    const std::lock_guard lock(impl.mutex_);
    at::mt19937 engine;
    engine.set_data(state.engine);
    impl.set_engine(engine);
    impl.set_next_float_normal_sample(state.float_sample);
    impl.set_next_double_normal_sample(state.double_sample);
  }
  for (const auto& [generator, state] : of_devices_) {
    at::Generator target = generator;
    const std::lock_guard lock(target.mutex());
    target.set_state(state);
  }
}
