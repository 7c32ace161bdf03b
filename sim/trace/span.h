/* SPDX-License-Identifier: Apache-2.0
 *
 * A stretch of virtual time that one instruction of a plan took on one rank.
 */
#pragma once

#include "base/units.h"
#include "plan/plan.h"

#include <stdint.h>

/* What held an item back until it began. */
typedef enum SimDelay {
    SIM_DELAY_NONE,   /* nothing: it followed the one before it on its stream */
    SIM_DELAY_HOST,   /* the host issued it only then */
    SIM_DELAY_EVENT,  /* its stream waited for an event */
    SIM_DELAY_STREAM, /* its stream waited for all that another had been given */
    SIM_DELAY_RANK,   /* a collective waited for a later member */
} SimDelay;

typedef struct SimSpan {
    uint32_t instruction; /* of the plan */
    uint32_t stream;      /* of the plan; SIM_PLAN_NONE = the host */
    uint8_t delay;        /* SimDelay */
    uint32_t delayed_by;  /* the plan's event or stream, or the rank */
    SimTime arrival;      /* collective: when this rank was ready; else equal to start */
    SimTime start;        /* collective: when its last member was ready */
    SimTime end;
    uint64_t wire_bytes; /* collective: what this rank sends */
} SimSpan;
