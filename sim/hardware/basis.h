/* SPDX-License-Identifier: Apache-2.0
 *
 * What a number of the result rests on. Of two, the smaller is what both together rest on.
 */
#pragma once

#include <cjson/cJSON.h>
#include <glib.h>
#include <stdbool.h>

typedef enum SimBasis {
    SIM_BASIS_GUESS,         /* taken over from a similar part */
    SIM_BASIS_SPECIFICATION, /* data sheets, no measurement of this part */
    SIM_BASIS_CALIBRATED,    /* measured on this part */
} SimBasis;

/* "guess", "specification", "calibrated". */
const char *sim_basis_name(SimBasis basis);

/* Reads the required member "basis" of OBJECT. Errors SCHEMA. */
bool sim_basis_get(const cJSON *object, const char *path, SimBasis *basis, GError **error);
