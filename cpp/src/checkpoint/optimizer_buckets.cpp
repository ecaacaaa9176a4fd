// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/optimizer_buckets.h"

#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/convert.h"
#include "base/reversed.h"
#include "checkpoint/optimizer.h"
#include "checkpoint/pieces.h"
#include "checkpoint/state_dict.h"
#include "msprobe/metrics.h"

namespace msprobe::checkpoint {
namespace {

using io::PtDict;
using io::PtList;
using io::PtTensor;
using io::PtValue;

constexpr std::int64_t kAlignment = 64;  // elements, from the beginning of a bucket
constexpr std::string_view kWeights = "param";

// A parameter of the model, with the number of its chunk in front of its name.
struct Wanted {
  std::string name;
  const Parameter* parameter;
};
using BufferOrder = std::vector<Wanted>;

// What the buffers of an optimizer may hold, each from the last parameter to the first.
std::vector<BufferOrder> possible_buffer_orders(const std::vector<std::vector<Parameter>>& chunks) {
  std::vector<BufferOrder> orders;
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    for (const std::vector<const Parameter*>& subset : possible_subsets(chunks[chunk])) {
      BufferOrder order;
      for (const Parameter* one : Reversed(subset)) {
        order.push_back({std::to_string(chunk) + "/" + one->name, one});
      }
      if (!order.empty()) orders.push_back(std::move(order));
    }
  }
  return orders;
}

// A vector that lies in memory without gaps.
const PtTensor* vector_in(const PtValue& value) {
  const auto* const tensor = value.as<PtTensor>();
  if (tensor == nullptr || tensor->shape.size() != 1 || tensor->dtype != DType::kFloat32) return nullptr;
  return tensor->shape[0] < 2 || tensor->strides[0] == 1 ? tensor : nullptr;
}

// The weights and the other states of one buffer, of the same length.
struct Buffer {
  const PtTensor* weights = nullptr;
  std::vector<std::pair<std::string, const PtTensor*>> states;
};

std::optional<Buffer> buffer_of(const PtDict& dict) {
  const PtValue* const weights = dict.find(kWeights);
  Buffer buffer;
  buffer.weights = weights == nullptr ? nullptr : vector_in(*weights);
  if (buffer.weights == nullptr) return std::nullopt;
  for (const auto& [key, value] : dict.entries) {
    const auto* const name = key->as<std::string>();
    const PtTensor* const state = vector_in(*value);
    if (name == nullptr || state == nullptr || state->shape != buffer.weights->shape) continue;
    buffer.states.emplace_back(*name == kWeights ? "fp32_param" : *name, state);
  }
  return buffer;
}

void find_buffers(const PtValue& value, int depth, std::vector<Buffer>& found) {
  constexpr int kMostDepth = 4;  // optimizers, buffers, dtypes
  if (depth > kMostDepth) return;
  if (const auto* list = value.as<PtList>()) {
    for (const PtValue* one : list->items) find_buffers(*one, depth + 1, found);
  } else if (const auto* dict = value.as<PtDict>()) {
    if (auto buffer = buffer_of(*dict)) return found.push_back(std::move(*buffer));
    for (const auto& [_, one] : dict->entries) find_buffers(*one, depth + 1, found);
  }
}

// How far a weight may be from its copy in full precision, in units of the weight.
float rounding(DType dtype) {
  return element_size(dtype) < sizeof(float) ? static_cast<float>(metrics::unit_roundoff(dtype)) : 0;
}

// Whether samples of a parameter, the first and the last element among them, are found at `copies`.
bool is_copy(const Parameter& one, const std::uint8_t* copies) {
  constexpr std::int64_t kSamples = 64;
  constexpr float kSmallest = 0x1p-24F;  // of float16
  const std::int64_t count = count_of(one.shape);
  const std::int64_t samples = std::min(count, kSamples);
  const std::size_t item = element_size(one.dtype);
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const auto at = static_cast<std::size_t>(samples == 1 ? 0 : sample * ((count - 1) / (samples - 1)));
    const auto place = sample + 1 == samples ? static_cast<std::size_t>(count - 1) : at;
    alignas(16) std::array<std::uint8_t, 16> element;
    std::memcpy(element.data(), one.pieces[0].data + place * item, item);
    float weight = 0;
    convert_to_float(element.data(), one.dtype, 1, &weight);
    float copy = 0;
    std::memcpy(&copy, copies + place * sizeof copy, sizeof copy);
    const float allowed = std::abs(weight) * rounding(one.dtype) + (rounding(one.dtype) > 0 ? kSmallest : 0);
    if (!(std::abs(weight - copy) <= allowed) && !(std::isnan(weight) && std::isnan(copy))) return false;
  }
  return true;
}

bool has_one_place(const Parameter& one) {
  const bool is_real = one.dtype == DType::kFloat32 || rounding(one.dtype) > 0;
  return is_real && one.pieces.size() == 1 &&
         is_c_contiguous({nullptr, one.dtype, one.shape, one.pieces[0].strides});
}

// Where each parameter of the order begins; nullopt where they are not in this buffer.
std::optional<std::vector<std::int64_t>> places_in(const Buffer& buffer, const BufferOrder& order) {
  const std::int64_t size = buffer.weights->shape[0];
  std::vector<std::int64_t> places;
  std::int64_t bucket = 0;
  std::int64_t end = 0;
  for (const Wanted& wanted : order) {
    const Parameter& one = *wanted.parameter;
    if (!has_one_place(one)) return std::nullopt;
    const auto is_at = [&](std::int64_t place) {
      return place <= size && count_of(one.shape) <= size - place &&
             is_copy(one, buffer.weights->data + place * static_cast<std::int64_t>(sizeof(float)));
    };
    const std::int64_t aligned = bucket + (end - bucket + kAlignment - 1) / kAlignment * kAlignment;
    std::int64_t place = aligned;
    if (!is_at(aligned)) {  // the beginning of the next bucket
      if (aligned == end || !is_at(end)) return std::nullopt;
      place = bucket = end;
    }
    places.push_back(place);
    end = place + count_of(one.shape);
  }
  return end == size ? std::optional(std::move(places)) : std::nullopt;
}

}  // namespace

std::vector<Parameter> bucket_states(const PtValue& root, const std::vector<std::vector<Parameter>>& chunks,
                                     const std::string& path, std::vector<LeftOut>& left_out) {
  std::vector<Buffer> buffers;
  find_buffers(root, 0, buffers);
  const std::vector<BufferOrder> orders = possible_buffer_orders(chunks);
  std::vector<Parameter> result;
  std::size_t unknown = 0;
  for (const Buffer& buffer : buffers) {
    bool is_known = false;
    for (const BufferOrder& order : orders) {
      const auto places = places_in(buffer, order);
      if (!places) continue;
      is_known = true;
      for (const auto& [state, values] : buffer.states) {
        for (std::size_t i = 0; i < order.size(); ++i) {
          const std::uint8_t* const data =
              values->data + (*places)[i] * static_cast<std::int64_t>(sizeof(float));
          result.push_back(whole("optimizer." + state + "." + order[i].name,
                                 {data, DType::kFloat32, order[i].parameter->shape, {}}));
        }
      }
      break;
    }
    unknown += is_known ? 0 : 1;
  }
  if (buffers.empty()) {
    left_out.push_back({"optimizer", path + ": found no buffers of a distributed optimizer"});
  } else if (unknown > 0) {
    left_out.push_back({"optimizer", path + ": " + std::to_string(unknown) + " of its " +
                                         std::to_string(buffers.size()) +
                                         " buffers do not have the weights of the model in a known order"});
  }
  return result;
}

}  // namespace msprobe::checkpoint
