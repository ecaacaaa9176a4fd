# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0

# msprobe_configure(target): the settings every target of this project shares.
function(msprobe_configure target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  # -Wrestrict of GCC 12 fires on every `"text" + std::string` (GCC bug 105329).
  # GCC 12 sees overlapping copies in std::string where there are none (GCC bug 105651).
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
    $<$<BOOL:${MSPROBE_WARNINGS_AS_ERRORS}>:-Werror>)
  # The same numbers and texts as on x86: there char is signed, and a * b + c is rounded twice but in the kernels, which say
  # MulAdd where they mean it (cpp/CMakeLists.txt).
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|i.86")
    target_compile_options(${target} PRIVATE -fsigned-char -ffp-contract=off)
  endif()
  if(DEFINED MSPROBE_GLIBCXX_ABI)
    # std::string crosses between our libraries and torch's: all sides must mean the same class by it, embedders too.
    target_compile_definitions(${target} PUBLIC _GLIBCXX_USE_CXX11_ABI=${MSPROBE_GLIBCXX_ABI})
  endif()
  if(MSPROBE_SANITIZE)
    # Instrumented, libstdc++'s <regex> looks uninitialised to GCC 12 (GCC bug 105562).
    target_compile_options(${target} PRIVATE -fsanitize=${MSPROBE_SANITIZE} -fno-sanitize-recover=all
      -fno-omit-frame-pointer -g1 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_link_options(${target} PRIVATE -fsanitize=${MSPROBE_SANITIZE})
  endif()
endfunction()

# Without a build type everything would be compiled without optimisation.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(MSPROBE_CCACHE ccache)
if(MSPROBE_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${MSPROBE_CCACHE}")
endif()

# msprobe_compile_together(target AT_ONCE count): up to so many files of a folder are compiled as one, as most of the time goes into
# headers. Names that are private to a file have to differ within a folder for that. Files that Highway compiles for several
# processors, by including them again, stay alone.
option(MSPROBE_COMPILE_TOGETHER "Compile several files of a folder as one: faster from scratch, slower after a small change" ON)
function(msprobe_compile_together target)
  if(NOT MSPROBE_COMPILE_TOGETHER)
    return()
  endif()
  cmake_parse_arguments(arg "" "AT_ONCE" "" ${ARGN})
  get_target_property(sources ${target} SOURCES)
  get_target_property(root ${target} SOURCE_DIR)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${root}" OUTPUT_VARIABLE path)
    file(STRINGS "${path}" compiled_again LIMIT_COUNT 1 REGEX "define HWY_TARGET_INCLUDE")
    if(compiled_again)
      continue()
    endif()
    cmake_path(GET path PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND folders ${folder})
    list(APPEND sources_of_${folder} "${source}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    # Groups of one size: the last is not a small rest.
    list(LENGTH sources_of_${folder} count)
    math(EXPR groups "(${count} + ${arg_AT_ONCE} - 1) / ${arg_AT_ONCE}")
    set(index 0)
    foreach(source IN LISTS sources_of_${folder})
      math(EXPR group "${index} * ${groups} / ${count}")
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${folder}_${group})
      math(EXPR index "${index} + 1")
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
