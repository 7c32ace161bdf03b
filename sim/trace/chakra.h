/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank's part of a plan as a Chakra execution trace (mlcommons/chakra,
 * schema/protobuf/et_def.proto), which ASTRA-sim plays on networks of its own.
 *
 *   node       a kernel (COMP_NODE), copy (MEM_LOAD_NODE host to device, MEM_STORE_NODE back) or
 *              collective (COMM_COLL_NODE); id = row of the plan from 1
 *   data_deps  the node before it on its stream, and those behind the events that the stream waits
 *              for; ctrl_deps: those that the host waited for last before issuing it
 *   comm_size  bytes of this rank's input, as ASTRA-sim counts: of an all-gather its shard, else
 * the whole buffer pg_name    the communicator's number in the file of groups, from 1
 *
 * A file is a row of messages with their lengths (varint) before them: metadata, then nodes in the
 * order of the host. Durations are whole microseconds, rounded to the nearest.
 */
#pragma once

#include "base/output_file.h"
#include "trace/recorder.h"

/* TRACK's spans may be in any order; a row that was not played has duration 0. O(rows). */
void sim_chakra_save(const SimPlan *plan, const SimTrack *track, SimOutputFile *file);

/* {"1": [0, 1, 2, 3], ...}: the ranks of each communicator (ASTRA-sim's
 * --comm-group-configuration). */
void sim_chakra_save_groups(const SimPlan *plan, SimOutputFile *file);
