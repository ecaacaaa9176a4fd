# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0

# Finds libtorch and defines msprobe::libtorch. Used by msprobe's own build and, installed, by find_package(msprobe COMPONENTS
# torch). A project that has called find_package(Torch) before keeps what it found.
#
# torch's own TorchConfig.cmake is not called from here: with a CUDA build of torch it stops the configuration on machines
# without nvcc, and msprobe compiles no CUDA code. Headers, libtorch, libtorch_cpu and libc10 serve every kind of device.

# Sets `result` to the folder that holds torch's include/ and lib/, or to nothing.
function(msprobe_torch_root result)
  set(candidates "${MSPROBE_TORCH_ROOT}")
  if(Torch_DIR)
    list(APPEND candidates "${Torch_DIR}/../../..")  # share/cmake/Torch
  endif()
  if(Python_EXECUTABLE)
    # torch is not imported, which would take seconds. pip's build isolation hides the environment by PYTHONPATH: the second
    # try looks past it.
    set(find_torch "from importlib.util import find_spec
spec = find_spec('torch')
print(spec.submodule_search_locations[0] if spec and spec.origin else '')")
    foreach(environment "" "--unset=PYTHONPATH")
      execute_process(COMMAND "${CMAKE_COMMAND}" -E env ${environment} "${Python_EXECUTABLE}" -c "${find_torch}"
        OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      list(APPEND candidates "${root}")
    endforeach()
  endif()
  foreach(prefix IN LISTS CMAKE_PREFIX_PATH)
    list(APPEND candidates "${prefix}" "${prefix}/../..")  # a libtorch folder, or torch.utils.cmake_prefix_path
  endforeach()
  foreach(candidate IN LISTS candidates)
    if(candidate AND EXISTS "${candidate}/include/ATen/core/Tensor.h")
      file(REAL_PATH "${candidate}" candidate)
      set(${result} "${candidate}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

# Defines msprobe::libtorch (also msprobe::torch_python where that exists) and sets MSPROBE_TORCH_VERSION and, for a torch that
# asks for it, MSPROBE_GLIBCXX_ABI. Defines and sets nothing when there is no torch 2.1 or newer.
macro(msprobe_find_libtorch)
  if(NOT TARGET msprobe::libtorch AND TARGET torch)
    add_library(msprobe::libtorch INTERFACE IMPORTED)
    target_link_libraries(msprobe::libtorch INTERFACE torch)
    set(MSPROBE_TORCH_VERSION "${Torch_VERSION}")
  elseif(NOT TARGET msprobe::libtorch)
    msprobe_torch_root(msprobe_torch_root)
    msprobe_import_libtorch("${msprobe_torch_root}")
  endif()
endmacro()

function(msprobe_import_libtorch root)
  set(api "${root}/include/torch/csrc/api/include")
  set(version "")
  foreach(header "${api}/torch/version.h" "${root}/include/torch/headeronly/version.h")
    if(EXISTS "${header}" AND NOT version)
      file(STRINGS "${header}" lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]")
      list(TRANSFORM lines REPLACE "[^0-9]*([0-9]+).*" "\\1")
      list(JOIN lines "." version)
    endif()
  endforeach()
  foreach(library torch torch_cpu c10 torch_python)
    find_library(library_${library} ${library} PATHS "${root}/lib" NO_DEFAULT_PATH NO_CACHE)
  endforeach()
  if(NOT version VERSION_GREATER_EQUAL 2.1 OR NOT library_torch OR NOT library_torch_cpu OR NOT library_c10)
    return()
  endif()

  add_library(msprobe::libtorch INTERFACE IMPORTED GLOBAL)
  target_include_directories(msprobe::libtorch SYSTEM INTERFACE "${root}/include" "${api}")
  target_link_libraries(msprobe::libtorch INTERFACE "${library_torch}" "${library_torch_cpu}" "${library_c10}")
  if(library_torch_python)
    add_library(msprobe::torch_python INTERFACE IMPORTED GLOBAL)
    target_link_libraries(msprobe::torch_python INTERFACE msprobe::libtorch "${library_torch_python}")
  endif()
  set(MSPROBE_TORCH_VERSION ${version} PARENT_SCOPE)

  set(config "${root}/share/cmake/Torch/TorchConfig.cmake")
  if(EXISTS "${config}")
    file(STRINGS "${config}" abi REGEX "_GLIBCXX_USE_CXX11_ABI=[01]")
    if(abi MATCHES "_GLIBCXX_USE_CXX11_ABI=([01])")
      set(MSPROBE_GLIBCXX_ABI ${CMAKE_MATCH_1} PARENT_SCOPE)
    endif()
  endif()
endfunction()
