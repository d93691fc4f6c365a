# phasor::pcre2 and phasor::utf8proc, which phasor::text uses. Neither has a package for CMake on every system. Included by
# the build and by the installed package.
function(phasor_find_text_library name header library)
  if(TARGET phasor::${name})
    return()
  endif()
  find_path(phasor_${name}_include ${header})
  find_library(phasor_${name}_library ${library})
  mark_as_advanced(phasor_${name}_include phasor_${name}_library)
  if(phasor_${name}_include AND phasor_${name}_library)
    add_library(phasor::${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(phasor::${name} PROPERTIES IMPORTED_LOCATION ${phasor_${name}_library}
                                                     INTERFACE_INCLUDE_DIRECTORIES ${phasor_${name}_include})
  endif()
endfunction()
phasor_find_text_library(pcre2 pcre2.h pcre2-8)
phasor_find_text_library(utf8proc utf8proc.h utf8proc)
