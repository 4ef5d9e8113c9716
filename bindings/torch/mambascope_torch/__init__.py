# SPDX-License-Identifier: Apache-2.0
"""mambascope_torch -- the state-space kernels of mambascope as PyTorch operators with gradients.

    import mambascope_torch; mambascope_torch.install()        # into mamba_ssm, causal_conv1d and transformers
    from mambascope_torch import mamba_chunk_scan_combined     # or one by one: same arguments as mamba_ssm's

Works on libmambascope_kernels.so through ctypes (include/mba_kernels.h); nothing is compiled against PyTorch. The
library is looked for in $MAMBASCOPE_KERNELS, beside this file and in the build folder of the tree. CPU tensors run too,
in fp32. `python -m mambascope_torch.check` proves that all of it works here.

Views of activations are taken as they are where rows lie at one distance (columns of a wider matrix do) and copied
where not. See docs/kernels-abi.md.
"""
from .dropin import install, uninstall
from .functions import (causal_conv1d_fn, mamba_chunk_scan_combined, mamba_inner_fn, mamba_split_conv1d_scan_combined,
                        rmsnorm_fn, selective_scan_fn)
from .layers import conv1d, gated_norm, mamba2_mixer
from .native import CONV1D, GATED_NORM, Plan, SCAN, SSD, library
from .operators import selective_scan, selective_scan_backward, ssd, ssd_backward
