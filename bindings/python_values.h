// Copyright 2026 The msprobe authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Values of Python as elements of a dump (docs/formats/dump.md, "Elements"), whatever framework the tensors
/// among them are of. Nothing of the values is called: no property, no iterator, no repr of a user's class.
/// All needs the GIL.

#include <pybind11/pybind11.h>

#include <string_view>

#include "msprobe/dump.h"

/// What a framework adds to the values of Python.
class FrameworkValues {
 public:
  virtual ~FrameworkValues() = default;
  /// Writes a tensor; false: `value` is none.
  virtual bool put_tensor(PyObject* value, msprobe::dump::ValueWriter& to) = 0;
  /// Writes a value of which its key says what it is, as dtypes and devices may be plain texts; false: it is
  /// as any other.
  virtual bool put_keyed(PyObject* value, std::string_view key, msprobe::dump::ValueWriter& to) = 0;
  /// Writes a value of a class of the framework; false: it is none.
  virtual bool put_object(PyObject* value, msprobe::dump::ValueWriter& to) = 0;
  /// Whether arrays of numbers that are no tensors are measured.
  virtual bool measures_arrays() const { return true; }
};

/// Walks values: their tensors and what else is the framework's own go to that.
class PythonValues {
 public:
  enum class Wanted { kAll, kTensors };  // kTensors: everything that is no tensor and holds none is null

  /// Files of arrays go to `recorder`.
  PythonValues(msprobe::dump::Recorder& recorder, FrameworkValues& framework, Wanted wanted = Wanted::kAll)
      : recorder_(recorder), framework_(framework), wanted_(wanted) {}

  /// One value; `key`: that it stands under, or empty. Throws UnsupportedError for what is nested too deep.
  void put(PyObject* value, msprobe::dump::ValueWriter& to, std::string_view key = {});
  /// A value under its key.
  void put_member(PyObject* key, PyObject* value, msprobe::dump::ValueWriter& to);

  /// Whether a tuple is a namedtuple of Python.
  static bool has_fields(PyObject* tuple);

 private:
  void put_sequence(PyObject* tuple, msprobe::dump::ValueWriter& to);
  void put_dict(PyObject* dict, msprobe::dump::ValueWriter& to);
  bool put_fields(PyObject* value, msprobe::dump::ValueWriter& to);
  bool put_numpy(PyObject* value, msprobe::dump::ValueWriter& to);
  void put_array(const pybind11::handle& array, msprobe::dump::ValueWriter& to);

  msprobe::dump::Recorder& recorder_;
  FrameworkValues& framework_;
  Wanted wanted_;
};

/// str(value).
std::string text_of(PyObject* value);
