// SPDX-License-Identifier: Apache-2.0
/* model_options.h -- the options by which every command names a model and the shape of its run. */
#ifndef MBA_CLI_MODEL_OPTIONS_H
#define MBA_CLI_MODEL_OPTIONS_H

#include "cli/options.h"
#include "sim/machine_names.h"
#include "train/run_options.h"

/* Rows of an option table. `m` is a pointer to mba_model_options, `s` to mba_batch_shape. MBA_MODEL_OPTIONS has group
 * headings and stands last in its table. */
// clang-format off
#define MBA_SHAPE_OPTIONS(s) \
    { "--batch", MBA_OPT_INT | MBA_RUN_FIXED, &(s)->batch, "B", "sequences or images per micro-batch", 1, 1 << 20 }, \
    { "--length", MBA_OPT_INT | MBA_RUN_FIXED, &(s)->length, "L", "text: tokens per sequence", 1, 1 << 30 }, \
    { "--image", MBA_OPT_INT | MBA_RUN_FIXED, &(s)->image, "S", "images: side length in pixels", 1, 1 << 14 }, \
    { "--graphs", MBA_OPT_INT | MBA_RUN_FIXED, &(s)->graphs, "G", \
      "graphs: maximum number of graphs per batch", 1, 1 << 22 }, \
    { "--nodes", MBA_OPT_INT | MBA_RUN_FIXED, &(s)->nodes, "N", \
      "graphs: maximum number of nodes per batch", 1, 1 << 30 }, \
    { "--edges", MBA_OPT_INT | MBA_RUN_FIXED, &(s)->edges, "E", \
      "graphs: maximum number of edges per batch", 1, 1 << 30 }

#define MBA_RUN_OPTIONS(m) \
    { "--device", MBA_OPT_TEXT | MBA_RUN_CHANGES, &(m)->device, "WHERE", "cpu, cuda or cuda:N [cpu]", 0, 0 }, \
    { "--precision", MBA_OPT_TEXT | MBA_RUN_CHANGES, &(m)->precision, "TYPE", \
      "fp32 or bf16 activations and products; on CUDA also tf32: fp32, but products on tensor cores " \
      "round their operands to TF32 [bf16 on CUDA]", 0, 0 }, \
    { "--memory", MBA_OPT_BYTES | MBA_RUN_CHANGES, &(m)->memory, "BYTES", \
      "memory limit, e.g. 40GB [90 % of the device]", 0, 0 }, \
    { "--recompute", MBA_OPT_TEXT | MBA_RUN_CHANGES, &(m)->recompute, "WHEN", \
      "recompute activations instead of saving them: auto (only if memory is short), on, off, " \
      "states (SSD only) [auto]", 0, 0 }, \
    { "--op", MBA_OPT_TEXT | MBA_RUN_CHANGES, &(m)->variants, "OP=V,..", \
      "force operator variants; see `mambascope list ops`", 0, 0 }, \
    { "--threads", MBA_OPT_INT | MBA_RUN_CHANGES, &(m)->threads, "N", \
      "CPU threads; does not change results [OMP_NUM_THREADS, or one per core]", 1, 4096 }

#define MBA_PRESET_OPTIONS(m) \
    { "--model", MBA_OPT_TEXT | MBA_RUN_FIXED, &(m)->name, "NAME", \
      "preset; `mambascope list models` shows them", 0, 0 }, \
    { "--set", MBA_OPT_TEXT | MBA_RUN_FIXED, &(m)->set, "K=V,..", \
      "override fields of the model; see `mambascope list fields`", 0, 0 }

#define MBA_MODEL_OPTIONS(m) \
    MBA_OPTION_GROUP("Model"), MBA_PRESET_OPTIONS(m), \
    MBA_OPTION_GROUP("Batch"), MBA_SHAPE_OPTIONS(&(m)->shape), \
    MBA_OPTION_GROUP("Machine"), MBA_RUN_OPTIONS(m)

/* A workload of the simulator, with group headings. `w` is a pointer to mba_workload (study/simulated_step.h),
 * `standard` a literal: what runs without --model. MBA_WORKLOAD_THREADS stands in the last group of the table. */
#define MBA_WORKLOAD_OPTIONS(w, standard) \
    MBA_OPTION_GROUP("Machine"), \
    { "--machine", MBA_OPT_TEXT, &(w)->machine, "NAME", \
      MBA_GPU_NAMES ", or a machine file [h200]", 0, 0 }, \
    { "--set", MBA_OPT_TEXT, &(w)->changes, "K=V,..", \
      "change the machine: hbm=6000, or hbm=x1.25 for a factor; see simulate --keys", 0, 0 }, \
    MBA_OPTION_GROUP("Model"), \
    { "--model", MBA_OPT_TEXT, &(w)->model.name, "NAME", \
      "preset; `mambascope list models` shows them [" standard "]", 0, 0 }, \
    { "--model-set", MBA_OPT_TEXT, &(w)->model.set, "K=V,..", \
      "override fields of the model; see `mambascope list fields`", 0, 0 }, \
    { "--precision", MBA_OPT_TEXT, &(w)->model.precision, "TYPE", \
      "bf16 or fp32 activations and products, or tf32: fp32, but products on tensor cores round their " \
      "operands to TF32 [bf16]", 0, 0 }, \
    { "--recompute", MBA_OPT_TEXT, &(w)->model.recompute, "WHEN", \
      "recompute activations instead of saving them: auto (only if memory is short), on, off, " \
      "states (SSD only) [auto]", 0, 0 }, \
    { "--op", MBA_OPT_TEXT, &(w)->model.variants, "OP=V,..", \
      "force operator variants; see `mambascope list ops`", 0, 0 }, \
    MBA_OPTION_GROUP("Batch"), MBA_SHAPE_OPTIONS(&(w)->model.shape)

#define MBA_WORKLOAD_THREADS(w) \
    { "--threads", MBA_OPT_INT, &(w)->model.threads, "N", \
      "CPU threads that simulate; does not change results [OMP_NUM_THREADS, or one per core]", 1, 4096 }
// clang-format on

#endif
