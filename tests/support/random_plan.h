/* SPDX-License-Identifier: Apache-2.0
 *
 * Sound plans drawn at random, for properties that hold of every plan.
 */
#pragma once

#include "plan/plan.h"

/* A plan of some hundred rows of all ops, on 1 to 12 ranks, with names that need quoting, rows of
 * single ranks, views, events before and after their records. The same seed gives the same plan. */
SimPlan *random_plan_new(uint32_t seed);
