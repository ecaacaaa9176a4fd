// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <cmath>
#include <limits>
#include <vector>

#include "base/convert.h"
#include "base/layout.h"
#include "msprobe/error.h"
#include "msprobe/metrics.h"

namespace msprobe::metrics {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Above it all eigenvalues would take longer than finding the largest one by multiplication.
constexpr Eigen::Index kMostForAll = 384;
constexpr int kMostMultiplications = 500;
constexpr double kConverged = 1e-10;

Matrix matrix_of(const TensorView& view, const char* what) {
  if (view.shape.size() != 2 || element_count(view) == 0 || is_complex(view.dtype)) {
    throw InvalidArgument(std::string(what) + ": expected a matrix of real numbers that is not empty");
  }
  Matrix matrix(view.shape[0], view.shape[1]);
  const Layout layout(view, false);
  const auto count = static_cast<std::size_t>(layout.count());
  if (layout.contiguous()) {
    convert_to_double(layout.at(0), view.dtype, count, matrix.data());
  } else {
    std::vector<std::byte> gathered(count * element_size(view.dtype));
    layout.gather(0, count, gathered.data());
    convert_to_double(gathered.data(), view.dtype, count, matrix.data());
  }
  return matrix;
}

// The largest eigenvalue of a symmetric matrix without negative ones.
double largest_eigenvalue(const Matrix& gram) {
  if (gram.rows() <= kMostForAll) {
    return Eigen::SelfAdjointEigenSolver<Matrix>(gram, Eigen::EigenvaluesOnly).eigenvalues().maxCoeff();
  }
  // A start that is orthogonal to nothing in particular.
  Eigen::VectorXd vector(gram.rows());
  for (Eigen::Index i = 0; i < vector.size(); ++i) vector[i] = 1 + 0.5 * std::sin(static_cast<double>(i * i));
  vector.normalize();
  double eigenvalue = 0;
  for (int i = 0; i < kMostMultiplications; ++i) {
    const Eigen::VectorXd next = gram * vector;
    const double length = next.norm();
    if (length == 0) return 0;
    const bool is_there = std::abs(length - eigenvalue) <= kConverged * length;
    eigenvalue = length;
    vector = next / length;
    if (is_there) break;
  }
  return eigenvalue;
}

Spectrum spectrum_of(Matrix gram) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const double squares = gram.trace();
  if (!gram.allFinite()) return {nan, nan};
  const double scale = gram.cwiseAbs().maxCoeff();
  if (scale == 0) return {0, nan};
  gram /= scale;
  const double largest = largest_eigenvalue(gram) * scale;
  return {std::sqrt(largest), squares / largest};
}

}  // namespace

Spectrum spectrum(const TensorView& view) {
  const Matrix matrix = matrix_of(view, "spectrum");
  if (matrix.rows() <= matrix.cols()) return spectrum_of(matrix * matrix.transpose());
  return spectrum_of(matrix.transpose() * matrix);
}

Spectrum spectrum_of_gram(const TensorView& view) {
  Matrix gram = matrix_of(view, "spectrum_of_gram");
  if (gram.rows() != gram.cols()) {
    throw InvalidArgument("spectrum_of_gram: expected a square matrix");
  }
  return spectrum_of(std::move(gram));
}

}  // namespace msprobe::metrics
