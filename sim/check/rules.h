/* SPDX-License-Identifier: Apache-2.0
 *
 * What a schedule must hold: 40 rules of FSDP, numbered 1 to 40, and rules of any plan after them.
 * Each has its sentence, what breaking it does, the public reports behind it, and how this folder
 * judges it from a plan. A rule that a plan cannot show (the words are not in it) says so: the
 * verdict lists it as not judged, never as held.
 *
 * Evidence: PyTorch files by name, issues and pull requests as "#n" of pytorch/pytorch unless
 * another repository is named.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* From harmless to harmful. SLOW costs time or memory and breaks nothing: it never makes a plan
 * unsafe. */
typedef enum SimSeverity {
    SIM_SEVERITY_SLOW,
    SIM_SEVERITY_LEAKS,
    SIM_SEVERITY_HANGS,
    SIM_SEVERITY_CORRUPTS,
    SIM_SEVERITY_COUNT
} SimSeverity;

typedef enum SimRuleId {
    SIM_RULE_SHARD_FRESH = 1,
    SIM_RULE_NO_STALE_UNSHARDED = 2,
    SIM_RULE_USED_WHILE_UNSHARDED = 3,
    SIM_RULE_GATHER_BEFORE_COPY_OUT = 4,
    SIM_RULE_COPY_IN_BEFORE_GATHER = 5,
    SIM_RULE_REDUCE_INPUT_COMPLETE = 6,
    SIM_RULE_REDUCED_EVERYWHERE_ONCE = 7,
    SIM_RULE_OPTIMIZER_AFTER_REDUCE = 8,
    SIM_RULE_SCALED_ONCE = 9,
    SIM_RULE_SHARD_PARTITION = 10,
    SIM_RULE_GATHER_REUSE = 11,
    SIM_RULE_REDUCE_INPUT_REUSE = 12,
    SIM_RULE_ALL_REDUCE_REUSE = 13,
    SIM_RULE_OFFLOAD_REUSE = 14,
    SIM_RULE_CROSS_STREAM_REUSE = 15,
    SIM_RULE_GRADIENT_AFTER_CHUNK_CAT = 16,
    SIM_RULE_HOST_GRADIENT = 17,
    SIM_RULE_GATHER_BOUND = 18,
    SIM_RULE_REDUCE_INPUT_BOUND = 19,
    SIM_RULE_ALL_REDUCE_BOUND = 20,
    SIM_RULE_ALL_FREED = 21,
    SIM_RULE_NO_GATHER_AFTER_FORWARD = 22,
    SIM_RULE_STEADY_STATE = 23,
    SIM_RULE_UNSYNCED_CHARGED = 24,
    SIM_RULE_SAME_SEQUENCE = 25,
    SIM_RULE_SAME_SIZES = 26,
    SIM_RULE_UNSHARD_IS_WAITED = 27,
    SIM_RULE_NO_REDUNDANT_GATHER = 28,
    SIM_RULE_GATHER_BEFORE_REDUCE = 29,
    SIM_RULE_ONE_AT_A_TIME = 30,
    SIM_RULE_PREFETCH_ORDER = 31,
    SIM_RULE_LEFTOVER_ORDER = 32,
    SIM_RULE_GATHER_GROUP = 33,
    SIM_RULE_NO_NEEDLESS_REDUCE = 34,
    SIM_RULE_LEGAL_STATES = 35,
    SIM_RULE_RECOMPUTE_NEUTRAL = 36,
    SIM_RULE_SHARED_IN_ONE_GROUP = 37,
    SIM_RULE_HOST_NOT_BLOCKED = 38,
    SIM_RULE_ONE_DTYPE_A_REDUCE = 39,
    SIM_RULE_FROZEN_NOT_REDUCED = 40,
    /* Of any plan. */
    SIM_RULE_RACE,
    SIM_RULE_USE_BEFORE_BIRTH,
    SIM_RULE_USE_AFTER_FREE,
    SIM_RULE_DOUBLE_FREE,
    SIM_RULE_NEVER_WRITTEN,
    SIM_RULE_OUTSIDE_BUFFER,
    SIM_RULE_WAIT_BEFORE_RECORD,
    SIM_RULE_UPDATED_TWICE,
    SIM_RULE_DEADLOCK,
    SIM_RULE_END
} SimRuleId;

typedef struct SimRule {
    const char *id; /* "fsdp-11", "race": what SARIF and JSON call it */
    const char *name;
    SimSeverity severity;
    const char *sentence;
    const char *evidence;
    const char *method; /* how a plan is judged by it; NULL = a plan does not show it */
} SimRule;

/* Of 1 to SIM_RULE_END - 1. */
const SimRule *sim_rules_get(SimRuleId rule);
/* 1 to 40, or 0 for a rule of any plan. */
uint32_t sim_rules_number(SimRuleId rule);
const char *sim_rules_severity_name(SimSeverity severity);
