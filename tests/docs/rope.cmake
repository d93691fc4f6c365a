# cmake -D SOURCE=... -D PROGRAM=... -P rope.cmake: docs/command-line.md shows the head of what `phasor rope` prints.
file(READ ${SOURCE}/docs/command-line.md page)
execute_process(COMMAND ${PROGRAM} rope OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
string(FIND "${output}" "\n\npair " end)
string(SUBSTRING "${output}" 0 ${end} head)
string(FIND "${page}" "$ phasor rope\n${head}\n...\n" at)
if(at EQUAL -1)
  message(FATAL_ERROR "docs/command-line.md does not show what phasor rope prints:\n${head}")
endif()
