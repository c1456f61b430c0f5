# Compiles every public header alone, as C and as C++, with warnings as errors; and, where nm is there, checks that the
# shared library exports names of its own only.
#
# cmake -DHEADERS=dir -DCC=... -DCXX=... [-DNM=... -DLIBRARY=...] -DWORK=dir -P abi_headers.cmake

file(GLOB headers RELATIVE ${HEADERS} ${HEADERS}/circe/*.h)
list(LENGTH headers n)
if(n LESS 10)
  message(FATAL_ERROR "only ${n} headers under ${HEADERS}/circe")
endif()
file(MAKE_DIRECTORY ${WORK})
set(warnings -Wall -Wextra -pedantic -Werror -fsyntax-only -I${HEADERS})

function(compile compiler standard suffix header)
  set(file ${WORK}/header.${suffix})
  # Twice: the guards must hold.
  file(WRITE ${file} "#include \"${header}\"\n#include \"${header}\"\ntypedef int circe_header_is_complete;\n")
  execute_process(COMMAND ${compiler} -std=${standard} ${warnings} ${file}
    RESULT_VARIABLE failed ERROR_VARIABLE text)
  if(failed)
    message(FATAL_ERROR "${header} does not stand alone under -std=${standard}:\n${text}")
  endif()
endfunction()

foreach(header ${headers})
  foreach(standard c99 c17)
    compile(${CC} ${standard} c ${header})
  endforeach()
  foreach(standard c++11 c++20)
    compile(${CXX} ${standard} cpp ${header})
  endforeach()
endforeach()
message(STATUS "${n} headers, C99, C17, C++11, C++20")

if(NM AND LIBRARY)
  execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE symbols RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "nm cannot read ${LIBRARY}")
  endif()
  string(REGEX MATCHALL "[^\n]+" lines "${symbols}")
  foreach(line ${lines})
    string(REGEX REPLACE ".* ([^ ]+)$" "\\1" name "${line}")
    # Beside them: what the linker and the sanitizers add.
    if(NOT name MATCHES "^(circe_[a-z]|circe__[a-z]|_init|_fini|_edata|_end|__bss_start|__asan|__odr_asan|__tsan)")
      message(FATAL_ERROR "the shared library shows '${name}', which no header declares")
    endif()
  endforeach()
  message(STATUS "no symbols but the public ones")
endif()
