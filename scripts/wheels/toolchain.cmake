# zig's clang, for an architecture and an old glibc: PHASOR_PREFIX has the compilers (bin) and what they built.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PHASOR_ARCH PHASOR_PREFIX)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${PHASOR_ARCH})
set(CMAKE_C_COMPILER ${PHASOR_PREFIX}/bin/cc)
set(CMAKE_CXX_COMPILER ${PHASOR_PREFIX}/bin/c++)
set(CMAKE_AR ${PHASOR_PREFIX}/bin/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${PHASOR_PREFIX}/bin/ranlib CACHE FILEPATH "")

# Nothing of this machine: its headers and libraries are for its own glibc.
set(CMAKE_PREFIX_PATH ${PHASOR_PREFIX})
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
add_compile_options(-g0)  # zig writes what debuggers read unless told not to, which takes time
add_link_options(-s)  # no symbols for debuggers; this machine's strip does not know the other architecture

# The instruction sets that the tests run: those of the release build with Debian 12's Highway; on Arm what every CPU of
# 64 bits has. Clang would refuse structures of vectors for more (default constructors are not compiled for the target).
if(PHASOR_ARCH STREQUAL "x86_64")
  add_compile_definitions("HWY_DISABLED_TARGETS=(HWY_AVX3_DL|HWY_AVX3_ZEN4|HWY_AVX3_SPR)")
else()
  add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
endif()
