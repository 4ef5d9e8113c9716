// SPDX-License-Identifier: Apache-2.0
/* hf_harmless.c -- lists of keys that programs write into config.json but neither their classes nor we compute with.
 *
 * Sources: the configuration classes of transformers 5.23, the keys that they drop from older files, and mamba_ssm.
 * Keys that a reader of hf_config.c looks up need not be listed. */
#include "train/hf_source.h"

#define OF_EVERY_CLASS \
    "model_type architectures auto_map _name_or_path name_or_path _commit_hash transformers_version " \
    "transformers.js_config dtype torch_dtype use_bfloat16 torchscript return_dict output_hidden_states " \
    "output_attentions _attn_implementation _attn_implementation_autoset attn_implementation " \
    "_experts_implementation experts_implementation use_cache use_return_dict chunk_size_feed_forward " \
    "is_encoder_decoder is_decoder add_cross_attention cross_attention_hidden_size tie_encoder_decoder " \
    "pruned_heads finetuning_task task_specific_params problem_type id2label label2id num_labels tokenizer_class " \
    "prefix bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id decoder_start_token_id " \
    "initializer_range rescale_prenorm_residual residual_in_fp32 "
/* settings of text generation that transformers drops when it reads older files */
#define OF_GENERATION \
    "assistant_confidence_threshold assistant_lookbehind bad_words_ids begin_suppress_tokens diversity_penalty " \
    "do_sample early_stopping encoder_no_repeat_ngram_size encoder_repetition_penalty epsilon_cutoff eta_cutoff " \
    "exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id length_penalty max_length min_length " \
    "no_repeat_ngram_size num_assistant_tokens num_assistant_tokens_schedule num_beam_groups num_beams " \
    "num_logits_to_keep num_return_sequences output_scores remove_invalid_values repetition_penalty " \
    "return_dict_in_generate suppress_tokens target_lookbehind temperature top_k top_p typical_p "
#define OF_STEPS /* initial values of steps, ways to compute them */ \
    "time_step_floor time_step_init_scheme time_step_max time_step_min time_step_scale use_associative_scan " \
    "use_mamba_kernels use_mambapy "

/* By format. Older files of mamba and mamba2 also have keys of mamba_ssm, which their classes never read. */
static const char *const harmless[MBA_HF_FORMATS] = {
    [MBA_HF_OURS] = "model_type ",
    [MBA_HF_MAMBA] = OF_EVERY_CLASS OF_GENERATION  OF_STEPS "d_model d_inner n_layer ssm_cfg rms_norm fused_add_norm "
                                                            "pad_vocab_size_multiple",
    [MBA_HF_MAMBA2] = OF_EVERY_CLASS OF_GENERATION OF_STEPS
    "time_step_rank intermediate_size rms_norm norm_before_gate",
    [MBA_HF_NEMOTRON_H] = OF_EVERY_CLASS OF_GENERATION OF_STEPS
    "expand mamba_expand mamba_proj_bias mamba_dt_max mamba_dt_init_floor time_step_rank "
    "mamba_ssm_cache_dtype max_position_embeddings rms_norm_eps rope_theta partial_rotary_factor "
    "moe_intermediate_size moe_latent_size moe_shared_expert_intermediate_size "
    "moe_shared_expert_overlap n_group n_routed_experts n_shared_experts norm_topk_prob "
    "num_experts_per_tok num_local_experts routed_scaling_factor topk_group output_router_logits "
    "router_aux_loss_coef num_nextn_predict_layers mtp_layers_block_type "
    "mtp_hybrid_override_pattern",
    [MBA_HF_BAMBA] = OF_EVERY_CLASS OF_GENERATION OF_STEPS "max_position_embeddings attn_rotary_emb layer_types "
                                                           "layers_block_type",
    [MBA_HF_JAMBA] = OF_EVERY_CLASS OF_GENERATION OF_STEPS
    "max_position_embeddings num_experts_per_tok "
    "router_aux_loss_coef output_router_logits calc_logits_for_entire_prompt layer_types "
    "layers_block_type",
    [MBA_HF_MAMBA_SSM] =
        "model_type architectures dtype torch_dtype residual_in_fp32 fused_add_norm dt_min dt_max dt_init "
        "dt_scale dt_init_floor conv_init A_init_range use_fast_path use_mem_eff_path process_group "
        "sequence_parallel layer_idx",
    [MBA_HF_VISION] = OF_EVERY_CLASS OF_GENERATION "tie_word_embeddings",
    [MBA_HF_VISION_OURS] = "model_type",
    [MBA_HF_GRAPH] = "model_type",
};

const char *mba__hf_harmless(mba_hf_format format) { return harmless[format]; }
