// SPDX-License-Identifier: Apache-2.0
//
// The ring step of bench_ranks.c in SimGrid's S4U, message by message: one actor a rank, links of
// 50 GB/s and 2 us between neighbours, N - 1 steps a collective. Prints the simulated time of one
// collective, which is (N-1) (436e6/N / 50e9 + 2e-6) s, and the seconds on the CPU that the 96 of a
// step take. As one is as long as another, COLLECTIVES of them are simulated and the time is scaled.
//
//     bench_ring_simgrid RANKS COLLECTIVES
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

namespace {

constexpr double bytes = 436e6;
constexpr int collectives_of_a_step = 96;

void gather(int rank, int ranks, int collectives) {
  sg4::Mailbox *out = sg4::Mailbox::by_name(std::to_string((rank + 1) % ranks));
  sg4::Mailbox *in = sg4::Mailbox::by_name(std::to_string(rank));
  static int token;
  for (int step = 0; step < collectives * (ranks - 1); step++) {
    sg4::CommPtr sent = out->put_async(&token, static_cast<uint64_t>(bytes / ranks));
    in->get<int>();
    sent->wait();
  }
}

void build_ring(int ranks) {
  sg4::NetZone *zone = sg4::create_full_zone("ring");
  std::vector<sg4::Host *> hosts;
  for (int i = 0; i < ranks; i++) {
    hosts.push_back(zone->create_host(std::to_string(i), 1e9));
  }
  for (int i = 0; i < ranks; i++) {
    const sg4::Link *link = zone->create_link("l" + std::to_string(i), 50e9)->set_latency(2e-6)->seal();
    zone->add_route(hosts[i]->get_netpoint(), hosts[(i + 1) % ranks]->get_netpoint(), nullptr, nullptr,
                    {sg4::LinkInRoute(link)}, false);
  }
  zone->seal();
}

}  // namespace

int main(int argc, char **argv) {
  sg4::Engine engine(&argc, argv);
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 64;
  const int collectives = argc > 2 ? std::atoi(argv[2]) : 1;
  for (const char *plain : {"network/bandwidth-factor:1", "network/latency-factor:1",
                            "network/weight-S:0", "network/crosstraffic:0", "network/TCP-gamma:0"}) {
    sg4::Engine::set_config(plain);
  }
  build_ring(ranks);
  for (int i = 0; i < ranks; i++) {
    sg4::Actor::create("r", engine.host_by_name(std::to_string(i)), gather, i, ranks, collectives);
  }
  const std::clock_t start = std::clock();
  engine.run();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("  SimGrid, %5d ranks: %8.3f s for a step of %d collectives (%d simulated: %.4f ms each)\n", ranks,
              seconds * collectives_of_a_step / collectives, collectives_of_a_step, collectives,
              1e3 * sg4::Engine::get_clock() / collectives);
  return 0;
}
