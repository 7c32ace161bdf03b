/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/nccl_graph.h"

#include <math.h>

/* src/include/device.h: MAXCHANNELS; a ring search stops at half of it. */
#define MOST_CHANNELS 64
#define MOST_RINGS (MOST_CHANNELS / 2)
/* src/include/device.h: NCCL_MAX_NVLS_ARITY */
#define MOST_HEADS 32
#define GB 1e9
#define SLOWEST 0.1F /* GB/s */

/* src/graph/search.cc: speedArrayIntra and the lists after it, by architecture. */
static const float ampere_intra[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
static const float ampere_inter[] = {48, 30, 28, 24, 20, 18,   15,   12,    10,   9,
                                     7,  6,  5,  4,  3,  2.4F, 1.2F, 0.24F, 0.12F};
static const float hopper_intra[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
static const float hopper_inter[] = {48, 45, 42, 40, 30,   24,   22,    20,   17.5F,
                                     15, 12, 6,  3,  2.4F, 1.2F, 0.24F, 0.12F};
static const float blackwell_intra[] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
static const float blackwell_inter[] = {96, 86,    80, 48, 45.1F, 42, 40,   30,   24,    22,
                                        20, 17.5F, 15, 12, 6,     3,  2.4F, 1.2F, 0.24F, 0.12F};

/* One communicator's node as the search sees it, GB/s. */
typedef struct Machine {
    SimCommArchitecture architecture;
    bool is_alone; /* all ranks in one node */
    uint32_t gpus;
    uint32_t nics;
    float nvlink; /* of one GPU */
    float nic;    /* of one, or of the GPU's path to it */
    float pcie;
    const float *speeds;
    uint32_t n_speeds;
} Machine;

#define SET_SPEEDS(machine, list)                                                                  \
    ((machine)->speeds = (list), (machine)->n_speeds = G_N_ELEMENTS(list))

static Machine describe(const SimCluster *cluster, const SimGroupShape *shape)
{
    const SimCommTuner *tuner = &cluster->comm->tuner;
    Machine machine = {
        .architecture = tuner->architecture,
        .is_alone = shape->nodes == 1,
        .gpus = shape->min_ranks_in_node,
        .nics = MAX(shape->nics, 1),
        .nvlink = (float)(tuner->nvlink_bytes_per_s / GB),
        .pcie = (float)(tuner->pcie_bytes_per_s / GB),
    };
    machine.nic = MIN((float)(cluster->nic_bytes_per_s / GB), machine.pcie);
    if (machine.architecture == SIM_COMM_AMPERE && machine.is_alone)
        SET_SPEEDS(&machine, ampere_intra);
    else if (machine.architecture == SIM_COMM_AMPERE)
        SET_SPEEDS(&machine, ampere_inter);
    else if (machine.architecture == SIM_COMM_HOPPER && machine.is_alone)
        SET_SPEEDS(&machine, hopper_intra);
    else if (machine.architecture == SIM_COMM_HOPPER)
        SET_SPEEDS(&machine, hopper_inter);
    else if (machine.is_alone)
        SET_SPEEDS(&machine, blackwell_intra);
    else
        SET_SPEEDS(&machine, blackwell_inter);
    return machine;
}

/* How many times SPEED fits into CAPACITY, which NCCL finds by subtracting, rounded to 1/1000. */
static uint32_t fit_count(float capacity, float speed)
{
    return (uint32_t)floorf(capacity / speed + 1e-4F);
}

/* What NVLink carries of chains that each leave out one GPU of the node, evenly. */
static float chain_capacity(const Machine *machine)
{
    if (machine->gpus < 2)
        return INFINITY;
    return machine->nvlink * (float)machine->gpus / (float)(machine->gpus - 1);
}

/* Channels of one speed that a node has room for. */
static uint32_t count_rings(const Machine *machine, float speed)
{
    if (machine->is_alone)
        return MIN(fit_count(machine->nvlink, speed), MOST_RINGS);
    uint32_t by_nic = machine->nics * fit_count(machine->nic, speed);
    uint32_t by_pcie = MIN(machine->gpus, machine->nics) * fit_count(machine->pcie, speed);
    float chain = chain_capacity(machine);
    uint32_t by_nvlink = isinf(chain) ? MOST_RINGS : fit_count(chain, speed);
    return MIN(MIN(by_nic, by_pcie), MIN(by_nvlink, MOST_RINGS));
}

/* The first speed that one channel can have at all. */
static uint32_t first_speed(const Machine *machine)
{
    float most = machine->is_alone ? machine->nvlink : machine->nic;
    uint32_t i = 0;
    while (i + 1 < machine->n_speeds && machine->speeds[i] > most)
        i++;
    return i;
}

/* True if the search goes on to speed I, having found BEST (search.cc: "Decrease bw until we find a
 * solution"). */
static bool goes_on(const Machine *machine, uint32_t i, float best)
{
    return i < machine->n_speeds && (best <= 0 || machine->speeds[i] / best > .49F);
}

/* Few fast channels become twice as many of half the speed: ncclTopoDupChannels. */
static void split_channels(const Machine *machine, SimNcclGraph *graph)
{
    if (graph->channels == 0 || graph->intra < 25)
        return;
    if (machine->architecture != SIM_COMM_AMPERE && graph->intra < 50 && graph->channels > 4)
        return;
    uint32_t split = MIN(2 * graph->channels, MOST_RINGS);
    float parts = (float)((split + graph->channels - 1) / graph->channels);
    graph->intra /= parts;
    graph->inter /= parts;
    graph->channels = split;
}

static SimNcclGraph search_ring(const Machine *machine)
{
    SimNcclGraph best = {0};
    for (uint32_t i = first_speed(machine); goes_on(machine, i, best.inter); i++) {
        float speed = machine->speeds[i];
        uint32_t channels = count_rings(machine, speed);
        if ((float)channels * speed > (float)best.channels * best.intra)
            best = (SimNcclGraph){channels, speed, speed};
        if (best.channels == MOST_RINGS || (float)best.channels * best.inter >= machine->nvlink)
            break;
    }
    /* "Could not find a path": one channel in simple order. */
    if (best.channels == 0)
        return (SimNcclGraph){1, SLOWEST, SLOWEST};
    split_channels(machine, &best);
    /* Second pass: the same number of channels, faster. */
    for (uint32_t i = 0; i < machine->n_speeds && machine->speeds[i] > best.intra; i++) {
        if (count_rings(machine, machine->speeds[i]) >= best.channels) {
            best.intra = best.inter = machine->speeds[i];
            break;
        }
    }
    return best;
}

static bool fits_tree(const Machine *machine, uint32_t channels, float intra, float inter)
{
    if (machine->is_alone)
        return (float)channels * intra <= machine->nvlink + 1e-3F;
    return (float)channels * inter <= (float)machine->nics * machine->nic + 1e-3F &&
           (float)channels * intra <= chain_capacity(machine) + 1e-3F;
}

static SimNcclGraph search_tree(const Machine *machine, uint32_t channels)
{
    uint32_t i = first_speed(machine);
    while (i + 1 < machine->n_speeds &&
           !fits_tree(machine, channels, machine->speeds[i], machine->speeds[i]))
        i++;
    SimNcclGraph tree = {channels, machine->speeds[i], machine->speeds[i]};
    /* "increase bwIntra for trees": up to twice what leaves the node. */
    while (i > 0 && tree.intra < 2 * tree.inter &&
           fits_tree(machine, channels, machine->speeds[i - 1], tree.inter))
        tree.intra = machine->speeds[--i];
    return tree;
}

/* A GPU's links carry each channel once, and once more the one that it is the head of. */
static uint32_t count_heads(const Machine *machine, float speed, uint32_t most)
{
    uint32_t fit = fit_count(machine->nvlink, speed);
    return MIN(fit > 0 ? fit - 1 : 0, most);
}

static SimNcclGraph search_nvls(const Machine *machine)
{
    SimNcclGraph best = {0};
    if (machine->architecture == SIM_COMM_AMPERE || machine->gpus < 2)
        return best;
    uint32_t most = MIN(machine->gpus, MOST_HEADS);
    uint32_t heads = machine->is_alone ? most : MIN(most, machine->nics);
    uint32_t i = first_speed(machine);
    for (; goes_on(machine, i, best.inter) && best.channels < most; i++) {
        float speed = machine->speeds[i];
        uint32_t channels = count_heads(machine, speed, heads);
        bool is_enough = !machine->is_alone || channels == most;
        if (is_enough && (channels > best.channels ||
                          (float)channels * speed > (float)best.channels * best.inter))
            best = (SimNcclGraph){channels, speed, speed};
    }
    if (best.channels == 0)
        return best;
    /* Second pass: more between nodes, one step of the list at a time. */
    for (i = 0; i < machine->n_speeds && machine->speeds[i] > best.inter;)
        i++;
    while (i > 0 && best.inter < 2 * best.intra &&
           (machine->is_alone || machine->speeds[i - 1] <= machine->nic))
        best.inter = machine->speeds[--i];
    return best;
}

/* src/transport/nvls.cc, ncclNvlsTuning. */
static uint32_t count_nvls_channels(const SimCluster *cluster, const Machine *machine,
                                    uint32_t nodes)
{
    if (machine->architecture != SIM_COMM_BLACKWELL)
        return 16;
    if (nodes == 1)
        return 24;
    double nic = cluster->nic_bytes_per_s / GB;
    if (nodes == 2 && nic >= 48)
        return 32;
    if (nic >= 96)
        return machine->gpus <= 8 ? 24 : 32;
    return nic >= 48 ? 24 : 32;
}

SimNcclGraphs sim_nccl_graph_compute(const SimCluster *cluster, const SimGroupShape *shape)
{
    Machine machine = describe(cluster, shape);
    SimNcclGraphs graphs = {.ring = search_ring(&machine)};
    graphs.tree = search_tree(&machine, graphs.ring.channels);
    graphs.nvls = search_nvls(&machine);
    graphs.has_plain_trees =
        !machine.is_alone && (machine.gpus == 1 || machine.architecture != SIM_COMM_AMPERE);
    /* src/graph/connect.cc, ncclTopoPostset: all channels twice; four for each of few fast ones. */
    graphs.channels = MIN(2 * graphs.ring.channels, MOST_CHANNELS);
    if (machine.architecture != SIM_COMM_AMPERE && !machine.is_alone && graphs.ring.intra > 45 &&
        graphs.channels < 16)
        graphs.channels *= 2;
    if (graphs.nvls.channels > 0)
        graphs.nvls_channels = count_nvls_channels(cluster, &machine, shape->nodes);
    return graphs;
}
