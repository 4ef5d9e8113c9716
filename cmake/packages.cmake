# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` copies and what `cpack -G DEB` packs: the program with its man page and completions, the library of kernels
# with header and pkg-config file, the injection library where there is one, licence and documents. Machine files are in the program.

install(TARGETS mambascope mambascope_kernels)
if(TARGET mambascope_mpi)
  install(TARGETS mambascope_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/mambascope)
endif()
if(TARGET mambascope_inject)
  install(TARGETS mambascope_inject LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/mambascope)
endif()
install(FILES include/mba_kernels.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# Folders from where the file lies: right for every prefix that `cmake --install` is given.
file(RELATIVE_PATH MBA_PREFIX_FROM_PC ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH MBA_INCLUDE_FROM_PREFIX ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
file(RELATIVE_PATH MBA_LIB_FROM_PREFIX ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
configure_file(src/kernels/mambascope_kernels.pc.in mambascope_kernels.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mambascope_kernels.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

file(GLOB MBA_DOCUMENTS CONFIGURE_DEPENDS docs/*.md)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)      # the name that Debian asks for
install(FILES ${MBA_DOCUMENTS} DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)

set(MBA_ZSH_FOLDER site-functions CACHE STRING "where zsh looks for completions, in share/zsh; Debian's packages: vendor-completions")
# The man page and the completions come from the option tables of the program itself.
function(mba_install_output folder name)
  install(CODE "
    set(made \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/${name}\")
    file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}\")
    execute_process(COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} \"$<TARGET_FILE:mambascope>\" ${ARGN} OUTPUT_FILE \"\${made}\"
                    COMMAND_ERROR_IS_FATAL ANY)
    file(CHMOD \"\${made}\" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    message(STATUS \"Installing: \${made}\")
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${CMAKE_INSTALL_PREFIX}/${folder}/${name}\")")
endfunction()
mba_install_output(${CMAKE_INSTALL_DATAROOTDIR}/man/man1 mambascope.1 manual)
mba_install_output(${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions mambascope manual --bash)
mba_install_output(${CMAKE_INSTALL_DATAROOTDIR}/zsh/${MBA_ZSH_FOLDER} _mambascope manual --zsh)
mba_install_output(${CMAKE_INSTALL_DATAROOTDIR}/fish/vendor_completions.d mambascope.fish manual --fish)

# The Debian package (`./run deb`). Whoever wrote the commit answers for it.
execute_process(COMMAND git -C ${CMAKE_CURRENT_SOURCE_DIR} log -1 "--format=%an <%ae>" OUTPUT_VARIABLE MBA_MAINTAINER
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT MBA_MAINTAINER)
  set(MBA_MAINTAINER "unknown <unknown@localhost>")
endif()
set(MBA_MACHINES_SERVED "GPUs: none; it was built without CUDA.")
if(MBA_HAS_CUDA)
  set(MBA_MACHINES_SERVED "GPUs: ${MBA_BUILT_GPUS}.")
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME mambascope)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "${MBA_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains, profiles and simulates Mamba-based models")
set(CPACK_PACKAGE_DESCRIPTION "One program that trains Mamba-1, Mamba-2, hybrid, MambaVision and Graph-Mamba models on the CPU and on
NVIDIA GPUs, shows what the hardware does while they train, and predicts steps on GPUs that are not there; and
libmambascope_kernels, its state-space kernels for other programs.
${MBA_MACHINES_SERVED}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)         # others that link the library get a dependency on this package
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
