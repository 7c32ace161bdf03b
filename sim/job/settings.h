/* SPDX-License-Identifier: Apache-2.0
 *
 * Every setting a user can give to `predict`, by option or by the same key in a JSON file, in one
 * table: name, group, default, accepted values, help. The only place that knows an option's name:
 * the command line's option entries, --help, --config and the summary's `config` are made from it.
 */
#pragma once

#include "base/dtype.h"
#include "base/json.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum SimCode { SIM_CODE_TORCHTITAN, SIM_CODE_TRANSFORMERS } SimCode;
typedef enum SimNorm { SIM_NORM_BY_CODE, SIM_NORM_FUSED, SIM_NORM_COMPOSITE } SimNorm;

/* Plain values after parsing; text kept where only a later stage can judge it. */
typedef struct SimSettings {
    /* job */
    char *cluster;      /* name, file or string */
    int64_t gpus;       /* 0 = all of the cluster's string */
    int64_t sequence;   /* 0 = the model's maximum up to 4096 */
    int64_t batch, accumulate, steps;
    /* model code */
    int code; /* SimCode, or -1: by architecture */
    SimNorm norm;
    /* FSDP */
    char *reshard_after_forward;
    char *wrap;
    SimDtype param_dtype, reduce_dtype, store_dtype;
    /* memory */
    char *optimizer;
    char *allocator;    /* PyTorch's syntax */
    char *hbm;          /* size, "unlimited", or NULL: by the GPU */
    /* simulation */
    bool fold;
    char *ranks;        /* whose rows the CSVs hold; NULL = first of each class */
} SimSettings;

SimSettings *sim_settings_new(void); /* the defaults */
void sim_settings_free(SimSettings *settings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimSettings, sim_settings_free)

/* Sets the setting NAME ("reshard-after-forward"; underscores are the same) from TEXT. WHERE is
 * "--name" or "file: name" in messages. Errors SCHEMA (unknown name or choice, with the nearest),
 * PARSE, RANGE. */
bool sim_settings_set(SimSettings *settings, const char *name, const char *text, const char *where,
                      GError **error);

/* Reads a JSON object of settings; given ones win over what SETTINGS holds except where IS_SET says
 * that an option gave it (may be NULL). */
bool sim_settings_load(SimSettings *settings, const char *file, GError **error);

/* All settings that change the result, with their effective values. Owned by the caller. */
cJSON *sim_settings_print(const SimSettings *settings);

/* The table, for option entries and help. */
typedef struct SimSettingInfo {
    const char *name;     /* "reshard-after-forward" */
    const char *group;    /* "job", "model code", "FSDP", "memory", "simulation" */
    const char *argument; /* "N", "SIZE", or the choices */
    const char *help;     /* with the default */
} SimSettingInfo;

const SimSettingInfo *sim_settings_info(size_t *count);
