// The only place of the version number: CMake and the packages read it from here.
#pragma once

#define PHASOR_VERSION "0.2.0"
