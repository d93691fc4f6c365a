# Without a build type nothing is optimised, and kernels of templates are many times slower. Here it is Release by default;
# in another project it is that project's decision.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  if(PROJECT_IS_TOP_LEVEL)
    message(STATUS "phasor: CMAKE_BUILD_TYPE is not set, Release is used")
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  else()
    message(WARNING "phasor: CMAKE_BUILD_TYPE is not set, so nothing is optimised. -D CMAKE_BUILD_TYPE=Release is fast.")
  endif()
endif()
