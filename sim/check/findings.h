/* SPDX-License-Identifier: Apache-2.0
 *
 * What is wrong with a schedule: a rule, up to four rows, and the story in one sentence.
 *
 * Findings that differ only in step or microbatch are one finding with a count, so a wait that is
 * missing in every step is told once a unit. All texts belong to the finding: the plan it speaks of
 * may be gone.
 */
#pragma once

#include "check/rules.h"

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_FINDING_PLACES 4
/* As many are kept; of the rest only the number is known. */
#define SIM_FINDINGS_KEPT 1000

/* A row of a plan, as a rank plays it. */
typedef struct SimFindingPlace {
    uint32_t source; /* which of the plans given, from 0 */
    uint32_t rank;
    uint32_t row;     /* from 0: sim_plan_instruction */
    const char *role; /* static: "earlier", "later", "free", "alloc" */
    char *text;       /* "all_gather on all_gather" */
} SimFindingPlace;

typedef struct SimFinding {
    SimRuleId rule;
    uint64_t times;
    SimFindingPlace places[SIM_FINDING_PLACES];
    uint32_t n_places;
    char *buffer;       /* NULL = none */
    char *first_stream; /* streams of a pair; NULL = none */
    char *second_stream;
    char *unit;
    const char *phase; /* static */
    int32_t step;
    char *message;
    char *remedy;       /* what would order or repair it; NULL = nothing to say */
    uint32_t buffer_id; /* in its plan; UINT32_MAX = none */
    uint32_t free_row;  /* reuse: where the buffer was freed; UINT32_MAX */
} SimFinding;

typedef struct SimFindings SimFindings;

SimFindings *sim_findings_new(void);
void sim_findings_free(SimFindings *findings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimFindings, sim_findings_free)

/* Frees the texts in FINDING, not FINDING itself. */
void sim_findings_clear(SimFinding *finding);

/* Takes FINDING's texts. If one with the same KEY is there, only its count grows. */
void sim_findings_add(SimFindings *findings, SimFinding finding, const char *key);

/* Takes a kept one out. Nothing may be added after. */
void sim_findings_remove(SimFindings *findings, size_t index);

/* Of those kept, in order of discovery. */
size_t sim_findings_count(const SimFindings *findings);
SimFinding *sim_findings_get(const SimFindings *findings, size_t index);

/* Distinct ones, kept or not: all that make a plan unsafe, or the slow ones. */
uint64_t sim_findings_violations(const SimFindings *findings);
uint64_t sim_findings_remarks(const SimFindings *findings);
/* Distinct ones of RULE. */
uint64_t sim_findings_of_rule(const SimFindings *findings, SimRuleId rule);
