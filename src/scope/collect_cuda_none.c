/* collect_cuda_none.c -- what a build without CUDA or without CUPTI links instead. */
#include "scope/collect_cuda.h"

mba_status mba_collect_cuda(mba_gpu_profile **out, mba_program *p, const mba_step *step, const mba_gpu_options *o)
{
    (void)p, (void)step, (void)o;
    *out = NULL;
    return mba_fail(MBA_E_UNSUPPORTED, "cannot profile a GPU\nwhy: this program was built without CUDA or without CUPTI\n"
                    "fix: install the CUDA toolkit with CUPTI (cuda-cupti-dev) and build again");
}

void mba_gpu_profile_free(mba_gpu_profile *g) { (void)g; }
bool mba_collect_cuda_built(void) { return false; }
