# The warnings and sanitizers that every target of the project is compiled with.
add_library(circe_warnings INTERFACE)
target_compile_options(circe_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes>
  $<$<AND:$<COMPILE_LANGUAGE:C>,$<BOOL:${CIRCE_WERROR}>>:-Werror>)

if(CIRCE_SANITIZE)
  add_compile_options(-fsanitize=${CIRCE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${CIRCE_SANITIZE})
endif()
