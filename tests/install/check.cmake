# Installs the build into a prefix of its own and uses it as a stranger would: by find_package, and by pkg-config with
# the shared and with the static library. Each program is run.
#
# cmake -DBUILD=dir -DSOURCE=dir -DWORK=dir -DCC=... -DFLAGS="..." -DPKG_CONFIG=... -P check.cmake

set(prefix ${WORK}/prefix)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(failed)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${what} fails (${failed}):\n${command}\n${out}")
  endif()
  set(output "${out}" PARENT_SCOPE)
  message(STATUS "${what}: done")
endfunction()

function(expect_output what)
  if(NOT output MATCHES "circe [0-9.]+, value 0\\.[0-9]+")
    message(FATAL_ERROR "${what} prints: ${output}")
  endif()
endfunction()

run("the installation" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
file(GLOB_RECURSE config ${prefix}/*/circeConfig.cmake)
file(GLOB_RECURSE pc ${prefix}/*/circe.pc)
if(NOT config OR NOT pc)
  message(FATAL_ERROR "the installation has no circeConfig.cmake or no circe.pc")
endif()
get_filename_component(pc_dir ${pc} DIRECTORY)
get_filename_component(lib_dir ${pc_dir} DIRECTORY)

# find_package, from a moved prefix: nothing in it may remember where it was first.
file(RENAME ${prefix} ${WORK}/moved)
string(REPLACE ${prefix} ${WORK}/moved lib_dir ${lib_dir})
string(REPLACE ${prefix} ${WORK}/moved pc_dir ${pc_dir})
run("configuring with find_package" ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/project -DCMAKE_PREFIX_PATH=${WORK}/moved
  -DCMAKE_C_COMPILER=${CC} "-DCMAKE_C_FLAGS=${FLAGS}" -DCMAKE_BUILD_TYPE=Release)
run("building with find_package" ${CMAKE_COMMAND} --build ${WORK}/project)
foreach(program with_shared with_static with_default)
  run(${program} ${WORK}/project/${program})
  expect_output(${program})
endforeach()

run(with_jobs ${WORK}/project/with_jobs)

if(NOT PKG_CONFIG)
  message(FATAL_ERROR "pkg-config was not found")
endif()
set(ENV{PKG_CONFIG_PATH} ${pc_dir})
separate_arguments(flags UNIX_COMMAND "${FLAGS}")

run("pkg-config" ${PKG_CONFIG} --cflags --libs circe)
separate_arguments(arguments UNIX_COMMAND "${output}")
run("building with pkg-config" ${CC} ${flags} ${SOURCE}/example.c -o ${WORK}/dynamic ${arguments}
  -Wl,-rpath,${lib_dir})
run("the program with pkg-config" ${WORK}/dynamic)
expect_output("the program with pkg-config")

run("pkg-config of the jobs" ${PKG_CONFIG} --cflags --libs circe_jobs)
separate_arguments(arguments UNIX_COMMAND "${output}")
run("building jobs with pkg-config" ${CC} ${flags} ${SOURCE}/jobs.c -o ${WORK}/jobs ${arguments} -Wl,-rpath,${lib_dir})
run("the program of jobs with pkg-config" ${WORK}/jobs)

# Static: a directory that holds the archive alone comes first, so that the linker cannot take the shared library.
file(MAKE_DIRECTORY ${WORK}/archive)
file(COPY ${lib_dir}/libcirce.a DESTINATION ${WORK}/archive)
run("pkg-config --static" ${PKG_CONFIG} --static --cflags --libs circe)
separate_arguments(arguments UNIX_COMMAND "${output}")
run("building with pkg-config --static" ${CC} ${flags} ${SOURCE}/example.c -o ${WORK}/static -L${WORK}/archive
  ${arguments})
file(RENAME ${WORK}/moved ${WORK}/gone)
run("the program with pkg-config --static" ${WORK}/static)
expect_output("the program with pkg-config --static")
