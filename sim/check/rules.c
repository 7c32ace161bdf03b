/* SPDX-License-Identifier: Apache-2.0 */
#include "check/rules.h"

#include <glib.h>

#define ORDER "vector clocks: a pair of accesses to the same bytes must be ordered"
#define REUSE "vector clocks: the next owner of the pool's memory must come after the last access"

static const SimRule rules[SIM_RULE_END] = {
    [SIM_RULE_SHARD_FRESH] = {"fsdp-1", "shard fresh", SIM_SEVERITY_CORRUPTS,
                              "the copy-in of a shard comes after the optimizer's last write of it",
                              "_fsdp_state.py _root_pre_forward; stream-safety test F1", ORDER},
    [SIM_RULE_NO_STALE_UNSHARDED] =
        {"fsdp-2", "no unsharded survivor", SIM_SEVERITY_CORRUPTS,
         "unsharded parameters that are used were gathered after the last optimizer step",
         "#137348, Robbyant/lingbot-vla#50", "a version of its shards travels with each copy"},
    [SIM_RULE_USED_WHILE_UNSHARDED] =
        {"fsdp-3", "used only while unsharded", SIM_SEVERITY_CORRUPTS,
         "every kernel of a unit lies between its copy-out and its reshard", "#117510, #83129",
         "life of the unsharded parameter against each use"},
    [SIM_RULE_GATHER_BEFORE_COPY_OUT] =
        {"fsdp-4", "all-gather before copy-out", SIM_SEVERITY_CORRUPTS,
         "what reads an all-gather's output waits for the all-gather",
         "_fsdp_collectives.py foreach_all_gather_copy_out", ORDER},
    [SIM_RULE_COPY_IN_BEFORE_GATHER] = {"fsdp-5", "copy-in before all-gather",
                                        SIM_SEVERITY_CORRUPTS,
                                        "an all-gather waits for what writes its send buffer",
                                        "_fsdp_collectives.py foreach_all_gather; stream-safety "
                                        "test F2",
                                        ORDER},
    [SIM_RULE_REDUCE_INPUT_COMPLETE] =
        {"fsdp-6", "reduce-scatter input complete", SIM_SEVERITY_CORRUPTS,
         "a reduction waits for the kernels that write its input",
         "_fsdp_collectives.py foreach_reduce; stream-safety test G1", ORDER},
    [SIM_RULE_REDUCED_EVERYWHERE_ONCE] =
        {"fsdp-7", "reduced over every rank, once", SIM_SEVERITY_CORRUPTS,
         "each microbatch's gradient reaches every rank exactly once: all-reduce after "
         "reduce-scatter, partial sums added before it",
         "#125484, #126166; stream-safety test H2",
         "the ranks that each contribution has reached travel with the gradient; order by clocks"},
    [SIM_RULE_OPTIMIZER_AFTER_REDUCE] = {"fsdp-8", "optimizer after all post-reduce",
                                         SIM_SEVERITY_CORRUPTS,
                                         "the optimizer waits for every gradient of the backward",
                                         "_fsdp_param_group.py finalize_backward; stream-safety "
                                         "tests H1, H3",
                                         ORDER},
    [SIM_RULE_SCALED_ONCE] = {"fsdp-9", "scaling exactly once", SIM_SEVERITY_CORRUPTS,
                              "the factors on the way of a gradient multiply to the same total on "
                              "every path: 1 over the ranks, or the job's own",
                              "#155903", "the product of the factors travels with the gradient"},
    [SIM_RULE_SHARD_PARTITION] =
        {"fsdp-10", "shard partition", SIM_SEVERITY_CORRUPTS,
         "the ranks' parts of a collective's buffer tile it: part times ranks is the whole",
         "#114299, _fsdp_param.py _init_sharded_param", "arithmetic on each collective"},
    [SIM_RULE_GATHER_REUSE] = {"fsdp-11", "all-gather buffer reuse", SIM_SEVERITY_CORRUPTS,
                               "a block last used by an all-gather is written only after its "
                               "copy-out",
                               "_fsdp_param_group.py; stream-safety tests P1, P2", REUSE},
    [SIM_RULE_REDUCE_INPUT_REUSE] = {"fsdp-12", "reduce-scatter input reuse", SIM_SEVERITY_CORRUPTS,
                                     "the block of a reduce-scatter input is handed out only after "
                                     "the reduce-scatter was waited for",
                                     "ROCm/pytorch#3500; stream-safety tests R1, R2", REUSE},
    [SIM_RULE_ALL_REDUCE_REUSE] = {"fsdp-13", "all-reduce buffer reuse", SIM_SEVERITY_CORRUPTS,
                                   "the block of an all-reduce is free only after the all-reduce",
                                   "#180889, #140044", REUSE},
    [SIM_RULE_OFFLOAD_REUSE] = {"fsdp-14", "offload buffer", SIM_SEVERITY_CORRUPTS,
                                "a gradient's block is free only after its copy to the host",
                                "#180665", REUSE},
    [SIM_RULE_CROSS_STREAM_REUSE] =
        {"fsdp-15", "cross-stream rule", SIM_SEVERITY_CORRUPTS,
         "memory of pool X used on stream Y needs an event from Y, or record_stream, before reuse",
         "#193686, #181218, NVIDIA/Megatron-LM#6187", REUSE},
    [SIM_RULE_GRADIENT_AFTER_CHUNK_CAT] =
        {"fsdp-16", "gradient freed after chunk-cat", SIM_SEVERITY_CORRUPTS,
         "unsharded gradients are freed only after the chunk-cat that reads them was issued",
         "_fsdp_collectives.py foreach_reduce", "life of the gradient against each use"},
    [SIM_RULE_HOST_GRADIENT] = {"fsdp-17", "host sees the gradient", SIM_SEVERITY_CORRUPTS,
                                "before the host reads a gradient it waits for the copy",
                                "#180665, _fsdp_param_group.py finalize_backward", ORDER},
    [SIM_RULE_GATHER_BOUND] = {"fsdp-18", "all-gather bound", SIM_SEVERITY_SLOW,
                               "at most 2 all-gather outputs live in forward, 1 in backward (and "
                               "those of explicit prefetch)",
                               "#83917, #86165, #128884", "count of live buffers"},
    [SIM_RULE_REDUCE_INPUT_BOUND] = {"fsdp-19", "reduce-scatter input bound", SIM_SEVERITY_LEAKS,
                                     "reduce-scatter inputs live are bounded by the setting, not "
                                     "by the layers",
                                     "ISEEKYAN/Megatron-LM#158, #186000", "count of live buffers"},
    [SIM_RULE_ALL_REDUCE_BOUND] = {"fsdp-20", "all-reduce buffers bound", SIM_SEVERITY_SLOW,
                                   "buffers kept for all-reduces are bounded, not one a layer",
                                   "#179128, #179443", "count of live buffers"},
    [SIM_RULE_ALL_FREED] = {"fsdp-21", "all freed", SIM_SEVERITY_LEAKS,
                            "no all-gather output, unsharded parameter or reduce-scatter input "
                            "survives a finished backward",
                            "#83129, #95805, #101982, NVIDIA/Megatron-LM#6153",
                            "live set at the first row after backward"},
    [SIM_RULE_NO_GATHER_AFTER_FORWARD] = {"fsdp-22", "no gather output after forward",
                                          SIM_SEVERITY_SLOW,
                                          "the last all-gather output is dropped at the end of "
                                          "forward",
                                          "_fsdp_state.py _post_forward",
                                          "live set at the first row of backward"},
    [SIM_RULE_STEADY_STATE] = {"fsdp-23", "steady state", SIM_SEVERITY_LEAKS,
                               "a later step ends with as many live bytes as the step before it",
                               "test_fully_shard_memory.py", "live bytes at the end of each step"},
    [SIM_RULE_UNSYNCED_CHARGED] = {"fsdp-24", "unsynchronised gradients", SIM_SEVERITY_SLOW,
                                   "accumulation without synchronisation keeps gradients at full "
                                   "size",
                                   "verl-project/verl#7458, meta-pytorch/tnt#1057",
                                   "live gradients at the end of a microbatch"},
    [SIM_RULE_SAME_SEQUENCE] = {"fsdp-25", "same sequence on all ranks", SIM_SEVERITY_HANGS,
                                "the members of a communicator issue the same collectives in the "
                                "same order",
                                "#77030, #77562, #158719, NVIDIA/Megatron-LM#2218",
                                "comparison of the members' sequences"},
    [SIM_RULE_SAME_SIZES] = {"fsdp-26", "same sizes", SIM_SEVERITY_HANGS,
                             "the members of a collective bring the same bytes and element type",
                             "#174862, #171355", "comparison of the members' sequences"},
    [SIM_RULE_UNSHARD_IS_WAITED] = {"fsdp-27", "every unshard is waited for", SIM_SEVERITY_LEAKS,
                                    "what an all-gather brings is used, or dropped at the end of "
                                    "backward",
                                    "#137348", "life of the all-gather output against its reads"},
    [SIM_RULE_NO_REDUNDANT_GATHER] = {"fsdp-28", "no redundant all-gather", SIM_SEVERITY_SLOW,
                                      "a unit is gathered at most once a forward and once a "
                                      "backward, and not while it is unsharded",
                                      "#175406, Robbyant/lingbot-vla#50, #83665",
                                      "count by unit, phase and microbatch"},
    [SIM_RULE_GATHER_BEFORE_REDUCE] = {"fsdp-29", "next all-gather before reduce-scatter",
                                       SIM_SEVERITY_SLOW,
                                       "on a shared communicator the next unit's all-gather is "
                                       "issued before this unit's reduce-scatter",
                                       "docs/source/notes/fsdp.rst, #64803, "
                                       "facebookresearch/fairscale#897",
                                       "order of issue in backward"},
    [SIM_RULE_ONE_AT_A_TIME] = {"fsdp-30", "one at a time", SIM_SEVERITY_SLOW,
                                "collectives of one communicator run one after the other, in the "
                                "order of issue",
                                "#177015, #186335, #106080",
                                "assumed by the deadlock search, which plays them so"},
    [SIM_RULE_PREFETCH_ORDER] = {"fsdp-31", "prefetch in order of use", SIM_SEVERITY_SLOW,
                                 "units are gathered in the order in which they are used",
                                 "#108190, #118118, NVIDIA/Megatron-LM#6153",
                                 "order of all-gathers against the order of their first reads"},
    [SIM_RULE_LEFTOVER_ORDER] = {"fsdp-32", "leftover groups in module order", SIM_SEVERITY_HANGS,
                                 "what is reduced at the end of backward comes in the same order "
                                 "on every rank",
                                 "_fsdp_state.py _root_post_backward_final_callback",
                                 "comparison of the members' sequences (reported as 25)"},
    [SIM_RULE_GATHER_GROUP] = {"fsdp-33", "group of an all-gather", SIM_SEVERITY_CORRUPTS,
                               "the group of an all-gather has as many ranks as its output has "
                               "parts",
                               "_fsdp_param_group.py _all_gather_process_group",
                               "arithmetic on each collective (reported as 10)"},
    [SIM_RULE_NO_NEEDLESS_REDUCE] = {"fsdp-34", "nothing reduced needlessly", SIM_SEVERITY_SLOW,
                                     "a group of one rank reduces nothing; an all-reduce follows "
                                     "a reduce-scatter",
                                     "_fsdp_param_group.py post_backward",
                                     "members and input of each reduction"},
    [SIM_RULE_LEGAL_STATES] = {"fsdp-35", "legal transitions", SIM_SEVERITY_CORRUPTS,
                               "a gradient is reduced once a use: the same input is not reduced "
                               "twice",
                               "_fsdp_param_group.py",
                               "a reduction's input must have been written since the last one"},
    [SIM_RULE_RECOMPUTE_NEUTRAL] = {"fsdp-36", "recompute is neutral", SIM_SEVERITY_SLOW,
                                    "recomputation neither gathers nor frees parameters",
                                    "NVIDIA/Megatron-LM#6153, #175406",
                                    "collectives in phase recompute"},
    [SIM_RULE_SHARED_IN_ONE_GROUP] = {"fsdp-37", "shared parameters in one group",
                                      SIM_SEVERITY_CORRUPTS,
                                      "a parameter that two modules share belongs to one unit",
                                      "_fsdp_state.py, #77724", NULL},
    [SIM_RULE_HOST_NOT_BLOCKED] = {"fsdp-38", "host not blocked", SIM_SEVERITY_SLOW,
                                   "FSDP2 without offload never makes the host wait",
                                   "pytorch/torchtitan docs/fsdp.md", "host waits are counted"},
    [SIM_RULE_ONE_DTYPE_A_REDUCE] = {"fsdp-39", "one element type a reduction",
                                     SIM_SEVERITY_CORRUPTS,
                                     "a reduction's element type is that of its buffer", "#196996",
                                     "element types of each collective"},
    [SIM_RULE_FROZEN_NOT_REDUCED] = {"fsdp-40", "frozen parameters not reduced", SIM_SEVERITY_SLOW,
                                     "a unit without gradients is not reduced", "#170667", NULL},
    [SIM_RULE_RACE] = {"race", "data race", SIM_SEVERITY_CORRUPTS,
                       "two accesses to the same bytes, one of them a write, are ordered", "",
                       ORDER},
    [SIM_RULE_USE_BEFORE_BIRTH] = {"use-before-birth", "use before birth", SIM_SEVERITY_CORRUPTS,
                                   "a buffer is used only after its alloc", "", "host order"},
    [SIM_RULE_USE_AFTER_FREE] = {"use-after-free", "use after free", SIM_SEVERITY_CORRUPTS,
                                 "a buffer is used only before its free", "", "host order"},
    [SIM_RULE_DOUBLE_FREE] = {"double-free", "double free", SIM_SEVERITY_CORRUPTS,
                              "a buffer is freed once", "", "host order"},
    [SIM_RULE_NEVER_WRITTEN] = {"never-written", "read of data never written",
                                SIM_SEVERITY_CORRUPTS,
                                "what is read was written since the buffer's birth", "",
                                "byte ranges of each buffer"},
    [SIM_RULE_OUTSIDE_BUFFER] = {"outside-buffer", "access outside the buffer",
                                 SIM_SEVERITY_CORRUPTS, "a row touches only bytes of its buffers",
                                 "", "arithmetic on each access"},
    [SIM_RULE_WAIT_BEFORE_RECORD] = {"wait-before-record", "wait before the record",
                                     SIM_SEVERITY_HANGS,
                                     "an event is recorded before something waits for it",
                                     "CUDA: a wait for an event never recorded does nothing",
                                     "host order"},
    [SIM_RULE_UPDATED_TWICE] = {"updated-twice", "parameter updated twice", SIM_SEVERITY_CORRUPTS,
                                "the optimizer applies a gradient once", "",
                                "writes of each shard in phase optimizer"},
    [SIM_RULE_DEADLOCK] = {"deadlock", "deadlock", SIM_SEVERITY_HANGS,
                           "every rank reaches the end of its plan",
                           "#126616, Lightning-AI/litgpt"
                           "#1202",
                           "all ranks are played, collectives meet, one communicator in one order"},
};

const SimRule *sim_rules_get(SimRuleId rule)
{
    g_assert(rule >= 1 && rule < SIM_RULE_END);
    return &rules[rule];
}

uint32_t sim_rules_number(SimRuleId rule)
{
    return rule <= SIM_RULE_FROZEN_NOT_REDUCED ? (uint32_t)rule : 0;
}

const char *sim_rules_severity_name(SimSeverity severity)
{
    static const char *const names[SIM_SEVERITY_COUNT] = {"slow", "leaks", "hangs", "corrupts"};
    g_assert(severity < SIM_SEVERITY_COUNT);
    return names[severity];
}
