# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0

# Finds libtorch. Sets MSPROBE_HAS_TORCH, MSPROBE_TORCH_VERSION and, where torch asks for it, MSPROBE_GLIBCXX_ABI; defines
# msprobe_libtorch (and msprobe_torch_python) to link with.
#
# torch's own TorchConfig.cmake is not used: with a CUDA build of torch it stops the configuration on machines without
# nvcc, and msprobe compiles no CUDA code. Headers, libtorch_cpu and libc10 are all that is needed for every kind of device.
set(MSPROBE_HAS_TORCH OFF)
set(MSPROBE_TORCH_ROOT "" CACHE PATH "libtorch to use: the folder with include/ and lib/; empty: torch of the Python environment")
if(MSPROBE_WITH_TORCH STREQUAL "OFF")
  return()
endif()

set(torch_root "${MSPROBE_TORCH_ROOT}")
if(NOT torch_root AND Torch_DIR)
  cmake_path(SET torch_root NORMALIZE "${Torch_DIR}/../../..")  # lib/share/cmake/Torch
endif()
if(NOT torch_root AND Python_EXECUTABLE)
  # pip's build isolation hides the environment by PYTHONPATH; the second try looks past it. torch is not imported, which
  # would take seconds.
  set(find_torch "from importlib.util import find_spec
spec = find_spec('torch')
print(spec.submodule_search_locations[0] if spec and spec.origin else '')")
  foreach(hide "" "--unset=PYTHONPATH")
    if(NOT torch_root)
      execute_process(COMMAND "${CMAKE_COMMAND}" -E env ${hide} "${Python_EXECUTABLE}" -c "${find_torch}"
        OUTPUT_VARIABLE torch_root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
  endforeach()
endif()
if(NOT torch_root)
  find_path(torch_include ATen/core/Tensor.h PATH_SUFFIXES include NO_CACHE)
  if(torch_include)
    cmake_path(GET torch_include PARENT_PATH torch_root)
  endif()
endif()

if(torch_root)
  set(torch_api "${torch_root}/include/torch/csrc/api/include")
  foreach(header "${torch_root}/include/torch/headeronly/version.h" "${torch_api}/torch/version.h")
    if(EXISTS "${header}" AND NOT MSPROBE_TORCH_VERSION)
      file(STRINGS "${header}" lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]")
      list(TRANSFORM lines REPLACE "[^0-9]*([0-9]+).*" "\\1")
      list(JOIN lines "." MSPROBE_TORCH_VERSION)
    endif()
  endforeach()
  foreach(library torch_cpu c10 torch_python)
    find_library(torch_library_${library} ${library} PATHS "${torch_root}/lib" NO_DEFAULT_PATH NO_CACHE)
  endforeach()
  if(MSPROBE_TORCH_VERSION VERSION_GREATER_EQUAL 2.1 AND torch_library_torch_cpu AND torch_library_c10)
    set(MSPROBE_HAS_TORCH ON)
  endif()
endif()

if(NOT MSPROBE_HAS_TORCH)
  if(MSPROBE_WITH_TORCH STREQUAL "ON")
    message(FATAL_ERROR "msprobe: MSPROBE_WITH_TORCH is ON, but no torch 2.1 or newer was found (looked in "
      "'${torch_root}'): install it with 'pip install torch==2.13.0', or let MSPROBE_TORCH_ROOT name a libtorch folder.")
  endif()
  message(WARNING "msprobe: no torch 2.1 or newer was found: only the core is built, without the gradient probe of a training "
    "run (msprobe._torch). Install torch into the environment first and build again to have it.")
  return()
endif()
message(STATUS "msprobe: building with torch ${MSPROBE_TORCH_VERSION} of ${torch_root}")

file(GLOB torch_config "${torch_root}/share/cmake/Torch/TorchConfig.cmake")
if(torch_config)
  file(STRINGS "${torch_config}" abi_line REGEX "_GLIBCXX_USE_CXX11_ABI=[01]")
  if(abi_line MATCHES "_GLIBCXX_USE_CXX11_ABI=([01])")
    set(MSPROBE_GLIBCXX_ABI ${CMAKE_MATCH_1})
  endif()
endif()

add_library(msprobe_libtorch INTERFACE)
target_include_directories(msprobe_libtorch SYSTEM INTERFACE "${torch_root}/include" "${torch_api}")
target_link_libraries(msprobe_libtorch INTERFACE "${torch_library_torch_cpu}" "${torch_library_c10}")
if(torch_library_torch_python)
  add_library(msprobe_torch_python INTERFACE)
  target_link_libraries(msprobe_torch_python INTERFACE msprobe_libtorch "${torch_library_torch_python}")
endif()
