# Cross-compiles for 64-bit ARM on Debian or Ubuntu and runs the tests under qemu: scripts/setup.sh aarch64 installs the compiler
# and qemu, and unpacks the libraries into build-aarch64/sysroot.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

get_filename_component(CMAKE_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build-aarch64/sysroot ABSOLUTE)
if(NOT EXISTS ${CMAKE_SYSROOT}/ready)
  message(FATAL_ERROR "There is no ${CMAKE_SYSROOT}: run scripts/setup.sh aarch64")
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)

# Where Debian keeps OpenBLAS: the usual places point there through /etc/alternatives, which a sysroot has not.
set(CMAKE_LIBRARY_PATH /usr/lib/aarch64-linux-gnu/openblas-openmp)
set(CMAKE_INCLUDE_PATH /usr/include/aarch64-linux-gnu/openblas-openmp)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${CMAKE_SYSROOT})
