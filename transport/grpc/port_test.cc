// Calls and ports that end at the worst moment.
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "transport/grpc/call.h"

namespace weft_grpc {
namespace {

// Hears that streams are over, and cancels those that it may write to.
class User : public StreamUser {
 public:
  void OnWritable(Stream* stream) override { stream->Cancel(); }
  void OnMessage(Stream*, const Message&) override {}
  void OnReleased(Stream*) override {}
  void OnOver(Stream*, const std::string&) override {
    std::lock_guard<std::mutex> lock(mu_);
    ++over_;
    more_.notify_all();
  }
  void AwaitOver(int over) {
    std::unique_lock<std::mutex> lock(mu_);
    more_.wait(lock, [&] { return over_ >= over; });
  }

 private:
  std::mutex mu_;
  std::condition_variable more_;
  int over_ = 0;
};

// Where single calls end: the test's thread is the port's.
class Calls : public CallOwner {
 public:
  void Over(Call* call) override {
    over.insert(call);
    const std::shared_ptr<Call> last = call->LetGo();
  }
  void Linger(Call*) override { FAIL() << "nothing was written"; }

  std::set<Call*> over;
};

class Accepted : public Tag {
 public:
  void Run(bool ok) override { accepted = ok; }
  bool accepted = false;
};

// Runs what comes until `done`; nothing that should come may stay out.
template <typename F>
void RunUntil(grpc::CompletionQueue* queue, F done) {
  while (!done()) {
    const gpr_timespec patience = gpr_time_add(
        gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(20, GPR_TIMESPAN));
    void* tag;
    bool ok;
    ASSERT_EQ(queue->AsyncNext(&tag, &ok, patience),
              grpc::CompletionQueue::GOT_EVENT);
    static_cast<Tag*>(tag)->Run(ok);
  }
}

std::shared_ptr<ClientCall> CallOf(Calls* calls, int port, User* user,
                                   grpc::CompletionQueue* queue) {
  auto call = std::make_shared<ClientCall>(
      calls,
      grpc::CreateChannel("ipv4:127.0.0.1:" + std::to_string(port),
                          grpc::InsecureChannelCredentials()),
      queue);
  call->set_user(user);
  call->KeepAlive(call);
  return call;
}

TEST(CallTest, EndsWhereItWasCancelledBeforeItStarted) {
  Calls calls;
  User user;
  grpc::ServerBuilder builder;
  grpc::AsyncGenericService service;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  auto none = CallOf(&calls, port, &user, queue.get());
  none->Cancel();
  none->Start();
  RunUntil(queue.get(), [&] { return calls.over.count(none.get()) == 1; });
  Accepted accepted;
  auto in = std::make_shared<ServerCall>(&calls);
  in->Await(&service, queue.get(), &accepted);
  auto out = CallOf(&calls, port, &user, queue.get());
  out->Start();
  RunUntil(queue.get(), [&] { return accepted.accepted; });
  in->KeepAlive(in);
  in->Cancel();
  in->Start();
  EXPECT_EQ(calls.over.count(in.get()), 0u) << "its starter refers to it";
  in->Back();
  RunUntil(queue.get(), [&] { return calls.over.size() == 3; });
  none.reset();
  out.reset();
  in.reset();
  server->Shutdown();
  queue->Shutdown();
  void* tag;
  bool ok;
  while (queue->Next(&tag, &ok)) static_cast<Tag*>(tag)->Run(ok);
  user.AwaitOver(2);
}

class Owner : public PortOwner {
 public:
  explicit Owner(User* user) : user_(user) {}
  void OnCall(std::shared_ptr<Stream> stream) override {
    stream->set_user(user_);
  }
  uint64_t OnTick() override { return UINT64_MAX; }

 private:
  User* const user_;
};

TEST(PortTest, GoesWhileCallsComeInAndGoOut) {
  User user;
  Owner owner(&user);
  for (int i = 0; i < 60; ++i) {
    auto called = Port::Open(&owner, PortSettings());
    auto caller = Port::Open(&owner, PortSettings());
    const int port = called->Listen("127.0.0.1", 0);
    ASSERT_NE(port, 0);
    auto stream = caller->Dial("127.0.0.1", port, "", &user);
    if (i % 3 == 0) stream->Cancel();
    if (i % 3 == 1) called.reset();
    if (i % 2 == 0) caller.reset();
    called.reset();
    caller.reset();
    user.AwaitOver(i + 1);
  }
}

}  // namespace
}  // namespace weft_grpc
