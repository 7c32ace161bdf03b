/* SPDX-License-Identifier: Apache-2.0
 *
 * What PyTorch's memory snapshot calls an action of the allocator.
 */
#pragma once

#include "hbm/allocator.h"

const char *sim_action_name_get(SimAllocatorAction action);
