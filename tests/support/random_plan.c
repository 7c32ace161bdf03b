/* SPDX-License-Identifier: Apache-2.0 */
#include "random_plan.h"

typedef struct Draw {
    GRand *random;
    SimPlan *plan;
    GArray *living; /* of uint32_t: buffers that live on all ranks of their row */
    GArray *sets;   /* of uint32_t, by buffer: the rank set of its birth */
} Draw;

static uint32_t below(Draw *draw, uint32_t end)
{
    return (uint32_t)g_rand_int_range(draw->random, 0, (gint32)end);
}

static uint64_t draw_bytes(Draw *draw)
{
    return ((uint64_t)1 << below(draw, 40)) + below(draw, 1000);
}

static const char *draw_text(Draw *draw)
{
    static const char *const texts[] = {
        "",        "layers.0",   "a, b",        "say \"x\"",
        " space ", "two\nlines", "norm+output", "m=8192 n=4096 k=4096",
        "äöü",     "#7",
    };
    return texts[below(draw, G_N_ELEMENTS(texts))];
}

static SimStringId draw_string(Draw *draw)
{
    return sim_strings_intern(sim_plan_strings(draw->plan), draw_text(draw));
}

static SimName draw_name(Draw *draw, const char *kind, uint32_t number)
{
    static const char *const stems[] = {"layers.3", "tok_embeddings", "x#", "a#1b"};
    SimStrings *strings = sim_plan_strings(draw->plan);
    SimName name = {.stem = sim_strings_internf(strings, "%s:%s", kind,
                                                stems[below(draw, G_N_ELEMENTS(stems))]),
                    .serial = (int32_t)number};

    if (below(draw, 2) == 0)
        name.tail = sim_strings_intern(strings, below(draw, 2) == 0 ? "wq.weight" : "b#4:c");
    return name;
}

static void draw_context(Draw *draw)
{
    SimPlanContext *context = sim_plan_context(draw->plan);
    uint32_t ranks = sim_plan_ranks(draw->plan);
    uint32_t first = below(draw, ranks), last = first + below(draw, ranks - first);
    g_autofree char *text = g_strdup_printf("%u-%u", first, last);

    context->step = (int32_t)below(draw, 4) - 1;
    context->microbatch = (int32_t)below(draw, 3) - 1;
    context->phase = (SimPhase)below(draw, SIM_PHASE_COUNT);
    context->unit = draw_string(draw);
    bool is_added = sim_plan_add_rank_set(draw->plan, below(draw, 3) == 0 ? text : "",
                                          &context->rank_set, NULL);
    g_assert(is_added);
}

/* A living buffer that may be touched by a row, whose ranks become those of its birth. */
static bool draw_living(Draw *draw, uint32_t *buffer)
{
    if (draw->living->len == 0)
        return false;
    *buffer = g_array_index(draw->living, uint32_t, below(draw, draw->living->len));
    sim_plan_context(draw->plan)->rank_set = g_array_index(draw->sets, uint32_t, *buffer);
    return true;
}

static void note_birth(Draw *draw, uint32_t buffer)
{
    g_array_append_val(draw->living, buffer);
    g_array_append_val(draw->sets, sim_plan_context(draw->plan)->rank_set);
}

static void draw_alloc(Draw *draw)
{
    SimName name = draw_name(draw, "A", (uint32_t)sim_plan_buffer_count(draw->plan));
    SimCategory category = (SimCategory)below(draw, SIM_CATEGORY_COUNT);
    SimDtype dtype = (SimDtype)below(draw, SIM_DTYPE_COUNT);
    SimStringId shape =
        below(draw, 2) == 0 ? 0 : sim_strings_intern(sim_plan_strings(draw->plan), "4096x1024");
    uint64_t bytes = below(draw, 20) == 0 ? 0 : draw_bytes(draw);

    if (below(draw, 10) == 0)
        note_birth(draw, sim_plan_alloc_host(draw->plan, name, bytes, category, dtype, shape));
    else
        note_birth(draw, sim_plan_alloc(draw->plan, below(draw, sim_plan_stream_count(draw->plan)),
                                        name, bytes, category, dtype, shape));
}

static SimTouch draw_part(Draw *draw, uint32_t buffer)
{
    SimTouch touch = {.buffer = buffer};
    uint64_t bytes = sim_plan_buffer(draw->plan, buffer)->bytes;
    uint64_t share = bytes / sim_plan_ranks(draw->plan);

    if (below(draw, 2) == 0 || share < 2)
        return touch;
    touch.times_rank = below(draw, 2) == 0;
    touch.offset = touch.times_rank ? share : below(draw, (uint32_t)MIN(share / 2, 1000));
    touch.bytes = touch.times_rank ? share : 1 + below(draw, (uint32_t)MIN(share / 2, 1000));
    return touch;
}

static void draw_view(Draw *draw)
{
    uint32_t parent;

    if (!draw_living(draw, &parent) || sim_plan_buffer(draw->plan, parent)->bytes == 0)
        return;
    note_birth(draw,
               sim_plan_view_part(
                   draw->plan, draw_name(draw, "V", (uint32_t)sim_plan_buffer_count(draw->plan)),
                   draw_part(draw, parent), (SimDtype)below(draw, SIM_DTYPE_COUNT), 0));
}

/* The host drops a buffer; it and its views leave the living. */
static void draw_free(Draw *draw)
{
    uint32_t buffer;

    if (!draw_living(draw, &buffer))
        return;
    uint32_t root = sim_plan_root_buffer(draw->plan, buffer);
    sim_plan_free_buffer(draw->plan, root);
    for (guint i = draw->living->len; i-- > 0;) {
        uint32_t other = g_array_index(draw->living, uint32_t, i);
        if (sim_plan_root_buffer(draw->plan, other) == root)
            g_array_remove_index(draw->living, i);
    }
}

static void draw_work(Draw *draw)
{
    uint32_t stream = below(draw, sim_plan_stream_count(draw->plan)), buffer;
    bool is_touching = draw_living(draw, &buffer);
    SimStringId name = draw_string(draw);
    SimInstruction *row;

    switch (below(draw, 3)) {
    case 0:
        row = sim_plan_kernel(draw->plan, stream, name, draw_string(draw),
                              (SimDtype)below(draw, SIM_DTYPE_COUNT));
        row->flops = below(draw, 2) == 0 ? 0 : draw_bytes(draw) << 20;
        row->hbm_bytes = below(draw, 2) == 0 ? 0 : draw_bytes(draw);
        break;
    case 1:
        row = sim_plan_append(draw->plan, SIM_PLAN_COPY);
        row->stream = (uint16_t)stream;
        row->bytes = draw_bytes(draw);
        row->is_device_to_host = below(draw, 2) == 0;
        row->arguments =
            below(draw, 2) == 0 ? 0 : sim_strings_intern(sim_plan_strings(draw->plan), "pinned=1");
        break;
    default:
        row = sim_plan_collective(draw->plan, stream, name,
                                  (SimCollectiveKind)(1 + below(draw, SIM_COLLECTIVE_COUNT - 1)), 0,
                                  draw_bytes(draw), SIM_DTYPE_BF16);
    }
    if (row->op != SIM_PLAN_COPY)
        row->arguments = draw_string(draw);
    if (below(draw, 3) == 0)
        row->duration = (SimTime)(((uint64_t)g_rand_int(draw->random) << below(draw, 30)));
    for (uint32_t n = is_touching ? below(draw, 4) : 0; n > 0; n--)
        sim_plan_add_read(draw->plan, draw_part(draw, buffer));
    if (is_touching && below(draw, 2) == 0)
        sim_plan_add_write(draw->plan, draw_part(draw, buffer));
}

static void draw_event(Draw *draw)
{
    uint32_t stream = below(draw, sim_plan_stream_count(draw->plan));
    SimName name = draw_name(draw, "ag", below(draw, 3));

    switch (below(draw, 4)) {
    case 0:
        sim_plan_wait(draw->plan, stream, sim_plan_event(draw->plan, name));
        break;
    case 1:
        sim_plan_host_wait(draw->plan, sim_plan_event(draw->plan, name));
        break;
    case 2:
        sim_plan_wait_stream(draw->plan, stream, below(draw, sim_plan_stream_count(draw->plan)));
        break;
    default:
        sim_plan_record(draw->plan, stream, name);
    }
}

static void draw_row(Draw *draw)
{
    uint32_t buffer;

    draw_context(draw);
    switch (below(draw, 12)) {
    case 0:
    case 1:
    case 2:
        draw_alloc(draw);
        break;
    case 3:
        draw_view(draw);
        break;
    case 4:
    case 5:
        draw_free(draw);
        break;
    case 6:
        if (draw_living(draw, &buffer))
            sim_plan_record_stream(draw->plan, buffer,
                                   below(draw, sim_plan_stream_count(draw->plan)));
        break;
    case 7:
    case 8:
        draw_work(draw);
        break;
    case 9:
        sim_plan_host(draw->plan, draw_text(draw), below(draw, 100000));
        break;
    case 10:
        sim_plan_mark(draw->plan, "mark");
        break;
    default:
        draw_event(draw);
    }
}

SimPlan *random_plan_new(uint32_t seed)
{
    Draw draw = {.random = g_rand_new_with_seed(seed),
                 .living = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
                 .sets = g_array_new(FALSE, FALSE, sizeof(uint32_t))};
    uint32_t ranks = 1 + below(&draw, 12);
    g_autofree char *lists = g_strdup_printf("0-%u", ranks - 1);

    draw.plan = sim_plan_new(ranks);
    bool is_added = sim_plan_add_group(draw.plan, "shard", lists, NULL);
    g_assert(is_added);
    sim_plan_set_meta(draw.plan, "cluster", "h100");
    sim_plan_set_meta(draw.plan, "config", "{\"gpus\": 8, \"code\": \"torchtitan\"}");
    sim_plan_stream(draw.plan, "reduce_scatter");
    sim_plan_stream(draw.plan, "all_gather");
    for (uint32_t n = 100 + below(&draw, 400); n > 0; n--)
        draw_row(&draw);
    *sim_plan_context(draw.plan) = (SimPlanContext){.step = -1, .microbatch = -1};
    g_rand_free(draw.random);
    g_array_unref(draw.living);
    g_array_unref(draw.sets);
    return draw.plan;
}
