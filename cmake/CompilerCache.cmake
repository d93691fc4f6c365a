# ccache, where it is there: what was compiled before is not compiled again, also in another clone and in the build of the
# wheel, since paths count from the root of the sources. -DPHASOR_CCACHE= turns it off.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(PHASOR_CCACHE ccache)
  if(PHASOR_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                    ${PHASOR_CCACHE})
  endif()
endif()
