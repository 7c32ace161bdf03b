/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/mpi_log.h"

#include <glib.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static void note(MPI_Comm comm, const char *collective, int count, MPI_Datatype type,
                 bool is_by_member)
{
    const char *path = g_getenv(SIM_MPI_LOG);
    if (path == NULL)
        return;
    char name[MPI_MAX_OBJECT_NAME];
    int length, rank, members, size;
    PMPI_Comm_get_name(comm, name, &length);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(comm, &members);
    PMPI_Type_size(type, &size);
    uint64_t bytes = (uint64_t)count * (uint64_t)size * (uint64_t)(is_by_member ? members : 1);
    g_autofree char *own = g_strdup_printf("%s.%d", path, rank);
    FILE *file = fopen(own, "a");
    if (file == NULL)
        return;
    fprintf(file, "%s %s %" PRIu64 "\n", name, collective, bytes);
    fclose(file);
}

int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *receive,
                  int receive_count, MPI_Datatype receive_type, MPI_Comm comm)
{
    note(comm, "all_gather", receive_count, receive_type, true);
    return PMPI_Allgather(send, send_count, send_type, receive, receive_count, receive_type, comm);
}

int MPI_Reduce_scatter_block(const void *send, void *receive, int count, MPI_Datatype type,
                             MPI_Op op, MPI_Comm comm)
{
    note(comm, "reduce_scatter", count, type, true);
    return PMPI_Reduce_scatter_block(send, receive, count, type, op, comm);
}

int MPI_Allreduce(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    note(comm, "all_reduce", count, type, false);
    return PMPI_Allreduce(send, receive, count, type, op, comm);
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    note(comm, "broadcast", count, type, false);
    return PMPI_Bcast(buffer, count, type, root, comm);
}
