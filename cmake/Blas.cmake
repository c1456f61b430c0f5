# BLAS and LAPACK: -DCIRCE_BLAS= one of
#
#   openblas           the default: OpenBLAS, its OpenMP build where Debian's layout has it, else whichever is found
#   openblas-openmp    that build and no other                                   libopenblas-openmp-dev
#   openblas-pthread   the one with threads of its own                           libopenblas-pthread-dev
#   openblas-scipy     the one that NumPy's and SciPy's wheels bring             PyPI: scipy-openblas32
#   blis               BLIS, with the reference LAPACK                           libblis-openmp-dev liblapack-dev
#   reference          Netlib's                                                  libblas-dev liblapack-dev
#
# Debian keeps each in a folder of its own, so that several can be installed; what is linked is in that folder, whatever the
# system's alternatives point to. Elsewhere CMake's usual places are searched.
#
# Gives CIRCE_BLAS_LIBRARIES, CIRCE_BLAS_INCLUDE, CIRCE_BLAS_OPTIONS (of the compiler, where names are prefixed), CIRCE_BLAS_RPATH
# (folders that the loader does not know), CIRCE_BLAS_RUNTIME (OpenMP, where the BLAS is built on it: a static link would
# else not see what lib/core/runtimes.c asks of it), CIRCE_BLAS_TEXT ("OpenBLAS 0.3.21") and, of what a wheel brings
# along, CIRCE_BLAS_LICENSE.

set(CIRCE_BLAS openblas CACHE STRING "BLAS and LAPACK; cmake/Blas.cmake lists the choices")
set(blas_choices openblas openblas-openmp openblas-pthread openblas-scipy blis reference)
set_property(CACHE CIRCE_BLAS PROPERTY STRINGS ${blas_choices})
if(NOT CIRCE_BLAS IN_LIST blas_choices)
  list(JOIN blas_choices ", " blas_choices)
  message(FATAL_ERROR "CIRCE_BLAS is '${CIRCE_BLAS}'; it must be one of: ${blas_choices}")
endif()
set(CIRCE_BLAS_OPTIONS "")

# circe_blas_part(variable name folder): the library `name` in Debian's `folder`; the search is of this choice alone.
function(circe_blas_part variable name folder)
  string(MAKE_C_IDENTIFIER "CIRCE_FOUND_${CIRCE_BLAS}_${name}" found)
  find_library(${found} ${name} PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/${folder} NO_DEFAULT_PATH)
  if(NOT CIRCE_BLAS MATCHES "openmp|pthread")
    find_library(${found} ${name})
  endif()
  mark_as_advanced(${found})
  set(${variable} ${${found}} PARENT_SCOPE)
endfunction()

function(circe_blas_header variable folder)
  string(MAKE_C_IDENTIFIER "CIRCE_FOUND_${CIRCE_BLAS}_cblas" found)
  find_path(${found} cblas.h HINTS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/${folder} PATH_SUFFIXES openblas)
  mark_as_advanced(${found})
  set(${variable} ${${found}} PARENT_SCOPE)
endfunction()

# In the Python that builds, or (for another architecture) in the folder CIRCE_SCIPY_OPENBLAS: its headers declare names with a
# prefix, and nothing else of it differs.
set(CIRCE_SCIPY_OPENBLAS "" CACHE PATH "The folder scipy_openblas32 of the wheel to build on; empty: that of the Python that builds")
function(circe_blas_from_python)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  if(CIRCE_SCIPY_OPENBLAS)
    set(found ${CIRCE_SCIPY_OPENBLAS}/lib/libscipy_openblas.so ${CIRCE_SCIPY_OPENBLAS}/include)
  else()
    execute_process(COMMAND ${Python3_EXECUTABLE} -c
      "import scipy_openblas32 as b; print(b.get_lib_dir() + '/' + b.get_library(fullname=True), b.get_include_dir(), sep=';')"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  endif()
  if(failed)
    message(FATAL_ERROR "${Python3_EXECUTABLE} has no scipy-openblas32: ${Python3_EXECUTABLE} -m pip install scipy-openblas32")
  endif()
  list(GET found 0 library)
  list(GET found 1 include)
  file(STRINGS ${library} symbols REGEX "^scipy_[a-z0-9_]+$")
  list(REMOVE_DUPLICATES symbols)
  list(TRANSFORM symbols REPLACE "^scipy_(.+)$" "#define \\1 scipy_\\1\n")
  list(JOIN symbols "" names)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/blas_names.h CONTENT "${names}" @ONLY)
  set(blas_first ${library} PARENT_SCOPE)
  set(CIRCE_BLAS_INCLUDE ${include} PARENT_SCOPE)
  file(GLOB license ${include}/../../scipy_openblas32-*.dist-info/licenses/LICENSE.txt)
  set(CIRCE_BLAS_LICENSE ${license} PARENT_SCOPE)
  set(CIRCE_BLAS_OPTIONS -include ${PROJECT_BINARY_DIR}/blas_names.h PARENT_SCOPE)
endfunction()

if(CIRCE_BLAS STREQUAL "openblas-scipy")
  circe_blas_from_python()
  set(blas_package scipy-openblas32)
elseif(CIRCE_BLAS MATCHES "^openblas")
  string(REGEX REPLACE "^openblas$" "openblas-openmp" blas_folder ${CIRCE_BLAS})
  circe_blas_part(blas_first openblas ${blas_folder})
  circe_blas_header(CIRCE_BLAS_INCLUDE ${blas_folder})
  set(blas_package lib${blas_folder}-dev)
else()
  if(CIRCE_BLAS STREQUAL "blis")
    circe_blas_part(blas_first blis blis-openmp)
    circe_blas_header(CIRCE_BLAS_INCLUDE blis-openmp)
    set(blas_package libblis-openmp-dev)
  else()
    circe_blas_part(blas_first blas blas)
    circe_blas_header(CIRCE_BLAS_INCLUDE "")
    set(blas_package libblas-dev)
  endif()
  circe_blas_part(blas_lapack lapack lapack)
  circe_need(blas_lapack "LAPACK" liblapack-dev)
endif()
circe_need(blas_first "BLAS (${CIRCE_BLAS})" ${blas_package})
circe_need(CIRCE_BLAS_INCLUDE "cblas.h (${CIRCE_BLAS})" ${blas_package})
set(CIRCE_BLAS_LIBRARIES ${blas_first} ${blas_lapack})

set(CIRCE_BLAS_RUNTIME "")
if(CIRCE_BLAS MATCHES "^openblas$|openmp|blis")
  set(CIRCE_BLAS_RUNTIME OpenMP::OpenMP_C)
endif()

set(CIRCE_BLAS_RPATH "")
foreach(library ${CIRCE_BLAS_LIBRARIES})
  get_filename_component(folder ${library} DIRECTORY)
  if(NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    list(APPEND CIRCE_BLAS_RPATH ${folder})
  endif()
endforeach()
list(REMOVE_DUPLICATES CIRCE_BLAS_RPATH)

# What circe --version says the library was built on.
set(CIRCE_BLAS_TEXT "BLAS reference")
if(CIRCE_BLAS MATCHES "^openblas" AND EXISTS ${CIRCE_BLAS_INCLUDE}/openblas_config.h)
  file(STRINGS ${CIRCE_BLAS_INCLUDE}/openblas_config.h blas_line REGEX "OPENBLAS_VERSION")
  string(REGEX REPLACE ".*OpenBLAS ([0-9.]+).*" "OpenBLAS \\1" CIRCE_BLAS_TEXT "${blas_line}")
elseif(CIRCE_BLAS STREQUAL "blis")
  set(CIRCE_BLAS_TEXT "BLAS BLIS")
endif()
