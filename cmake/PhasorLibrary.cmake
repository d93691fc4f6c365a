# Compiler settings shared by everything we build.
add_library(phasor_compiler INTERFACE)
target_compile_features(phasor_compiler INTERFACE cxx_std_20)
# Results must not depend on which multiply-adds a compiler chooses to fuse: kernels ask for FMA by name.
target_compile_options(phasor_compiler INTERFACE -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow
                                                 -Wconversion -Wno-sign-conversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(phasor_compiler INTERFACE -Wno-restrict)  # false alarms on std::string (GCC bug 105651)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # It takes a reference returned beside a temporary argument for a reference to the temporary.
  target_compile_options(phasor_compiler INTERFACE -Wno-dangling-reference)
endif()
if(PHASOR_ONE_TARGET)
  target_compile_definitions(phasor_compiler INTERFACE HWY_COMPILE_ONLY_STATIC)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(phasor_compiler INTERFACE -march=haswell -maes -mpclmul)  # what Highway calls AVX2
  endif()
endif()
if(PHASOR_WARNINGS_AS_ERRORS)
  target_compile_options(phasor_compiler INTERFACE -Werror)
endif()

# Sanitizer builds optimise only what would take too long to run: kernels (files that Highway compiles for each target) and
# tests with plain loops over all elements. The rest compiles in half the time without.
function(phasor_optimize)
  foreach(source ${ARGN})
    file(STRINGS ${source} found REGEX "HWY_TARGET_INCLUDE|\"reference/|\"layers/|\"products/")
    if(found)
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -O1)
    endif()
  endforeach()
endfunction()

# phasor_library(<folder> SOURCES ... [DEPENDS <folder> ...] [PRIVATE <target> ...])
#
# One folder = one target phasor::<folder> = one install component. Its public headers are
# include/phasor/<folder>. Each target of this project sees, through a folder of links, only its own headers and those of
# the folders it depends on, so an include against the direction of the data does not compile. Another project that
# builds phasor as a part of itself sees all of include, as it does after installation.
function(phasor_library folder)
  phasor_compiled_folder(${folder} ${ARGN})
  set(links ${PROJECT_BINARY_DIR}/include/${folder})
  file(MAKE_DIRECTORY ${links}/phasor)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/include/phasor/${folder} ${links}/phasor/${folder} SYMBOLIC)
  target_include_directories(phasor_${folder} PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

  install(TARGETS phasor_${folder} EXPORT phasor-${folder}-targets COMPONENT ${folder})
  install(EXPORT phasor-${folder}-targets NAMESPACE phasor::
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/phasor COMPONENT ${folder})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/phasor/${folder}
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/phasor COMPONENT ${folder})
endfunction()

# phasor_internal_library(<folder> COMPONENT <component> HEADERS <file> ... SOURCES ... [DEPENDS ...] [PRIVATE ...])
#
# A folder without public headers, for other folders of the library: they include HEADERS as "<folder>/<file>" and see no
# other header of it. Its users link it as PRIVATE phasor_<folder>. It is installed with the component, the first of its users.
function(phasor_internal_library folder)
  cmake_parse_arguments(arg "" "COMPONENT" "HEADERS;SOURCES;DEPENDS;PRIVATE" ${ARGN})
  phasor_compiled_folder(${folder} SOURCES ${arg_SOURCES} DEPENDS ${arg_DEPENDS} PRIVATE ${arg_PRIVATE})
  set(links ${PROJECT_BINARY_DIR}/include/${folder}/${folder})
  file(REMOVE_RECURSE ${links})
  file(MAKE_DIRECTORY ${links})
  foreach(header ${arg_HEADERS})
    file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${header} ${links}/${header} SYMBOLIC)
  endforeach()
  install(TARGETS phasor_${folder} EXPORT phasor-${arg_COMPONENT}-targets COMPONENT ${arg_COMPONENT})
endfunction()

# What both have in common: the target, with the folder of links to the headers that others see.
function(phasor_compiled_folder folder)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  set(target phasor_${folder})
  if(PHASOR_ONE_TARGET)
    phasor_optimize(${arg_SOURCES})
  endif()
  add_library(${target} ${arg_SOURCES})
  add_library(phasor::${folder} ALIAS ${target})
  set_property(GLOBAL APPEND PROPERTY phasor_compiled_folders ${folder})  # in the direction of the data
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${folder} CXX_EXTENSIONS OFF
                                             POSITION_INDEPENDENT_CODE ON VERSION ${PROJECT_VERSION}
                                             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                                             DEFINE_SYMBOL "" INSTALL_RPATH $ORIGIN)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set(is_ours $<PATH:IS_PREFIX,${PROJECT_BINARY_DIR},$<TARGET_PROPERTY:BINARY_DIR>>)
  set(headers $<IF:${is_ours},${PROJECT_BINARY_DIR}/include/${folder},${PROJECT_SOURCE_DIR}/include>)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${headers}> PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  list(TRANSFORM arg_DEPENDS PREPEND phasor_)
  target_link_libraries(${target} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_PRIVATE}
                                         $<BUILD_INTERFACE:phasor_compiler>)
endfunction()

# Tiles are arrays of vectors, which those of unknown length cannot be in: on Arm such a folder runs NEON.
function(phasor_without_sve folder)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    target_compile_definitions(phasor_${folder} PRIVATE
      "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")
  endif()
endfunction()
