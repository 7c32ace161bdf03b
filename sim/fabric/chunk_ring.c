/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/chunk_ring.h"

#include <glib.h>

#include "fabric/volume.h"

#define CHUNKS_IN_BUFFER 2 /* NCCL_STEPS 8, a chunk is 4 of them */

/* The state while slices leave in order: number I of every rank before number I + 1 of any. */
typedef struct Progress {
    const SimChunkRing *ring;
    uint32_t window;  /* slices that are remembered: those in a buffer and their successors */
    SimTime *free;    /* [ranks] when the edge is free again */
    SimTime *sent;    /* [ranks][window] when slice I % window had left the rank */
    SimTime *arrived; /* [ranks][window] when it was at the next */
    SimTime end;
} Progress;

static size_t place(const Progress *progress, uint32_t rank, uint64_t number)
{
    return (size_t)rank * progress->window + (size_t)(number % progress->window);
}

/* Slice NUMBER, of step STEP of its chunk, leaves RANK. */
static void send_slice(Progress *progress, uint32_t rank, uint64_t number, uint32_t step,
                       uint64_t bytes)
{
    const SimChunkRing *ring = progress->ring;
    uint32_t left = (rank + ring->ranks - 1) % ring->ranks;
    uint32_t right = (rank + 1) % ring->ranks;
    uint64_t buffer = (uint64_t)CHUNKS_IN_BUFFER * ring->slices;
    SimTime start = progress->free[rank];
    if (step > 0)
        start = MAX(start, progress->arrived[place(progress, left, number - ring->slices)]);
    /* The place was that of the slice one buffer before, which the neighbour has passed on, or kept
     * if it was its chunk's last step. */
    if (number >= buffer) {
        uint64_t before = number - buffer;
        start = MAX(start, progress->arrived[place(progress, rank, before)]);
        if (before / ring->slices % (ring->ranks - 1) != ring->ranks - 2)
            start = MAX(start, progress->sent[place(progress, right, before + ring->slices)]);
    }
    SimTime sent = start + sim_volume_time((SimVolume){.bytes = bytes}, ring->rate[rank]);
    progress->free[rank] = sent;
    progress->sent[place(progress, rank, number)] = sent;
    progress->arrived[place(progress, rank, number)] = sent + ring->latency[rank];
    progress->end = MAX(progress->end, sent + ring->latency[rank]);
}

/* Bytes of slice INDEX of PARTS, as even as whole bytes allow. */
static uint64_t slice_bytes(uint64_t bytes, uint32_t parts, uint32_t index)
{
    return bytes * (index + 1) / parts - bytes * index / parts;
}

SimTime sim_chunk_ring_compute(const SimChunkRing *ring)
{
    g_assert(ring->ranks >= 2 && ring->slices >= 1);
    uint32_t window = (CHUNKS_IN_BUFFER + 2) * ring->slices;
    g_autofree SimTime *free = g_new0(SimTime, ring->ranks);
    g_autofree SimTime *sent = g_new0(SimTime, (size_t)ring->ranks * window);
    g_autofree SimTime *arrived = g_new0(SimTime, (size_t)ring->ranks * window);
    Progress progress = {ring, window, free, sent, arrived, 0};
    for (uint32_t rank = 0; ring->arrival && rank < ring->ranks; rank++)
        free[rank] = ring->arrival[rank];
    uint64_t number = 0;
    for (uint64_t done = 0; done < ring->shard; done += SIM_CHUNK_RING_BYTES) {
        uint64_t chunk = MIN(ring->shard - done, SIM_CHUNK_RING_BYTES);
        for (uint32_t step = 0; step + 1 < ring->ranks; step++) {
            for (uint32_t slice = 0; slice < ring->slices; slice++, number++) {
                uint64_t bytes = slice_bytes(chunk, ring->slices, slice);
                for (uint32_t rank = 0; rank < ring->ranks; rank++)
                    send_slice(&progress, rank, number, step, bytes);
            }
        }
    }
    return progress.end;
}
