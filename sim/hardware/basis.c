/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/basis.h"

#include "base/error.h"
#include "base/json.h"

static const char *const names[] = {"guess", "specification", "calibrated", NULL};

const char *sim_basis_name(SimBasis basis)
{
    return names[basis];
}

bool sim_basis_get(const cJSON *object, const char *path, SimBasis *basis, GError **error)
{
    const char *text;
    if (!sim_json_get_string(object, path, "basis", &text, error))
        return false;
    for (unsigned i = 0; names[i]; i++) {
        if (g_str_equal(text, names[i])) {
            *basis = (SimBasis)i;
            return true;
        }
    }
    g_autofree char *where = g_strdup_printf("%s.basis", path);
    sim_error_set_unknown(error, where, "basis", text, names);
    return false;
}
