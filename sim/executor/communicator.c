/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/communicator.h"

#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "executor/operand.h"

struct SimCommunicator {
    MPI_Comm comm;
    int place, members;
    MPI_Op sum_bf16, sum_f16;
};

static void add_halves(const void *in, void *inout, int n, SimDtype dtype)
{
    enum { STEP = 1024 };
    float a[STEP], b[STEP];
    for (int at = 0; at < n; at += STEP) {
        uint64_t count = (uint64_t)MIN(STEP, n - at);
        sim_operand_widen((const uint16_t *)in + at, dtype, count, a);
        sim_operand_widen((uint16_t *)inout + at, dtype, count, b);
        for (uint64_t i = 0; i < count; i++)
            a[i] += b[i];
        sim_operand_round(a, count, dtype, (uint16_t *)inout + at);
    }
}

static void add_bf16(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    add_halves(in, inout, *n, SIM_DTYPE_BF16);
}

static void add_f16(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    add_halves(in, inout, *n, SIM_DTYPE_F16);
}

SimCommunicator *sim_communicator_new(MPI_Comm world, const char *name, int colour, uint32_t place)
{
    SimCommunicator *communicator = g_new0(SimCommunicator, 1);
    MPI_Comm_split(world, colour < 0 ? MPI_UNDEFINED : colour, (int)place, &communicator->comm);
    MPI_Op_create(add_bf16, 1, &communicator->sum_bf16);
    MPI_Op_create(add_f16, 1, &communicator->sum_f16);
    if (communicator->comm == MPI_COMM_NULL)
        return communicator;
    MPI_Comm_set_name(communicator->comm, name);
    MPI_Comm_rank(communicator->comm, &communicator->place);
    MPI_Comm_size(communicator->comm, &communicator->members);
    return communicator;
}

void sim_communicator_free(SimCommunicator *communicator)
{
    if (communicator == NULL)
        return;
    MPI_Op_free(&communicator->sum_bf16);
    MPI_Op_free(&communicator->sum_f16);
    if (communicator->comm != MPI_COMM_NULL)
        MPI_Comm_free(&communicator->comm);
    g_free(communicator);
}

uint32_t sim_communicator_members(const SimCommunicator *communicator)
{
    return (uint32_t)communicator->members;
}

/* What members must agree on, and when each was ready. */
typedef struct Header {
    uint64_t row, kind, bytes;
    int64_t nominal;
} Header;

/* By PMPI, past the record of what the plan's collectives send (mpi_log.c). */
bool sim_communicator_meet(SimCommunicator *communicator, const SimCollective *collective,
                           SimTime *nominal, GError **error)
{
    if (communicator->comm == MPI_COMM_NULL) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH, "this rank is not in the group");
        return false;
    }
    Header own = {collective->row, collective->kind, collective->bytes, collective->nominal};
    g_autofree Header *all = g_new0(Header, (gsize)communicator->members);
    PMPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, communicator->comm);
    *nominal = collective->nominal;
    for (int i = 0; i < communicator->members; i++) {
        *nominal = MAX(*nominal, all[i].nominal);
        if (all[i].kind == own.kind && all[i].bytes == own.bytes)
            continue;
        g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                    "%s of %" G_GUINT64_FORMAT " B, but member %d of the group is at row "
                    "%" G_GUINT64_FORMAT " with %s of %" G_GUINT64_FORMAT " B",
                    sim_plan_collective_name(collective->kind), own.bytes, i, all[i].row + 1,
                    sim_plan_collective_name((SimCollectiveKind)all[i].kind), all[i].bytes);
        return false;
    }
    return true;
}

/* The type to send and the operation that adds it. */
static bool find_type(const SimCommunicator *communicator, SimDtype dtype, MPI_Datatype *type,
                      MPI_Op *sum, GError **error)
{
    *type = dtype == SIM_DTYPE_F32 ? MPI_FLOAT : MPI_UINT16_T;
    *sum = dtype == SIM_DTYPE_F32    ? MPI_SUM
           : dtype == SIM_DTYPE_BF16 ? communicator->sum_bf16
                                     : communicator->sum_f16;
    if (dtype == SIM_DTYPE_F32 || dtype == SIM_DTYPE_BF16 || dtype == SIM_DTYPE_F16)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED, "cannot reduce elements of type '%s'",
                sim_dtype_name(dtype));
    return false;
}

static void scale(const void *from, void *to, uint64_t n, SimDtype dtype, double factor)
{
    g_autofree float *values = g_new(float, n + 1);
    sim_operand_widen(from, dtype, n, values);
    for (uint64_t i = 0; i < n; i++)
        values[i] = (float)(values[i] * factor);
    sim_operand_round(values, n, dtype, to);
}

static int reduce(SimCommunicator *communicator, const SimCollective *collective, const void *send,
                  int count, MPI_Datatype type, MPI_Op sum)
{
    if (collective->kind == SIM_COLLECTIVE_REDUCE_SCATTER)
        return MPI_Reduce_scatter_block(send, collective->receive, count, type, sum,
                                        communicator->comm);
    bool is_in_place = send == collective->receive;
    return MPI_Allreduce(is_in_place ? MPI_IN_PLACE : send, collective->receive, count, type, sum,
                         communicator->comm);
}

static bool run_reduction(SimCommunicator *communicator, const SimCollective *collective,
                          GError **error)
{
    MPI_Datatype type;
    MPI_Op sum;
    if (!find_type(communicator, collective->dtype, &type, &sum, error))
        return false;
    uint64_t n = collective->bytes / sim_dtype_bytes(collective->dtype);
    bool is_scatter = collective->kind == SIM_COLLECTIVE_REDUCE_SCATTER;
    uint64_t own = is_scatter ? n / (uint64_t)communicator->members : n;
    const void *send = collective->send;
    g_autofree void *scaled = NULL;
    if (g_str_has_prefix(collective->reduction, "premul:")) {
        scaled = g_malloc(collective->bytes + 1);
        scale(send, scaled, n, collective->dtype,
              g_ascii_strtod(collective->reduction + strlen("premul:"), NULL));
        send = scaled;
    }
    int code = own <= INT_MAX ? reduce(communicator, collective, send, (int)own, type, sum)
                              : MPI_ERR_COUNT;
    if (code != MPI_SUCCESS) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "MPI failed with code %d", code);
        return false;
    }
    if (strcmp(collective->reduction, "avg") == 0)
        scale(collective->receive, collective->receive, own, collective->dtype,
              1.0 / communicator->members);
    return true;
}

static bool run_gather(SimCommunicator *communicator, const SimCollective *collective,
                       GError **error)
{
    uint64_t part = collective->bytes / (uint64_t)communicator->members;
    const unsigned char *slot =
        (unsigned char *)collective->receive + part * (uint64_t)communicator->place;
    bool is_in_place = collective->send == slot;
    int code = part <= INT_MAX ? MPI_Allgather(is_in_place ? MPI_IN_PLACE : collective->send,
                                               (int)part, MPI_BYTE, collective->receive, (int)part,
                                               MPI_BYTE, communicator->comm)
                               : MPI_ERR_COUNT;
    if (code == MPI_SUCCESS)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "MPI failed with code %d", code);
    return false;
}

static bool run_broadcast(SimCommunicator *communicator, const SimCollective *collective,
                          GError **error)
{
    if (communicator->place == 0 && collective->send != collective->receive)
        memcpy(collective->receive, collective->send, collective->bytes);
    int code = collective->bytes <= INT_MAX ? MPI_Bcast(collective->receive, (int)collective->bytes,
                                                        MPI_BYTE, 0, communicator->comm)
                                            : MPI_ERR_COUNT;
    if (code == MPI_SUCCESS)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "MPI failed with code %d", code);
    return false;
}

bool sim_communicator_run(SimCommunicator *communicator, const SimCollective *collective,
                          GError **error)
{
    switch (collective->kind) {
    case SIM_COLLECTIVE_ALL_GATHER:
        return run_gather(communicator, collective, error);
    case SIM_COLLECTIVE_BROADCAST:
        return run_broadcast(communicator, collective, error);
    default:
        return run_reduction(communicator, collective, error);
    }
}
