# What `cmake --install` brings for programs that use the library: headers, both libraries, the CMake package `circe`
# (targets circe::shared, circe::static and circe::circe, the shared one, and circe::jobs) and pkg-config files. Nothing in them holds
# the prefix, so the tree may be moved.
include(CMakePackageConfigHelpers)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/circe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
set(circe_libraries circe_static circe_shared)
if(TARGET circe_jobs)
  list(APPEND circe_libraries circe_jobs)
endif()
install(TARGETS ${circe_libraries} EXPORT circeTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

set(circe_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/circe)
install(EXPORT circeTargets NAMESPACE circe:: DESTINATION ${circe_package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/circeConfig.cmake.in ${PROJECT_BINARY_DIR}/circeConfig.cmake
  INSTALL_DESTINATION ${circe_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/circeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/circeConfig.cmake ${PROJECT_BINARY_DIR}/circeConfigVersion.cmake
  DESTINATION ${circe_package_dir})

# Private libraries, for those who link statically. BLAS where it was found, which may be outside the linker's path.
list(JOIN CIRCE_BLAS_LIBRARIES " " blas_paths)
set(circe_pc_libs_private "${blas_paths} ${OpenMP_C_FLAGS} -pthread -lm -Wl,-z,nodelete")
if(CIRCE_CUDA)
  string(APPEND circe_pc_libs_private " ${CIRCE_CUDART} -ldl -lpthread -lrt")
endif()
set(circe_pc_requires_private "")
if(CIRCE_SAFETENSORS)
  set(circe_pc_requires_private "libcjson")
endif()
# From lib/pkgconfig up to the prefix.
file(RELATIVE_PATH circe_pc_up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" circe_pc_up "${circe_pc_up}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/circe.pc.in ${PROJECT_BINARY_DIR}/circe.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/circe.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET circe_jobs)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/circe_jobs.pc.in ${PROJECT_BINARY_DIR}/circe_jobs.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/circe_jobs.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
