/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/ddp_buckets.h"

static void clear_bucket(gpointer data)
{
    SimDdpBucket *bucket = data;
    g_array_unref(bucket->parameters);
}

GArray *sim_ddp_buckets_assign(const SimModel *model, const GArray *parameters,
                               uint32_t element_bytes, const uint64_t *limits, size_t n_limits)
{
    GArray *buckets = g_array_new(FALSE, TRUE, sizeof(SimDdpBucket));
    g_array_set_clear_func(buckets, clear_bucket);
    SimDdpBucket *open = NULL;
    for (uint32_t i = 0; i < parameters->len; i++) {
        uint32_t parameter = g_array_index(parameters, uint32_t, i);
        if (open == NULL) {
            SimDdpBucket bucket = {g_array_new(FALSE, FALSE, sizeof(uint32_t)), 0};
            g_array_append_val(buckets, bucket);
            open = &g_array_index(buckets, SimDdpBucket, buckets->len - 1);
        }
        g_array_append_val(open->parameters, parameter);
        open->bytes += sim_model_parameter(model, parameter)->elements * element_bytes;
        if (open->bytes >= limits[MIN(buckets->len, n_limits) - 1])
            open = NULL;
    }
    return buckets;
}
