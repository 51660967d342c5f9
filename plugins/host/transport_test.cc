// The facade over tables made by hand: what no good plugin does. What a good
// one does is in transport/testing.
#include "plugins/host/transport.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "plugins/host/device.h"

namespace weft {
namespace {

void ExpectCode(const absl::Status& status, ErrorCode code,
                const std::string& part) {
  EXPECT_TRUE(IsError(status, code)) << status;
  EXPECT_NE(status.message().find(part), std::string::npos) << status;
}

weft_code Say(weft_status* status, weft_code code, const char* message) {
  status->code = code;
  std::strncpy(status->message, message, sizeof(status->message) - 1);
  return code;
}

// What the fake below does next.
struct Script {
  weft_code code = WEFT_OK;
  std::vector<weft_transport_event> events;
  uint32_t extra_count = 0;  // events that poll claims and did not write
  int busy = 0;              // times that domain_close is busy
  uint32_t blob_size = 3;    // of an address
  uint64_t eager_max = 100;
  const uint32_t* word = nullptr;  // to sleep on
  int asleep = 0;                  // calls of sleep_begin less sleep_end
  weft_transport_op op{};          // the last one
  weft_domain_config config{};     // the last one
};
Script script;

// A transport that does what `script` says.
struct Fake {
  static weft_code Info(weft_domain*, weft_transport_info* out,
                        weft_status* status) {
    std::memset(out->name, 'n', sizeof(out->name));  // no end
    out->eager_max = script.eager_max;
    out->eager_credits = 2;
    out->max_inflight = 3;
    out->flags = WEFT_TRANSPORT_SHARED_MEMORY;
    return status->code = WEFT_OK;
  }
  static weft_code Open(const weft_domain_config* config, weft_domain** out,
                        weft_status* status) {
    script.config = *config;
    if (script.code != WEFT_OK) return Say(status, script.code, "no, rank");
    *out = reinterpret_cast<weft_domain*>(&script);
    return status->code = WEFT_OK;
  }
  static weft_code Close(weft_domain*, weft_status* status) {
    if (script.busy-- > 0) return Say(status, WEFT_BUSY, "not yet");
    return status->code = WEFT_OK;
  }
  static weft_code Listen(weft_domain*, weft_blob* out, weft_status* status) {
    out->size = script.blob_size;
    std::memcpy(out->bytes, "abc", 3);
    return Say(status, script.code, "deaf");
  }
  static weft_code Connect(weft_domain*, const weft_connect_options* options,
                           weft_endpoint* out, weft_status* status) {
    *out = options->address->size;
    return Say(status, script.code, "far");
  }
  static weft_code EpClose(weft_domain*, weft_endpoint, uint32_t,
                           weft_status* status) {
    return Say(status, script.code, "open");
  }
  static weft_code Post(weft_domain*, const weft_transport_op* op,
                        weft_status* status) {
    script.op = *op;
    if (script.code == WEFT_OK) return status->code = WEFT_OK;
    return Say(status, script.code, "post says");
  }
  static weft_code Poll(weft_domain*, weft_transport_event* events,
                        uint32_t max, uint32_t* count, weft_status* status) {
    *count = 0;
    if (script.code != WEFT_OK) return Say(status, script.code, "blind");
    while (*count < max && !script.events.empty()) {
      const uint32_t size = events[*count].struct_size;
      events[*count] = script.events.front();
      events[(*count)++].struct_size = size;
      script.events.erase(script.events.begin());
    }
    *count += script.extra_count;
    return status->code = WEFT_OK;
  }
  static weft_code SleepBegin(weft_domain*, const uint32_t** word,
                              uint32_t* seen, weft_status* status) {
    *word = script.word;
    *seen = 7;
    if (script.code == WEFT_OK) ++script.asleep;
    return Say(status, script.code, "awake");
  }
  static weft_code SleepEnd(weft_domain*, weft_status* status) {
    --script.asleep;
    return status->code = WEFT_OK;
  }
};

// Its tables, to be spoilt.
struct Tables {
  Tables() {
    script = Script();
    api = {};
    api.struct_size = sizeof(api);
    api.info = &Fake::Info;
    api.domain_open = &Fake::Open;
    api.domain_close = &Fake::Close;
    api.listen = &Fake::Listen;
    api.connect = &Fake::Connect;
    api.ep_close = &Fake::EpClose;
    api.post = &Fake::Post;
    api.poll = &Fake::Poll;
  }
  absl::StatusOr<const Plugin*> Adopt() {
    section = {WEFT_SECTION_TRANSPORT, 0, &api};
    plugin = {sizeof(plugin), WEFT_PLUGIN_MAGIC, WEFT_ABI_MAJOR, WEFT_ABI_MINOR,
              {"fake", 4},    {"acme", 4},       {"1", 1},       1,
              &section};
    current = &plugin;
    return Plugin::Adopt([](const weft_host*) { return current; }, "fake");
  }
  Transport transport() { return Transport::Create(**Adopt()).value(); }

  static inline const weft_plugin* current = nullptr;
  weft_plugin plugin;
  weft_section section;
  weft_transport_api api;
};

DomainConfig Config() {
  DomainConfig config;
  config.rank = 1;
  config.world = 4;
  config.options = {{"depth", "7"}};
  return config;
}

weft_transport_event Event(uint32_t kind, weft_code code, const char* message) {
  weft_transport_event event{};
  event.kind = kind;
  event.code = code;
  event.ep = 9;
  event.rank = 3;
  event.tag = 17;
  event.op_kind = WEFT_TRANSPORT_RECV;
  std::strncpy(event.message, message, sizeof(event.message) - 1);
  return event;
}

TEST(TransportTablesTest, ATransportAloneIsAPlugin) {
  Tables tables;
  const Plugin* plugin = tables.Adopt().value();
  EXPECT_TRUE(plugin->has_transport());
  EXPECT_FALSE(plugin->has_device());
  EXPECT_EQ(plugin->DeviceCount(), 0u);
  ExpectCode(Device::Open(*plugin, 0).status(), ErrorCode::kDeviceNotFound,
             "'fake' is a transport");
}

TEST(TransportTablesTest, RequiredFunctions) {
  const size_t required[] = {offsetof(weft_transport_api, info),
                             offsetof(weft_transport_api, domain_open),
                             offsetof(weft_transport_api, domain_close),
                             offsetof(weft_transport_api, listen),
                             offsetof(weft_transport_api, connect),
                             offsetof(weft_transport_api, ep_close),
                             offsetof(weft_transport_api, post),
                             offsetof(weft_transport_api, poll)};
  std::set<std::string> messages;
  for (size_t slot : required) {
    Tables tables;
    std::memset(reinterpret_cast<char*>(&tables.api) + slot, 0, sizeof(void*));
    const absl::Status status = tables.Adopt().status();
    ExpectCode(status, ErrorCode::kPluginBroken, "the transport section lacks");
    messages.insert(std::string(status.message()));
  }
  EXPECT_EQ(messages.size(), 8u) << "each names its function";
  Tables shorter;
  shorter.api.struct_size = offsetof(weft_transport_api, poll);
  ExpectCode(shorter.Adopt().status(), ErrorCode::kPluginBroken, "'poll'");
  Tables torn;
  torn.api.struct_size = 3;
  ExpectCode(torn.Adopt().status(), ErrorCode::kPluginBroken, "3 bytes");
}

TEST(TransportTablesTest, OptionalFunctions) {
  Tables some;
  some.api.mem_map = [](weft_domain*, weft_endpoint, const weft_blob*, void**,
                        uint64_t*, uint32_t*,
                        weft_status*) -> weft_code { return 0; };
  ExpectCode(some.Adopt().status(), ErrorCode::kPluginBroken,
             "1 of the 5 functions for shared memory");
  Tables half;
  half.api.sleep_end = [](weft_domain*, weft_status*) -> weft_code {
    return 0;
  };
  ExpectCode(half.Adopt().status(), ErrorCode::kPluginBroken, "'sleep_begin'");
  Tables older;  // of a version that had nothing optional
  older.api.struct_size = offsetof(weft_transport_api, wait);
  auto domain = older.transport().Open(Config()).value();
  EXPECT_FALSE(domain->info().shared_memory) << "a claim without functions";
  EXPECT_FALSE(domain->has_wait());
  EXPECT_FALSE(domain->has_sleep());
  EXPECT_EQ(domain->Stats().value().sent_bytes, 0u);
  ExpectCode(domain->Wait(1).status(), ErrorCode::kPluginAbi, "'wait'");
  ExpectCode(domain->AllocShared(1).status(), ErrorCode::kPluginAbi,
             "'mem_alloc_shared'");
  ExpectCode(domain->Map(1, "k").status(), ErrorCode::kPluginAbi, "'mem_map'");
}

TEST(TransportTablesTest, InfoThatCannotBe) {
  Tables tables;
  script.eager_max = 0;
  ExpectCode(Transport::Create(**tables.Adopt()).status(),
             ErrorCode::kTransportFailed, "eager_max 0");
  script.eager_max = 1;
  EXPECT_EQ(tables.transport().info().name, std::string(64, 'n'));
}

TEST(DomainTest, ConfigurationsAreHandedOver) {
  Tables tables;
  Transport transport = tables.transport();
  DomainConfig config = Config();
  config.notify_token = 5;
  config.plan_hash = 6;
  config.secret = Secret::Of("hush");
  auto domain = transport.Open(config).value();
  EXPECT_EQ(script.config.rank, 1u);
  EXPECT_EQ(script.config.world, 4u);
  EXPECT_EQ(script.config.notify_token, 5u);
  EXPECT_EQ(script.config.plan_hash, 6u);
  EXPECT_EQ(script.config.option_count, 1u);
  EXPECT_EQ(script.config.secret.size, 4u);
  script.code = WEFT_INVALID;
  ExpectCode(transport.Open(config).status(), ErrorCode::kBadValue,
             "transport fake, rank 1: domain_open refused its arguments (world "
             "4, options: depth=7): no, rank");
  script.code = WEFT_OOM;
  ExpectCode(transport.Open(config).status(), ErrorCode::kOutOfMemory, "OOM");
}

TEST(DomainTest, FailuresAreTyped) {
  Tables tables;
  auto domain = tables.transport().Open(Config()).value();
  script.code = WEFT_INTERNAL;
  ExpectCode(domain->Listen().status(), ErrorCode::kTransportFailed,
             "transport fake, rank 1, listen: INTERNAL: deaf");
  ExpectCode(domain->Connect(2, "x").status(), ErrorCode::kTransportFailed,
             "to rank 2: transport fake, rank 1, connect: INTERNAL: far");
  ExpectCode(domain->CloseEndpoint(1), ErrorCode::kTransportFailed, "ep_close");
  script.code = WEFT_PEER_LOST;
  ExpectCode(
      domain->PostSend(1, 23, "abcd", 4, 0).status(), ErrorCode::kPeerLost,
      "SEND on tag 23, 4 bytes: transport fake, rank 1, post: PEER_LOST: "
      "post says");
  script.code = WEFT_CANCELED;
  ExpectCode(domain->PostRecv(1, 23, nullptr, 0, 0).status(),
             ErrorCode::kCancelled, "RECV on tag 23");
  script.code = WEFT_AGAIN;
  EXPECT_FALSE(domain->PostRecv(1, 23, nullptr, 0, 0).value());
  script.code = 99;
  TransportEvent event;
  ExpectCode(domain->Poll({&event, 1}).status(), ErrorCode::kTransportFailed,
             "an unknown code");
  script.code = WEFT_OK;
}

TEST(DomainTest, OperationsAreHandedOver) {
  Tables tables;
  auto domain = tables.transport().Open(Config()).value();
  char byte = 0;
  EXPECT_TRUE(domain->PostSend(4, 5, &byte, 1, 6, /*urgent=*/true).value());
  EXPECT_EQ(script.op.kind, WEFT_TRANSPORT_SEND);
  EXPECT_EQ(script.op.flags, WEFT_TRANSPORT_URGENT);
  EXPECT_EQ(script.op.ep, 4u);
  EXPECT_EQ(script.op.tag, 5u);
  EXPECT_EQ(script.op.host, &byte);
  EXPECT_EQ(script.op.length, 1u);
  EXPECT_EQ(script.op.cookie, 6u);
  EXPECT_TRUE(domain->PostRecv(4, 5, &byte, 1, 6).value());
  EXPECT_EQ(script.op.kind, WEFT_TRANSPORT_RECV);
  EXPECT_EQ(script.op.flags, 0u);
}

TEST(DomainTest, EventsAreTyped) {
  Tables tables;
  auto domain = tables.transport().Open(Config()).value();
  weft_transport_event refused = Event(WEFT_EVENT_CONNECTED, WEFT_INVALID, "e");
  refused.reason = WEFT_REFUSED_EPOCH;
  script.events = {Event(WEFT_EVENT_COMPLETED, WEFT_INVALID, "5 met 6"),
                   Event(WEFT_EVENT_COMPLETED, WEFT_CANCELED, "closed"),
                   Event(77, WEFT_OK, "of a later version"),
                   Event(WEFT_EVENT_EP_DOWN, WEFT_PEER_LOST, "gone"),
                   refused,
                   Event(WEFT_EVENT_CONNECTED, WEFT_TIMEOUT, "late"),
                   Event(WEFT_EVENT_ACCEPTED, WEFT_OK, "old words")};
  TransportEvent events[10];
  ASSERT_EQ(domain->Poll(absl::MakeSpan(events)).value(), 6u);
  ExpectCode(events[0].status, ErrorCode::kLengthMismatch,
             "transport fake, rank 1, RECV on tag 17: INVALID: 5 met 6");
  ExpectCode(events[1].status, ErrorCode::kCancelled, "closed");
  ExpectCode(events[2].status, ErrorCode::kPeerLost,
             "connection with rank 3: PEER_LOST: gone");
  EXPECT_EQ(events[2].kind, TransportEventKind::kEndpointDown);
  ExpectCode(events[3].status, ErrorCode::kPeerRefused, "INVALID: e");
  EXPECT_EQ(events[3].reason, WEFT_REFUSED_EPOCH);
  ExpectCode(events[4].status, ErrorCode::kTransportFailed, "TIMEOUT: late");
  EXPECT_TRUE(events[5].status.ok());
  EXPECT_EQ(events[5].endpoint, 9u);
}

TEST(DomainTest, ManyEventsComeInOrder) {
  Tables tables;
  auto domain = tables.transport().Open(Config()).value();
  for (uint64_t i = 0; i < 200; ++i) {
    script.events.push_back(Event(WEFT_EVENT_COMPLETED, WEFT_OK, ""));
    script.events.back().cookie = i;
  }
  std::vector<TransportEvent> events(150);
  ASSERT_EQ(domain->Poll(absl::MakeSpan(events)).value(), 150u);
  for (uint64_t i = 0; i < 150; ++i) EXPECT_EQ(events[i].cookie, i);
  EXPECT_EQ(domain->Poll(absl::MakeSpan(events)).value(), 50u);
  EXPECT_EQ(events[49].cookie, 199u);
  EXPECT_EQ(domain->Poll({}).value(), 0u);
}

TEST(DomainTest, LiesAreErrors) {
  Tables tables;
  auto domain = tables.transport().Open(Config()).value();
  TransportEvent events[2];
  script.extra_count = 3;
  ExpectCode(domain->Poll(absl::MakeSpan(events)).status(),
             ErrorCode::kTransportFailed, "gave 3 events where 2 had room");
  script.extra_count = 0;
  for (uint32_t size : {0u, WEFT_BLOB_MAX + 1, ~0u}) {
    script.blob_size = size;
    ExpectCode(domain->Listen().status(), ErrorCode::kTransportFailed,
               "listen gave");
  }
  script.blob_size = 3;
  EXPECT_EQ(domain->Listen().value(), "abc");
}

TEST(DomainTest, SleepsOnlyOnWhatMayBeAFutex) {
  Tables tables;
  tables.api.sleep_begin = &Fake::SleepBegin;
  tables.api.sleep_end = &Fake::SleepEnd;
  auto domain = tables.transport().Open(Config()).value();
  const uint32_t words[2] = {7, 7};
  script.word = words;
  const SleepWord sleep = domain->SleepBegin().value();
  EXPECT_EQ(sleep.word, words);
  EXPECT_EQ(sleep.seen, 7u);
  EXPECT_EQ(script.asleep, 1);
  EXPECT_TRUE(domain->SleepEnd().ok());
  script.word = nullptr;
  ExpectCode(domain->SleepBegin().status(), ErrorCode::kPluginBroken,
             "transport fake, rank 1, sleep_begin: gave 0x0");
  script.word = reinterpret_cast<const uint32_t*>(
      reinterpret_cast<const char*>(words) + 2);
  ExpectCode(domain->SleepBegin().status(), ErrorCode::kPluginBroken,
             "not a multiple of 4");
  script.code = WEFT_INTERNAL;
  ExpectCode(domain->SleepBegin().status(), ErrorCode::kTransportFailed,
             "sleep_begin: INTERNAL: awake");
  EXPECT_EQ(script.asleep, 0) << "what began has ended";
}

TEST(DomainTest, CloseHandsOverWhatIsStillToCome) {
  Tables tables;
  auto domain = tables.transport().Open(Config()).value();
  script.busy = 2;
  for (uint64_t i = 0; i < 20; ++i) {  // more than one poll takes
    script.events.push_back(Event(WEFT_EVENT_COMPLETED, WEFT_CANCELED, "c"));
  }
  size_t seen = 0;
  const auto count = [&](const TransportEvent& event) { ++seen; };
  EXPECT_TRUE(domain->Close(count).ok());
  EXPECT_EQ(seen, 20u);
  EXPECT_TRUE(domain->Close(count).ok()) << "a second time";
  // Busy without events, and nothing to wait with.
  domain = tables.transport().Open(Config()).value();
  script.busy = 1;
  ExpectCode(domain->Close(count), ErrorCode::kTransportFailed,
             "domain_close: BUSY: not yet");
  EXPECT_TRUE(domain->Close(count).ok());
}

}  // namespace
}  // namespace weft
