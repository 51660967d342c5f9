// gRPC as this plugin needs it: a port, at which calls come in and from which
// they go out, and streams, each one call that carries messages of bytes both
// ways. What else gRPC has, and its headers, stays in call.h, call.cc and
// port.cc.
//
//   class Owner : public PortOwner { ... };      // OnCall: somebody calls
//   class Visitor : public StreamUser { ... };
//   void Visitor::OnWritable(Stream* stream) {
//     stream->Write("hello", nullptr, 0, nullptr);
//   }
//   std::unique_ptr<Port> port = Port::Open(&owner, settings);
//   const int number = port->Listen("127.0.0.1", 0);
//   auto stream = port->Dial("127.0.0.1", number, "rank-1.weft", &visitor);
//
// Every port has one thread, which makes all the calls of PortOwner and
// StreamUser. A stream has one message under way at a time; OnWritable says
// that the next may go. Big messages are not copied: gRPC reads them from where
// they lie, and OnOver comes only once it does so no more.
//
// Threading: Write, Cancel and Finish may come from any thread, but one at a
// time for each stream; the rest is said at each function.
#ifndef WEFT_TRANSPORT_GRPC_STREAM_H_
#define WEFT_TRANSPORT_GRPC_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft_grpc {

// The most bytes of one message of a stream; a longer one ends the stream.
constexpr size_t kMaxMessage = (size_t{1} << 20) + 4096;

// A message that came, in pieces, as the network gave it.
class Message {
 public:
  virtual ~Message() = default;
  virtual size_t size() const = 0;
  // Pre-condition: offset + bytes <= size().
  virtual void Copy(size_t offset, size_t bytes, char* to) const = 0;
  std::string ToString() const {
    std::string text(size(), '\0');
    Copy(0, size(), text.data());
    return text;
  }
};

class Stream;

class StreamUser {
 public:
  virtual ~StreamUser() = default;
  virtual void OnWritable(Stream* stream) = 0;
  // The next one comes after this has returned.
  virtual void OnMessage(Stream* stream, const Message& message) = 0;
  // Watch was called, and what it was called for may have come.
  virtual void OnReleased(Stream* stream) = 0;
  // The last call: nothing of the stream is under way any more.
  virtual void OnOver(Stream* stream, const std::string& why) = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;

  // Copies `head`, and refers to `bytes` of `body`, which stay as they are
  // until nothing refers to them: so long `held`, where there is one, is one
  // more. OnOver comes after that. Pre-condition: writable().
  virtual void Write(std::string_view head, const char* body, size_t bytes,
                     std::atomic<uint32_t>* held) = 0;
  virtual bool writable() const = 0;
  // Ends it now; what was not sent may be lost.
  virtual void Cancel() = 0;
  // Ends it once what was written is out. Pre-condition: writable(), and it
  // came in.
  virtual void Finish() = 0;
  // Names that the peer's certificate has; empty without TLS.
  virtual std::vector<std::string> PeerNames() const = 0;

  // On the port's thread. OnReleased comes once, within a millisecond or so.
  virtual void Watch() = 0;
  // On the port's thread.
  void set_user(StreamUser* user) { user_ = user; }
  StreamUser* user() const { return user_; }

 private:
  StreamUser* user_ = nullptr;
};

// What both sides of all connections agree on, and how they are kept private.
struct PortSettings {
  uint32_t handshake_ms = 3500;  // for a connection to come up
  // PEM; all empty: no TLS.
  std::string ca, certificate, key;

  bool tls() const { return !ca.empty(); }
};

class PortOwner {
 public:
  virtual ~PortOwner() = default;
  // Somebody calls. The owner sets a user, at once; or cancels the stream,
  // which needs none then.
  virtual void OnCall(std::shared_ptr<Stream> stream) = 0;
  // Returns in how many nanoseconds to tick again; UINT64_MAX: when something
  // has happened.
  virtual uint64_t OnTick() = 0;
};

class Port {
 public:
  static std::unique_ptr<Port> Open(PortOwner* owner,
                                    const PortSettings& settings);
  // Ends all streams, whose users hear of it, and the thread.
  virtual ~Port() = default;

  // At a numeric address; port 0: any. Returns the port; 0: it failed, and so
  // will any further call. One thread at a time.
  virtual int Listen(const std::string& host, int port) = 0;
  // The stream is writable once OnWritable has come. `peer_name` is what the
  // other side's certificate must have. From any thread.
  virtual std::shared_ptr<Stream> Dial(const std::string& host, int port,
                                       const std::string& peer_name,
                                       StreamUser* user) = 0;
};

}  // namespace weft_grpc

#endif  // WEFT_TRANSPORT_GRPC_STREAM_H_
