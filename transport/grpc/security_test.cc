// Who gets in: secrets, certificates, strangers, what was said before.
#include <sys/stat.h>

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/certificates.h"
#include "transport/grpc/other_side.h"

namespace weft {
namespace {

using Kind = TransportEventKind;

class SecurityTest : public GrpcTest {
 protected:
  std::unique_ptr<Node> WithSecret(uint32_t rank,
                                   const std::string& secret) const {
    DomainConfig config = Config(rank, 2);
    config.secret = Secret::Of(secret);
    return Open(config);
  }

  // A file of this test.
  static std::string File(const std::string& name, const std::string& text,
                          mode_t mode = 0600) {
    const std::string path = absl::StrCat(testing::TempDir(), "/", name);
    unlink(path.c_str());
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }

  // The configuration of `rank` with a certificate of `authority` for rank
  // `named`.
  DomainConfig Tls(uint32_t rank, const JobAuthority& authority,
                   uint32_t named) const {
    const RankCertificate mine = authority.Issue(named).value();
    static int files = 0;
    const std::string id = absl::StrCat(++files);
    DomainConfig config = Config(rank, 2);
    config.options = {
        {"tls_ca", File("ca" + id, authority.certificate(), 0644)},
        {"tls_cert", File("cert" + id, mine.certificate, 0644)},
        {"tls_key", File("key" + id, std::string(mine.key.view()))}};
    return config;
  }
};

INSTANTIATE_TEST_SUITE_P(Grpc, SecurityTest,
                         testing::Values(GrpcCase("plain", {})),
                         TransportCase::Name);

// ---- Secrets ---------------------------------------------------------------

TEST_P(SecurityTest, TheSecretLetsIn) {
  auto a = WithSecret(0, "of this job");
  auto b = WithSecret(1, "of this job");
  EXPECT_EQ(a->domain().info().security, WEFT_SECURITY_JOB);
  EXPECT_EQ(Open(Config(0, 2))->domain().info().security, WEFT_SECURITY_NONE);
  ASSERT_TRUE(Connect(*a, *b));
  Exchange(*a, *b);
}

TEST_P(SecurityTest, AnotherSecretOrNoneDoesNot) {
  auto b = WithSecret(1, "of this job");
  auto open = Open(Config(1, 2));
  const std::string address = b->domain().Listen().value();
  for (const char* secret : {"of that job", ""}) {
    auto a = WithSecret(0, secret);
    const absl::Status status = TryConnect(*a, *b, address);
    EXPECT_TRUE(Is(status, ErrorCode::kPeerRefused));
    EXPECT_EQ(a->Last(Kind::kConnected)->reason, WEFT_REFUSED_JOB);
    EXPECT_TRUE(absl::StrContains(status.message(), "secret")) << status;
    EXPECT_FALSE(absl::StrContains(status.message(), "of th")) << status;
  }
  // Nor does who has one trust a listener that has none.
  auto a = WithSecret(0, "of this job");
  EXPECT_TRUE(Is(TryConnect(*a, *open, open->domain().Listen().value()),
                 ErrorCode::kPeerRefused));
  EXPECT_TRUE(open->others().empty());
  EXPECT_TRUE(b->others().empty()) << "a stranger is no event";
  EXPECT_TRUE(Connect(*a, *b));
}

// With the secret proved, refusals are told and reported as without one.
TEST_P(SecurityTest, WhoHasTheSecretIsToldWhatDiffers) {
  auto b = WithSecret(1, "s");
  DomainConfig config = Config(0, 2);
  config.secret = Secret::Of("s");
  config.plan_hash = 0x123;
  auto a = Open(config);
  EXPECT_FALSE(Connect(*a, *b));
  for (const TransportEvent* event :
       {a->Last(Kind::kConnected), b->Last(Kind::kRefused)}) {
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(event->reason, WEFT_REFUSED_PLAN);
    EXPECT_TRUE(absl::StrContains(event->status.message(), "0x123"));
  }
}

// All that a peer said, said again by somebody who only heard it.
TEST_P(SecurityTest, WhatWasSaidBeforeIsNoProof) {
  DomainConfig config = Config(1, 2);
  config.secret = Secret::Of("of this job");
  config.peer_timeout_ms = 1500;  // so long may a stranger be silent
  auto b = Open(config);
  const Place place(b->domain().Listen().value());
  std::vector<std::string> said;
  {
    auto a = WithSecret(0, "of this job");
    Proxy proxy(place.port);
    ASSERT_TRUE(TryConnect(*a, *b, place.AtPort(proxy.port())).ok());
    Exchange(*a, *b);
    proxy.Stop();
    said = proxy.said();
  }
  ASSERT_EQ(said.size(), 2u) << "control and bulk";
  EXPECT_FALSE(absl::StrContains(absl::StrCat(said[0], said[1]), "of this job"))
      << "the secret itself was sent";
  PumpThese({b.get()}, [&] { return b->Last(Kind::kEndpointDown); });
  const size_t events = b->others().size();
  std::vector<int> again;
  for (const std::string& bytes : said) {
    again.push_back(Knock(place.port));
    ASSERT_GE(again.back(), 0);
    // It may be cut off before all is said.
    (void)send(again.back(), bytes.data(),
               std::min<size_t>(bytes.size(), 20'000), MSG_NOSIGNAL);
  }
  for (int fd : again) {
    EXPECT_TRUE(HangsUp(fd));
    close(fd);
  }
  config = Config(0, 2);
  config.secret = Secret::Of("of this job");
  config.incarnation = 1;
  auto next = Open(config);
  EXPECT_TRUE(Connect(*next, *b));
  EXPECT_EQ(b->others().size(), events + 1)
      << "not even a refusal: that would mean that the proof was taken";
}

// ---- Strangers -------------------------------------------------------------

TEST_P(SecurityTest, StrangersDisturbNobody) {
  Nodes nodes = Mesh(2);
  const Place place(nodes[1]->domain().Listen().value());
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  std::vector<int> silent;
  for (uint64_t i = 0; i < 200; ++i) {
    const int fd = Knock(place.port);
    ASSERT_GE(fd, 0);
    const std::string garbage = Pattern(i, 1 + i * 13);
    const std::string bytes = i % 2 == 0 ? garbage : preface + garbage;
    if (i % 8 == 7) {
      silent.push_back(fd);
      continue;
    }
    (void)send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    EXPECT_TRUE(i % 4 != 0 || HangsUp(fd)) << i;
    close(fd);
  }
  // The right place, and another token.
  auto guesses = Open(Config(0, 2));
  Place guessed = place;
  guessed.token.back() = place.token.back() == '0' ? '1' : '0';
  EXPECT_TRUE(Is(TryConnect(*guesses, *nodes[1], guessed.AtPort(place.port)),
                 ErrorCode::kPeerLost));
  Exchange(*nodes[0], *nodes[1]);
  EXPECT_EQ(nodes[1]->others().size(), 1u) << "a stranger is no event";
  for (int fd : silent) close(fd);
}

// ---- Certificates ----------------------------------------------------------

TEST_P(SecurityTest, CertificatesOfTheJobLetIn) {
  const JobAuthority authority = JobAuthority::Make(1).value();
  auto a = Open(Tls(0, authority, 0));
  DomainConfig config = Tls(1, authority, 1);
  auto b = Open(config);
  EXPECT_EQ(a->domain().info().security, WEFT_SECURITY_PRIVATE);
  ASSERT_TRUE(Connect(*a, *b));
  Exchange(*a, *b);
}

TEST_P(SecurityTest, OthersAreKeptOut) {
  const JobAuthority authority = JobAuthority::Make(1).value();
  const JobAuthority another = JobAuthority::Make(1).value();
  auto b = Open(Tls(1, authority, 1));
  const std::string address = b->domain().Listen().value();
  const auto kept_out = [&](const DomainConfig& config) {
    auto a = Open(config);
    return Is(TryConnect(*a, *b, address), ErrorCode::kPeerLost);
  };
  EXPECT_TRUE(kept_out(Tls(0, another, 0))) << "of another job";
  EXPECT_TRUE(kept_out(Config(0, 2))) << "none";
  EXPECT_TRUE(kept_out(Tls(0, authority, 1))) << "of another rank";
  DomainConfig mixed = Tls(0, another, 0);  // trusts b, and shows another's
  mixed.options[0] = Tls(0, authority, 0).options[0];
  EXPECT_TRUE(kept_out(mixed)) << "the listener does not check";
  EXPECT_TRUE(b->others().empty()) << "a stranger is no event";
  // And who listens is checked as well.
  auto false_one = Open(Tls(1, authority, 0));
  auto a = Open(Tls(0, authority, 0));
  EXPECT_TRUE(
      Is(TryConnect(*a, *false_one, false_one->domain().Listen().value()),
         ErrorCode::kPeerLost));
  EXPECT_TRUE(TryConnect(*a, *b, address).ok());
}

// gRPC would write of each handshake that fails.
TEST_P(SecurityTest, StrangersLeaveNoLine) {
  const JobAuthority authority = JobAuthority::Make(1).value();
  const JobAuthority another = JobAuthority::Make(1).value();
  auto b = Open(Tls(1, authority, 1));
  const std::string address = b->domain().Listen().value();
  testing::internal::CaptureStderr();
  for (const DomainConfig& config : {Config(0, 2), Tls(0, another, 0)}) {
    auto a = Open(config);
    EXPECT_TRUE(Is(TryConnect(*a, *b, address), ErrorCode::kPeerLost));
  }
  b.reset();  // with what it might still say
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_P(SecurityTest, ListensInPublicOnlyWithBoth) {
  const JobAuthority authority = JobAuthority::Make(1).value();
  const std::pair<std::string, std::string> everywhere[] = {
      {"listen", "0.0.0.0:0"}, {"advertise", "127.0.0.1"}};
  for (bool tls : {false, true}) {
    for (bool secret : {false, true}) {
      SCOPED_TRACE(absl::StrCat(tls, secret));
      DomainConfig config = tls ? Tls(1, authority, 1) : Config(1, 2);
      config.options.insert(config.options.end(), std::begin(everywhere),
                            std::end(everywhere));
      if (secret) config.secret = Secret::Of("of this job");
      const absl::Status status = transport().Open(config).status();
      if (tls && secret) {
        EXPECT_TRUE(status.ok()) << status;
        continue;
      }
      EXPECT_TRUE(Is(status, ErrorCode::kBadValue));
      EXPECT_TRUE(
          absl::StrContains(status.message(), "0.0.0.0") &&
          absl::StrContains(status.message(), secret ? "TLS" : "secret") &&
          absl::StrContains(status.message(), "insecure=1"))
          << status;
      config.options.push_back({"insecure", "1"});
      // A warning is for who listens.
      testing::internal::CaptureStderr();
      const std::unique_ptr<Node> node = Open(config);
      EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
      testing::internal::CaptureStderr();
      EXPECT_TRUE(node->domain().Listen().ok());
      EXPECT_TRUE(absl::StrContains(testing::internal::GetCapturedStderr(),
                                    "0.0.0.0 is reached by other machines"));
    }
  }
  DomainConfig config = Config(1, 2);
  config.options = {everywhere[0], {"insecure", "1"}};
  EXPECT_TRUE(absl::StrContains(transport().Open(config).status().message(),
                                "advertise"));
}

TEST_P(SecurityTest, KeysThatOthersReadAreRefused) {
  const JobAuthority authority = JobAuthority::Make(1).value();
  const DomainConfig good = Tls(0, authority, 0);
  EXPECT_TRUE(transport().Open(good).ok());
  const std::pair<size_t, mode_t> bad[] = {
      {0, 0666}, {1, 0664}, {2, 0640}, {2, 0604}};
  for (const auto& [file, mode] : bad) {
    const std::string path = good.options[file].second;
    struct stat before;
    ASSERT_EQ(stat(path.c_str(), &before), 0);
    chmod(path.c_str(), mode);
    const absl::Status status = transport().Open(good).status();
    EXPECT_TRUE(Is(status, ErrorCode::kBadValue)) << file << " " << mode;
    EXPECT_TRUE(absl::StrContains(status.message(), path)) << status;
    chmod(path.c_str(), before.st_mode & 07777);
  }
  // A FIFO is no file, and nobody waits for what would be written to it.
  for (size_t file : {0, 1, 2}) {
    DomainConfig fifo = good;
    fifo.options[file].second = testing::TempDir() + "/fifo";
    ASSERT_TRUE(mkfifo(fifo.options[file].second.c_str(), 0600) == 0 ||
                errno == EEXIST);
    const absl::Status status = transport().Open(fifo).status();
    EXPECT_TRUE(Is(status, ErrorCode::kBadValue)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "not a file")) << status;
  }
  DomainConfig part = good;
  part.options.pop_back();
  EXPECT_TRUE(Is(transport().Open(part).status(), ErrorCode::kBadValue));
  part = good;
  part.options[1].second = File("empty", "no certificate");
  EXPECT_TRUE(Is(transport().Open(part).status(), ErrorCode::kBadValue));
}

}  // namespace
}  // namespace weft
