# The warnings and sanitizers that every target of the project is compiled with.
add_library(circe_warnings INTERFACE)
target_compile_options(circe_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -Werror=implicit-function-declaration>
  $<$<AND:$<COMPILE_LANGUAGE:C>,$<BOOL:${CIRCE_WERROR}>>:-Werror>)

# A thread whose stack is too small ends at the page below it. Without this, a function of large tiles steps over that page and
# writes into the memory of others.
include(CheckCCompilerFlag)
check_c_compiler_flag("-Werror -fstack-clash-protection" CIRCE_STACK_CLASH)
if(CIRCE_STACK_CLASH)
  add_compile_options($<$<COMPILE_LANGUAGE:C>:-fstack-clash-protection>)
endif()

if(CIRCE_SANITIZE)
  add_compile_options(-fsanitize=${CIRCE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${CIRCE_SANITIZE})
endif()
