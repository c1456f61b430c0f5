# What the Python wheel holds beside its Python: libcirce, libcirce_jobs, the command, the experiments' files, and the libraries that these
# need, so that a wheel works where nothing of this is installed. Component `python`; pyproject.toml asks for nothing else.
#
#     circe/_bundle/lib/libcirce.so.0, libcirce_jobs.so.0, libscipy_openblas.so, ...    circe/_bundle/bin/circe    circe/_bundle/share/circe/experiments
#
# DT_RPATH, not DT_RUNPATH: it holds for the libraries' own libraries too, which then need no change.
set(bundle circe/_bundle)
set_target_properties(circe_shared circe_jobs PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
set_target_properties(circe_cli PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../lib")
foreach(target circe_shared circe_jobs circe_cli)
  target_link_options(${target} PRIVATE "LINKER:--disable-new-dtags")
endforeach()

# Under its soname alone: a wheel holds no links.
install(FILES $<TARGET_FILE:circe_shared> DESTINATION ${bundle}/lib RENAME libcirce.so.${PROJECT_VERSION_MAJOR}
  COMPONENT python EXCLUDE_FROM_ALL)
install(FILES $<TARGET_FILE:circe_jobs> DESTINATION ${bundle}/lib RENAME libcirce_jobs.so.${PROJECT_VERSION_MAJOR}
  COMPONENT python EXCLUDE_FROM_ALL)
install(PROGRAMS $<TARGET_FILE:circe_cli> DESTINATION ${bundle}/bin COMPONENT python EXCLUDE_FROM_ALL)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/experiments DESTINATION ${bundle}/share/circe COMPONENT python EXCLUDE_FROM_ALL
  FILES_MATCHING PATTERN "*.yaml")
# For the custom calls of circe.jax, which are compiled where they are used.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/circe DESTINATION ${bundle}/include COMPONENT python EXCLUDE_FROM_ALL
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")

# Its licence asks to go along.
if(CIRCE_BLAS_LICENSE)
  install(FILES ${CIRCE_BLAS_LICENSE} DESTINATION ${bundle}/share/licenses RENAME openblas.txt COMPONENT python
    EXCLUDE_FROM_ALL)
endif()

# The C and C++ runtimes and the driver are the machine's own.
set(not_bundled "^(ld-linux|lib(c|m|mvec|dl|rt|pthread|gcc_s|stdc[+][+]|z|cuda|circe|circe_jobs)[.]so)")

# The libraries of a sysroot, not this machine's: what lies beside a target comes first. An old C library there would end nvcc,
# which lets the programs that it starts look for theirs in the folder where it runs.
if(CMAKE_SYSROOT)
  file(GLOB libraries ${CMAKE_SYSROOT}/lib/${CMAKE_LIBRARY_ARCHITECTURE}/*.so.* ${CMAKE_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/*.so.*)
  foreach(library ${libraries})
    get_filename_component(name ${library} NAME)
    if(NOT name MATCHES ${not_bundled})
      file(CREATE_LINK ${library} ${PROJECT_BINARY_DIR}/${name} SYMBOLIC)
    endif()
  endforeach()
endif()

if(CIRCE_ONEDNN)
  get_filename_component(dnnl_folder ${CIRCE_DNNL} DIRECTORY)
endif()

# The command needs what libcirce_jobs does.
install(CODE "
  set(here \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${bundle}/lib\")
  file(GET_RUNTIME_DEPENDENCIES
    LIBRARIES $<TARGET_FILE:circe_shared> $<TARGET_FILE:circe_jobs>
    RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
    DIRECTORIES ${CIRCE_BLAS_RPATH} ${dnnl_folder}
    PRE_EXCLUDE_REGEXES \"${not_bundled}\")
  if(missing)
    message(FATAL_ERROR \"the wheel needs libraries that were not found: \${missing}\")
  endif()
  foreach(library \${found})
    get_filename_component(name \${library} NAME)
    file(REAL_PATH \${library} real)
    file(COPY_FILE \${real} \${here}/\${name} ONLY_IF_DIFFERENT)
    message(STATUS \"Bundling: \${name}\")
  endforeach()" COMPONENT python EXCLUDE_FROM_ALL)
