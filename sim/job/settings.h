/* SPDX-License-Identifier: Apache-2.0
 *
 * Every setting a user can give to `predict`, by option or by the same key (with underscores) in a
 * JSON file, in one table (settings.c): name, group, default, accepted values, help. The only place
 * that knows an option's name: the command line's option entries, --help, --config and the
 * summary's `config` are made from it.
 *
 * A new setting is a field here and a line there.
 */
#pragma once

#include "base/dtype.h"
#include "base/json.h"

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Choices: the values of `int` fields, in the order in which the table lists their words; UNSET
 * where the default depends on the model, the code or the cluster. */
#define SIM_SETTINGS_UNSET (-1)
typedef enum SimCode { SIM_CODE_TORCHTITAN, SIM_CODE_TRANSFORMERS } SimCode;
typedef enum SimNorm { SIM_NORM_FUSED, SIM_NORM_COMPOSITE, SIM_NORM_COMPOSITE_FP32 } SimNorm;
typedef enum SimAttention {
    SIM_SETTING_FLASH,
    SIM_SETTING_CUDNN,
    SIM_SETTING_EFFICIENT,
    SIM_SETTING_MATH,
    SIM_SETTING_EAGER,
} SimAttention;
typedef enum SimRope { SIM_ROPE_COMPLEX, SIM_ROPE_REAL } SimRope;
typedef enum SimExperts { SIM_SETTING_GROUPED, SIM_SETTING_LOOP } SimExperts;
typedef enum SimJobOptimizer {
    SIM_JOB_ADAMW, /* fused */
    SIM_JOB_ADAMW_FOREACH,
    SIM_JOB_ADAMW_8BIT,
    SIM_JOB_SGD,
    SIM_JOB_SGD_MOMENTUM,
    SIM_JOB_ADAFACTOR,
} SimJobOptimizer;
typedef enum SimZeroGrad { SIM_ZERO_GRAD_TO_NONE, SIM_ZERO_GRAD_KEEP } SimZeroGrad;
typedef enum SimSwitch { SIM_SWITCH_OFF, SIM_SWITCH_ON } SimSwitch;
typedef enum SimApi { SIM_API_FSDP2, SIM_API_FSDP1, SIM_API_DDP } SimApi;
/* ShardingStrategy of torch/distributed/fsdp/api.py, whose names say ZeRO's stages: full_shard is
 * 3, shard_grad_op is 2, no_shard is 0; a hybrid shards within groups of ranks. */
typedef enum SimStrategy {
    SIM_STRATEGY_FULL_SHARD,
    SIM_STRATEGY_SHARD_GRAD_OP,
    SIM_STRATEGY_HYBRID_SHARD,
    SIM_STRATEGY_HYBRID_SHARD_ZERO2,
    SIM_STRATEGY_NO_SHARD,
} SimStrategy;
/* Versions of PyTorch whose rules differ (fsdp/torch_version.h). */
typedef enum SimTorch { SIM_TORCH_2_15, SIM_TORCH_2_9, SIM_TORCH_2_6 } SimTorch;
typedef enum SimOffload { SIM_OFFLOAD_NONE, SIM_OFFLOAD_CPU } SimOffload;
typedef enum SimBoolean { SIM_BOOLEAN_TRUE, SIM_BOOLEAN_FALSE } SimBoolean;
typedef enum SimSync { SIM_SYNC_EVERY, SIM_SYNC_LAST } SimSync;
typedef enum SimFold { SIM_FOLD_AUTO, SIM_FOLD_OFF } SimFold;

/* Plain values after parsing; text (owned) where only a later stage can judge it. */
typedef struct SimSettings {
    /* job */
    int64_t gpus;     /* 0 = all of the cluster's string, 8 of a named cluster */
    char *cluster;    /* name, file or string */
    int64_t sequence; /* 0 = the model's maximum up to 4096 */
    int64_t batch, accumulate;
    char *job; /* file with the script's calls (job_file.h); NULL = they follow from the options */
    int64_t steps; /* 0 = until the peaks are steady */
    /* model code */
    int code;         /* SimCode; unset = torchtitan where the architecture exists there */
    int norm;         /* SimNorm; unset = by code */
    int attention;    /* SimAttention */
    int rope;         /* SimRope; unset = by code */
    int experts;      /* SimExperts */
    char *dropout;    /* a number: the rate of all dropouts */
    int autocast;     /* SimSwitch */
    char *loss;       /* "cross-entropy", "kept-logits", "chunked:8" */
    char *checkpoint; /* "none", "full", "selective", "every:2" */
    int early_stop;   /* SimSwitch; unset = by code */
    char *frozen;     /* patterns of module paths, with "," between them; NULL = none */
    /* FSDP */
    int api;            /* SimApi */
    int strategy;       /* SimStrategy */
    int64_t shard_size; /* 0 = a node, where the strategy is hybrid */
    char *reshard_after_forward;
    int64_t forward_prefetch;
    char *backward_prefetch;
    int gradient_sync;          /* SimSync */
    int all_reduce;             /* SimSync */
    int reshard_after_backward; /* SimBoolean */
    int torch;                  /* SimTorch */
    int offload;                /* SimOffload */
    char *unshard_in_backward;  /* "all", or patterns of units that are not */
    int64_t reduce_scatter_buffers;
    int separate_reduce_scatter_group; /* SimSwitch */
    int limit_all_gathers;             /* SimSwitch */
    char *bucket;                      /* size; NULL = PyTorch's */
    char *wrap;
    int param_dtype, reduce_dtype, store_dtype; /* SimDtype */
    /* memory */
    int optimizer;   /* SimJobOptimizer */
    int zero_grad;   /* SimZeroGrad */
    int clip;        /* SimSwitch */
    char *allocator; /* PyTorch's syntax; "" = its defaults */
    char *hbm;       /* size or "unlimited"; NULL = by the GPU */
    /* simulation */
    int collectives; /* SimCommLibrary */
    char *jitter;    /* a number: of kernels, per cent */
    char *slow_rank; /* "R:FACTOR", with "," between several; NULL = none */
    char *slow_link; /* "NAME:FACTOR", the same (slow_link.h) */
    int64_t seed;    /* of the jitter */
    int fold;        /* SimFold */
    int64_t jobs;    /* threads; 0 = all cores */
    char *ranks;     /* whose rows the CSVs hold: "all", "0-7,64"; NULL = the first of each class */

    uint64_t given; /* which of the table's settings an option gave, by bit */
} SimSettings;

SimSettings *sim_settings_new(void); /* the defaults */
void sim_settings_free(SimSettings *settings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimSettings, sim_settings_free)

/* Sets the setting NAME ("reshard-after-forward"; underscores are the same) from TEXT, as an option
 * does: it wins over files read later. WHERE ("--reshard-after-forward") begins the message. Errors
 * SCHEMA (unknown name or choice, with the nearest), PARSE, RANGE; SETTINGS is untouched then. */
bool sim_settings_set(SimSettings *settings, const char *name, const char *text, const char *where,
                      GError **error);

/* Reads a JSON object of settings from FILE; null is the default. What an option gave stays. Errors
 * IO, PARSE, SCHEMA, RANGE, with file and key. */
bool sim_settings_load(SimSettings *settings, const char *file, GError **error);

/* The same for the settings NAMES (NULL-terminated) of OBJECT, which ORIGIN names in messages;
 * others are passed over. */
bool sim_settings_load_some(SimSettings *settings, const cJSON *object, const char *origin,
                            const char *const *names, GError **error);

/* Puts the values that depend on what was loaded in place of unset ones, so that printing shows
 * them: GPUS of the cluster in use, MAX_POSITIONS of the model, whether torchtitan has its
 * architecture. Error UNSUPPORTED: settings that do not go together. */
bool sim_settings_settle(SimSettings *settings, uint64_t gpus, uint64_t max_positions,
                         bool is_in_torchtitan, GError **error);

/* All settings that change a result, with their values (null = unset), in the table's order: what
 * sim_settings_load turns into the same settings. Owned by the caller. */
cJSON *sim_settings_print(const SimSettings *settings);

/* The table, for option entries and help, in the order of help. */
typedef struct SimSettingInfo {
    const char *name;     /* "reshard-after-forward" */
    const char *group;    /* "job", "model code", "FSDP", "memory", "simulation" */
    const char *argument; /* "N", "SIZE", or the choices: "on|off" */
    const char *help;     /* with the default */
    bool may_repeat;      /* each use of the option adds to it */
} SimSettingInfo;

size_t sim_settings_count(void);
const SimSettingInfo *sim_settings_info(size_t index);
