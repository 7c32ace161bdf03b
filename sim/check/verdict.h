/* SPDX-License-Identifier: Apache-2.0
 *
 * What a check came to: what is wrong, and what was looked at. "Safe" means that nothing of
 * severity leaks, hangs or corrupts was found among the rows, accesses and ranks that the proof
 * counts.
 */
#pragma once

#include "base/output_file.h"
#include "check/findings.h"
#include "check/rank_check.h"

#include <cjson/cJSON.h>
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimVerdict {
    SimFindings *findings;
    SimProof proof;
    GPtrArray *sources; /* names of the plans, owned */
} SimVerdict;

SimVerdict *sim_verdict_new(void);
void sim_verdict_free(SimVerdict *verdict);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimVerdict, sim_verdict_free)

bool sim_verdict_is_safe(const SimVerdict *verdict);

/* For a person: violations first, each in one line with its rule, then remarks, then what was
 * proved. At most MOST findings of each kind. Owned by the caller. */
char *sim_verdict_print(const SimVerdict *verdict, uint32_t most);

/* Schema fsdpsim.check/1. Owned by the caller. */
cJSON *sim_verdict_to_json(const SimVerdict *verdict);

/* SARIF 2.1.0, for code scanning. LINES: by source, an array of the file's line of each row
 * (uint32_t), or NULL: then the row's number counts from the line after the header. Owned by the
 * caller. */
cJSON *sim_verdict_to_sarif(const SimVerdict *verdict, GPtrArray *lines);
