// SPDX-License-Identifier: Apache-2.0
/* cupti_none.c -- replaces cupti_api.c in a build without CUPTI's headers. */
#include "scope/cupti_collect.h"

mba_status mba_cupti_version(int *version)
{
    *version = 0;
    return mba_fail(MBA_E_UNSUPPORTED, "this program was built without CUPTI\nfix: install the CUDA toolkit with CUPTI "
                                       "(cuda-cupti-dev), then ./run build");
}
