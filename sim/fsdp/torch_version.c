/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/torch_version.h"

#include "base/error.h"

static const SimTorchVersion versions[] = {
    [SIM_TORCH_2_15] = {"2.15", true, true, true, true, true},
    [SIM_TORCH_2_9] = {"2.9", false, false, false, false, false},
    [SIM_TORCH_2_6] = {"2.6", false, false, false, false, false},
};

const SimTorchVersion *sim_torch_version_get(const SimJob *job)
{
    g_assert((size_t)job->torch < G_N_ELEMENTS(versions));
    return &versions[job->torch];
}

bool sim_torch_version_check(const SimJob *job, GError **error)
{
    const SimTorchVersion *version = sim_torch_version_get(job);
    bool wants = job->has_reduce_scatter_group || job->reduce_scatter_input_buffers > 1;
    if (!wants || version->has_reduce_scatter_options)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                "%s: PyTorch %s does not have it; expected 2.13 or later",
                job->has_reduce_scatter_group ? "a communicator for reduce-scatters"
                                              : "several reduce-scatter inputs",
                version->name);
    return false;
}
