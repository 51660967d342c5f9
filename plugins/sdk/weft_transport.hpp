// The tables of a transport plugin, from one class. What is left to write is
// the domain and a macro:
//
//   class TcpDomain : public weft_sdk::TransportDomain { ... };
//
//   struct Tcp {
//     static constexpr char kName[] = "tcp";
//     static constexpr char kVendor[] = "acme";
//     static constexpr char kVersion[] = "1.0";    // build id
//     static constexpr uint32_t kWireVersion = 1;
//     static constexpr bool kSharedMemory = false;
//     static weft_transport_info Describe();       // with the default options
//     static std::shared_ptr<weft_sdk::TransportDomain> Open(
//         const weft_sdk::DomainConfig& config);
//   };
//   WEFT_TRANSPORT_PLUGIN(Tcp, WEFT_ISA_BASELINE)
//
// Here the arguments are checked and structs of other sizes are read and
// written; the class gets whole ones. It may throw weft_sdk::Error from every
// function. transport/loopback is a complete example.
//
// Threading: as plugins/abi/weft_transport.h asks: all functions of a domain at
// once, but for Poll with Poll, and Close with anything.
#ifndef WEFT_PLUGINS_SDK_WEFT_TRANSPORT_HPP_
#define WEFT_PLUGINS_SDK_WEFT_TRANSPORT_HPP_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "plugins/abi/weft_transport.h"
#include "plugins/sdk/weft_hello.hpp"
#include "plugins/sdk/weft_host.hpp"

namespace weft_sdk {

// weft_transport_event, with a message of any length.
struct TransportEvent {
  uint32_t kind = 0;
  weft_endpoint ep = 0;
  uint64_t cookie = 0;
  uint64_t tag = 0;
  uint64_t length = 0;
  uint32_t op_kind = 0;
  uint32_t rank = 0;
  uint64_t incarnation = 0;
  weft_code code = WEFT_OK;
  uint32_t reason = WEFT_REFUSED_NOT;
  std::string message;
};

// Writes events into the host's array, whose elements may be smaller or larger
// than this header's.
class EventWriter {
 public:
  EventWriter(weft_transport_event* events, uint32_t max)
      : at_(reinterpret_cast<char*>(events)),
        max_(events == nullptr ? 0 : max),
        stride_(max_ == 0 ? 0 : events->struct_size) {}

  bool full() const { return count_ == max_; }
  uint32_t count() const { return count_; }

  // Pre-condition: !full().
  void Write(const TransportEvent& event) {
    constexpr size_t kHead = offsetof(weft_transport_event, kind);
    if (whole_) {
      Fill(event, reinterpret_cast<weft_transport_event*>(at_));
    } else if (stride_ > kHead) {
      weft_transport_event raw;
      Fill(event, &raw);
      std::memcpy(at_ + kHead, reinterpret_cast<const char*>(&raw) + kHead,
                  stride_ - kHead);
    }
    if (event.code != WEFT_OK && stride_ > kMessage) {
      constexpr size_t kMost = sizeof(weft_transport_event::message);
      const size_t room = std::min(stride_ - kMessage, kMost) - 1;
      const size_t n = std::min(room, event.message.size());
      std::memcpy(at_ + kMessage, event.message.data(), n);
      at_[kMessage + n] = '\0';
    }
    at_ += stride_;
    ++count_;
  }

 private:
  static constexpr size_t kMessage = offsetof(weft_transport_event, message);

  // All but its size and its message.
  static void Fill(const TransportEvent& event, weft_transport_event* raw) {
    raw->kind = event.kind;
    raw->ep = event.ep;
    raw->cookie = event.cookie;
    raw->tag = event.tag;
    raw->length = event.length;
    raw->op_kind = event.op_kind;
    raw->rank = event.rank;
    raw->incarnation = event.incarnation;
    raw->code = event.code;
    raw->reason = event.reason;
  }

  char* at_;
  const uint32_t max_;
  const size_t stride_;
  // Filled in where they lie, at least up to the message.
  const bool whole_ =
      stride_ >= kMessage && stride_ % alignof(weft_transport_event) == 0;
  uint32_t count_ = 0;
};

// Memory of a peer: to read, and to write only where it is `writable`.
struct SharedRegion {
  void* host = nullptr;
  uint64_t bytes = 0;
  bool writable = false;
};

// Differs from `seen` once there may be something to poll.
struct SleepWord {
  const uint32_t* word = nullptr;
  uint32_t seen = 0;
};

// Plugins that have it say `static constexpr bool kSleeps = true`.
template <typename P, typename = void>
struct HasSleeps : std::false_type {};
template <typename P>
struct HasSleeps<P, std::enable_if_t<P::kSleeps>> : std::true_type {};

// One rank's side of the job.
class TransportDomain {
 public:
  TransportDomain() = default;
  virtual ~TransportDomain() = default;
  TransportDomain(const TransportDomain&) = delete;
  TransportDomain& operator=(const TransportDomain&) = delete;

  virtual weft_transport_info Info() = 0;
  // Throws Error(WEFT_BUSY, why) while the domain must stay.
  virtual void Close() = 0;
  // At most WEFT_BLOB_MAX bytes, as are keys.
  virtual std::string Listen() = 0;
  // `rank` is above this one's and below world.
  virtual weft_endpoint Connect(uint32_t rank, std::string_view address,
                                uint64_t cookie) = 0;
  virtual void CloseEndpoint(weft_endpoint ep, bool abort) = 0;
  // `op` is a SEND or a RECV with memory and with flags that fit it. Answers
  // with a code, because WEFT_AGAIN is common and throwing is not cheap.
  virtual weft_code Post(const weft_transport_op& op, weft_status* status) = 0;
  // Writes until the writer is full or there are no more.
  virtual void Poll(EventWriter* writer) = 0;
  // False after `timeout_ns`.
  virtual bool Wait(uint64_t timeout_ns) = 0;
  virtual weft_transport_stats Stats() = 0;

  // Where kSharedMemory says so.
  virtual weft_mr AllocShared(uint64_t bytes, bool writable, void** host) {
    throw None();
  }
  virtual void FreeShared(weft_mr mr) { throw None(); }
  virtual std::string PackShared(weft_mr mr) { throw None(); }
  virtual SharedRegion Map(weft_endpoint ep, std::string_view key) {
    throw None();
  }
  virtual void Unmap(const void* host) { throw None(); }

  // Where kSleeps says so.
  virtual SleepWord SleepBegin() { throw Error(WEFT_UNSUPPORTED, "no word"); }
  virtual void SleepEnd() {}

 private:
  static Error None() { return Error(WEFT_UNSUPPORTED, "no shared memory"); }
};

template <typename P>
class TransportTables {
 public:
  static const weft_plugin* Query(const weft_host* host) {
    return Host::Accept(host) ? &kPlugin : nullptr;
  }

 private:
  struct Open {
    std::shared_ptr<TransportDomain> domain;
    Hello hello;
    uint64_t eager_max;
  };

  static Open* From(weft_domain* domain) {
    if (domain == nullptr) throw Error(WEFT_INVALID, "no domain");
    return reinterpret_cast<Open*>(domain);
  }

  static std::string_view Bytes(const weft_blob* blob, const char* what) {
    constexpr size_t kHead = offsetof(weft_blob, bytes);
    if (blob == nullptr || blob->struct_size < kHead || blob->size == 0 ||
        blob->size >
            std::min<uint64_t>(WEFT_BLOB_MAX, blob->struct_size - kHead)) {
      throw Error(WEFT_INVALID, std::string(what) + " is not 1 to " +
                                    std::to_string(WEFT_BLOB_MAX) + " bytes");
    }
    return {reinterpret_cast<const char*>(blob->bytes), blob->size};
  }

  static void WriteBlob(weft_blob* out, const std::string& bytes) {
    constexpr size_t kHead = offsetof(weft_blob, bytes);
    if (out->struct_size < kHead + bytes.size()) {
      throw Error(WEFT_RANGE, std::to_string(bytes.size()) +
                                  " bytes do not fit in a blob of " +
                                  std::to_string(out->struct_size));
    }
    out->size = static_cast<uint32_t>(bytes.size());
    std::memcpy(out->bytes, bytes.data(), bytes.size());
  }

  static weft_code Info(weft_domain* domain, weft_transport_info* out,
                        weft_status* status) {
    return Guard(status, [&] {
      WriteOut(out, domain == nullptr ? P::Describe()
                                      : From(domain)->domain->Info());
    });
  }

  static weft_code DomainOpen(const weft_domain_config* config,
                              weft_domain** out, weft_status* status) {
    return Guard(status, [&] {
      const DomainConfig read = DomainConfig::Read(config, P::kWireVersion);
      auto open = std::make_unique<Open>();
      open->domain = P::Open(read);
      open->hello = read.hello;
      open->eager_max = open->domain->Info().eager_max;
      *out = reinterpret_cast<weft_domain*>(open.release());
    });
  }

  static weft_code DomainClose(weft_domain* domain, weft_status* status) {
    return Guard(status, [&] {
      Open* open = From(domain);
      open->domain->Close();
      delete open;
    });
  }

  static weft_code Listen(weft_domain* domain, weft_blob* out,
                          weft_status* status) {
    return Guard(status,
                 [&] { WriteBlob(out, From(domain)->domain->Listen()); });
  }

  static weft_code Connect(weft_domain* domain,
                           const weft_connect_options* options,
                           weft_endpoint* out, weft_status* status) {
    return Guard(status, [&] {
      Open* open = From(domain);
      const weft_connect_options o = ReadIn(options);
      if (o.rank <= open->hello.rank || o.rank >= open->hello.world) {
        throw Error(WEFT_INVALID,
                    "rank " + std::to_string(open->hello.rank) + " of " +
                        std::to_string(open->hello.world) +
                        " connects to higher ranks only, not to rank " +
                        std::to_string(o.rank));
      }
      *out = open->domain->Connect(o.rank, Bytes(o.address, "the address"),
                                   o.cookie);
    });
  }

  static weft_code EpClose(weft_domain* domain, weft_endpoint ep,
                           uint32_t flags, weft_status* status) {
    return Guard(status, [&] {
      if ((flags & ~WEFT_EP_ABORT) != 0) {
        throw Error(WEFT_INVALID, "unknown flags");
      }
      From(domain)->domain->CloseEndpoint(ep, (flags & WEFT_EP_ABORT) != 0);
    });
  }

  static void CheckOp(const weft_transport_op& op, uint64_t eager_max) {
    if (op.kind != WEFT_TRANSPORT_SEND && op.kind != WEFT_TRANSPORT_RECV) {
      throw Error(WEFT_INVALID,
                  "unknown kind " + std::to_string(op.kind) + " of operation");
    }
    if ((op.flags & ~WEFT_TRANSPORT_URGENT) != 0) {
      throw Error(WEFT_INVALID, "unknown flags");
    }
    if (op.flags != 0 &&
        (op.kind != WEFT_TRANSPORT_SEND || op.length > eager_max)) {
      throw Error(WEFT_INVALID, "URGENT is of a SEND of at most " +
                                    std::to_string(eager_max) + " bytes");
    }
    if (op.host == nullptr && op.length != 0) {
      throw Error(WEFT_INVALID, "no memory");
    }
  }

  static weft_code Post(weft_domain* domain, const weft_transport_op* op,
                        weft_status* status) noexcept {
    try {
      Open* open = From(domain);
      // Not copied where it is whole: a copy waits for what was just written.
      const bool whole = op != nullptr && op->struct_size == sizeof(*op);
      weft_transport_op other;
      if (!whole) other = ReadIn(op);
      const weft_transport_op& o = whole ? *op : other;
      CheckOp(o, open->eager_max);
      return open->domain->Post(o, status);
    } catch (...) {
      return FailCurrent(status);
    }
  }

  static weft_code Poll(weft_domain* domain, weft_transport_event* events,
                        uint32_t max, uint32_t* count, weft_status* status) {
    return Guard(status, [&] {
      *count = 0;
      EventWriter writer(events, max);
      From(domain)->domain->Poll(&writer);
      *count = writer.count();
    });
  }

  static weft_code Wait(weft_domain* domain, uint64_t timeout_ns,
                        weft_status* status) {
    return Guard(status, [&] {
      if (!From(domain)->domain->Wait(timeout_ns)) {
        throw Error(WEFT_TIMEOUT, "nothing to poll");
      }
    });
  }

  static weft_code Stats(weft_domain* domain, weft_transport_stats* out,
                         weft_status* status) {
    return Guard(status, [&] { WriteOut(out, From(domain)->domain->Stats()); });
  }

  static weft_code MemAllocShared(weft_domain* domain, uint64_t bytes,
                                  uint32_t flags, weft_mr* out, void** host,
                                  weft_status* status) {
    return Guard(status, [&] {
      if (bytes == 0) throw Error(WEFT_INVALID, "no bytes asked for");
      if ((flags & ~WEFT_SHARED_WRITABLE) != 0) {
        throw Error(WEFT_INVALID, "unknown flags");
      }
      *out = From(domain)->domain->AllocShared(
          bytes, (flags & WEFT_SHARED_WRITABLE) != 0, host);
    });
  }

  static weft_code MemFreeShared(weft_domain* domain, weft_mr mr,
                                 weft_status* status) {
    return Guard(status, [&] { From(domain)->domain->FreeShared(mr); });
  }

  static weft_code MemPack(weft_domain* domain, weft_mr mr, weft_blob* key,
                           weft_status* status) {
    return Guard(status,
                 [&] { WriteBlob(key, From(domain)->domain->PackShared(mr)); });
  }

  static weft_code MemMap(weft_domain* domain, weft_endpoint ep,
                          const weft_blob* key, void** host, uint64_t* bytes,
                          uint32_t* flags, weft_status* status) {
    return Guard(status, [&] {
      const SharedRegion region =
          From(domain)->domain->Map(ep, Bytes(key, "the key"));
      *host = region.host;
      *bytes = region.bytes;
      *flags = region.writable ? WEFT_SHARED_WRITABLE : 0;
    });
  }

  static weft_code MemUnmap(weft_domain* domain, const void* host,
                            weft_status* status) {
    return Guard(status, [&] { From(domain)->domain->Unmap(host); });
  }

  static weft_code SleepBegin(weft_domain* domain, const uint32_t** word,
                              uint32_t* seen, weft_status* status) {
    return Guard(status, [&] {
      const SleepWord sleep = From(domain)->domain->SleepBegin();
      *word = sleep.word;
      *seen = sleep.seen;
    });
  }

  static weft_code SleepEnd(weft_domain* domain, weft_status* status) {
    return Guard(status, [&] { From(domain)->domain->SleepEnd(); });
  }

  static constexpr bool kShared = P::kSharedMemory;
  static constexpr bool kSleeps = HasSleeps<P>::value;
  static constexpr weft_transport_api kApi = {
      sizeof(weft_transport_api),
      0,
      &Info,
      &DomainOpen,
      &DomainClose,
      &Listen,
      &Connect,
      &EpClose,
      &Post,
      &Poll,
      &Wait,
      &Stats,
      kShared ? &MemAllocShared : nullptr,
      kShared ? &MemFreeShared : nullptr,
      kShared ? &MemPack : nullptr,
      kShared ? &MemMap : nullptr,
      kShared ? &MemUnmap : nullptr,
      kSleeps ? &SleepBegin : nullptr,
      kSleeps ? &SleepEnd : nullptr};
  static constexpr weft_section kSections[] = {
      {WEFT_SECTION_TRANSPORT, 0, &kApi}};
  static constexpr weft_plugin kPlugin = {
      sizeof(weft_plugin),
      WEFT_PLUGIN_MAGIC,
      WEFT_ABI_MAJOR,
      WEFT_ABI_MINOR,
      {P::kName, sizeof(P::kName) - 1},
      {P::kVendor, sizeof(P::kVendor) - 1},
      {P::kVersion, sizeof(P::kVersion) - 1},
      1,
      kSections};
};

}  // namespace weft_sdk

// The note and the entry of plugin P. The manifest's role is then "transport".
#define WEFT_TRANSPORT_PLUGIN(P, isa)                   \
  WEFT_PLUGIN_NOTE((1u << WEFT_SECTION_TRANSPORT), isa) \
  WEFT_PLUGIN_ENTRY(host) { return weft_sdk::TransportTables<P>::Query(host); }

#endif  // WEFT_PLUGINS_SDK_WEFT_TRANSPORT_HPP_
