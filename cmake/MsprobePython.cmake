# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0

# The Python interpreter, and pybind11 for the modules. Outside an activated environment, ./.venv (which ./dev makes) wins.
if(NOT DEFINED Python_EXECUTABLE AND NOT DEFINED ENV{VIRTUAL_ENV} AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH "Python interpreter")
endif()

if(NOT MSPROBE_BUILD_PYTHON)
  find_package(Python 3.9 COMPONENTS Interpreter QUIET)
  return()
endif()

find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
# 3.0.4 is the version inside torch 2.13. It is pinned because modules built with different versions of pybind11's
# internals cannot exchange classes or exceptions (docs/adr/0003).
execute_process(COMMAND "${Python_EXECUTABLE}" -m pybind11 --cmakedir
  OUTPUT_VARIABLE pybind11_cmake OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(pybind11_cmake)
  set(pybind11_DIR "${pybind11_cmake}")
endif()
set(PYBIND11_FINDPYTHON ON)
find_package(pybind11 3.0.4 EXACT CONFIG QUIET)
if(NOT pybind11_FOUND)
  message(FATAL_ERROR "msprobe: pybind11 3.0.4 was not found: "
    "install exactly this version with '${Python_EXECUTABLE} -m pip install pybind11==3.0.4'.")
endif()
