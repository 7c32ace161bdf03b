/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/communication.h"

/* A kernel of stream `compute` and how long that stream had been busy before it. */
typedef struct Busy {
    SimTime start, end, before;
} Busy;

/* Kernels of one stream follow each other, so they are sorted and apart. */
static GArray *collect_busy(const SimPlan *plan, const SimTrack *track)
{
    GArray *busy = g_array_new(FALSE, FALSE, sizeof(Busy));
    SimTime before = 0;
    for (guint i = 0; i < track->spans->len; i++) {
        const SimSpan *span = &g_array_index(track->spans, SimSpan, i);
        if (span->stream == 0 &&
            sim_plan_instruction(plan, span->instruction)->op == SIM_PLAN_KERNEL) {
            Busy kernel = {span->start, span->end, before};
            before += span->end - span->start;
            g_array_append_val(busy, kernel);
        }
    }
    return busy;
}

/* How long `compute` has been busy up to TIME. */
static SimTime busy_until(const GArray *busy, SimTime time)
{
    guint low = 0, high = busy->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(busy, Busy, middle).start < time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        return 0;
    }
    const Busy *kernel = &g_array_index(busy, Busy, low - 1);
    return kernel->before + MIN(time, kernel->end) - kernel->start;
}

static SimCommunicationLine *find_line(GArray *lines, const SimInstruction *instruction)
{
    for (guint i = 0; i < lines->len; i++) {
        SimCommunicationLine *line = &g_array_index(lines, SimCommunicationLine, i);
        if (line->group == instruction->group && line->collective == instruction->collective &&
            line->phase == instruction->phase) {
            return line;
        }
    }
    SimCommunicationLine line = {.group = instruction->group,
                                 .collective = instruction->collective,
                                 .phase = instruction->phase};
    g_array_append_val(lines, line);
    return &g_array_index(lines, SimCommunicationLine, lines->len - 1);
}

GArray *sim_communication_compute(const SimPlan *plan, const SimTrack *track, int32_t step)
{
    g_autoptr(GArray) busy = collect_busy(plan, track);
    GArray *lines = g_array_new(FALSE, FALSE, sizeof(SimCommunicationLine));
    for (guint i = 0; i < track->spans->len; i++) {
        const SimSpan *span = &g_array_index(track->spans, SimSpan, i);
        const SimInstruction *instruction = sim_plan_instruction(plan, span->instruction);
        if (instruction->op != SIM_PLAN_COLLECTIVE || instruction->step != step) {
            continue;
        }
        SimCommunicationLine *line = find_line(lines, instruction);
        SimTime time = span->end - span->start;
        line->count++;
        line->bytes += instruction->bytes;
        line->wire_bytes += span->wire_bytes;
        line->time += time;
        line->exposed += time - (busy_until(busy, span->end) - busy_until(busy, span->start));
    }
    return lines;
}
