/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan: what the host threads do, in issue order. One instruction is one row of the CSV
 * (plan_csv.h; the columns are documented in traces/README.md).
 *
 * A builder (sim/fsdp) writes a plan; the simulator, the checker, the reference executor and the
 * exporters read it, and know nothing of FSDP. All references are small integers into the plan's
 * own tables, so that a plan is copied, compared and compiled without touching text:
 *
 *   strings   interned text; 0 = empty
 *   buffers   one entry an `alloc` or `view`; index from 0. A buffer's life is from its alloc to
 * its free; a name may come back after that, as another buffer events    one entry a `record` of
 * one rank's life: see sim_plan_event streams   by first use; stream 0 is always "compute" groups
 * communicators, with their rank lists rank sets whom a row belongs to; 0 = all ranks. A name
 * stands for one buffer on any one rank: ranks that need other sizes have an alloc of their own
 * under the same name
 *
 * Names of buffers and events are kept in parts ("A:layers.3" "#7" "attention.wq.weight"), because
 * formatting one text a row would cost more than all the rest.
 *
 * Ownership: a plan owns everything in it; pointers into its arrays are valid until the next
 * append.
 */
#pragma once

#include "base/dtype.h"
#include "base/strings.h"
#include "base/units.h"

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_PLAN_NONE UINT32_MAX
#define SIM_PLAN_MAX_RANKS (UINT32_C(1) << 20)

typedef enum SimPlanOp {
    SIM_PLAN_ALLOC,
    SIM_PLAN_VIEW,
    SIM_PLAN_FREE,
    SIM_PLAN_RECORD_STREAM,
    SIM_PLAN_KERNEL,
    SIM_PLAN_COPY,
    SIM_PLAN_COLLECTIVE,
    SIM_PLAN_RECORD,
    SIM_PLAN_WAIT,
    SIM_PLAN_HOST_WAIT,
    SIM_PLAN_HOST,
    SIM_PLAN_MARK,
    SIM_PLAN_OP_COUNT
} SimPlanOp;

typedef enum SimPhase {
    SIM_PHASE_NONE,
    SIM_PHASE_INIT,
    SIM_PHASE_FORWARD,
    SIM_PHASE_BACKWARD,
    SIM_PHASE_RECOMPUTE,
    SIM_PHASE_CLIP,
    SIM_PHASE_OPTIMIZER,
    SIM_PHASE_ZERO_GRAD,
    SIM_PHASE_EVALUATION,
    SIM_PHASE_COUNT
} SimPhase;

typedef enum SimCategory {
    SIM_CATEGORY_NONE,
    SIM_CATEGORY_PARAMETER_SHARD,
    SIM_CATEGORY_ALL_GATHER_OUTPUT,
    SIM_CATEGORY_UNSHARDED_PARAMETER,
    SIM_CATEGORY_UNSHARDED_GRADIENT,
    SIM_CATEGORY_REDUCE_SCATTER_INPUT,
    SIM_CATEGORY_REDUCE_SCATTER_OUTPUT,
    SIM_CATEGORY_SHARDED_GRADIENT,
    SIM_CATEGORY_PARTIAL_REDUCE_OUTPUT,
    SIM_CATEGORY_POST_FORWARD_SHARD,
    SIM_CATEGORY_LOW_PRECISION_SHARD,
    SIM_CATEGORY_REDUCE_COPY,
    SIM_CATEGORY_BUCKET,
    SIM_CATEGORY_OPTIMIZER_STATE,
    SIM_CATEGORY_ACTIVATION,
    SIM_CATEGORY_TEMPORARY,
    SIM_CATEGORY_LOGITS_LOSS,
    SIM_CATEGORY_INPUT,
    SIM_CATEGORY_WORKSPACE,
    SIM_CATEGORY_BUFFER,
    SIM_CATEGORY_COUNT
} SimCategory;

typedef enum SimCollectiveKind {
    SIM_COLLECTIVE_NONE,
    SIM_COLLECTIVE_ALL_GATHER,
    SIM_COLLECTIVE_REDUCE_SCATTER,
    SIM_COLLECTIVE_ALL_REDUCE,
    SIM_COLLECTIVE_BROADCAST,
    SIM_COLLECTIVE_COUNT
} SimCollectiveKind;

/* "STEM", "STEM#SERIAL" or "STEM#SERIAL:TAIL"; serial -1 = none. */
typedef struct SimName {
    SimStringId stem;
    SimStringId tail;
    int32_t serial;
} SimName;

typedef struct SimBuffer {
    SimName name;
    uint64_t bytes;    /* requested; of a view: of the part */
    uint32_t stream;   /* whose pool; SIM_PLAN_NONE for a view */
    uint32_t parent;   /* view: the buffer it is a part of; else SIM_PLAN_NONE */
    uint64_t offset;   /* view: where in the parent */
    SimStringId shape; /* "4096x1024"; 0 = not said */
    uint8_t category;  /* SimCategory */
    uint8_t dtype;     /* SimDtype */
    bool is_host;      /* pinned host memory, not HBM; then STREAM is SIM_PLAN_NONE */
    bool times_rank;   /* view: the offset is OFFSET times the rank's place, as in SimTouch */
} SimBuffer;

/* What an instruction reads or writes: a buffer or a part of it. */
typedef struct SimTouch {
    uint32_t buffer;
    bool times_rank; /* the offset is OFFSET times the rank's place in the row's group ("shard"
                      * where the row has none) */
    uint64_t offset;
    uint64_t bytes; /* 0 = the whole buffer */
} SimTouch;

typedef struct SimInstruction {
    uint8_t op;              /* SimPlanOp */
    uint8_t phase;           /* SimPhase */
    uint8_t dtype;           /* SimDtype: element type of the work */
    uint8_t collective;      /* SimCollectiveKind */
    bool is_device_to_host;  /* copy: direction */
    bool is_event_of_stream; /* wait: for all that stream EVENT has been given so far */
    uint16_t stream;         /* launched, recorded, waiting or (record_stream) also-using stream */
    uint32_t rank_set;
    int32_t step;       /* -1 = not said */
    int32_t microbatch; /* -1 = not said */
    SimStringId name;
    SimStringId unit;
    SimStringId operator_name;
    SimStringId arguments; /* "m=8192 n=4096 k=4096" */
    SimStringId shape;
    uint32_t buffer;  /* alloc, view, free, record_stream; else SIM_PLAN_NONE */
    uint32_t event;   /* record, wait, host_wait: event, or the stream waited for; else NONE */
    uint32_t group;   /* collective; else SIM_PLAN_NONE */
    uint32_t touches; /* first of reads then writes in the plan's touches */
    uint16_t n_reads;
    uint16_t n_writes;
    uint64_t bytes; /* as in the column `bytes` */
    uint64_t flops;
    uint64_t hbm_bytes;
    SimTime duration; /* fixed duration; -1 = by the cost model */
} SimInstruction;

typedef struct SimRange {
    uint32_t first, last; /* inclusive */
} SimRange;

typedef struct SimPlan SimPlan;

SimPlan *sim_plan_new(uint32_t ranks);
void sim_plan_free(SimPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimPlan, sim_plan_free)

/* Deep, in O(size). */
SimPlan *sim_plan_copy(const SimPlan *plan);

/* --- tables ------------------------------------------------------------------------------------
 */

SimStrings *sim_plan_strings(SimPlan *plan); /* to intern; owned by the plan */
const char *sim_plan_string(const SimPlan *plan, SimStringId id);

uint32_t sim_plan_ranks(const SimPlan *plan);

/* What stands in meta rows: "cluster", "config", "model"...; set replaces. get: NULL if absent. */
void sim_plan_set_meta(SimPlan *plan, const char *key, const char *value);
const char *sim_plan_get_meta(const SimPlan *plan, const char *key);
size_t sim_plan_meta_count(const SimPlan *plan);
const char *sim_plan_meta_key(const SimPlan *plan, size_t index); /* in the order of being set */

/* The stream of that name, made if new. */
uint32_t sim_plan_stream(SimPlan *plan, const char *name);
uint32_t sim_plan_stream_count(const SimPlan *plan);
const char *sim_plan_stream_name(const SimPlan *plan, uint32_t stream);

/* A communicator: LISTS are the rank lists of its groups, separated by a space ("0-3 4-7": two
 * groups). A list is a rank, a range, or several of them joined by commas, in communicator order
 * ("0,8,16 1,9,17"). Errors PARSE, RANGE (outside the plan), SCHEMA (a rank twice, a group defined
 * twice). */
bool sim_plan_add_group(SimPlan *plan, const char *name, const char *lists, GError **error);
uint32_t sim_plan_find_group(const SimPlan *plan, const char *name); /* or SIM_PLAN_NONE */
uint32_t sim_plan_group_count(const SimPlan *plan);
const char *sim_plan_group_name(const SimPlan *plan, uint32_t group);
uint32_t sim_plan_group_lists(const SimPlan *plan, uint32_t group); /* how many rank lists */
/* The ranges of one list, in communicator order; their number in *N_RANGES. Borrowed. Of a strided
 * list ("0,8,16") each rank is a range of its own. */
const SimRange *sim_plan_group_ranges(const SimPlan *plan, uint32_t group, uint32_t list,
                                      uint32_t *n_ranges);
/* Members of the list in which RANK is, and RANK's place in it; false if it is in none. O(ranges).
 */
bool sim_plan_group_of_rank(const SimPlan *plan, uint32_t group, uint32_t rank, uint32_t *list,
                            uint32_t *place, uint32_t *members);

/* The rank lists as sim_plan_add_group takes them. Owned by the caller. */
char *sim_plan_print_group(const SimPlan *plan, uint32_t group);

/* The set "0-3 7"; "" = all = 0. Equal sets have equal ids. Errors PARSE, RANGE. */
bool sim_plan_add_rank_set(SimPlan *plan, const char *text, uint32_t *rank_set, GError **error);
const char *sim_plan_rank_set_text(const SimPlan *plan, uint32_t rank_set);
bool sim_plan_rank_set_has(const SimPlan *plan, uint32_t rank_set, uint32_t rank);
uint32_t sim_plan_rank_set_count(const SimPlan *plan);
/* Its ranges, ascending, with gaps between them; their number in *N_RANGES. Borrowed. */
const SimRange *sim_plan_rank_set_ranges(const SimPlan *plan, uint32_t rank_set,
                                         uint32_t *n_ranges);

/* --- rows --------------------------------------------------------------------------------------
 */

size_t sim_plan_length(const SimPlan *plan);
const SimInstruction *sim_plan_instruction(const SimPlan *plan, size_t index);
size_t sim_plan_buffer_count(const SimPlan *plan);
const SimBuffer *sim_plan_buffer(const SimPlan *plan, uint32_t buffer);
size_t sim_plan_event_count(const SimPlan *plan);
SimName sim_plan_event_name(const SimPlan *plan, uint32_t event);
/* The N_READS + N_WRITES touches of INSTRUCTION, reads first. */
const SimTouch *sim_plan_touches(const SimPlan *plan, const SimInstruction *instruction);
/* The buffer that really holds BUFFER: itself, or what a view is finally a part of. */
uint32_t sim_plan_root_buffer(const SimPlan *plan, uint32_t buffer);

/* "A:layers.3#7:wq" <-> its parts; a text without a canonical "#SERIAL" is all stem. print: owned
 * by the caller; append: the same at the end of TEXT. */
SimName sim_plan_parse_name(SimPlan *plan, const char *text);
char *sim_plan_print_name(const SimPlan *plan, SimName name);
void sim_plan_append_name(const SimPlan *plan, SimName name, GString *text);

/* --- writing ------------------------------------------------------------------------------------
 * What the next rows share: rank set, step, phase, microbatch, unit. Builders change it as they go.
 */
typedef struct SimPlanContext {
    uint32_t rank_set;
    int32_t step, microbatch;
    SimPhase phase;
    SimStringId unit;
} SimPlanContext;

SimPlanContext *sim_plan_context(SimPlan *plan); /* borrowed; starts as {0, -1, -1, NONE, 0} */

/* A row of OP with the context filled in, everything else empty; the caller completes it before the
 * next append. */
SimInstruction *sim_plan_append(SimPlan *plan, SimPlanOp op);
/* The row appended last, to complete what a shorthand has appended. */
SimInstruction *sim_plan_last(SimPlan *plan);

/* Appends a touch to the row appended last: reads before writes. */
void sim_plan_add_read(SimPlan *plan, SimTouch touch);
void sim_plan_add_write(SimPlan *plan, SimTouch touch);
#define SIM_TOUCH_WHOLE(buffer_) ((SimTouch){.buffer = (buffer_)})

/* Shorthands; each appends one row and returns the new buffer or event. */
uint32_t sim_plan_alloc(SimPlan *plan, uint32_t stream, SimName name, uint64_t bytes,
                        SimCategory category, SimDtype dtype, SimStringId shape);
uint32_t sim_plan_alloc_host(SimPlan *plan, SimName name, uint64_t bytes, SimCategory category,
                             SimDtype dtype, SimStringId shape);
uint32_t sim_plan_view(SimPlan *plan, SimName name, uint32_t parent, uint64_t offset,
                       uint64_t bytes, SimDtype dtype, SimStringId shape);
/* The same for a part whose offset may depend on the rank. The row gets PART as its one read. */
uint32_t sim_plan_view_part(SimPlan *plan, SimName name, SimTouch part, SimDtype dtype,
                            SimStringId shape);
void sim_plan_free_buffer(SimPlan *plan, uint32_t buffer);
void sim_plan_record_stream(SimPlan *plan, uint32_t buffer, uint32_t stream);
/* A record takes the latest event of its name if none of the row's ranks has recorded that one yet
 * (a wait came first, or other ranks recorded it), else makes a new one. */
uint32_t sim_plan_record(SimPlan *plan, uint32_t stream, SimName name);
/* What a wait for NAME in the next row refers to: the latest event of that name that the context's
 * ranks have recorded; if there is none, the latest one at all, made if new (a later record takes
 * it; without one, who waits for it waits for ever). Appends no row. */
uint32_t sim_plan_event(SimPlan *plan, SimName name);
void sim_plan_wait(SimPlan *plan, uint32_t stream, uint32_t event);
void sim_plan_wait_stream(SimPlan *plan, uint32_t stream, uint32_t other);
void sim_plan_host_wait(SimPlan *plan, uint32_t event);
void sim_plan_host(SimPlan *plan, const char *name, SimTime duration);
void sim_plan_mark(SimPlan *plan, const char *name);
/* The row to be completed with touches, flops, hbm_bytes, arguments. */
SimInstruction *sim_plan_kernel(SimPlan *plan, uint32_t stream, SimStringId name,
                                SimStringId operator_name, SimDtype dtype);
SimInstruction *sim_plan_collective(SimPlan *plan, uint32_t stream, SimStringId name,
                                    SimCollectiveKind kind, uint32_t group, uint64_t bytes,
                                    SimDtype dtype);

/* --- words -------------------------------------------------------------------------------------
 */

const char *sim_plan_op_name(SimPlanOp op);
const char *sim_plan_phase_name(SimPhase phase);
const char *sim_plan_category_name(SimCategory category);
const char *sim_plan_collective_name(SimCollectiveKind kind);

/* Structural soundness: what every reader relies on. On each rank a buffer is used only between its
 * birth and its free, and freed once; ids in range; no touch outside its buffer; fields an op needs
 * are there; names mean in the CSV what the ids say. Errors SCHEMA and RANGE, which name the row (1
 * = the first instruction). O(rows). A wait for an event that is recorded later, or never, is
 * sound: the run will tell of the deadlock. */
bool sim_plan_check(const SimPlan *plan, GError **error);
