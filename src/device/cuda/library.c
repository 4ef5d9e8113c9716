// SPDX-License-Identifier: Apache-2.0
/* library.c -- opens a shared library and fills a table of its functions (library.h). */
#include "device/cuda/library.h"

#include <dlfcn.h>
#include <string.h>

mba_status mba_library_open(const char *file, const mba_library_name *names, void *table)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "cannot open %s\nwhy: %s\nfix: install the CUDA libraries, or add them to LD_LIBRARY_PATH",
                        file, dlerror());
    for (; names->name; names++) {
        void *f = dlsym(library, names->name);
        if (!f)
            return mba_fail(MBA_E_UNSUPPORTED,
                            "%s has no %s\nwhy: it is another version than the one that this program was built for",
                            file, names->name);
        memcpy((char *)table + names->field, &f, sizeof f);
    }
    return MBA_OK;
}
