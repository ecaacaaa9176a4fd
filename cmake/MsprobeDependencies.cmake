# Third-party libraries: an installed package wins, a pinned download is the fallback. Licences: THIRD_PARTY_NOTICES.md.
include(FetchContent)
find_package(Threads REQUIRED)

# Google Highway: SIMD kernels for every instruction set in one source, chosen at run time.
set(HWY_ENABLE_TESTS OFF)
set(HWY_ENABLE_EXAMPLES OFF)
set(HWY_ENABLE_CONTRIB OFF)
set(HWY_ENABLE_INSTALL OFF)
FetchContent_Declare(hwy
  URL https://github.com/google/highway/archive/refs/tags/1.2.0.tar.gz
  DOWNLOAD_EXTRACT_TIMESTAMP ON
  FIND_PACKAGE_ARGS 1.0.3 CONFIG)
FetchContent_MakeAvailable(hwy)
if(NOT TARGET hwy::hwy)
  add_library(hwy::hwy ALIAS hwy)
endif()

# libdeflate: CRC-32 at the speed of memory. Debian's package has no CMake files, so look for the library itself.
find_package(libdeflate CONFIG QUIET)
if(TARGET libdeflate::libdeflate_static)
  add_library(msprobe_deflate ALIAS libdeflate::libdeflate_static)
elseif(TARGET libdeflate::libdeflate_shared)
  add_library(msprobe_deflate ALIAS libdeflate::libdeflate_shared)
else()
  find_path(LIBDEFLATE_INCLUDE libdeflate.h)
  find_library(LIBDEFLATE_LIBRARY NAMES libdeflate.a deflate)
  if(LIBDEFLATE_INCLUDE AND LIBDEFLATE_LIBRARY)
    add_library(msprobe_deflate UNKNOWN IMPORTED)
    set_target_properties(msprobe_deflate PROPERTIES
      IMPORTED_LOCATION "${LIBDEFLATE_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${LIBDEFLATE_INCLUDE}")
  else()
    set(LIBDEFLATE_BUILD_SHARED_LIB OFF)
    set(LIBDEFLATE_BUILD_GZIP OFF)
    FetchContent_Declare(libdeflate
      URL https://github.com/ebiggers/libdeflate/archive/refs/tags/v1.19.tar.gz
      DOWNLOAD_EXTRACT_TIMESTAMP ON)
    FetchContent_MakeAvailable(libdeflate)
    set_target_properties(libdeflate_static PROPERTIES POSITION_INDEPENDENT_CODE ON)
    add_library(msprobe_deflate ALIAS libdeflate_static)
  endif()
endif()

# Catch2, version 3 or 2: the difference stays in tests/cpp/catch.h.
if(MSPROBE_BUILD_TESTS)
  FetchContent_Declare(Catch2
    URL https://github.com/catchorg/Catch2/archive/refs/tags/v3.5.4.tar.gz
    DOWNLOAD_EXTRACT_TIMESTAMP ON
    FIND_PACKAGE_ARGS 2.13 CONFIG)
  FetchContent_MakeAvailable(Catch2)
endif()

# torch and Python: found through the interpreter, so that the build uses the environment's own torch.
if(MSPROBE_BUILD_PYTHON OR NOT MSPROBE_WITH_TORCH STREQUAL "OFF")
  find_package(Python 3.9 COMPONENTS Interpreter OPTIONAL_COMPONENTS Development.Module)
endif()
set(MSPROBE_HAS_TORCH OFF)
if(NOT MSPROBE_WITH_TORCH STREQUAL "OFF")
  if(NOT Torch_DIR AND Python_FOUND)
    execute_process(COMMAND "${Python_EXECUTABLE}" -c "import torch; print(torch.utils.cmake_prefix_path)"
      OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(torch_prefix)
      list(APPEND CMAKE_PREFIX_PATH "${torch_prefix}")
    endif()
  endif()
  find_package(Torch 2.1 QUIET)
  if(Torch_FOUND)
    set(MSPROBE_HAS_TORCH ON)
    message(STATUS "msprobe: building with torch ${Torch_VERSION}")
  elseif(MSPROBE_WITH_TORCH STREQUAL "ON")
    message(FATAL_ERROR "MSPROBE_WITH_TORCH is ON, but torch 2.1 or newer was not found. "
      "Install it (pip install torch) or point Torch_DIR to its TorchConfig.cmake.")
  else()
    message(STATUS "msprobe: torch was not found: only the core is built (no gradient probe in training)")
  endif()
endif()
if(MSPROBE_BUILD_PYTHON)
  find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
  # The version inside torch 2.13: modules built with another internals version cannot exchange classes or errors.
  execute_process(COMMAND "${Python_EXECUTABLE}" -m pybind11 --cmakedir
    OUTPUT_VARIABLE pybind11_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(PYBIND11_FINDPYTHON ON)
  find_package(pybind11 3.0.4 EXACT CONFIG REQUIRED)
endif()
