#include "runtime/pool/pool.h"

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "gtest/gtest.h"
#include "plugins/host/services.h"
#include "runtime/pool/cores.h"
#include "runtime/pool/host_threads.h"
#include "runtime/pool/thread.h"
#include "runtime/testing/no_threads.h"

namespace weft::runtime {
namespace {

// Runs f(i) for i in [0, n).
template <class F>
void For(ThreadPool& pool, uint64_t n, F f) {
  pool.ParallelFor(
      n, [](void* arg, uint64_t i) { (*static_cast<F*>(arg))(i); }, &f);
}

// Blocks its callers until `n` of them are there.
class Meeting {
 public:
  explicit Meeting(uint32_t n) : missing_(n) {}
  void Arrive() {
    missing_.fetch_sub(1);
    while (missing_.load() > 0) std::this_thread::yield();
  }

 private:
  std::atomic<int64_t> missing_;
};

TEST(Pool, EachIndexOnceWhateverTheSizes) {
  for (uint32_t threads : {0u, 1u, 2u, 3u, 5u}) {
    ThreadPool pool({threads});
    EXPECT_EQ(pool.threads(), std::max(threads, 1u));
    for (uint64_t n : {0, 1, 2, 3, 7, 15, 16, 17, 100, 4097}) {
      std::vector<int> calls(n, 0);  // not atomic: one thread for each
      For(pool, n, [&](uint64_t i) { ++calls[i]; });
      EXPECT_EQ(calls, std::vector<int>(n, 1)) << threads << " " << n;
    }
  }
}

TEST(Pool, ManyIndices) {
  ThreadPool pool({3});
  constexpr uint64_t kN = 10'000'019;
  std::atomic<uint64_t> sum{0};
  For(pool, kN,
      [&](uint64_t i) { sum.fetch_add(i, std::memory_order_relaxed); });
  EXPECT_EQ(sum.load(), kN * (kN - 1) / 2);
}

TEST(Pool, HelpersTakePart) {
  for (uint64_t spin_ns : {uint64_t{0}, uint64_t{50000}}) {
    ThreadPool pool({4, spin_ns});
    for (int round = 0; round < 20; ++round) {
      Meeting meeting(4);  // passed only if four threads are inside
      std::mutex mu;
      std::set<std::thread::id> ids;
      For(pool, 4, [&](uint64_t) {
        meeting.Arrive();
        std::lock_guard<std::mutex> lock(mu);
        ids.insert(std::this_thread::get_id());
      });
      EXPECT_EQ(ids.size(), 4u);
      EXPECT_EQ(ids.count(std::this_thread::get_id()), 1u);
    }
    EXPECT_EQ(pool.serial_loops(), 0u);
  }
}

TEST(Pool, WritesOfHelpersAreSeenByTheCaller) {
  ThreadPool pool({3});
  std::vector<uint64_t> data(64, 0);
  for (uint64_t round = 1; round <= 5000; ++round) {
    For(pool, data.size(), [&](uint64_t i) { data[i] += round * i; });
  }
  for (uint64_t i = 0; i < data.size(); ++i) {
    EXPECT_EQ(data[i], i * 5000 * 5001 / 2);
  }
}

TEST(Pool, ALoopInsideALoopRunsInItsCaller) {
  ThreadPool pool({3});
  std::vector<std::vector<int>> calls(40, std::vector<int>(30, 0));
  For(pool, calls.size(), [&](uint64_t i) {
    const auto outer = std::this_thread::get_id();
    For(pool, calls[i].size(), [&, i](uint64_t j) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      ++calls[i][j];
    });
  });
  for (const auto& row : calls) EXPECT_EQ(row, std::vector<int>(30, 1));
  EXPECT_EQ(pool.serial_loops(), calls.size());
}

TEST(Pool, LoopsOfSeveralCallersDoNotWaitForEachOther) {
  ThreadPool pool({2});
  // The first loop ends only when the second, of another thread, is done.
  std::atomic<bool> started{false}, second_done{false};
  std::thread other([&] {
    while (!started.load()) std::this_thread::yield();
    int calls = 0;
    For(pool, 10, [&](uint64_t) { ++calls; });
    EXPECT_EQ(calls, 10);
    second_done.store(true);
  });
  For(pool, 2, [&](uint64_t) {
    started.store(true);
    while (!second_done.load()) std::this_thread::yield();
  });
  other.join();
  EXPECT_EQ(pool.serial_loops(), 1u);
}

TEST(Pool, SeveralWorkersAtOnce) {
  ThreadPool pool({3});
  std::vector<std::thread> workers;
  for (uint64_t w = 0; w < 4; ++w) {
    workers.emplace_back([&pool, w] {
      for (uint64_t round = 0; round < 500; ++round) {
        const uint64_t n = (round * 7 + w) % 50;
        std::vector<uint64_t> seen(n, 0);
        For(pool, n, [&](uint64_t i) { seen[i] += i + w; });
        for (uint64_t i = 0; i < n; ++i) ASSERT_EQ(seen[i], i + w);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
}

TEST(Pool, HelpersAreNamedAndTakeNoSignals) {
  ThreadPool pool({2});
  Meeting meeting(2);
  const auto caller = std::this_thread::get_id();
  For(pool, 2, [&](uint64_t) {
    meeting.Arrive();
    if (std::this_thread::get_id() == caller) return;
    char name[16];
    EXPECT_EQ(pthread_getname_np(pthread_self(), name, sizeof name), 0);
    EXPECT_STREQ(name, "weft-pool-1");
    sigset_t mask;
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &mask), 0);
    EXPECT_EQ(sigismember(&mask, SIGINT), 1);
    EXPECT_EQ(sigismember(&mask, SIGTERM), 1);
  });
}

// Does not end where an idle helper goes on looking.
TEST(Pool, IdleHelpersGoToSleep) {
  ThreadPool pool({3, 1000});
  while (pool.sleeps() < 2) std::this_thread::yield();
  const uint64_t before = pool.sleeps();
  For(pool, 1, [](uint64_t) {});  // no work for them
  Meeting meeting(3);
  For(pool, 3, [&](uint64_t) { meeting.Arrive(); });
  while (pool.sleeps() < before + 2) std::this_thread::yield();
}

TEST(Pool, ComesAndGoes) {
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool({4});
    if (i % 2 == 0) For(pool, 3, [](uint64_t) {});
  }
}

TEST(Thread, RunsIsNamedAndIsJoined) {
  std::string name;
  {
    auto thread = Thread::Start("weft-with-a-long-name", [&] {
      char text[16];
      EXPECT_EQ(pthread_getname_np(pthread_self(), text, sizeof text), 0);
      name = text;
    });
    ASSERT_TRUE(thread.ok()) << thread.status();
    Thread moved = *std::move(thread);
    EXPECT_TRUE(moved.joinable());
    EXPECT_FALSE(thread->joinable());
  }
  EXPECT_EQ(name, "weft-with-a-lon");
}

TEST(Thread, NoneToBeHadIsATypedError) {
  testing::NoThreads none;
  auto thread = Thread::Start("weft-x", [] { FAIL(); });
  ASSERT_FALSE(thread.ok());
  EXPECT_TRUE(IsError(thread.status(), ErrorCode::kNoThread))
      << thread.status();
  EXPECT_NE(thread.status().message().find("'weft-x'"), std::string::npos);
}

TEST(Pool, IsSmallerWhereThereAreNoThreads) {
  testing::NoThreads none;
  ThreadPool pool({4});
  EXPECT_EQ(pool.threads(), 1u);
  int calls = 0;
  For(pool, 10, [&](uint64_t) { ++calls; });
  EXPECT_EQ(calls, 10);
}

TEST(Cores, QuotaOfATextFile) {
  EXPECT_EQ(CoresOfCpuMax("200000 100000\n"), 2u);
  EXPECT_EQ(CoresOfCpuMax("250000 100000"), 3u);
  EXPECT_EQ(CoresOfCpuMax("1000 100000"), 1u);
  EXPECT_EQ(CoresOfCpuMax("max 100000\n"), std::nullopt);
  EXPECT_EQ(CoresOfCpuMax("-1 100000"), std::nullopt);
  EXPECT_EQ(CoresOfCpuMax("1 0"), std::nullopt);
  EXPECT_EQ(CoresOfCpuMax(""), std::nullopt);
  EXPECT_EQ(CoresOfCpuMax("1 2 3"), std::nullopt);
}

class Groups : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(RealOs().RemoveAll(root_).ok()); }
  void Write(const std::string& path, const std::string& text) {
    const std::string file = JoinPath(root_, path);
    ASSERT_TRUE(RealOs().MakeDirectories(file.substr(0, file.rfind('/'))).ok());
    std::ofstream(file) << text;
  }
  std::optional<uint32_t> Quota() {
    return QuotaCores(RealOs(), JoinPath(root_, "proc"),
                      JoinPath(root_, "groups"));
  }

  std::string root_ =
      JoinPath(::testing::TempDir(),
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(Groups, Version2TakesTheSmallestOnTheWayUp) {
  EXPECT_EQ(Quota(), std::nullopt);
  Write("proc/cgroup", "0::/pods/mine\n");
  EXPECT_EQ(Quota(), std::nullopt);
  Write("groups/pods/mine/cpu.max", "800000 100000\n");
  EXPECT_EQ(Quota(), 8u);
  Write("groups/pods/cpu.max", "150000 100000\n");
  EXPECT_EQ(Quota(), 2u);
  Write("groups/cpu.max", "max 100000\n");
  EXPECT_EQ(Quota(), 2u);
}

TEST_F(Groups, Version1) {
  Write("proc/cgroup", "5:memory:/other\n4:cpuacct,cpu:/mine\n");
  Write("groups/cpu/mine/cpu.cfs_quota_us", "300000\n");
  Write("groups/cpu/mine/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Quota(), 3u);
}

TEST(Cores, ThisMachine) {
  EXPECT_GE(AvailableCores(RealOs()), 1u);
  EXPECT_LE(AvailableCores(RealOs()), std::thread::hardware_concurrency());
}

// The processors that the calling thread may run on.
std::vector<unsigned> MayRunOn() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<unsigned> processors;
  for (unsigned i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

TEST(Cores, TheOnlyOneOfAThread) {
  const std::vector<unsigned> before = MayRunOn();
  EXPECT_EQ(OnlyCore().has_value(), before.size() == 1);
  auto binding = CoreBinding::Find(before.size()).value();
  for (size_t i = 0; i < before.size(); ++i) {
    Thread thread = Thread::Start("bound", [&, i] {
                      ASSERT_TRUE(binding->BindThisThread(i));
                      EXPECT_EQ(OnlyCore(), binding->processors()[i]);
                    }).value();
    thread.Join();
  }
}

TEST(CoreBinding, GivesEachThreadAProcessorOfItsOwn) {
  const std::vector<unsigned> before = MayRunOn();
  auto binding = CoreBinding::Find(before.size()).value();
  std::vector<unsigned> all = binding->processors();
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, before);
  for (size_t i = 0; i < before.size(); ++i) {
    Thread thread =
        Thread::Start("bound", [&, i] {
          EXPECT_TRUE(binding->BindThisThread(i));
          EXPECT_EQ(MayRunOn(),
                    std::vector<unsigned>{binding->processors()[i]});
          EXPECT_FALSE(binding->BindThisThread(before.size()));
        }).value();
    thread.Join();
  }
  EXPECT_EQ(MayRunOn(), before);
}

TEST(CoreBinding, KeepsToTheAffinityMask) {
  const std::vector<unsigned> before = MayRunOn();
  Thread thread = Thread::Start("narrow", [&] {
                    cpu_set_t one;
                    CPU_ZERO(&one);
                    CPU_SET(before.back(), &one);
                    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
                    EXPECT_EQ(CoreBinding::Find(1).value()->processors(),
                              std::vector<unsigned>{before.back()});
                    EXPECT_EQ(ErrorCodeOf(CoreBinding::Find(2).status()),
                              ErrorCode::kBadJob);
                  }).value();
  thread.Join();
}

TEST(CoreBinding, PartsAreEqualAndApart) {
  const std::vector<unsigned> all = MayRunOn();
  const uint32_t parts = static_cast<uint32_t>(all.size());
  std::vector<unsigned> taken;
  for (uint32_t part = 0; part < parts; ++part) {
    Thread::Start(
        "part",
        [&] {
          ASSERT_TRUE(CoreBinding::KeepToPart(part, parts).ok());
          ASSERT_EQ(MayRunOn().size(), 1u);
          taken.push_back(MayRunOn()[0]);
          EXPECT_EQ(CoreBinding::Find(1).value()->processors(), MayRunOn());
          Thread::Start("started by it",
                        [&] {
                          EXPECT_EQ(MayRunOn(),
                                    std::vector<unsigned>{taken.back()});
                        })
              .value()
              .Join();
          EXPECT_EQ(ErrorCodeOf(CoreBinding::KeepToPart(0, 2)),
                    ErrorCode::kBadJob);
        })
        .value()
        .Join();
  }
  std::sort(taken.begin(), taken.end());
  EXPECT_EQ(taken, all);
  EXPECT_EQ(MayRunOn(), all);
}

TEST(HostThreads, BindsHelpersAndTheCaller) {
  const uint32_t cores = static_cast<uint32_t>(MayRunOn().size());
  auto threads = HostThreads::Install(RealOs(), cores, /*bind=*/true).value();
  EXPECT_TRUE(threads->bound());
  HostServices services("test", {});
  const weft_host_services& table = *services.host()->services;
  Meeting meeting(cores);  // so that every thread takes one index
  struct Loop {
    Meeting* meeting;
    std::mutex mu;
    std::vector<std::vector<unsigned>> sets;
  } loop{&meeting, {}, {}};
  Thread caller = Thread::Start("caller", [&] {
                    threads->BindCaller();
                    table.parallel_for(
                        table.context, cores,
                        [](void* arg, uint64_t) {
                          auto* loop = static_cast<Loop*>(arg);
                          loop->meeting->Arrive();
                          std::lock_guard<std::mutex> lock(loop->mu);
                          loop->sets.push_back(MayRunOn());
                        },
                        &loop);
                  }).value();
  caller.Join();
  std::sort(loop.sets.begin(), loop.sets.end());
  std::vector<std::vector<unsigned>> one_each;
  for (unsigned processor : MayRunOn()) one_each.push_back({processor});
  EXPECT_EQ(loop.sets, one_each);
}

TEST(HostThreads, RefusesMoreBoundThreadsThanCores) {
  EXPECT_EQ(ErrorCodeOf(HostThreads::Install(RealOs(), 1000, true).status()),
            ErrorCode::kBadJob);
}

TEST(HostThreads, AreWhatPluginsGet) {
  static std::atomic<uint64_t> notified{0};
  SetNotifyHook([](uint64_t token) { notified = token; });
  HostServices services("test", {});
  const weft_host_services& table = *services.host()->services;
  EXPECT_EQ(table.thread_budget(table.context), 1u);
  {
    auto threads = HostThreads::Install(RealOs(), 3, /*bind=*/false).value();
    EXPECT_EQ(threads->count(), 3u);
    EXPECT_EQ(table.thread_budget(table.context), 3u);
    table.notify(table.context, 7);  // the other hook stays
    EXPECT_EQ(notified, 7u);
    Meeting meeting(3);
    table.parallel_for(
        table.context, 3,
        [](void* arg, uint64_t) { static_cast<Meeting*>(arg)->Arrive(); },
        &meeting);
  }
  EXPECT_EQ(table.thread_budget(table.context), 1u);
  int calls = 0;
  table.parallel_for(
      table.context, 5, [](void* arg, uint64_t) { ++*static_cast<int*>(arg); },
      &calls);
  EXPECT_EQ(calls, 5);
  SetHostHooks({});
  auto all = HostThreads::Install(RealOs(), 0, /*bind=*/false).value();
  EXPECT_EQ(all->count(), AvailableCores(RealOs()));
  EXPECT_FALSE(all->bound());
}

}  // namespace
}  // namespace weft::runtime
