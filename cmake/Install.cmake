# The package config: find_package(phasor COMPONENTS position), and phasor::phasor for everything.
include(CMakePackageConfigHelpers)

# In the build tree, what phasor::phasor is after installation: everything.
add_library(phasor_all INTERFACE)
add_library(phasor::phasor ALIAS phasor_all)
target_link_libraries(phasor_all INTERFACE phasor_text phasor_training)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/phasor)
configure_package_config_file(cmake/phasor-config.cmake.in phasor-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(phasor-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/phasor-config.cmake ${PROJECT_BINARY_DIR}/phasor-config-version.cmake
        DESTINATION ${package_dir} COMPONENT core)

# For builds without CMake: everything, so it is installed with the last component. Static libraries name what they need.
if(BUILD_SHARED_LIBS)
  set(private .private)
endif()
get_property(libs_of_pc GLOBAL PROPERTY phasor_compiled_folders)
list(REVERSE libs_of_pc)
list(TRANSFORM libs_of_pc PREPEND -lphasor_)
list(JOIN libs_of_pc " " libs_of_pc)
file(RELATIVE_PATH prefix_of_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/phasor.pc.in phasor.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/phasor.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT training)

install(FILES include/phasor/phasor.h include/phasor/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/phasor
        COMPONENT core)
