/* SPDX-License-Identifier: Apache-2.0
 *
 * Two plans laid side by side, for the tests of whoever writes or copies plans.
 */
#pragma once

#include "plan/plan.h"

/* The first field in which A and B differ, as text; NULL if they are equal in every field. Texts
 * and rank sets are compared as text, since their numbers mean nothing; buffers, events, streams
 * and groups by number too. Owned by the caller. */
char *plan_difference(const SimPlan *a, const SimPlan *b);
