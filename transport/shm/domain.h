// One rank of a job whose peers are other processes of this machine.
//
//   open --- Close() ---> closing: nothing new is taken; endpoints end
//
// Two threads make progress while nobody polls: one sleeps on the sockets
// (strangers, handshakes, deaths), one on the bell (records of peers). Both
// work under the domain's one lock, as every function does.
//
// The bell's thread stands back, and looks up every few milliseconds only,
// while the host sees to messages itself: it polls, it waits, or it sleeps on
// the bell (SleepBegin). Else every message would be a system call, and two
// threads would fight for it. A host that wants to be notified, and never
// sleeps on the bell, has it looking out all the time.
//
// A Poll that finds nothing takes no lock: once all was quiet, it looks for the
// next record of each peer alone, until it finds one or somebody else has had
// the lock; a Post after which all is quiet still does not count. What lies in
// a segment stays until a Poll has seen its end.
//
// Threading: as plugins/abi/weft_transport.h asks. Nothing is called out with
// the lock held.
#ifndef WEFT_TRANSPORT_SHM_DOMAIN_H_
#define WEFT_TRANSPORT_SHM_DOMAIN_H_

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "plugins/sdk/weft_transport.hpp"
#include "transport/common/mailbox.h"
#include "transport/shm/bell.h"
#include "transport/shm/biased_mutex.h"
#include "transport/shm/block.h"
#include "transport/shm/connection.h"
#include "transport/shm/door.h"
#include "transport/shm/handshake.h"
#include "transport/shm/options.h"

namespace weft_shm {

constexpr uint32_t kWireVersion = 2;

// What a domain with these options says of itself.
weft_transport_info Describe(const Options& options);

class ShmDomain : public weft_sdk::TransportDomain {
 public:
  ShmDomain(const weft_sdk::DomainConfig& config, const Options& options);
  ~ShmDomain() override;

  weft_transport_info Info() override { return Describe(options_); }
  void Close() override;
  std::string Listen() override;
  weft_endpoint Connect(uint32_t rank, std::string_view address,
                        uint64_t cookie) override;
  void CloseEndpoint(weft_endpoint ep, bool abort) override;
  weft_code Post(const weft_transport_op& op, weft_status* status) override;
  void Poll(weft_sdk::EventWriter* writer) override;
  bool Wait(uint64_t timeout_ns) override;
  weft_transport_stats Stats() override;

  weft_mr AllocShared(uint64_t bytes, bool writable, void** host) override;
  void FreeShared(weft_mr mr) override;
  std::string PackShared(weft_mr mr) override;
  weft_sdk::SharedRegion Map(weft_endpoint ep, std::string_view key) override;
  void Unmap(const void* host) override;
  weft_sdk::SleepWord SleepBegin() override;
  void SleepEnd() override;

 private:
  // A socket that is no connection yet.
  struct Visit {
    uint64_t id;
    bool connector;
    Fd socket;
    uint64_t deadline;
    // Of a connector:
    DoorName name;
    weft_endpoint ep = 0;
    uint32_t rank = 0;
    uint64_t cookie = 0;
    bool knocked = false;
    // Of a listener, after kWelcome:
    Frame theirs;  // the connector's kHello
    std::unique_ptr<Producer> out;
  };
  // The lock, and after it the notifications for what was pushed. The next
  // Poll looks at everything.
  class Locked {
   public:
    explicit Locked(ShmDomain* domain) : domain_(domain), lock_(domain->mu_) {
      domain_->SetQuiet(false);
    }
    ~Locked() {
      bool notify = false;
      const bool pushed = domain_->mailbox_.TakePushed(&notify);
      lock_.unlock();
      if (pushed) domain_->TellPushed(notify);
    }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

    Lock* lock() { return &lock_; }

   private:
    ShmDomain* const domain_;
    Lock lock_;
  };
  enum class Watched { kWakeup, kDoor, kVisit, kEndpoint, kProcess };

  void CheckOpen() const;
  Connection& Find(weft_endpoint ep) {
    return ep == last_ep_ && last_ != nullptr ? *last_ : FindAnew(ep);
  }
  Connection& FindAnew(weft_endpoint ep);
  // `lock`, `soon`: as Connection::Progress.
  bool ProgressAll(Lock* lock, bool soon = false);
  bool NothingCame() const;
  bool Quiet() const;
  void SetQuiet(bool quiet) { quiet_.store(quiet, std::memory_order_release); }
  // Of what was pushed, without the lock: who sleeps on the bell, and the host.
  void TellPushed(bool notify);
  void WatchLive();

  // threads.cc
  void RunBell();
  bool StandBack(uint64_t* seen_polls);
  void RestBell(uint64_t timeout_ns);
  void RouseBell();
  // Somebody sleeps on the bell who looks at messages when it rings.
  void BeginRest() { ++resting_; }
  // Wakes it, where there was something for it to poll.
  void RingOwn() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (resting_.load(std::memory_order_relaxed) != 0) bell_.Ring();
  }
  void EndRest();
  void RunSockets();
  void WakeSockets();
  int Watch(std::vector<pollfd>* fds,
            std::vector<std::pair<Watched, uint64_t>>* what);
  void Look(Watched what, uint64_t id, Lock* lock);
  void AnswerDoor();
  void LookAtEndpoint(weft_endpoint ep, Lock* lock);
  void LookAtProcess(weft_endpoint ep, Lock* lock);

  // visits.cc
  void Advance(Visit* visit);
  void AdvanceVisits(std::optional<uint64_t> id);
  void GreetConnector(Visit* visit, Frame frame);
  void FinishConnector(Visit* visit, Frame frame);
  void Knocked(Visit* visit);
  void Enter(Visit* visit, weft_endpoint ep, const weft_sdk::Hello& theirs,
             Connection::Link link);
  weft_sdk::Refusal Meet(const Visit& visit, const Frame& theirs) const;
  void Refuse(Visit* visit, const weft_sdk::Hello& theirs,
              const weft_sdk::Refusal& refusal, bool tell);
  void Drop(Visit* visit, weft_code code, const std::string& why);
  Frame NewFrame(FrameKind kind) const;
  void PushRefusal(const Visit& visit, const weft_sdk::Hello& theirs,
                   const weft_sdk::Refusal& refusal);

  const weft_sdk::Hello hello_;
  const Options options_;
  const uint64_t token_;  // of the host's notify
  const uint64_t timeout_ns_;
  const std::string secret_;  // what an address and a key prove
  const Fd bell_fd_;
  Bell bell_;
  const Fd wakeup_;
  std::atomic<bool> stop_{false};
  // Of the bell's thread.
  std::atomic<bool> host_attends_;  // it need not be told of every message
  std::atomic<uint64_t> polls_{0};
  std::atomic<uint32_t> resting_{0};
  std::atomic<bool> parked_{false};  // it rests until it is roused
  std::mutex rest_mu_;
  std::condition_variable roused_;

  BiasedMutex mu_;
  bool closing_ = false;
  Mailbox mailbox_;
  std::optional<Door> door_;
  uint64_t door_opens_ = 0;  // not watched before
  weft_sdk::Incarnations seen_;
  uint64_t last_id_ = 0;  // of endpoints, visits, memory
  std::list<Visit> visits_;
  std::unordered_map<weft_endpoint, std::unique_ptr<Connection>> endpoints_;
  std::vector<Connection*> live_;
  uint32_t walks_ = 0;  // threads that are between two of live_
  bool live_changed_ = false;
  std::vector<Connection*> ended_;  // no more of live_, and not let go
  Connection* last_ = nullptr;      // that Find found
  weft_endpoint last_ep_ = 0;
  // Of Poll, which looks at them without the lock while all is quiet.
  std::atomic<bool> quiet_{false};
  std::vector<const Consumer*> watched_;
  std::map<weft_mr, std::unique_ptr<Block>> blocks_;
  std::map<const void*, std::unique_ptr<Mapped>> mappings_;

  std::thread bell_thread_;
  std::thread socket_thread_;
};

}  // namespace weft_shm

#endif  // WEFT_TRANSPORT_SHM_DOMAIN_H_
