# What the project stands on; docs/dependencies.md says why each. A missing one stops the configuration with the name
# of the Debian package that brings it.

function(circe_need variable what package)
  if(NOT ${variable})
    message(FATAL_ERROR "${what} was not found. On Debian or Ubuntu: apt-get install ${package} (or: make setup)")
  endif()
endfunction()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C) # oneDNN is built on it, and the tests call from inside its regions

include(${CMAKE_CURRENT_LIST_DIR}/Blas.cmake)

find_path(CIRCE_RANDOM123 Random123/philox.h)
circe_need(CIRCE_RANDOM123 "Random123" librandom123-dev)

if(CIRCE_SAFETENSORS)
  pkg_check_modules(CJSON IMPORTED_TARGET libcjson)
  circe_need(CJSON_FOUND "cJSON" "libcjson-dev, or configure with -DCIRCE_SAFETENSORS=OFF")
endif()

if(CIRCE_CLI OR CIRCE_TESTS OR CIRCE_FUZZ)
  pkg_check_modules(LIBZIP IMPORTED_TARGET libzip)
  circe_need(LIBZIP_FOUND "libzip" libzip-dev)
  pkg_check_modules(PNG IMPORTED_TARGET libpng)
  circe_need(PNG_FOUND "libpng" libpng-dev)
  pkg_check_modules(TURBOJPEG IMPORTED_TARGET libturbojpeg)
  circe_need(TURBOJPEG_FOUND "TurboJPEG" libturbojpeg0-dev)
  pkg_check_modules(CJSON IMPORTED_TARGET libcjson)
  circe_need(CJSON_FOUND "cJSON" libcjson-dev)
  pkg_check_modules(YAML IMPORTED_TARGET yaml-0.1)
  circe_need(YAML_FOUND "libyaml" libyaml-dev)
endif()
if((CIRCE_CLI OR CIRCE_TESTS OR CIRCE_FUZZ) AND CIRCE_ONEDNN)
  find_library(CIRCE_DNNL dnnl)
  find_path(CIRCE_DNNL_INCLUDE oneapi/dnnl/dnnl.h)
  circe_need(CIRCE_DNNL "oneDNN" "libdnnl-dev, or configure with -DCIRCE_ONEDNN=OFF")
  circe_need(CIRCE_DNNL_INCLUDE "dnnl.h of oneDNN" "libdnnl-dev, or configure with -DCIRCE_ONEDNN=OFF")
endif()

# MPI with the ScaLAPACK that was built for it.
set(CIRCE_HAVE_MPI OFF)
if((CIRCE_CLI OR CIRCE_TESTS) AND NOT CIRCE_MPI STREQUAL "OFF")
  find_package(MPI QUIET COMPONENTS C)
  find_library(CIRCE_SCALAPACK NAMES scalapack-openmpi scalapack-mpich scalapack)
  if(NOT CIRCE_MPI STREQUAL "AUTO")
    circe_need(MPI_C_FOUND "MPI" "libopenmpi-dev openmpi-bin, or configure with -DCIRCE_MPI=OFF")
    circe_need(CIRCE_SCALAPACK "ScaLAPACK" "libscalapack-openmpi-dev, or configure with -DCIRCE_MPI=OFF")
  endif()
  if(MPI_C_FOUND AND CIRCE_SCALAPACK)
    set(CIRCE_HAVE_MPI ON)
  endif()
endif()

if(CIRCE_TESTS AND NOT CIRCE_SAFETENSORS)
  message(FATAL_ERROR "The tests save and load models: with -DCIRCE_SAFETENSORS=OFF configure with -DCIRCE_TESTS=OFF too")
endif()
if(CIRCE_TESTS)
  pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
  circe_need(CMOCKA_FOUND "cmocka" "libcmocka-dev, or configure with -DCIRCE_TESTS=OFF")
endif()
