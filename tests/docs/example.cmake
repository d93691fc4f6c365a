# cmake -D SOURCE=... -D PAGE=page.md -D EXAMPLE=file.cc -D PROGRAM=... [-D QUOTED=ON] -P example.cmake: what the page says the
# program prints is what the program prints; with QUOTED the page has the program's source as it is.
file(READ ${SOURCE}/${PAGE} page)
file(READ ${SOURCE}/${EXAMPLE} code)
execute_process(COMMAND ${PROGRAM} WORKING_DIRECTORY ${SOURCE}/examples OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)

string(FIND "${page}" "```cpp\n${code}```" at)
if(QUOTED AND at EQUAL -1)
  message(FATAL_ERROR "${PAGE} does not quote ${EXAMPLE} as it is")
endif()
string(FIND "${page}" "```\n${output}```" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${PAGE} does not show what ${EXAMPLE} prints:\n${output}")
endif()
