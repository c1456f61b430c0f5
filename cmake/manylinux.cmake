# Builds on the libraries of an old Debian (scripts/setup.sh wheel unpacks them into build-wheel/ARCH/sysroot), so that what comes
# out works where glibc is 2.28 or newer: python/release.py. CIRCE_WHEEL_ARCH, of the environment too: x86_64 or aarch64.
if(NOT CIRCE_WHEEL_ARCH)
  set(CIRCE_WHEEL_ARCH $ENV{CIRCE_WHEEL_ARCH})
endif()
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CIRCE_WHEEL_ARCH)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CIRCE_WHEEL_ARCH})
set(CMAKE_LIBRARY_ARCHITECTURE ${CIRCE_WHEEL_ARCH}-linux-gnu)
set(CMAKE_C_COMPILER ${CIRCE_WHEEL_ARCH}-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER ${CIRCE_WHEEL_ARCH}-linux-gnu-g++)
set(CMAKE_OBJDUMP ${CIRCE_WHEEL_ARCH}-linux-gnu-objdump)

get_filename_component(CMAKE_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build-wheel/${CIRCE_WHEEL_ARCH}/sysroot ABSOLUTE)
if(NOT EXISTS ${CMAKE_SYSROOT}/ready)
  message(FATAL_ERROR "There is no ${CMAKE_SYSROOT}: run scripts/setup.sh wheel")
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)

# The sysroot's glibc is 2.31; what it added since 2.28 is not to be asked for.
# Compilers look into folders of their own as well, where a newer C library lies: the old one's come first.
set(old_headers ${CMAKE_SYSROOT}/usr/include)
set(CMAKE_C_FLAGS_INIT "-include ${CMAKE_CURRENT_LIST_DIR}/manylinux.h -isystem ${old_headers}/${CMAKE_LIBRARY_ARCHITECTURE} -isystem ${old_headers}")
set(CMAKE_CXX_FLAGS_INIT "-include ${CMAKE_CURRENT_LIST_DIR}/manylinux.h")
set(old_libraries ${CMAKE_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
# CMake links CUDA without a sysroot, and the old libc.so names its parts by absolute paths; and with the C++ library of this
# system, which asks for more than the old libc.so has. What circe asks of it is older (python/release.py looks).
set(CMAKE_SHARED_LINKER_FLAGS_INIT "--sysroot=${CMAKE_SYSROOT} -B${old_libraries} -L${old_libraries}")
set(CMAKE_EXE_LINKER_FLAGS_INIT "${CMAKE_SHARED_LINKER_FLAGS_INIT} -Wl,--allow-shlib-undefined")
