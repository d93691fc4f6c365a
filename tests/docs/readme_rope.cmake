# cmake -D SOURCE=... -D PROGRAM=... -P readme_rope.cmake: the README shows the head of what `phasor rope` prints.
file(READ ${SOURCE}/README.md readme)
execute_process(COMMAND ${PROGRAM} rope OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
string(FIND "${output}" "\n\npair " end)
string(SUBSTRING "${output}" 0 ${end} head)
string(FIND "${readme}" "$ phasor rope\n${head}\n...\n" at)
if(at EQUAL -1)
  message(FATAL_ERROR "README.md does not show what phasor rope prints:\n${head}")
endif()
