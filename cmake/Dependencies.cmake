# What the library itself needs. Nothing is downloaded; the packages' Debian names are in scripts/packages.
find_package(OpenMP REQUIRED COMPONENTS CXX)

find_package(hwy 1.0.3 CONFIG)
if(NOT hwy_FOUND)
  message(FATAL_ERROR "phasor needs Google Highway 1.0.3 or newer. On Debian or Ubuntu: "
                      "apt install libhwy-dev")
endif()

find_package(nlohmann_json 3.10 CONFIG)
if(NOT nlohmann_json_FOUND)
  message(FATAL_ERROR "phasor needs nlohmann-json 3.10 or newer. On Debian or Ubuntu: "
                      "apt install nlohmann-json3-dev")
endif()
