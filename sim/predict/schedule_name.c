/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/schedule_name.h"

#include <stdbool.h>
#include <string.h>

static const char *get_text(const cJSON *config, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(config, key));
    return text == NULL ? "" : text;
}

static double get_number(const cJSON *config, const char *key)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(config, key);
    return cJSON_IsNumber(member) ? member->valuedouble : 0;
}

static bool is(const cJSON *config, const char *key, const char *text)
{
    return strcmp(get_text(config, key), text) == 0;
}

/* Parameters that stay whole from forward to backward are stage 2; if gradients stay whole, too,
 * until the last microbatch, only optimizer states are left: stage 1. */
static int find_stage(const cJSON *config)
{
    if (is(config, "api", "ddp") || is(config, "strategy", "no_shard"))
        return 0;
    bool is_kept = is(config, "strategy", "shard_grad_op") ||
                   is(config, "strategy", "hybrid_shard_zero2") ||
                   (is(config, "api", "fsdp2") && is(config, "reshard_after_forward", "false"));
    if (!is_kept)
        return 3;
    bool is_whole = is(config, "gradient_sync", "last") && get_number(config, "accumulate") > 1;
    return is_whole ? 1 : 2;
}

char *sim_schedule_name_print(const cJSON *config)
{
    if (get_text(config, "api")[0] == '\0')
        return g_strdup("FSDP2");
    if (cJSON_IsString(cJSON_GetObjectItemCaseSensitive(config, "job")))
        return g_strdup("FSDP as the job file calls it");
    g_autofree char *api = g_ascii_strup(get_text(config, "api"), -1);
    if (is(config, "api", "ddp"))
        return g_strdup("DDP, ZeRO-0");
    double size = get_number(config, "shard_size");
    g_autofree char *groups = size > 0 ? g_strdup_printf(" in groups of %.0f", size) : g_strdup("");
    return g_strdup_printf("%s %s, ZeRO-%d%s", api, get_text(config, "strategy"),
                           find_stage(config), groups);
}
