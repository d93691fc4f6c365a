# cmake -D SOURCE=... -D EXAMPLE=file.cc -D PROGRAM=... -P readme.cmake: the README quotes this example as it is, and what
# it says the program prints is what the program prints.
file(READ ${SOURCE}/README.md readme)
file(READ ${SOURCE}/${EXAMPLE} code)
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)

string(FIND "${readme}" "```cpp\n${code}```" at)
if(at EQUAL -1)
  message(FATAL_ERROR "README.md does not quote ${EXAMPLE} as it is")
endif()
string(FIND "${readme}" "```\n${output}```" at)
if(at EQUAL -1)
  message(FATAL_ERROR "README.md does not show what ${EXAMPLE} prints:\n${output}")
endif()
