/* SPDX-License-Identifier: Apache-2.0
 *
 * What MPI really saw, through its profiling interface: every collective that the program calls
 * goes through a wrapper that notes it, whatever the plan says. If the environment names a file
 * (SIM_MPI_LOG), rank R appends lines to FILE.R as they happen:
 *
 *     shard all_gather 2902016
 *
 * the communicator's name, the collective, the bytes of the whole buffer.
 */
#pragma once

#define SIM_MPI_LOG "FSDPSIM_MPI_LOG"
