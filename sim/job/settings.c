/* SPDX-License-Identifier: Apache-2.0 */
#include "job/settings.h"

#include <string.h>

#include "base/error.h"
#include "base/units.h"
#include "hardware/comm.h"
#include "job/setting_texts.h"

typedef enum SettingType {
    TYPE_INTEGER, /* int64_t; 0 = unset */
    TYPE_CHOICE,  /* int: FIRST + the word's place in the argument */
    TYPE_TEXT,    /* char *, owned; NULL = unset */
    TYPE_LIST     /* the same; each use of the option adds to it, after a "," */
} SettingType;

/* Judges a text; the error is without a place. */
typedef bool (*CheckFunc)(const char *text, GError **error);

typedef struct Setting {
    SimSettingInfo info;
    SettingType type;
    size_t offset;
    const char *fallback; /* NULL = unset */
    int64_t first, last;  /* integer: range; choice: value of the first word */
    CheckFunc check;
    const char *zero; /* integer: the word that stands for 0 */
} Setting;

#define FIELD(field) offsetof(SimSettings, field)
#define INTEGER(name_, group_, field_, argument_, fallback_, first_, last_, help_)                 \
    {                                                                                              \
        .info = {name_, group_, argument_, help_, false}, .type = TYPE_INTEGER,                    \
        .offset = FIELD(field_), .fallback = fallback_, .first = first_, .last = last_             \
    }
#define CHOICE(name_, group_, field_, choices_, first_, fallback_, help_)                          \
    {                                                                                              \
        .info = {name_, group_, choices_, help_, false}, .type = TYPE_CHOICE,                      \
        .offset = FIELD(field_), .fallback = fallback_, .first = first_                            \
    }
#define TEXT(name_, group_, field_, argument_, fallback_, check_, help_)                           \
    {                                                                                              \
        .info = {name_, group_, argument_, help_, false}, .type = TYPE_TEXT,                       \
        .offset = FIELD(field_), .fallback = fallback_, .check = check_                            \
    }

#define COUNT_OR(name_, group_, field_, word_, fallback_, last_, help_)                            \
    {                                                                                              \
        .info = {name_, group_, "N|" word_, help_, false}, .type = TYPE_INTEGER,                   \
        .offset = FIELD(field_), .fallback = fallback_, .first = 1, .last = last_, .zero = word_   \
    }
#define LIST(name_, group_, field_, argument_, check_, help_)                                      \
    {                                                                                              \
        .info = {name_, group_, argument_, help_, true}, .type = TYPE_LIST,                        \
        .offset = FIELD(field_), .check = check_                                                   \
    }

#define JOB "job"
#define CODE "model code"
#define FSDP "FSDP"
#define MEMORY "memory"
#define SIMULATION "simulation"

/* clang-format off */
static const Setting settings_table[] = {
    INTEGER("gpus", JOB, gpus, "N", NULL, 1, SIM_SETTING_MOST_RANKS, "GPUs of the job (default: 8, or all of the cluster's string)"),
    TEXT("cluster", JOB, cluster, "NAME|FILE|STRING", "h100", NULL, "what it runs on (default: h100)"),
    INTEGER("seq", JOB, sequence, "N", NULL, 1, INT64_C(1) << 32, "tokens of a sample (default: the model's maximum up to 4096)"),
    INTEGER("batch", JOB, batch, "N", "1", 1, INT64_C(1) << 32, "samples a GPU in a microbatch (default: 1)"),
    INTEGER("accumulate", JOB, accumulate, "N", "1", 1, 65536, "microbatches a step (default: 1)"),
    TEXT("job", JOB, job, "FILE", NULL, NULL, "the script's calls to FSDP, as data (default: from these options)"),
    COUNT_OR("steps", JOB, steps, "auto", "4", 65536, "training steps; auto: until the peaks are steady, at most 10 (default: 4)"),
    CHOICE("code", CODE, code, "torchtitan|transformers", SIM_CODE_TORCHTITAN, NULL, "whose model code (default: torchtitan where it has the architecture)"),
    CHOICE("norm", CODE, norm, "fused|composite|composite-fp32", SIM_NORM_FUSED, NULL, "how norms are computed; composite-fp32: their weights stay f32 (default: fused in torchtitan, composite in transformers)"),
    CHOICE("attention", CODE, attention, "flash|cudnn|efficient|math|eager", SIM_SETTING_FLASH, "flash", "what attention runs on; efficient where a mask forbids flash (default: flash)"),
    CHOICE("rope", CODE, rope, "complex|real", SIM_ROPE_COMPLEX, NULL, "rotary embedding in complex numbers or by halves (default: complex in torchtitan, real in transformers)"),
    CHOICE("experts", CODE, experts, "grouped|loop", SIM_SETTING_GROUPED, "grouped", "experts in one grouped product or one by one (default: grouped)"),
    TEXT("dropout", CODE, dropout, "P", "0", sim_setting_texts_check_dropout, "rate of all dropouts (default: 0)"),
    CHOICE("autocast", CODE, autocast, "off|on", SIM_SWITCH_OFF, "off", "bf16 autocast around forward and loss (default: off)"),
    TEXT("loss", CODE, loss, "cross-entropy|kept-logits|chunked:N", "cross-entropy", sim_setting_texts_check_loss, "how the loss is computed; kept-logits: a variable holds f32 logits through backward (default: cross-entropy)"),
    TEXT("checkpoint", CODE, checkpoint, "none|full|selective|every:K", "none", sim_setting_texts_check_checkpoint, "activation checkpointing of the blocks (default: none)"),
    CHOICE("early-stop", CODE, early_stop, "off|on", SIM_SWITCH_OFF, NULL, "recompute only what is needed (default: off in torchtitan, on in transformers)"),
    LIST("frozen", CODE, frozen, "PATTERN", sim_setting_texts_check_frozen, "modules that do not train, as in layers.*; may be repeated (default: none)"),
    CHOICE("api", FSDP, api, "fsdp2|fsdp1|ddp", SIM_API_FSDP2, "fsdp2", "fully_shard, FullyShardedDataParallel or DistributedDataParallel (default: fsdp2)"),
    CHOICE("strategy", FSDP, strategy, "full_shard|shard_grad_op|hybrid_shard|hybrid_shard_zero2|no_shard", SIM_STRATEGY_FULL_SHARD, "full_shard", "what is sharded; ZeRO-3, 2, both within groups, 0 (default: full_shard)"),
    INTEGER("shard-size", FSDP, shard_size, "N", NULL, 1, SIM_SETTING_MOST_RANKS, "ranks of a shard group of the hybrid strategies (default: a node)"),
    TEXT("reshard-after-forward", FSDP, reshard_after_forward, "default|last-block-kept|auto|true|false|N", "default", sim_setting_texts_check_reshard, "which units free their parameters after forward, or keep them on N ranks (default: default)"),
    CHOICE("param-dtype", FSDP, param_dtype, "f32|bf16|f16", SIM_DTYPE_F32, NULL, "what parameters are gathered and used in (default: bf16; ddp: the stored type)"),
    CHOICE("reduce-dtype", FSDP, reduce_dtype, "f32|bf16", SIM_DTYPE_F32, "f32", "what gradients are reduced in (default: f32)"),
    CHOICE("store-dtype", FSDP, store_dtype, "f32|bf16", SIM_DTYPE_F32, "f32", "what shards, gradients and optimizer states are kept in (default: f32)"),
    INTEGER("forward-prefetch", FSDP, forward_prefetch, "N", "0", 0, 65536, "units gathered early in forward; fsdp1: 1 is on (default: 0)"),
    TEXT("backward-prefetch", FSDP, backward_prefetch, "auto|N|pre|post|none", "auto", sim_setting_texts_check_backward_prefetch, "units gathered early in backward; fsdp1: pre, post, none (default: auto)"),
    CHOICE("gradient-sync", FSDP, gradient_sync, "every|last", SIM_SYNC_EVERY, "every", "reduce gradients of every microbatch, or of the last (default: every)"),
    CHOICE("all-reduce", FSDP, all_reduce, "every|last", SIM_SYNC_EVERY, "every", "the same for the all-reduce between replicas, fsdp2 (default: every)"),
    CHOICE("reshard-after-backward", FSDP, reshard_after_backward, "true|false", SIM_BOOLEAN_TRUE, "true", "fsdp2: free parameters after backward (default: true)"),
    TEXT("unshard-in-backward", FSDP, unshard_in_backward, "all|PATTERN", "all", NULL, "fsdp2: units that stay sharded in backward (default: all are gathered)"),
    CHOICE("torch", FSDP, torch, "2.15|2.9|2.6", SIM_TORCH_2_15, "2.15", "fsdp2: the version of PyTorch whose rules hold (default: 2.15)"),
    CHOICE("offload", FSDP, offload, "none|cpu", SIM_OFFLOAD_NONE, "none", "fsdp2: shards, gradients and optimizer in host memory (default: none)"),
    INTEGER("reduce-scatter-buffers", FSDP, reduce_scatter_buffers, "K", "1", 1, 1024, "fsdp2: reduce-scatter inputs kept at once (default: 1)"),
    CHOICE("separate-reduce-scatter-group", FSDP, separate_reduce_scatter_group, "off|on", SIM_SWITCH_OFF, "off", "fsdp2: a communicator of its own for reduce-scatters (default: off)"),
    CHOICE("limit-all-gathers", FSDP, limit_all_gathers, "off|on", SIM_SWITCH_OFF, "on", "fsdp1: the host waits before a third all-gather (default: on)"),
    TEXT("bucket", FSDP, bucket, "SIZE", NULL, sim_setting_texts_check_bucket, "ddp: bytes of gradients reduced at once (default: 25MiB, the first 1MiB)"),
    TEXT("wrap", FSDP, wrap, "block|block+root|root|size:N|FILE", "block", sim_setting_texts_check_wrap, "which modules are units (default: block)"),
    CHOICE("optimizer", MEMORY, optimizer, "adamw|adamw-foreach|adamw-8bit|sgd|sgd-momentum|adafactor", SIM_JOB_ADAMW, "adamw", "the optimizer (default: adamw, fused)"),
    CHOICE("zero-grad", MEMORY, zero_grad, "set-to-none|keep", SIM_ZERO_GRAD_TO_NONE, "set-to-none", "what zero_grad does (default: set-to-none)"),
    CHOICE("clip", MEMORY, clip, "off|on", SIM_SWITCH_OFF, "on", "clip_grad_norm_ before the optimizer (default: on)"),
    TEXT("allocator", MEMORY, allocator, "CONF", "", sim_setting_texts_check_allocator, "PYTORCH_ALLOC_CONF (default: PyTorch's)"),
    TEXT("hbm", MEMORY, hbm, "SIZE|unlimited", NULL, sim_setting_texts_check_hbm, "what the allocator may reserve (default: what the GPU leaves)"),
    CHOICE("collectives", SIMULATION, collectives, "nccl|openmpi|gloo", SIM_COMM_NCCL, "nccl", "whose algorithms communicate (default: nccl)"),
    TEXT("jitter", SIMULATION, jitter, "P", "0", sim_setting_texts_check_jitter, "standard deviation of a kernel's time, per cent, log-normal (default: 0)"),
    LIST("slow-rank", SIMULATION, slow_rank, "R:FACTOR", sim_setting_texts_check_slow_rank, "a rank whose kernels take FACTOR times as long; may be repeated (default: none)"),
    LIST("slow-link", SIMULATION, slow_link, "NAME:FACTOR", sim_setting_texts_check_slow_link, "a link with FACTOR of its rate: nvlinkR, pcieR, nicNODE.NIC, leafN; may be repeated (default: none)"),
    INTEGER("seed", SIMULATION, seed, "N", "0", 0, INT64_MAX, "of the jitter (default: 0)"),
    CHOICE("fold", SIMULATION, fold, "auto|off", SIM_FOLD_AUTO, "auto", "simulate one rank of each class, or all (default: auto)"),
    INTEGER("jobs", SIMULATION, jobs, "N", NULL, 1, 4096, "threads (default: all cores)"),
    TEXT("ranks", SIMULATION, ranks, "LIST|all", NULL, sim_setting_texts_check_ranks, "whose rows timeline and memory CSV hold (default: the first of each class)"),
};
/* clang-format on */

/* Those that change how a run is done but not what comes out; they are not printed. */
static bool is_free_of_result(const Setting *setting)
{
    return strcmp(setting->info.name, "fold") == 0 || strcmp(setting->info.name, "jobs") == 0;
}

size_t sim_settings_count(void)
{
    return G_N_ELEMENTS(settings_table);
}

const SimSettingInfo *sim_settings_info(size_t index)
{
    g_assert(index < G_N_ELEMENTS(settings_table));
    return &settings_table[index].info;
}

/* --- one setting ---------------------------------------------------------------------------------
 */

static void *field_of(const SimSettings *settings, const Setting *setting)
{
    return (char *)settings + setting->offset;
}

static void unset(SimSettings *settings, const Setting *setting)
{
    void *field = field_of(settings, setting);

    switch (setting->type) {
    case TYPE_INTEGER:
        *(int64_t *)field = 0;
        break;
    case TYPE_CHOICE:
        *(int *)field = SIM_SETTINGS_UNSET;
        break;
    case TYPE_TEXT:
    case TYPE_LIST:
        g_clear_pointer((char **)field, g_free);
        break;
    }
}

static bool parse_choice(const Setting *setting, const char *text, const char *where, int *value,
                         GError **error)
{
    g_auto(GStrv) words = g_strsplit(setting->info.argument, "|", -1);

    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            *value = (int)setting->first + i;
            return true;
        }
    }
    sim_error_set_unknown(error, where, "value", text, (const char *const *)words);
    return false;
}

static void add_to_list(char **list, const char *text)
{
    char *longer = *list != NULL ? g_strconcat(*list, ",", text, NULL) : g_strdup(text);

    g_free(*list);
    *list = longer;
}

static bool parse(SimSettings *settings, const Setting *setting, const char *text,
                  const char *where, GError **error)
{
    void *field = field_of(settings, setting);
    bool is_good = true;

    switch (setting->type) {
    case TYPE_INTEGER:
        if (setting->zero != NULL && strcmp(text, setting->zero) == 0) {
            *(int64_t *)field = 0;
            return true;
        }
        is_good = sim_units_parse_int64(text, setting->first, setting->last, field, error);
        break;
    case TYPE_CHOICE:
        return parse_choice(setting, text, where, field, error);
    case TYPE_TEXT:
        is_good = setting->check == NULL || setting->check(text, error);
        if (is_good) {
            g_free(*(char **)field);
            *(char **)field = g_strdup(text);
        }
        break;
    case TYPE_LIST:
        is_good = setting->check(text, error);
        if (is_good)
            add_to_list(field, text);
        break;
    }
    if (!is_good)
        g_prefix_error(error, "%s: ", where);
    return is_good;
}

static void set_default(SimSettings *settings, const Setting *setting)
{
    unset(settings, setting);
    if (setting->fallback != NULL) {
        bool is_good = parse(settings, setting, setting->fallback, setting->info.name, NULL);
        g_assert(is_good);
    }
}

static bool is_same_name(const char *name, const char *other)
{
    while (*name != '\0' && (*name == *other || (*name == '-' && *other == '_'))) {
        name++;
        other++;
    }
    return *name == *other;
}

static const Setting *find_setting(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(settings_table); i++) {
        if (is_same_name(settings_table[i].info.name, name))
            return &settings_table[i];
    }
    return NULL;
}

static uint64_t bit_of(const Setting *setting)
{
    G_STATIC_ASSERT(G_N_ELEMENTS(settings_table) <= 64);
    return UINT64_C(1) << (setting - settings_table);
}

/* --- all of them ---------------------------------------------------------------------------------
 */

SimSettings *sim_settings_new(void)
{
    SimSettings *settings = g_new0(SimSettings, 1);

    for (size_t i = 0; i < G_N_ELEMENTS(settings_table); i++)
        set_default(settings, &settings_table[i]);
    return settings;
}

void sim_settings_free(SimSettings *settings)
{
    if (settings == NULL)
        return;
    for (size_t i = 0; i < G_N_ELEMENTS(settings_table); i++)
        unset(settings, &settings_table[i]);
    g_free(settings);
}

bool sim_settings_set(SimSettings *settings, const char *name, const char *text, const char *where,
                      GError **error)
{
    const Setting *setting = find_setting(name);

    if (setting == NULL) {
        const char *names[G_N_ELEMENTS(settings_table) + 1] = {NULL};
        for (size_t i = 0; i < G_N_ELEMENTS(settings_table); i++)
            names[i] = settings_table[i].info.name;
        sim_error_set_unknown(error, where, "setting", name, names);
        return false;
    }
    if (!parse(settings, setting, text, where, error))
        return false;
    settings->given |= bit_of(setting);
    return true;
}

/* "reshard-after-forward" -> "reshard_after_forward". */
static char *key_of(const Setting *setting)
{
    return g_strdelimit(g_strdup(setting->info.name), "-", '_');
}

/* The text that an option would have for a JSON value; NULL if there is none. */
static char *text_of(const Setting *setting, const cJSON *value)
{
    double number = cJSON_GetNumberValue(value);

    if (cJSON_IsString(value))
        return g_strdup(value->valuestring);
    if (cJSON_IsBool(value)) {
        bool is_switch = setting->type == TYPE_CHOICE;
        return g_strdup(cJSON_IsTrue(value) ? (is_switch ? "on" : "true")
                                            : (is_switch ? "off" : "false"));
    }
    /* Above 2^53 a double is no longer that very integer. */
    if (cJSON_IsNumber(value) && number >= -9007199254740992.0 && number <= 9007199254740992.0) {
        int64_t whole = (int64_t)number;
        if (!((double)whole < number) && !((double)whole > number))
            return g_strdup_printf("%" G_GINT64_FORMAT, whole);
    }
    return NULL;
}

static bool load_list(SimSettings *settings, const Setting *setting, const cJSON *array,
                      const char *where, GError **error)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsString(item)) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: expected a list of strings",
                        where);
            return false;
        }
        if (!parse(settings, setting, item->valuestring, where, error))
            return false;
    }
    return true;
}

static bool load_member(SimSettings *settings, const Setting *setting, const cJSON *object,
                        const char *file, GError **error)
{
    g_autofree char *key = key_of(setting);
    g_autofree char *where = g_strdup_printf("%s: %s", file, key);
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);

    if (value == NULL || (settings->given & bit_of(setting)) != 0)
        return true;
    if (cJSON_IsNull(value) || setting->type == TYPE_LIST)
        set_default(settings, setting);
    if (cJSON_IsNull(value))
        return true;
    if (cJSON_IsArray(value) && setting->type == TYPE_LIST)
        return load_list(settings, setting, value, where, error);
    g_autofree char *text = text_of(setting, value);
    if (text == NULL) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: expected %s", where,
                    setting->type == TYPE_INTEGER ? "a whole number" : setting->info.argument);
        return false;
    }
    return parse(settings, setting, text, where, error);
}

bool sim_settings_load(SimSettings *settings, const char *file, GError **error)
{
    g_autoptr(cJSON) object = sim_json_load(file, error);
    g_auto(GStrv) keys = g_new0(char *, G_N_ELEMENTS(settings_table) + 1);

    if (object == NULL)
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(settings_table); i++)
        keys[i] = key_of(&settings_table[i]);
    if (!sim_json_check_keys(object, file, (const char *const *)keys, error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(settings_table); i++) {
        if (!load_member(settings, &settings_table[i], object, file, error))
            return false;
    }
    return true;
}

bool sim_settings_load_some(SimSettings *settings, const cJSON *object, const char *origin,
                            const char *const *names, GError **error)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        const Setting *setting = find_setting(names[i]);
        g_assert(setting != NULL);
        if (!load_member(settings, setting, object, origin, error))
            return false;
    }
    return true;
}

bool sim_settings_settle(SimSettings *settings, uint64_t gpus, uint64_t max_positions,
                         bool is_in_torchtitan, GError **error)
{
    settings->gpus = (int64_t)gpus;
    if (settings->sequence == 0)
        settings->sequence = (int64_t)MIN(max_positions, 4096);
    if (settings->code == SIM_SETTINGS_UNSET)
        settings->code = is_in_torchtitan ? SIM_CODE_TORCHTITAN : SIM_CODE_TRANSFORMERS;
    if (settings->param_dtype == SIM_SETTINGS_UNSET)
        settings->param_dtype =
            settings->api == SIM_API_DDP ? settings->store_dtype : (int)SIM_DTYPE_BF16;
    if (settings->norm == SIM_SETTINGS_UNSET)
        settings->norm =
            settings->code == SIM_CODE_TORCHTITAN ? SIM_NORM_FUSED : SIM_NORM_COMPOSITE;
    if (settings->rope == SIM_SETTINGS_UNSET)
        settings->rope = settings->code == SIM_CODE_TORCHTITAN ? SIM_ROPE_COMPLEX : SIM_ROPE_REAL;
    if (settings->code == SIM_CODE_TRANSFORMERS && settings->rope == SIM_ROPE_COMPLEX) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                    "--rope complex: transformers rotates halves; expected real");
        return false;
    }
    if (settings->code == SIM_CODE_TORCHTITAN && settings->attention == SIM_SETTING_EAGER) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                    "--attention eager: torchtitan calls SDPA; expected flash, cudnn, efficient or "
                    "math");
        return false;
    }
    if (settings->early_stop == SIM_SETTINGS_UNSET)
        settings->early_stop =
            settings->code == SIM_CODE_TORCHTITAN ? SIM_SWITCH_OFF : SIM_SWITCH_ON;
    if (settings->code == SIM_CODE_TRANSFORMERS && strcmp(settings->loss, "cross-entropy") != 0) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                    "--loss %s: transformers' classes compute the loss themselves; expected "
                    "cross-entropy, or --code torchtitan",
                    settings->loss);
        return false;
    }
    if (settings->code == SIM_CODE_TRANSFORMERS && settings->norm != SIM_NORM_COMPOSITE) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                    "--norm %s: transformers writes its norms with separate operators; expected "
                    "composite",
                    settings->norm == SIM_NORM_FUSED ? "fused" : "composite-fp32");
        return false;
    }
    return true;
}

static cJSON *print_choice(const Setting *setting, int value)
{
    g_auto(GStrv) words = g_strsplit(setting->info.argument, "|", -1);

    return value == SIM_SETTINGS_UNSET ? cJSON_CreateNull()
                                       : cJSON_CreateString(words[value - (int)setting->first]);
}

static cJSON *print_list(const char *list)
{
    cJSON *array = cJSON_CreateArray();
    g_auto(GStrv) items = g_strsplit(list != NULL ? list : "", ",", -1);

    for (size_t i = 0; items[i] != NULL; i++)
        cJSON_AddItemToArray(array, cJSON_CreateString(items[i]));
    return array;
}

cJSON *sim_settings_print(const SimSettings *settings)
{
    cJSON *object = cJSON_CreateObject();

    for (size_t i = 0; i < G_N_ELEMENTS(settings_table); i++) {
        const Setting *setting = &settings_table[i];
        const void *field = field_of(settings, setting);
        g_autofree char *key = key_of(setting);
        cJSON *value = NULL;
        if (is_free_of_result(setting))
            continue;
        if (setting->type == TYPE_CHOICE)
            value = print_choice(setting, *(const int *)field);
        else if (setting->type == TYPE_LIST)
            value = print_list(*(char *const *)field);
        else if (setting->zero != NULL && *(const int64_t *)field == 0)
            value = cJSON_CreateString(setting->zero);
        else if (setting->type == TYPE_INTEGER && *(const int64_t *)field != 0)
            value = cJSON_CreateNumber((double)*(const int64_t *)field);
        else if (setting->type == TYPE_TEXT && *(char *const *)field != NULL)
            value = cJSON_CreateString(*(char *const *)field);
        cJSON_AddItemToObject(object, key, value != NULL ? value : cJSON_CreateNull());
    }
    return object;
}
