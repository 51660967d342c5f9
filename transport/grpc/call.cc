#include "transport/grpc/call.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace weft_grpc {
namespace {

class SliceMessage final : public Message {
 public:
  explicit SliceMessage(const grpc::ByteBuffer& buffer) {
    if (!buffer.Dump(&slices_).ok()) slices_.clear();
    for (const grpc::Slice& slice : slices_) size_ += slice.size();
  }
  size_t size() const override { return size_; }
  void Copy(size_t offset, size_t bytes, char* to) const override {
    for (const grpc::Slice& slice : slices_) {
      if (bytes == 0) return;
      if (offset >= slice.size()) {
        offset -= slice.size();
        continue;
      }
      const size_t n = std::min(bytes, slice.size() - offset);
      std::memcpy(to, slice.begin() + offset, n);
      offset = 0;
      bytes -= n;
      to += n;
    }
  }

 private:
  std::vector<grpc::Slice> slices_;
  size_t size_ = 0;
};

// Who is told when gRPC refers to a body no more.
struct Hold {
  std::atomic<uint32_t>* call;
  std::atomic<uint32_t>* body;  // may be null
};

void LetGoOf(void* data) {
  const std::unique_ptr<Hold> hold(static_cast<Hold*>(data));
  if (hold->body != nullptr) hold->body->fetch_sub(1);
  // The last word: the call may be gone right after it.
  hold->call->fetch_sub(1);
}

std::vector<std::string> NamesOf(const grpc::AuthContext* auth) {
  std::vector<std::string> names;
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return names;
  for (const grpc::string_ref& name :
       auth->FindPropertyValues("x509_subject_alternative_name")) {
    names.emplace_back(name.data(), name.size());
  }
  return names;
}

}  // namespace

// ---- Call ------------------------------------------------------------------

bool Call::Begin(bool write) {
  std::lock_guard<std::mutex> lock(mu_);
  if (ended_) return false;
  if (write) writable_.store(false);
  ++under_way_;
  return true;
}

void Call::Write(std::string_view head, const char* body, size_t bytes,
                 std::atomic<uint32_t>* held) {
  if (!Begin(/*write=*/true)) return;
  grpc::Slice parts[2] = {grpc::Slice(head.data(), head.size()), {}};
  if (bytes != 0) {
    held_.fetch_add(1);
    if (held != nullptr) held->fetch_add(1);
    parts[1] = grpc::Slice(const_cast<char*>(body), bytes, &LetGoOf,
                           new Hold{&held_, held});
  }
  const grpc::ByteBuffer message(parts, bytes != 0 ? 2 : 1);
  writer_->Write(message, &write_tag_);
}

void Call::OnWrite(bool ok) {
  if (ok) {
    SetWritable();
    if (writable()) user()->OnWritable(this);
  } else {
    Cancel();
  }
  Back();
}

void Call::BeginRead() {
  if (!Begin(/*write=*/false)) return;
  reader_->Read(&incoming_, &read_tag_);
}

void Call::OnRead(bool ok) {
  if (ok) {
    {
      const SliceMessage message(incoming_);
      user()->OnMessage(this, message);
    }
    incoming_.Clear();
    BeginRead();
  } else {
    Cancel();
  }
  Back();
}

void Call::SetWritable() {
  std::lock_guard<std::mutex> lock(mu_);
  writable_.store(!ended_);
}

void Call::Cancel() {
  std::lock_guard<std::mutex> lock(mu_);
  if (std::exchange(ended_, true)) return;
  writable_.store(false);
  CancelCall();
  if (EndCall()) ++under_way_;
}

void Call::Back() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    --under_way_;
  }
  if (!TryEnd()) owner_->Linger(this);
}

void Call::Look() {
  bool ended;
  {
    std::lock_guard<std::mutex> lock(mu_);
    ended = ended_;
  }
  if (ended) {
    if (!TryEnd()) owner_->Linger(this);
  } else if (user() != nullptr) {
    user()->OnReleased(this);
  }
}

bool Call::TryEnd() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!ended_ || under_way_ != 0) return true;
  }
  if (!std::exchange(released_, true)) Release();
  if (held_.load() != 0) return false;
  if (std::exchange(told_, true)) return true;
  if (user() != nullptr) user()->OnOver(this, why_);
  owner_->Over(this);
  return true;
}

// ---- ClientCall ------------------------------------------------------------

ClientCall::ClientCall(CallOwner* owner, std::shared_ptr<grpc::Channel> channel,
                       grpc::CompletionQueue* queue)
    : Call(owner),
      queue_(queue),
      channel_(std::move(channel)),
      context_(std::make_unique<grpc::ClientContext>()),
      stream_(grpc::GenericStub(channel_).PrepareCall(
          context_.get(), "/weft.Transport/Stream", queue)) {
  set_stream(stream_.get(), stream_.get());
}

void ClientCall::Start() {
  BeginWith([this] {
    started_ = true;
    stream_->StartCall(&start_tag_);
  });
  // The port's thread may sleep, and there is a deadline to watch now. It also
  // is what says Back on that thread: nothing else may come of a call that
  // ended before.
  alarm_.Set(queue_, gpr_now(GPR_CLOCK_MONOTONIC), &awake_tag_);
}

void ClientCall::OnStarted(bool ok) {
  if (ok) {
    SetWritable();
    BeginRead();
    if (writable()) user()->OnWritable(this);
  } else {
    Cancel();
  }
  Back();
}

void ClientCall::Release() {
  stream_.reset();
  context_.reset();
  channel_.reset();
}

bool ClientCall::EndCall() {
  if (!started_) return false;
  stream_->Finish(&status_, &finish_tag_);
  return true;
}

void ClientCall::OnFinished(bool) {
  if (!status_.error_message().empty()) set_why(status_.error_message());
  Back();
}

std::vector<std::string> ClientCall::PeerNames() const {
  if (context_ == nullptr) return {};
  return NamesOf(context_->auth_context().get());
}

// ---- ServerCall ------------------------------------------------------------

ServerCall::ServerCall(CallOwner* owner)
    : Call(owner),
      context_(std::make_unique<grpc::GenericServerContext>()),
      stream_(std::make_unique<grpc::GenericServerAsyncReaderWriter>(
          context_.get())) {
  set_stream(stream_.get(), stream_.get());
}

void ServerCall::Await(grpc::AsyncGenericService* service,
                       grpc::ServerCompletionQueue* queue, Tag* accepted) {
  service->RequestCall(context_.get(), stream_.get(), queue, queue, accepted);
}

void ServerCall::Start() {
  SetWritable();
  BeginRead();
}

void ServerCall::Finish() {
  if (Begin(/*write=*/true)) stream_->Finish(grpc::Status::OK, &finish_tag_);
}

void ServerCall::Release() {
  stream_.reset();
  context_.reset();
}

void ServerCall::OnFinished(bool) { Back(); }

std::vector<std::string> ServerCall::PeerNames() const {
  if (context_ == nullptr) return {};
  return NamesOf(context_->auth_context().get());
}

}  // namespace weft_grpc
