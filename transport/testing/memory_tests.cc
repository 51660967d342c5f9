// Shared memory: what a rank writes there its peers see.
#include <cstring>

#include "transport/testing/transport_test.h"

namespace weft {
namespace {

// In front of each test, because not every transport has it.
#define WEFT_NEEDS_SHARED_MEMORY() \
  if (!transport().info().shared_memory) GTEST_SKIP() << "no shared memory"

// A message without bytes: what was written before is visible after it.
void Signal(const Nodes& nodes, uint32_t from, uint32_t to, uint64_t cookie) {
  ASSERT_TRUE(nodes[to]->TryRecv(from, 1, nullptr, 0, cookie));
  ASSERT_TRUE(nodes[from]->TrySend(to, 1, nullptr, 0, cookie));
  PumpUntil(nodes, [&] { return nodes[to]->done(cookie); });
}

TEST_P(TransportTest, PeersReadMappedMemory) {
  WEFT_NEEDS_SHARED_MEMORY();
  Nodes nodes = Mesh(3);
  Domain& owner = nodes[1]->domain();
  const SharedMemory memory = owner.AllocShared(1000).value();
  ASSERT_NE(memory.host, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.host) % 64, 0u);
  char* mine = static_cast<char*>(memory.host);
  EXPECT_EQ(std::string(mine, 1000), std::string(1000, '\0'));
  EXPECT_EQ(owner.Stats().value().shared_bytes, 1000u);
  const std::string key = owner.PackShared(memory.mr).value();
  for (uint32_t peer : {0u, 2u}) {
    Domain& domain = nodes[peer]->domain();
    const MappedMemory mapped = domain.Map(nodes[peer]->to(1), key).value();
    ASSERT_EQ(mapped.bytes, 1000u);
    EXPECT_FALSE(mapped.writable);
    const char* theirs = static_cast<const char*>(mapped.host);
    for (uint64_t round : {0, 1, 2}) {
      std::memcpy(mine, Pattern(peer + round, 1000).data(), 1000);
      Signal(nodes, 1, peer, 10 * (round + 1) + peer);
      EXPECT_EQ(std::string(theirs, 1000), Pattern(peer + round, 1000));
      // Not to be written again before the peer says that it has read it.
      Signal(nodes, peer, 1, 100 + 10 * round + peer);
    }
    EXPECT_TRUE(domain.Unmap(mapped.host).ok());
    EXPECT_FALSE(domain.Unmap(mapped.host).ok()) << "twice";
  }
  EXPECT_TRUE(owner.FreeShared(memory.mr).ok());
  EXPECT_EQ(owner.Stats().value().shared_bytes, 0u);
}

TEST_P(TransportTest, PeersWriteWhatIsWritable) {
  WEFT_NEEDS_SHARED_MEMORY();
  Nodes nodes = Mesh(3);
  Domain& owner = nodes[1]->domain();
  const SharedMemory memory =
      owner.AllocShared(1000, /*writable=*/true).value();
  const char* mine = static_cast<const char*>(memory.host);
  EXPECT_EQ(std::string(mine, 1000), std::string(1000, '\0'));
  const std::string key = owner.PackShared(memory.mr).value();
  const MappedMemory maps[] = {
      nodes[0]->domain().Map(nodes[0]->to(1), key).value(),
      nodes[2]->domain().Map(nodes[2]->to(1), key).value()};
  for (uint32_t m : {0u, 1u}) {
    const uint32_t peer = 2 * m;
    ASSERT_TRUE(maps[m].writable);
    ASSERT_EQ(maps[m].bytes, 1000u);
    char* theirs = static_cast<char*>(maps[m].host);
    std::memcpy(theirs, Pattern(peer, 1000).data(), 1000);
    Signal(nodes, peer, 1, 10 + peer);
    EXPECT_EQ(std::string(mine, 1000), Pattern(peer, 1000));
    Signal(nodes, 1, 2 - peer, 20 + peer);
    EXPECT_EQ(std::string(static_cast<const char*>(maps[1 - m].host), 1000),
              Pattern(peer, 1000))
        << "what one peer wrote another sees";
    // Not to be written again before the other says that it has read it.
    Signal(nodes, 2 - peer, peer, 30 + peer);
  }
  for (uint32_t m : {0u, 1u}) {
    EXPECT_TRUE(nodes[2 * m]->domain().Unmap(maps[m].host).ok());
  }
  EXPECT_TRUE(owner.FreeShared(memory.mr).ok());
}

// Of several MiB and a few bytes: as what is small.
TEST_P(TransportTest, LargeSharedMemoryIsThereToTheLastByte) {
  WEFT_NEEDS_SHARED_MEMORY();
  constexpr uint64_t kBytes = (uint64_t{5} << 20) + 17;
  Nodes nodes = Mesh(2);
  Domain& owner = nodes[1]->domain();
  Domain& peer = nodes[0]->domain();
  for (bool writable : {false, true}) {
    const SharedMemory memory = owner.AllocShared(kBytes, writable).value();
    EXPECT_EQ(memory.bytes, kBytes);
    EXPECT_EQ(owner.Stats().value().shared_bytes, kBytes);
    char* mine = static_cast<char*>(memory.host);
    EXPECT_EQ(std::string(mine, kBytes), std::string(kBytes, '\0'));
    const std::string bytes = Pattern(writable, kBytes);
    std::memcpy(mine, bytes.data(), kBytes);
    const std::string key = owner.PackShared(memory.mr).value();
    const MappedMemory mapped = peer.Map(nodes[0]->to(1), key).value();
    EXPECT_EQ(mapped.bytes, kBytes);
    EXPECT_EQ(mapped.writable, writable);
    EXPECT_EQ(std::string(static_cast<const char*>(mapped.host), kBytes),
              bytes);
    EXPECT_TRUE(peer.Unmap(mapped.host).ok());
    EXPECT_TRUE(owner.FreeShared(memory.mr).ok());
  }
}

TEST_P(TransportTest, SharedMemoryOutlivesItsOwnerAndTheEndpoint) {
  WEFT_NEEDS_SHARED_MEMORY();
  Nodes nodes = Mesh(2);
  Domain& owner = nodes[1]->domain();
  Domain& peer = nodes[0]->domain();
  const SharedMemory memory = owner.AllocShared(64).value();
  const std::string key = owner.PackShared(memory.mr).value();
  const MappedMemory once = peer.Map(nodes[0]->to(1), key).value();
  const MappedMemory twice = peer.Map(nodes[0]->to(1), key).value();
  std::memset(memory.host, 'm', 64);
  Signal(nodes, 1, 0, 1);
  EXPECT_TRUE(owner.FreeShared(memory.mr).ok());
  nodes[1]->Close();
  nodes[1].reset();
  PumpThese({nodes[0].get()}, [&] {
    return nodes[0]->Last(TransportEventKind::kEndpointDown) != nullptr;
  });
  EXPECT_TRUE(peer.Unmap(once.host).ok());
  EXPECT_EQ(std::string(static_cast<const char*>(twice.host), 64),
            std::string(64, 'm'));
  EXPECT_TRUE(peer.Unmap(twice.host).ok());
}

TEST_P(TransportTest, KeysAreChecked) {
  WEFT_NEEDS_SHARED_MEMORY();
  Nodes nodes = Mesh(3);
  Domain& owner = nodes[2]->domain();
  Domain& peer = nodes[0]->domain();
  const SharedMemory memory = owner.AllocShared(64).value();
  const std::string key = owner.PackShared(memory.mr).value();
  EXPECT_FALSE(peer.Map(nodes[0]->to(1), key).ok()) << "of another rank";
  EXPECT_FALSE(peer.Map(nodes[0]->to(2), "nonsense").ok());
  EXPECT_FALSE(peer.Map(nodes[0]->to(2), "").ok());
  EXPECT_FALSE(peer.Map(12345678, key).ok()) << "no endpoint";
  EXPECT_FALSE(owner.PackShared(memory.mr + 1000).ok());
  EXPECT_FALSE(owner.FreeShared(0).ok());
  EXPECT_FALSE(owner.AllocShared(0).ok());
  EXPECT_TRUE(
      Is(owner.AllocShared(UINT64_MAX).status(), ErrorCode::kOutOfMemory));
  EXPECT_TRUE(owner.FreeShared(memory.mr).ok());
  EXPECT_FALSE(owner.FreeShared(memory.mr).ok()) << "twice";
  EXPECT_FALSE(peer.Map(nodes[0]->to(2), key).ok()) << "freed";
}

TEST_P(TransportTest, ADomainWithSharedMemoryStays) {
  WEFT_NEEDS_SHARED_MEMORY();
  auto domain = transport().Open(Config(0, 1)).value();
  const SharedMemory memory = domain->AllocShared(64).value();
  const auto drop = [](const TransportEvent&) {};
  EXPECT_TRUE(Is(domain->Close(drop), ErrorCode::kTransportFailed));
  EXPECT_FALSE(domain->AllocShared(64).ok()) << "closed to all that is new";
  EXPECT_TRUE(domain->FreeShared(memory.mr).ok());
  EXPECT_TRUE(domain->Close(drop).ok());
}

}  // namespace
}  // namespace weft
