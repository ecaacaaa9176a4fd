# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0

# Third-party libraries: an installed package wins, a pinned download is the fallback. Licences: THIRD_PARTY_NOTICES.md.
# They are private to libmsprobe: neither its headers nor its exported CMake targets mention them. Static libraries are taken
# where there are any; with MSPROBE_STATIC_DEPENDENCIES, which wheels are built with, nothing else is: what is installed as a
# shared library only is downloaded.
include(FetchContent)
find_package(Threads REQUIRED)

# msprobe_fetch(name url sha256 target): the pinned fallback; builds only what `target` needs, installs nothing of it.
# SOURCE_SUBDIR names no folder on purpose: MakeAvailable then only downloads, and add_subdirectory keeps the library's
# install rules out of ours (a keyword of FetchContent_Declare does so only from CMake 3.28 on).
function(msprobe_fetch name url sha256 target)
  message(STATUS "msprobe: ${name} is not installed here: downloading ${url}")
  FetchContent_Declare(${name} URL ${url} URL_HASH SHA256=${sha256} DOWNLOAD_EXTRACT_TIMESTAMP ON SOURCE_SUBDIR none)
  FetchContent_MakeAvailable(${name})
  FetchContent_GetProperties(${name} SOURCE_DIR source_dir BINARY_DIR binary_dir)
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)  # the options below are plain variables
  set(BUILD_SHARED_LIBS OFF)
  set(BUILD_TESTING OFF)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(LIBDEFLATE_BUILD_SHARED_LIB OFF)
  set(LIBDEFLATE_BUILD_GZIP OFF)
  set(ZLIB_BUILD_EXAMPLES OFF)
  set(SQLITECPP_RUN_CPPLINT OFF)
  set(SQLITECPP_RUN_CPPCHECK OFF)
  set(YAML_CPP_INSTALL OFF)
  if(DEFINED MSPROBE_GLIBCXX_ABI)
    add_compile_definitions(_GLIBCXX_USE_CXX11_ABI=${MSPROBE_GLIBCXX_ABI})
  endif()
  add_subdirectory("${source_dir}" "${binary_dir}" EXCLUDE_FROM_ALL)
  get_target_property(include_dirs ${target} INTERFACE_INCLUDE_DIRECTORIES)
  set_target_properties(${target} PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${include_dirs}")
endfunction()

# msprobe_installed_library(target header library...): `target` becomes an installed library without CMake files, the
# static one first: libmsprobe then needs nothing of it at run time. No target: it is not installed.
function(msprobe_installed_library target header)
  string(TOUPPER "${target}" name)
  set(libraries ${ARGN})
  if(MSPROBE_STATIC_DEPENDENCIES)
    list(FILTER libraries INCLUDE REGEX "\\.a$")
  endif()
  find_path(${name}_INCLUDE ${header})
  find_library(${name}_LIBRARY NAMES ${libraries})
  mark_as_advanced(${name}_INCLUDE ${name}_LIBRARY)
  if(${name}_INCLUDE AND ${name}_LIBRARY)
    add_library(${target} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(${target} PROPERTIES
      IMPORTED_LOCATION "${${name}_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDE}")
  endif()
endfunction()

# torch comes first: its C++ ABI decides how everything else is compiled.
if(MSPROBE_BUILD_PYTHON OR NOT MSPROBE_WITH_TORCH STREQUAL "OFF")
  include(MsprobePython)
endif()
if(NOT MSPROBE_WITH_TORCH STREQUAL "OFF")
  include(MsprobeLibtorch)
  msprobe_find_libtorch()
  if(TARGET msprobe::libtorch)
    message(STATUS "msprobe: building with torch ${MSPROBE_TORCH_VERSION}")
  elseif(MSPROBE_WITH_TORCH STREQUAL "ON")
    message(FATAL_ERROR "msprobe: MSPROBE_WITH_TORCH is ON, but no torch 2.1 or newer was found: install it with "
      "'pip install torch==2.13.0', or let MSPROBE_TORCH_ROOT name the folder of a libtorch.")
  else()
    message(WARNING "msprobe: no torch 2.1 or newer was found: only the core is built, without the part that runs inside a "
      "training (msprobe._torch). To have it, install torch into the environment and build again.")
  endif()
endif()

# msprobe_fetch_headers(result name url sha256): the pinned fallback for libraries of which only the headers are used.
function(msprobe_fetch_headers result name url sha256)
  message(STATUS "msprobe: ${name} is not installed here: downloading ${url}")
  FetchContent_Declare(${name} URL ${url} URL_HASH SHA256=${sha256} DOWNLOAD_EXTRACT_TIMESTAMP ON SOURCE_SUBDIR none)
  FetchContent_MakeAvailable(${name})
  FetchContent_GetProperties(${name} SOURCE_DIR source_dir)
  set(${result} "${source_dir}" PARENT_SCOPE)
endfunction()

# Google Highway: SIMD kernels for every instruction set in one source, chosen at run time. Headers only: the little that its
# library does is in cpp/src/base/detected_targets.cpp, as distributions have no static one (docs/adr/0004).
find_package(hwy 1.0.3 CONFIG QUIET)
if(TARGET hwy::hwy)
  get_target_property(hwy_include hwy::hwy INTERFACE_INCLUDE_DIRECTORIES)
else()
  msprobe_fetch_headers(hwy_include hwy https://github.com/google/highway/archive/refs/tags/1.2.0.tar.gz
    7e0be78b8318e8bdbf6fa545d2ecb4c90f947df03f7aadc42c1967f019e63343)
endif()
add_library(msprobe_highway INTERFACE)
target_include_directories(msprobe_highway SYSTEM INTERFACE "${hwy_include}")

# Eigen: matrices. Headers only; MPL2 alone, without the parts under other licences.
find_package(Eigen3 3.4 CONFIG QUIET)
if(TARGET Eigen3::Eigen)
  get_target_property(eigen_include Eigen3::Eigen INTERFACE_INCLUDE_DIRECTORIES)
else()
  msprobe_fetch_headers(eigen_include eigen https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.gz
    8586084f71f9bde545ee7fa6d00288b264a2b7ac3607b974e54d13e7162c1c72)
endif()
add_library(msprobe_eigen INTERFACE)
target_include_directories(msprobe_eigen SYSTEM INTERFACE "${eigen_include}")
target_compile_definitions(msprobe_eigen INTERFACE EIGEN_MPL2_ONLY)

# libdeflate: CRC-32 at the speed of memory. Debian's package has no CMake files.
find_package(libdeflate CONFIG QUIET)
if(TARGET libdeflate::libdeflate_static)
  set(MSPROBE_DEFLATE libdeflate::libdeflate_static)
elseif(TARGET libdeflate::libdeflate_shared AND NOT MSPROBE_STATIC_DEPENDENCIES)
  set(MSPROBE_DEFLATE libdeflate::libdeflate_shared)
else()
  set(MSPROBE_DEFLATE msprobe_deflate)
  msprobe_installed_library(msprobe_deflate libdeflate.h libdeflate.a deflate)
  if(NOT TARGET msprobe_deflate)
    enable_language(C)
    msprobe_fetch(libdeflate https://github.com/ebiggers/libdeflate/archive/refs/tags/v1.23.tar.gz
      1ab18349b9fb0ce8a0ca4116bded725be7dcbfa709e19f6f983d99df1fb8b25f libdeflate_static)
    set(MSPROBE_DEFLATE libdeflate_static)
  endif()
endif()

# zlib: deflate in pieces, for xlsx files.
set(MSPROBE_ZLIB msprobe_zlib)
msprobe_installed_library(msprobe_zlib zlib.h libz.a z)
if(NOT TARGET msprobe_zlib)
  enable_language(C)
  msprobe_fetch(zlib https://github.com/madler/zlib/releases/download/v1.3.1/zlib-1.3.1.tar.gz
    9a93b2b7dfdac77ceba5a558a580e74667dd6fede4585b91eefb60f03b72df23 zlibstatic)
  # zconf.h is made in the build folder.
  target_include_directories(zlibstatic SYSTEM INTERFACE "${zlib_SOURCE_DIR}" "${zlib_BINARY_DIR}")
  set(MSPROBE_ZLIB zlibstatic)
endif()

# SQLiteCpp, and SQLite below it: files of graphs. The download brings its own SQLite.
set(MSPROBE_SQLITE msprobe_sqlitecpp)
msprobe_installed_library(msprobe_sqlitecpp SQLiteCpp/SQLiteCpp.h libSQLiteCpp.a SQLiteCpp)
msprobe_installed_library(msprobe_sqlite3 sqlite3.h libsqlite3.a sqlite3)
if(TARGET msprobe_sqlitecpp AND TARGET msprobe_sqlite3)
  set_property(TARGET msprobe_sqlite3 PROPERTY INTERFACE_LINK_LIBRARIES Threads::Threads ${CMAKE_DL_LIBS} m)
  set_property(TARGET msprobe_sqlitecpp PROPERTY INTERFACE_LINK_LIBRARIES msprobe_sqlite3)
else()
  enable_language(C)
  msprobe_fetch(SQLiteCpp https://github.com/SRombauts/SQLiteCpp/archive/refs/tags/3.3.3.tar.gz
    33bd4372d83bc43117928ee842be64d05e7807f511b5195f85d30015cad9cac6 SQLiteCpp)
  set(MSPROBE_SQLITE SQLiteCpp)
endif()

# nlohmann/json: small files in JSON. Headers only.
find_package(nlohmann_json 3.10 CONFIG QUIET)
if(TARGET nlohmann_json::nlohmann_json)
  get_target_property(json_include nlohmann_json::nlohmann_json INTERFACE_INCLUDE_DIRECTORIES)
else()
  msprobe_fetch_headers(json_include nlohmann_json https://github.com/nlohmann/json/releases/download/v3.11.3/json.tar.xz
    d6c65aca6b1ed68e7a182f4757257b107ae403032760ed6ef121c9d55e81757d)
  string(APPEND json_include /include)
endif()
add_library(msprobe_json INTERFACE)
target_include_directories(msprobe_json SYSTEM INTERFACE "${json_include}")

# msprobe_is_for_shared_libraries(result library source): whether a static library can become part of a shared one.
function(msprobe_is_for_shared_libraries result library source)
  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/${result}.cpp" "${source}")
  try_compile(${result} "${CMAKE_CURRENT_BINARY_DIR}/${result}" "${CMAKE_CURRENT_BINARY_DIR}/${result}.cpp"
    COMPILE_DEFINITIONS -fPIC LINK_OPTIONS -shared LINK_LIBRARIES "${library}" CXX_STANDARD 20)
  set(${result} ${${result}} PARENT_SCOPE)
endfunction()

# yaml-cpp: small files in YAML. Debian's CMake files know the shared library only, and its static one is of no use for
# libmsprobe. Then wheels carry the shared one beside libmsprobe (MSPROBE_CARRIED_LIBRARIES).
set(MSPROBE_YAML msprobe_yaml)
set(MSPROBE_CARRIED_LIBRARIES "")
find_path(MSPROBE_YAML_INCLUDE yaml-cpp/yaml.h)
find_library(MSPROBE_YAML_STATIC libyaml-cpp.a)
find_library(MSPROBE_YAML_SHARED yaml-cpp)
mark_as_advanced(MSPROBE_YAML_INCLUDE MSPROBE_YAML_STATIC MSPROBE_YAML_SHARED)
if(MSPROBE_YAML_INCLUDE AND MSPROBE_YAML_STATIC AND NOT DEFINED MSPROBE_YAML_STATIC_FITS)
  msprobe_is_for_shared_libraries(MSPROBE_YAML_STATIC_FITS "${MSPROBE_YAML_STATIC}"
    "#include <yaml-cpp/parser.h>\n#include <istream>\nvoid read(std::istream& in) { YAML::Parser parser(in); }\n")
endif()
if(MSPROBE_YAML_INCLUDE AND MSPROBE_YAML_STATIC AND MSPROBE_YAML_STATIC_FITS)
  set(yaml_library "${MSPROBE_YAML_STATIC}")
elseif(MSPROBE_YAML_INCLUDE AND MSPROBE_YAML_SHARED)
  set(yaml_library "${MSPROBE_YAML_SHARED}")
  if(MSPROBE_STATIC_DEPENDENCIES)
    set(MSPROBE_CARRIED_LIBRARIES "${MSPROBE_YAML_SHARED}")
  endif()
else()
  msprobe_fetch(yaml-cpp https://github.com/jbeder/yaml-cpp/releases/download/yaml-cpp-0.9.0/yaml-cpp-yaml-cpp-0.9.0.tar.gz
    298593d9c440fd9034b8b193d96318b76d49bc97c6ceadb7b0836edf0b6d7539 yaml-cpp)
  set(MSPROBE_YAML yaml-cpp)
endif()
if(DEFINED yaml_library)
  add_library(msprobe_yaml UNKNOWN IMPORTED GLOBAL)
  set_target_properties(msprobe_yaml PROPERTIES
    IMPORTED_LOCATION "${yaml_library}" INTERFACE_INCLUDE_DIRECTORIES "${MSPROBE_YAML_INCLUDE}")
endif()

# Catch2, version 3 or 2: the difference stays in tests/cpp/catch.h.
if(MSPROBE_BUILD_TESTS)
  find_package(Catch2 2.13 CONFIG QUIET)
  if(NOT TARGET Catch2::Catch2)
    find_package(Catch2 3 CONFIG QUIET)
  endif()
  if(NOT TARGET Catch2::Catch2)
    msprobe_fetch(Catch2 https://github.com/catchorg/Catch2/archive/refs/tags/v3.7.1.tar.gz
      c991b247a1a0d7bb9c39aa35faf0fe9e19764213f28ffba3109388e62ee0269c Catch2)
    set(Catch2_VERSION 3.7.1)
  endif()
endif()
