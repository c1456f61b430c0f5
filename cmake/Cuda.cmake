# CUDA for lib/backend/cuda: nvcc, and its runtime as a static library, which opens the driver when it is first asked for a
# GPU. So what is built here starts on machines without one.
#
# nvcc is taken from CUDACXX, the PATH, /usr/local/cuda, or .cuda, where scripts/setup.sh cuda puts it.
if(NOT CMAKE_CUDA_COMPILER)
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS ENV CUDACXX PATHS /usr/local/cuda/bin ${PROJECT_SOURCE_DIR}/.cuda/bin)
endif()
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "CIRCE_CUDA=ON needs nvcc, which was not found. Install a CUDA toolkit (12.0 or newer), or run "
    "scripts/setup.sh cuda; or configure with -DCIRCE_CUDA=OFF")
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "sm_80, sm_90, and PTX for what comes after")
endif()
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3" CACHE STRING "")
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(CIRCE_CUDA_INCLUDE ${CUDAToolkit_INCLUDE_DIRS})
get_filename_component(nvcc_dir ${CMAKE_CUDA_COMPILER} DIRECTORY)
# The toolkit lies outside a sysroot.
find_library(CIRCE_CUDART cudart_static HINTS ${nvcc_dir}/../lib64 ${nvcc_dir}/../lib ${CUDAToolkit_LIBRARY_DIR} NO_CMAKE_FIND_ROOT_PATH)
if(NOT CIRCE_CUDART)
  message(FATAL_ERROR "libcudart_static.a was not found beside nvcc (${CMAKE_CUDA_COMPILER})")
endif()
set(CIRCE_CUDA_LIBRARIES ${CIRCE_CUDART} ${CMAKE_DL_LIBS} pthread rt)
# cuBLAS and cuSOLVER are opened at run time (lib/cuda/libraries.h); a build needs their headers alone.
get_filename_component(CIRCE_CUDA_LIBRARY_DIR ${CIRCE_CUDART} DIRECTORY)
find_file(CIRCE_CUDA_BLAS_HEADER cublas_v2.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CMAKE_FIND_ROOT_PATH)
find_file(CIRCE_CUDA_SOLVER_HEADER cusolverDn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CMAKE_FIND_ROOT_PATH)
if(NOT CIRCE_CUDA_BLAS_HEADER OR NOT CIRCE_CUDA_SOLVER_HEADER)
  message(FATAL_ERROR "CIRCE_CUDA=ON needs the headers of cuBLAS and cuSOLVER (cublas_v2.h, cusolverDn.h), which were not "
    "found beside nvcc's. Install the toolkit's development packages of both, or run scripts/setup.sh cuda")
endif()
# cuDNN is no part of the toolkit. It trains networks for images, opened at run time as well.
if(CIRCE_CLI OR CIRCE_TESTS OR CIRCE_FUZZ)
  find_path(CIRCE_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CMAKE_FIND_ROOT_PATH)
  if(NOT CIRCE_CUDNN_INCLUDE)
    message(FATAL_ERROR "CIRCE_CUDA=ON needs the headers of cuDNN 9 (cudnn.h), which were not found: install cuDNN's "
      "development package (or run scripts/setup.sh cuda), or name its folder with -DCIRCE_CUDNN_INCLUDE=...; the library "
      "alone (-DCIRCE_CLI=OFF -DCIRCE_TESTS=OFF) does without")
  endif()
endif()
