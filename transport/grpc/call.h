// The two kinds of streams, as gRPC calls. See stream.h.
//
//   started --- Read, Write, ... --- a read fails, or Cancel ---> ended
//   ended: the call is cancelled; each operation under way comes back, and
//   whatever refers to memory of others is let go ---> over
//
// Threading: as stream.h says. `mu_` guards what Write and Cancel share with
// the port's thread. gRPC calls nothing of ours but the release of a body.
#ifndef WEFT_TRANSPORT_GRPC_CALL_H_
#define WEFT_TRANSPORT_GRPC_CALL_H_

#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "transport/grpc/stream.h"

namespace weft_grpc {

// What a completion queue gives back.
class Tag {
 public:
  virtual void Run(bool ok) = 0;

 protected:
  ~Tag() = default;
};

class Call;

// Where calls end.
class CallOwner {
 public:
  // On the port's thread. The call is not used after it.
  virtual void Over(Call* call) = 0;
  // Has Look called, soon and once.
  virtual void Linger(Call* call) = 0;

 protected:
  ~CallOwner() = default;
};

class Call : public Stream {
 public:
  using Reader = grpc::internal::AsyncReaderInterface<grpc::ByteBuffer>;
  using Writer = grpc::internal::AsyncWriterInterface<grpc::ByteBuffer>;

  void Write(std::string_view head, const char* body, size_t bytes,
             std::atomic<uint32_t>* held) override;
  bool writable() const override { return writable_.load(); }
  void Cancel() override;
  void Watch() override { owner_->Linger(this); }

  // On the port's thread, as all below. Time has passed since Linger.
  void Look();
  // An operation has come back, or whoever starts the call has: until then it
  // is not over, though it may have ended.
  void Back();
  void KeepAlive(std::shared_ptr<Call> self) { self_ = std::move(self); }
  std::shared_ptr<Call> LetGo() { return std::move(self_); }

 protected:
  template <typename T, void (T::*kRun)(bool)>
  class MemberTag : public Tag {
   public:
    explicit MemberTag(T* object) : object_(object) {}
    void Run(bool ok) override { (object_->*kRun)(ok); }

   private:
    T* const object_;
  };

  explicit Call(CallOwner* owner) : owner_(owner) {}
  void set_stream(Reader* reader, Writer* writer) {
    reader_ = reader;
    writer_ = writer;
  }

  virtual void CancelCall() = 0;
  // Lets gRPC's own objects go, and with them what they refer to. Nothing is
  // under way any more.
  virtual void Release() = 0;
  // With the lock. Asks for what ends a call. True where an operation is under
  // way for it.
  virtual bool EndCall() { return false; }

  void BeginRead();
  // One more operation is under way; false: the call has ended.
  bool Begin(bool write);
  // As Begin, and `start` runs with the lock: before anything ends the call.
  template <typename F>
  void BeginWith(F start) {
    std::lock_guard<std::mutex> lock(mu_);
    if (ended_) return;
    ++under_way_;
    start();
  }
  void SetWritable();
  void set_why(std::string why) { why_ = std::move(why); }

 private:
  void OnRead(bool ok);
  void OnWrite(bool ok);
  // False where it has to linger on.
  bool TryEnd();

  CallOwner* const owner_;
  Reader* reader_ = nullptr;
  Writer* writer_ = nullptr;
  std::shared_ptr<Call> self_;  // until it is over
  MemberTag<Call, &Call::OnRead> read_tag_{this};
  MemberTag<Call, &Call::OnWrite> write_tag_{this};
  grpc::ByteBuffer incoming_;
  std::string why_ = "the stream ended";
  bool released_ = false;
  bool told_ = false;

  std::atomic<bool> writable_{false};
  std::atomic<uint32_t> held_{0};  // bodies that gRPC refers to
  std::mutex mu_;
  uint32_t under_way_ = 1;  // its start
  bool ended_ = false;
};

class ClientCall final : public Call {
 public:
  ClientCall(CallOwner* owner, std::shared_ptr<grpc::Channel> channel,
             grpc::CompletionQueue* queue);
  // After KeepAlive and with a user. Back comes by itself.
  void Start();
  void Finish() override { Cancel(); }
  std::vector<std::string> PeerNames() const override;

 private:
  void CancelCall() override { context_->TryCancel(); }
  void Release() override;
  bool EndCall() override;
  void OnStarted(bool ok);
  void OnFinished(bool ok);
  void OnAwake(bool) { Back(); }

  grpc::CompletionQueue* const queue_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  bool started_ = false;  // guarded by the lock
  grpc::Status status_;
  grpc::Alarm alarm_;
  MemberTag<ClientCall, &ClientCall::OnStarted> start_tag_{this};
  MemberTag<ClientCall, &ClientCall::OnFinished> finish_tag_{this};
  MemberTag<ClientCall, &ClientCall::OnAwake> awake_tag_{this};
};

class ServerCall final : public Call {
 public:
  explicit ServerCall(CallOwner* owner);
  // `accepted` runs when somebody has called: perhaps before this returns.
  void Await(grpc::AsyncGenericService* service,
             grpc::ServerCompletionQueue* queue, Tag* accepted);
  // After KeepAlive; Back once it has a user.
  void Start();
  void Finish() override;
  std::vector<std::string> PeerNames() const override;

 private:
  void CancelCall() override { context_->TryCancel(); }
  void Release() override;
  void OnFinished(bool ok);

  std::unique_ptr<grpc::GenericServerContext> context_;
  std::unique_ptr<grpc::GenericServerAsyncReaderWriter> stream_;
  MemberTag<ServerCall, &ServerCall::OnFinished> finish_tag_{this};
};

}  // namespace weft_grpc

#endif  // WEFT_TRANSPORT_GRPC_CALL_H_
