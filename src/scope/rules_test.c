// SPDX-License-Identifier: Apache-2.0
/* rules_test.c -- kernels find their class; a rules file that is wrong says where. */
#include "scope/rules.h"

#include "core/print.h"
#include "tests/test.h"

/* Names as the driver gives them in the peer stack (mangled where they are C++), and where they belong. */
static const struct {
    const char *kernel, *op, *kind;
} known[] = {
    { "_chunk_cumsum_fwd_kernel", "chunk_cumsum_fwd", "ssm" },
    { "_chunk_state_fwd_kernel", "chunk_state_fwd", "ssm" },
    { "_state_passing_fwd_kernel", "state_passing_fwd", "ssm" },
    { "_bmm_chunk_fwd_kernel", "bmm_chunk_fwd", "ssm" },
    { "_chunk_scan_fwd_kernel", "chunk_scan_fwd", "ssm" },
    { "_chunk_scan_bwd_dstates_kernel", "chunk_scan_bwd_dstates", "ssm" },
    { "_state_passing_bwd_kernel", "state_passing_bwd", "ssm" },
    { "_chunk_scan_chunk_state_bwd_dx_kernel", "chunk_scan_chunk_state_bwd_dx", "ssm" },
    { "_chunk_state_bwd_db_kernel", "chunk_state_bwd_db", "ssm" },
    { "_chunk_scan_bwd_dc_kernel", "chunk_scan_bwd_dc", "ssm" },
    { "_chunk_scan_bwd_dcb_kernel", "chunk_scan_bwd_dcb", "ssm" },
    { "_bmm_chunk_bwd_kernel", "bmm_chunk_bwd", "ssm" },
    { "_chunk_scan_bwd_ddAcs_stable_kernel", "chunk_scan_bwd_ddacs_stable", "ssm" },
    { "_chunk_cumsum_bwd_kernel", "chunk_cumsum_bwd", "ssm" },
    { "_Z25selective_scan_fwd_kernelI32Selective_Scan_fwd_kernel_"
      "traitsILi128ELi16ELi1ELb0ELb1ELb1ELb1ELb1EN3c108BFloat16EfEEv13SSMParamsBase",
      "selective_scan_fwd", "ssm" },
    { "_Z25selective_scan_bwd_kernelI32Selective_Scan_bwd_kernel_traitsEv16SSMParamsBwd", "selective_scan_bwd", "ssm" },
    { "_Z37causal_conv1d_channellast_fwd_kernelI44Causal_conv1d_channellast_fwd_kernel_traitsEv14ConvParamsBase",
      "causal_conv1d_fwd", "conv" },
    { "_Z37causal_conv1d_channellast_bwd_kernelI44Causal_conv1d_channellast_bwd_kernel_traitsEv13ConvParamsBwd",
      "causal_conv1d_bwd", "conv" },
    { "_layer_norm_fwd_1pass_kernel", "layer_norm_fwd", "norm" },
    { "_layer_norm_bwd_kernel", "layer_norm_bwd", "norm" },
    { "_ZN2at6native12_GLOBAL__N_144vectorized_layer_norm_kernelIffEEviT0_PKT_S5_S5_PS2_S6_PS3_", "layer_norm_fwd",
      "norm" },
    { "_ZN2at6native12_GLOBAL__N_137layer_norm_grad_input_kernel_vectorizedIffEEv", "layer_norm_bwd", "norm" },
    { "_ZN5cudnn13bn_fw_tr_1C11_kernel_NCHWIffLi512ELb1ELi1EEEv", "batch_norm_fwd", "norm" },
    { "nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_TNT", "gemm", "gemm" },
    { "nvjet_tst_192x192_64x4_2x1_v_bz_coopA_NNT", "gemm", "gemm" },
    { "_ZN7cutlass7Kernel2I66cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8EEvNT_6ParamsE",
      "gemm", "gemm" },
    { "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__"
      "5x_cublas",
      "gemm", "gemm" },
    { "_ZN8cublasLt19splitKreduce_kernelILi32ELi16Ei13__nv_bfloat16S1_S1_fLb0ELb0ELb0EEEv", "gemm_split_k_sum",
      "gemm" },
    { "_Z11gemv2T_kernel_valIiiffffLi128ELi16ELi4ELi4ELb0ELb0E18cublasGemvParamsEv", "gemv", "gemm" },
    { "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0", "attention_fwd",
      "attention" },
    { "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_32_64x64x128_4x1x1_kernel0_0", "attention_bwd",
      "attention" },
    { "_ZN5flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsEv", "attention_fwd", "attention" },
    { "_ZN5flash44flash_bwd_dq_dk_dv_loop_seqk_parallel_kernelI23Flash_bwd_kernel_traitsEv", "attention_bwd",
      "attention" },
    { "fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "attention_fwd", "attention" },
    { "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64", "conv_fwd", "conv" },
    { "sm90_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x64x64", "conv_bwd_data", "conv" },
    { "sm80_xmma_wgrad_implicit_gemm_indexed_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32", "conv_bwd_weight",
      "conv" },
    { "_ZN2at6native54_GLOBAL__N__conv_depthwise2d_forward_kernelILi3EN3c108BFloat16EiEEv", "conv_depthwise_fwd",
      "conv" },
    { "_ZN5cudnn3ops20nchwToNhwcKernelI6__halfS2_fLb0ELb1EL19cudnnKernelDataType0EEEv", "layout", "memory" },
    { "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_32FusedOptimizerTensorListMetadataILi4EEENS1_"
      "20FusedAdamMathFunctorIfLi4EEEEEv",
      "adamw", "optimizer" },
    { "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_45_GLOBAL__N__d296b789_7_Lerp_cu_751192d7_2018418lerp_"
      "scalar_kernelERN",
      "adamw", "optimizer" },
    { "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_19addcdiv_cuda_kernelERNS_18TensorIteratorBaseE",
      "adamw", "optimizer" },
    { "_ZN2at6native12_GLOBAL__N_128nll_loss_forward_reduce_cuda_kernel_2dEv", "nll_loss", "embedding/loss" },
    { "_ZN2at6native12_GLOBAL__N_119cunn_SoftMaxForwardILi8EfffNS1_22LogSoftMaxForwardEpilogueEEEvPT2_PKT0_i",
      "softmax", "embedding/loss" },
    { "_ZN2at6native12_GLOBAL__N_120cunn_SoftMaxBackwardILi8EfffNS1_26LogSoftMaxBackwardEpilogueEEEv", "softmax_bwd",
      "embedding/loss" },
    { "_ZN2at6native12_GLOBAL__N_116indexSelectLargeIndexIflLjLi2ELi2ELin2ELb1EEEv", "index_select",
      "message passing" },
    { "_ZN3cub17DeviceRadixSortOnesweepKernelINS_21DeviceRadixSortPolicyEEEv", "sort", "message passing" },
    { "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_", "fill",
      "memory" },
    { "_ZN2at6native27unrolled_elementwise_kernelINS0_21direct_copy_kernel_cudaEEEv", "copy", "memory" },
    { "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_23bfloat16_copy_kernel_cudaEEEv", "cast", "memory" },
    { "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastINS0_13BinaryFunctorIfffNS0_17binary_"
      "internal10MulFunctorIfEEEEEvvEEviT1_",
      "elementwise", "element-wise" },
    { "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tEEEEEvT1_", "reduce", "reduction" },
    { "_ZN2at6native12_GLOBAL__N_135CatArrayBatchedCopy_aligned16_contigINS1_10OpaqueTypeILj4EEEjLi2ELi128ELi1EEEv",
      "cat", "memory" },
    { "_ZN2at6native12_GLOBAL__N_128tensor_kernel_scan_outer_dimIfjSt4plusIfEEEv", "cumsum", "reduction" },
    { "triton_red_fused_native_layer_norm_3", "layer_norm_fwd", "norm" },
    { "triton_poi_fused_silu_mul_7", "elementwise", "element-wise" },
    { "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "collective", "collective" },
    { "copy HtoD", "copy", "memory" },
};

static void shipped_rules_know_the_peer_stack(void **state)
{
    (void)state;
    mba_rules *r;
    assert_ok(mba_rules_open(&r, NULL));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const mba_rule *m = mba_rules_match(r, known[i].kernel);
        if (!m || strcmp(m->op, known[i].op) || strcmp(mba_kind_name(m->kind), known[i].kind))
            fail_msg("%s: %s, %s; should be %s, %s", known[i].kernel, m ? m->op : "no rule",
                     m ? mba_kind_name(m->kind) : "", known[i].op, known[i].kind);
    }
    assert_null(mba_rules_match(r, "what_nobody_knows"));
    mba_rules_free(r);
}

static void the_first_rule_wins(void **state)
{
    (void)state;
    static const char text[] =
        "# mine\n\n  ab*d   first   message passing  # why\nab?d\tsecond\tgemm\r\n*    rest  ssm";
    mba_rules *r;
    assert_ok(mba_rules_read(&r, "mine", text, sizeof text - 1));
    assert_int_equal(mba_rules_count(r), 3);
    assert_string_equal(mba_rules_match(r, "abcd")->op, "first");
    assert_int_equal(mba_rules_match(r, "abcd")->kind, MBA_MESSAGE);
    assert_string_equal(mba_rules_match(r, "abxyzd")->op, "first");
    assert_string_equal(mba_rules_match(r, "abd")->op, "first");
    assert_string_equal(mba_rules_match(r, "abc")->op, "rest");
    assert_string_equal(mba_rules_match(r, "")->op, "rest");
    assert_int_equal(mba_rules_match(r, "")->line, 5);
    mba_rules_free(r);
}

/* A pattern of many stars against a long name that almost fits: the time must not explode. */
static void stars_do_not_explode(void **state)
{
    (void)state;
    static const char text[] = "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b x gemm\n";
    char              name[4096];
    mba_rules        *r;
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_ok(mba_rules_read(&r, "stars", text, sizeof text - 1));
    assert_null(mba_rules_match(r, name));
    mba_rules_free(r);
}

/* Kernels of ours have other names since a release; rules files of users have the earlier ones. */
static void an_earlier_name_fits_the_current_one_too(void **state)
{
    (void)state;
    static const char text[] = "*layernorm_fwd_team* first norm\n"
                               "*norm_fwd_team* second norm\n"
                               "_Z14scan_fwd_twinsILi4EEvPf third ssm\n"
                               "*lamb_cut_more* fourth optimizer\n";
    static const struct {
        const char *kernel, *op;
    } fit[] = { { "_Z18layernorm_fwd_teamPf", "first" },    { "_Z19layernorm_fwd_groupPf", "first" },
                { "_Z13norm_fwd_teamPf", "second" },        { "norm_fwd_group", "second" },
                { "_Z14scan_fwd_twinsILi4EEvPf", "third" }, { "_Z20scan_fwd_specializedILi4EEvPf", "third" } };
    mba_rules *r;
    assert_ok(mba_rules_read(&r, "mine", text, sizeof text - 1));
    assert_int_equal(mba_rules_count(r), 4);
    for (size_t i = 0; i < sizeof fit / sizeof *fit; i++) {
        const mba_rule *m = mba_rules_match(r, fit[i].kernel);
        if (!m || strcmp(m->op, fit[i].op)) fail_msg("%s: %s, not %s", fit[i].kernel, m ? m->op : "-", fit[i].op);
    }
    assert_null(mba_rules_match(r, "_Z19scan_fwd_specializedILi4EEvPf")); // another length: not that name
    assert_null(mba_rules_match(r, "lamb_block_table_more"));             // lamb_cut is only a part of the identifier
    assert_string_equal(mba_rules_note(r), "rules 'mine', line 1: kernel layernorm_fwd_team is now called "
                                           "layernorm_fwd_group; the rule matches both");
    mba_rules_free(r);
    assert_ok(mba_rules_open(&r, NULL));
    assert_null(mba_rules_note(r)); // ours has none
    mba_rules_free(r);
}

static void a_wrong_file_says_where(void **state)
{
    (void)state;
    const struct {
        const char *text;
        size_t      n;
        const char *words;
    } bad[] = { { "a b gemm\nonly\n", 14, "line 2: there is no operator" },
                { "a b\n", 4, "line 1: there is no class" },
                { "a b matrix\n", 11, "line 1: no such class" },
                { "a b ge\0mm\n", 10, "zero bytes" } };
    mba_rules *r;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(mba_rules_read(&r, "bad", bad[i].text, bad[i].n), MBA_E_FORMAT, bad[i].words);
    char *many = malloc(8 * 5000 + 1);
    for (int i = 0; i < 5000; i++) memcpy(many + 8 * i, "a b ssm\n", 8);
    assert_fails(mba_rules_read(&r, "many", many, 8 * 5000), MBA_E_FORMAT, "line 4097: more than 4096 rules");
    free(many);
    assert_fails(mba_rules_open(&r, "no/such/rules"), MBA_E_IO, "no/such/rules");
}

MBA_TEST_MAIN(cmocka_unit_test(shipped_rules_know_the_peer_stack), cmocka_unit_test(the_first_rule_wins),
              cmocka_unit_test(stars_do_not_explode), cmocka_unit_test(an_earlier_name_fits_the_current_one_too),
              cmocka_unit_test(a_wrong_file_says_where))
