# SPDX-License-Identifier: Apache-2.0
# The sources a program was built from, as one number: where the tree is not a commit (a copy on a GPU host, edits not yet
# committed), this says which it was. Anybody who has a tree can ask for its number:
#   cmake -DROOT=. -P cmake/sources.cmake
# With -DOUT=FILE it goes into a header, which is only written where it changes.
cmake_policy(VERSION 3.20)
get_filename_component(ROOT ${ROOT} ABSOLUTE)
file(GLOB_RECURSE names RELATIVE ${ROOT} ${ROOT}/src/*)
file(GLOB machines RELATIVE ${ROOT} ${ROOT}/machines/*.ini ${ROOT}/clusters/*.ini)
list(FILTER names INCLUDE REGEX "\\.(c|h|cu|cuh|def|in|rules|css|js)$")
list(FILTER names EXCLUDE REGEX "_test\\.c$")
list(APPEND names ${machines} docs/glossary.md CMakeLists.txt)
list(SORT names)
set(all "")
foreach(name ${names})
  file(SHA256 ${ROOT}/${name} one)
  string(APPEND all "${one} ${name}\n")
endforeach()
string(SHA256 number "${all}")
string(SUBSTRING ${number} 0 12 number)
if(OUT)
  file(CONFIGURE OUTPUT ${OUT} CONTENT "/* sources.h -- written at every build by cmake/sources.cmake. */\n#define MBA_SOURCES \"${number}\"\n")
else()
  message(STATUS "${number}")
endif()
