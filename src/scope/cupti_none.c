// SPDX-License-Identifier: Apache-2.0
/* cupti_none.c -- what a build without CUPTI's headers links instead of cupti_api.c. */
#include "scope/cupti_collect.h"

mba_status mba_cupti_version(int *version)
{
    *version = 0;
    return mba_fail(MBA_E_UNSUPPORTED, "this program was built without CUPTI\nfix: install the CUDA toolkit with CUPTI "
                                       "(cuda-cupti-dev), then ./run build");
}
