# SPDX-License-Identifier: Apache-2.0
# The kernels of sm_80 as code for the host, and their test (tests/cuda_on_cpu): CI has no GPU. It needs the toolkit's headers and a
# C++ compiler; without them the test is skipped, in builds with sanitizers, which do not follow fibers, and by clang: once is enough.
include(CheckLanguage)
find_path(MBA_CUDA_HEADERS cuda_bf16.h HINTS ${CUDAToolkit_INCLUDE_DIRS} $ENV{CUDA_HOME}/include /usr/local/cuda/include)
check_language(CXX)
if(NOT MBA_CUDA_HEADERS OR NOT CMAKE_CXX_COMPILER OR NOT CMAKE_C_COMPILER_ID STREQUAL GNU OR MBA_SANITIZE OR MBA_FUZZ OR MBA_SHARED_LIBRARY)
  add_test(NAME cuda_on_cpu_test COMMAND sh -c "echo 'no headers of CUDA, no C++, clang, or sanitizers'; exit 77")
  set_tests_properties(cuda_on_cpu_test PROPERTIES SKIP_RETURN_CODE 77)
  return()
endif()
enable_language(CXX)

# Without those of cuDNN, of collectives, and of sm_90 alone.
file(GLOB_RECURSE kernels RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS src/ops/*_cuda.cu)
list(FILTER kernels EXCLUDE REGEX "conv2d|collectives|_(dnn|wgmma)_cuda|ssd_fused_cuda")
set(without "")
set(translate tests/cuda_on_cpu/translate.py)
set(translated "")
foreach(kernel ${kernels})
  get_filename_component(name ${kernel} NAME_WE)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/cuda_on_cpu/${name}.cpp)
  add_custom_command(OUTPUT ${out} DEPENDS ${kernel} ${translate} DEPFILE ${out}.d WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
                     COMMAND ${MBA_PYTHON} ${translate} ${kernel} ${out} -- ${CMAKE_CXX_COMPILER} -I. -Isrc -Iinclude
                             -I${MBA_CUDA_HEADERS} -DMBA_WITH_CUDA -D_GNU_SOURCE COMMENT "Translating ${kernel}")
  list(APPEND translated ${out})
endforeach()
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/cuda_on_cpu)

# The operators' tables once more, with launchers in them; those that are left out above have none, in a build with CUDA either.
file(GLOB_RECURSE tables CONFIGURE_DEPENDS src/ops/*.c)
list(FILTER tables EXCLUDE REGEX "_(cpu|test)\\.c$")
foreach(table ${tables})
  file(STRINGS ${table} launchers REGEX "MBA_CUDA\\(" LIMIT_COUNT 1)
  if(NOT launchers OR table MATCHES "conv2d|collectives")
    list(REMOVE_ITEM tables ${table})
  endif()
  if(launchers AND table MATCHES "conv2d|collectives")
    list(APPEND without ${table})
  endif()
endforeach()

# They are compiled as the preprocessor left them, without the warnings of nvcc's build, which knows which functions are kernels.
add_library(cuda_on_cpu OBJECT ${translated})
target_compile_options(cuda_on_cpu PRIVATE -std=c++17 -O1 -w -Wno-psabi -fpreprocessed -fno-math-errno -fno-trapping-math)
add_library(cuda_on_cpu_host OBJECT tests/cuda_on_cpu/block.c tests/cuda_on_cpu/runtime.c ${tables})
target_compile_definitions(cuda_on_cpu_host PRIVATE MBA_WITH_CUDA)
target_include_directories(cuda_on_cpu_host SYSTEM PRIVATE ${MBA_CUDA_HEADERS})
target_link_libraries(cuda_on_cpu_host PRIVATE mba_flags)
add_library(cuda_on_cpu_without OBJECT ${without})
target_compile_options(cuda_on_cpu_without PRIVATE -UMBA_WITH_CUDA)
target_link_libraries(cuda_on_cpu_without PRIVATE mba_flags)

# Tests that find it in place of a GPU.
function(executable_on_cpu name source)
  add_executable(${name} ${source} $<TARGET_OBJECTS:cuda_on_cpu> $<TARGET_OBJECTS:cuda_on_cpu_host>
                 $<TARGET_OBJECTS:cuda_on_cpu_without>)
  target_link_libraries(${name} PRIVATE mba PkgConfig::CMOCKA)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/tests)
endfunction()
function(test_on_cpu name program)
  add_test(NAME ${name} COMMAND ${program} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 COST 1500 SKIP_RETURN_CODE 77 ENVIRONMENT "${MBA_TEST_THREADS};${ARGN}")
endfunction()
executable_on_cpu(cuda_on_cpu_test tests/cuda_on_cpu/cuda_on_cpu_test.c)
executable_on_cpu(optimizer_on_cpu_test tests/optimizer_test.c)
test_on_cpu(cuda_on_cpu_test cuda_on_cpu_test)
test_on_cpu(optimizer_on_cpu_test optimizer_on_cpu_test)
test_on_cpu(optimizer_on_cpu_reverse_test optimizer_on_cpu_test MBA_TEST_REVERSE=1)
