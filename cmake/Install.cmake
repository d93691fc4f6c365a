# The umbrella header, and the package config: find_package(phasor COMPONENTS position) and the umbrella phasor::phasor.
include(CMakePackageConfigHelpers)

set(umbrella_links ${PROJECT_BINARY_DIR}/include/umbrella)
file(MAKE_DIRECTORY ${umbrella_links}/phasor)
foreach(header phasor.h version.h)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/include/phasor/${header} ${umbrella_links}/phasor/${header}
       SYMBOLIC)
endforeach()

# In the build tree, what phasor::phasor is after installation: everything.
add_library(phasor_all INTERFACE)
add_library(phasor::phasor ALIAS phasor_all)
target_include_directories(phasor_all INTERFACE ${umbrella_links})
target_link_libraries(phasor_all INTERFACE phasor_training)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/phasor)
configure_package_config_file(cmake/phasor-config.cmake.in phasor-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(phasor-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/phasor-config.cmake ${PROJECT_BINARY_DIR}/phasor-config-version.cmake
        DESTINATION ${package_dir} COMPONENT core)
install(FILES include/phasor/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/phasor COMPONENT core)
install(FILES include/phasor/phasor.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/phasor COMPONENT training)
