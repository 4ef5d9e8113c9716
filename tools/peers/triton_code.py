# SPDX-License-Identifier: Apache-2.0
"""Compiles mamba_ssm's SSD kernels that multiply as they were launched, without a GPU, so that their code can be read
where the cache of the run that was counted is not at hand (tools/peers/triton_cache.py):

    python tools/peers/triton_code.py src/sim/data/peers_counted.tsv OUT        # mamba_ssm and Triton importable
    tools/sass_path OUT/*.cubin > paths.json
    tools/kernel_points --code paths.json src/sim/data/peers_counted.tsv > new.tsv

Which of a kernel's tilings ran is told by the row: the one with its warps that needs its shared memory to the byte; of
two, the one that makes its grid (states of 64 x 128: MADE_OF), then the one nearer in registers. Prints what it took,
and both numbers of registers: another version of Triton than was measured makes other code (3.6 was, 3.9 compiles
within 24 % of its registers). Sizes are those of mamba2-headline: 32 heads of 64, 8 groups, states of 128, chunks of
256, bf16 with fp32 sums."""
import pathlib
import re
import subprocess
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from mamba_ssm.ops.triton import ssd_bmm, ssd_chunk_scan, ssd_chunk_state, ssd_combined

FP32, NONE = "fp32", None
HEAD = {"BLOCK_SIZE_K": 64}
SUMS = {"HAS_DDA_CS": True, "HAS_SEQ_IDX": False, "DETERMINISTIC_REDUCTION": False, **HEAD}
SCAN = {"HAS_D": True, "D_HAS_HDIM": False, "HAS_SEQ_IDX": False, "BLOCK_SIZE_DSTATE": 128, "IS_TRITON_22": True}
# Of each kernel: where it is, operands that are not bf16 (cumulative decays are fp32, there are no sequence numbers),
# its switches, the strides that are 1.
KERNELS = {
    "_bmm_chunk_fwd_kernel": (ssd_bmm, {"out_ptr": FP32},
                              {"IS_CAUSAL": False, "dot_dtype": tl.bfloat16, "HAS_SEQ_IDX": False}, "ak bk outn"),
    "_bmm_chunk_bwd_kernel": (ssd_bmm, {"dout_ptr": FP32, "res_ptr": FP32},
                              {"dot_dtype": tl.bfloat16, "HAS_RESIDUAL": True}, "ak dout_csize_n db_k res_k"),
    "_chunk_state_fwd_kernel": (ssd_chunk_state, {"states_ptr": FP32, "dt_ptr": FP32}, {"HAS_SEQ_IDX": False},
                                "x_hdim b_dstate states_dstate dt_csize dA_cs_csize"),
    "_chunk_state_bwd_db_kernel": (ssd_chunk_state, {"dt_ptr": FP32, "db_ptr": FP32}, SUMS,
                                   "x_hdim states_dstate b_dstate dt_csize dA_cs_csize db_dstate ddA_cs_csize"),
    "_chunk_scan_fwd_kernel": (ssd_chunk_scan, {"cb_ptr": FP32, "z_ptr": NONE, "out_x_ptr": NONE, "dt_ptr": FP32,
                                                "D_ptr": FP32}, {"IS_CAUSAL": True, "HAS_Z": False, **SCAN},
                               "cb_csize_k x_hdim out_hdim dt_csize dA_cs_csize C_dstate states_dstate D_head"),
    "_chunk_scan_bwd_dstates_kernel": (ssd_chunk_scan, {"dprev_states_ptr": FP32}, {"HAS_SEQ_IDX": False},
                                       "dout_hdim c_dstate dprev_states_dstate dA_cs_csize"),
    "_chunk_scan_bwd_dc_kernel": (ssd_chunk_scan, {"dc_ptr": FP32}, SUMS,
                                  "dout_hdim prev_states_dstate C_dstate dA_cs_csize dc_dstate ddA_cs_csize"),
    "_chunk_scan_bwd_dcb_kernel": (ssd_chunk_scan, {"dt_ptr": FP32, "dcb_ptr": FP32, "cb_ptr": NONE,
                                                    "ddA_cumsum_ptr": NONE},
                                   {"HAS_DDA_CS": False, "HAS_SEQ_IDX": False, **HEAD},
                                   "x_hdim dout_hdim dt_csize dA_cs_csize dcb_csize_n"),
    "_chunk_scan_bwd_ddAcs_stable_kernel": (ssd_chunk_scan, {"dt_ptr": FP32, "cb_ptr": FP32}, HEAD,
                                            "x_hdim dout_hdim dt_csize dA_cs_csize cb_csize_n ddA_cs_csize_n"),
    "_chunk_scan_chunk_state_bwd_dx_kernel": (ssd_combined, {"cb_ptr": FP32, "dt_ptr": FP32, "D_ptr": FP32,
                                                             "ddt_ptr": FP32, "dD_ptr": FP32},
                                              {"DETERMINISTIC_REDUCTION": False, **SCAN},
                                              "x_hdim cb_csize_k dout_hdim dt_csize dA_cs_csize D_head b_dstate "
                                              "dstates_dstate dx_hdim ddt_csize"),
}
SMALL = ("batch", "nheads_per_program", "ngroups", "nheads_ngroups_ratio")          # no multiples of 16
MADE_OF = {"_chunk_state_fwd_kernel": lambda c: c["BLOCK_SIZE_M"] == 64}            # a block a head and chunk: 2048


def pointer(name, special):
    if name in special or name == "seq_idx_ptr":
        return special.get(name)
    return FP32 if "dA_cumsum" in name else "bf16"


def compiled(name, config):
    module, special, switches, ones = KERNELS[name]
    function = getattr(module, name)
    while not isinstance(function, JITFunction):
        function = function.fn
    known = {**switches, **config.kwargs, **{f"stride_{s}": 1 for s in ones.split()}}
    signature, constants, attributes = {}, {}, {}
    for i, argument in enumerate(function.arg_names):
        kind = pointer(argument, special) if argument.endswith("_ptr") else "i32"
        if argument in known or kind is None:
            signature[argument], constants[i,] = "constexpr", known.get(argument)
            continue
        signature[argument] = kind if kind == "i32" else "*" + kind
        attributes[i,] = [] if argument in SMALL else [["tt.divisibility", 16]]
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32),
                          options={"num_warps": config.num_warps, "num_stages": config.num_stages})


def registers_of(path):
    text = subprocess.run(["cuobjdump", "-res-usage", path], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"REG:(\d+)", text)[1])


def main():
    table, out = sys.argv[1], pathlib.Path(sys.argv[2])
    out.mkdir(exist_ok=True)
    heading = next(line for line in open(table, encoding="utf-8") if line.startswith("# set"))[2:].split("\t")
    for line in open(table, encoding="utf-8"):
        row = dict(zip(heading, line.rstrip("\n").split("\t")))
        name = row.get("kernel")
        if name not in KERNELS:
            continue
        found = []
        for config in getattr(KERNELS[name][0], name).configs:
            if config.num_warps * 32 != int(row["block"]) or not MADE_OF.get(name, bool)(config.kwargs):
                continue
            code = compiled(name, config)
            if code.metadata.shared == int(row["smem"]):
                (out / "one.cubin").write_bytes(code.asm["cubin"])
                regs = registers_of(out / "one.cubin")
                found.append((abs(regs - int(row["regs"])), regs, config.kwargs, code.asm["cubin"]))
        if not found:
            sys.exit(f"{name}: no tiling needs {row['smem']} bytes of shared memory")
        _, regs, tiling, cubin = min(found, key=lambda one: one[0])
        (out / f"{name}.cubin").write_bytes(cubin)
        print(name, tiling, "registers", regs, "of", row["regs"], flush=True)
    (out / "one.cubin").unlink(missing_ok=True)


main()
