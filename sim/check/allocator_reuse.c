/* SPDX-License-Identifier: Apache-2.0 */
#include "check/allocator_reuse.h"

#include "hbm/allocator.h"

typedef struct Watch {
    SimReuseQuestion *question;
    uint64_t begin, end; /* addresses */
} Watch;

typedef struct Player {
    const SimRankView *view;
    const SimPlan *plan;
    SimAllocator *allocator;
    SimBlock **blocks; /* by buffer; NULL = none */
    GArray *watches;   /* of Watch: still unanswered */
} Player;

static void play_alloc(Player *player, uint32_t index, uint32_t buffer)
{
    const SimBuffer *b = sim_plan_buffer(player->plan, buffer);
    SimBlock *block = sim_allocator_malloc(player->allocator, b->bytes, b->stream);
    if (block == NULL)
        return;
    player->blocks[buffer] = block;
    uint64_t begin = sim_block_address(block);
    uint64_t end = begin + sim_block_size(block);
    for (guint i = player->watches->len; i > 0; i--) {
        const Watch *watch = &g_array_index(player->watches, Watch, i - 1);
        if (watch->begin >= end || begin >= watch->end)
            continue;
        watch->question->owner = buffer;
        watch->question->owner_row = index;
        g_array_remove_index_fast(player->watches, i - 1);
    }
}

static void play_free(Player *player, uint32_t index, uint32_t buffer, SimReuseQuestion *questions,
                      size_t n)
{
    SimBlock *block = player->blocks[buffer];
    if (block == NULL)
        return;
    player->blocks[buffer] = NULL;
    for (size_t i = 0; i < n; i++) {
        if (questions[i].buffer != buffer || questions[i].free_row != index)
            continue;
        Watch watch = {.question = &questions[i],
                       .begin = sim_block_address(block),
                       .end = sim_block_address(block) + sim_block_size(block)};
        g_array_append_val(player->watches, watch);
    }
    sim_allocator_free(player->allocator, block);
}

static void play_row(Player *player, uint32_t index, SimReuseQuestion *questions, size_t n)
{
    const SimInstruction *row = sim_plan_instruction(player->plan, index);
    if (!sim_rank_view_has(player->view, row) || row->buffer == SIM_PLAN_NONE)
        return;
    const SimBuffer *buffer = sim_plan_buffer(player->plan, row->buffer);
    if (buffer->is_host || buffer->parent != SIM_PLAN_NONE)
        return;
    if (row->op == SIM_PLAN_ALLOC && player->blocks[row->buffer] == NULL)
        play_alloc(player, index, row->buffer);
    else if (row->op == SIM_PLAN_FREE)
        play_free(player, index, row->buffer, questions, n);
    else if (row->op == SIM_PLAN_RECORD_STREAM && player->blocks[row->buffer] != NULL)
        sim_allocator_record_stream(player->allocator, player->blocks[row->buffer], row->stream);
}

void sim_allocator_reuse_answer(const SimRankView *view, SimReuseQuestion *questions, size_t n)
{
    const SimPlan *plan = sim_rank_view_plan(view);
    g_autoptr(SimAllocator) allocator = sim_allocator_new(NULL, UINT64_MAX, NULL);
    g_autofree SimBlock **blocks = g_new0(SimBlock *, MAX(sim_plan_buffer_count(plan), 1));
    g_autoptr(GArray) watches = g_array_new(FALSE, FALSE, sizeof(Watch));
    Player player = {
        .view = view, .plan = plan, .allocator = allocator, .blocks = blocks, .watches = watches};
    for (size_t i = 0; i < n; i++)
        questions[i].owner = questions[i].owner_row = SIM_PLAN_NONE;
    for (size_t i = 0; i < sim_plan_length(plan); i++)
        play_row(&player, (uint32_t)i, questions, n);
}
