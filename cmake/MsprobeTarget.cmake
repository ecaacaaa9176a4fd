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
