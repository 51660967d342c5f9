// What a coordinator decides, with time as the test says.

#include "runtime/rendezvous/meeting.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/rendezvous/proof.h"
#include "runtime/rendezvous/sealed.h"

namespace weft::runtime {
namespace {

using rendezvous::Hello;
using rendezvous::ToCoordinator;
using rendezvous::ToRank;
using ::testing::HasSubstr;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr char kSecret[] = "0123456789abcdef";

class MeetingTest : public ::testing::Test, public Meeting::Outlet {
 protected:
  void Open(uint32_t ranks) {
    options_.ranks = ranks;
    options_.job_id = "job";
    options_.epoch = 3;
    options_.secret = Secret::Of(kSecret);
    options_.join_ns = 60 * kSecond;
    sent_.clear();
    closed_.clear();
    meeting_ =
        std::make_unique<Meeting>(options_, /*loopback=*/true, this, now_);
  }

  void Send(uint64_t visitor, ToRank message) override {
    sent_[visitor].push_back(std::move(message));
  }
  void Close(uint64_t visitor) override { closed_.insert(visitor); }

  static Hello HelloOf(uint32_t rank, uint32_t ranks) {
    Hello hello;
    hello.set_rank(rank);
    hello.set_ranks(ranks);
    hello.set_job_id("job");
    hello.set_epoch(3);
    hello.set_incarnation(10);
    hello.set_host(absl::StrCat("host", rank));
    hello.set_boot_id(BootId());
    hello.set_pid(100 + rank);
    rendezvous::Fact* fact = hello.add_facts();
    fact->set_name("job file");
    fact->set_value("seed: 1\nepochs: 2\n");
    return hello;
  }

  void Enter(uint64_t visitor, const Hello& hello,
             const std::string& secret = kSecret) {
    meeting_->Arrive(visitor, now_);
    const std::string challenge = sent_[visitor].back().challenge().nonce();
    ToCoordinator message;
    rendezvous::Enter* enter = message.mutable_enter();
    enter->set_hello(hello.SerializeAsString());
    enter->set_nonce("nonce");
    enter->set_proof(ProofOfRank(secret, challenge, "nonce", enter->hello()));
    meeting_->Hear(visitor, message, now_);
  }

  // Visitor 10 + r is rank r.
  void JoinAll(uint32_t ranks) {
    Open(ranks);
    for (uint32_t r = 0; r < ranks; ++r) Enter(10 + r, HelloOf(r, ranks));
    ASSERT_TRUE(Last(10).has_welcome());
  }

  void Beat(uint64_t visitor, uint64_t step = 0) {
    ToCoordinator message;
    message.mutable_beat()->set_step(step);
    message.mutable_beat()->set_act(100 * step);
    meeting_->Hear(visitor, message, now_);
  }

  void Gather(uint64_t visitor, uint64_t call, const std::string& key,
              const std::string& data, bool last = true) {
    ToCoordinator message;
    rendezvous::Part* part = message.mutable_gather();
    part->set_call(call);
    part->set_key(key);
    part->set_data(data);
    part->set_last(last);
    part->set_deadline_ns(5 * kSecond);
    meeting_->Hear(visitor, message, now_);
  }

  void SayFailure(uint64_t visitor, ErrorCode code, const std::string& text,
                  bool weak) {
    ToCoordinator message;
    message.mutable_failure()->set_code(static_cast<uint32_t>(code));
    message.mutable_failure()->set_text(text);
    message.mutable_failure()->set_weak(weak);
    meeting_->Hear(visitor, message, now_);
  }

  // As a coordinator does; the ranks in `beating` say that they live.
  void Pass(uint64_t ns, const std::vector<uint64_t>& beating) {
    const uint64_t until = now_ + ns;
    while (now_ < until) {
      now_ = std::min(until, now_ + kSecond / 4);
      for (uint64_t visitor : beating) Beat(visitor);
      meeting_->OnTime(now_);
    }
  }

  const ToRank& Last(uint64_t visitor) { return sent_[visitor].back(); }
  // All values that a call got, by rank.
  std::map<uint32_t, std::string> Values(uint64_t visitor, uint64_t call) {
    std::map<uint32_t, std::string> values;
    for (const ToRank& message : sent_[visitor]) {
      if (!message.has_value() || message.value().call() != call) continue;
      values[message.value().rank()] += message.value().data();
    }
    return values;
  }
  std::string Refusal(uint64_t visitor) {
    EXPECT_TRUE(closed_.count(visitor));
    EXPECT_TRUE(Last(visitor).has_refused());
    return Last(visitor).refused().text();
  }
  std::string Failure() {
    return meeting_->failure().has_value()
               ? std::string(meeting_->failure()->status.message())
               : "";
  }

  uint64_t now_ = 1000 * kSecond;
  CoordinatorOptions options_;
  std::unique_ptr<Meeting> meeting_;
  std::map<uint64_t, std::vector<ToRank>> sent_;
  std::set<uint64_t> closed_;
};

TEST_F(MeetingTest, AllAreWelcomeOnceAllAreThere) {
  Open(3);
  Enter(10, HelloOf(2, 3));
  Enter(11, HelloOf(0, 3));
  EXPECT_TRUE(Last(10).has_accepted());
  Enter(12, HelloOf(1, 3));
  for (uint64_t visitor : {10, 11, 12}) {
    EXPECT_TRUE(Last(visitor).has_welcome());
  }
  EXPECT_EQ(meeting_->progress()[2].pid, 102);
  EXPECT_FALSE(meeting_->over());
  ToCoordinator bye;
  bye.mutable_bye();
  for (uint64_t visitor : {10, 11, 12}) {
    meeting_->Hear(visitor, bye, now_);
    EXPECT_TRUE(Last(visitor).has_farewell());
    EXPECT_TRUE(closed_.count(visitor));
    meeting_->Left(visitor, now_);
  }
  EXPECT_TRUE(meeting_->over());
  EXPECT_EQ(Failure(), "");
}

TEST_F(MeetingTest, StrangersAreRefusedAndDisturbNobody) {
  JoinAll(2);
  Enter(20, HelloOf(1, 2), "another secret!!");
  EXPECT_THAT(Refusal(20), HasSubstr("does not have the secret"));
  Hello hello = HelloOf(1, 2);
  hello.set_job_id("other");
  Enter(21, hello);
  EXPECT_THAT(Refusal(21), HasSubstr("is of job 'other'"));
  hello = HelloOf(1, 2);
  hello.set_epoch(2);
  Enter(22, hello);
  EXPECT_THAT(Refusal(22), HasSubstr("is of start 2 of the job, this is start "
                                     "3"));
  EXPECT_FALSE(Last(22).refused().early());
  hello.set_epoch(4);
  Enter(27, hello);
  EXPECT_TRUE(Last(27).refused().early());
  hello = HelloOf(1, 2);
  hello.set_boot_id("another machine");
  Enter(23, hello);
  EXPECT_THAT(Refusal(23), HasSubstr("came by a loopback address"));
  // A second one, and one from before.
  Enter(24, HelloOf(1, 2));
  EXPECT_THAT(Refusal(24),
              HasSubstr("rank 1 (host host1, pid 101) came, rank 1 (host "
                        "host1, pid 101) is there already"));
  hello = HelloOf(1, 2);
  hello.set_incarnation(9);
  Enter(25, hello);
  EXPECT_THAT(Refusal(25), HasSubstr("and younger (incarnation 10, this one's "
                                     "is 9)"));
  // What it said once to another challenge.
  meeting_->Arrive(26, now_);
  ToCoordinator replay;
  replay.mutable_enter()->set_hello(HelloOf(1, 2).SerializeAsString());
  replay.mutable_enter()->set_nonce("nonce");
  replay.mutable_enter()->set_proof(
      ProofOfRank(kSecret, sent_[24][0].challenge().nonce(), "nonce",
                  replay.enter().hello()));
  meeting_->Hear(26, replay, now_);
  EXPECT_THAT(Refusal(26), HasSubstr("does not have the secret"));
  // One who speaks out of turn, and one who says nothing.
  meeting_->Arrive(27, now_);
  Beat(27);
  EXPECT_THAT(Refusal(27), HasSubstr("before it said hello"));
  meeting_->Arrive(28, now_);
  Pass(6 * kSecond, {10, 11});
  EXPECT_THAT(Refusal(28), HasSubstr("said no hello in time"));
  EXPECT_EQ(Failure(), "");
  EXPECT_FALSE(closed_.count(10));
}

// However many come, the first of those that say nothing go, and ranks do not.
TEST_F(MeetingTest, StrangersLeaveRoom) {
  Open(2);
  Enter(10, HelloOf(0, 2));
  constexpr uint64_t kMany = 9000;
  for (uint64_t v = 0; v < kMany; ++v) meeting_->Arrive(100 + v, now_);
  EXPECT_TRUE(closed_.count(100));
  EXPECT_FALSE(closed_.count(100 + kMany - 1));
  Enter(100 + kMany, HelloOf(1, 2));
  EXPECT_TRUE(Last(10).has_welcome());
  EXPECT_TRUE(Last(100 + kMany).has_welcome());
  EXPECT_FALSE(closed_.count(10));
}

TEST_F(MeetingTest, RanksThatDifferFailOnAllWithBothValues) {
  struct Case {
    const char* text;
    std::function<void(Hello*)> change;
  };
  for (const Case& c : std::vector<Case>{
           {"ranks differ in the job file: rank 1 (host host1, pid 101) has "
            "'epochs: 3', rank 0 (host host0, pid 100) has 'epochs: 2'",
            [](Hello* h) {
              h->mutable_facts(0)->set_value("seed: 1\nepochs: 3\n");
            }},
           {"has nothing more, rank 0",
            [](Hello* h) {
              h->mutable_facts(0)->set_value("seed: 1\nepochs: 2");
            }},
           {"rank 1 (host host1, pid 101) tells of its 'x'",
            [](Hello* h) { h->mutable_facts(0)->set_name("x"); }},
           {"tells of its '', rank 0", [](Hello* h) { h->clear_facts(); }},
           {"was started as one of 4 ranks", [](Hello* h) { h->set_ranks(4); }},
           {"was started as one of 3 ranks, the coordinator",
            [](Hello* h) { h->set_rank(3); }},
           {"there are two of one rank: rank 0 (host host1, pid 101) and rank "
            "0 (host host0, pid 100)",
            [](Hello* h) { h->set_rank(0); }}}) {
    SCOPED_TRACE(c.text);
    Open(3);
    Enter(10, HelloOf(0, 3));
    Hello hello = HelloOf(1, 3);
    c.change(&hello);
    Enter(11, hello);
    Enter(12, HelloOf(2, 3));  // comes when it is over already
    for (uint64_t visitor : {10, 11, 12}) {
      ASSERT_TRUE(Last(visitor).has_failure());
      EXPECT_TRUE(Last(visitor).failure().common());
      EXPECT_EQ(Last(visitor).failure().code(),
                static_cast<uint32_t>(ErrorCode::kBadLaunch));
    }
    EXPECT_THAT(Failure(), HasSubstr(c.text));
  }
}

TEST_F(MeetingTest, WhoIsMissingIsNamed) {
  Open(4);
  Enter(10, HelloOf(0, 4));
  Enter(12, HelloOf(2, 4));
  Pass(59 * kSecond, {10, 12});
  EXPECT_EQ(Failure(), "");
  EXPECT_FALSE(meeting_->over());
  Pass(2 * kSecond, {10, 12});
  EXPECT_EQ(Failure(),
            "after 60 s these ranks have not come: 1, 3 (2 of 4 are there)");
  EXPECT_TRUE(Last(12).failure().common());
  EXPECT_FALSE(meeting_->failure()->came);
  meeting_->Left(10, now_);
  meeting_->Left(12, now_);
  EXPECT_TRUE(meeting_->over());
}

TEST_F(MeetingTest, DeadRanksAreTold) {
  JoinAll(3);
  meeting_->Left(11, now_);
  EXPECT_EQ(Failure(),
            "rank 1 (host host1, pid 101) is lost: its connection ended "
            "without a goodbye");
  for (uint64_t visitor : {10, 12}) EXPECT_TRUE(Last(visitor).has_failure());
  EXPECT_EQ(meeting_->failure()->rank, 1u);
  EXPECT_TRUE(IsError(meeting_->failure()->status, ErrorCode::kPeerLost));

  JoinAll(3);
  Pass(3 * kSecond, {10, 12});
  EXPECT_EQ(Failure(), "");
  Beat(11, 42);
  Pass(3 * kSecond, {10, 12});
  EXPECT_EQ(Failure(), "");
  Pass(kSecond, {10, 12});
  EXPECT_EQ(Failure(),
            "rank 1 (host host1, pid 101) is lost: it has been silent for 3.5 "
            "s, at step 42, act 4200");
  // It is told, but nobody waits for it to hear.
  EXPECT_TRUE(Last(11).has_failure());
  EXPECT_TRUE(closed_.count(11));
  EXPECT_FALSE(meeting_->over());
  meeting_->Left(10, now_);
  EXPECT_FALSE(meeting_->over());
  Pass(4 * kSecond, {});  // the third was lost with it
  EXPECT_TRUE(meeting_->over());
}

// Who takes a short silence for death hears more often.
TEST_F(MeetingTest, BeatsAsOftenAsTheLeastPatientNeeds) {
  Open(2);
  meeting_->OnTime(now_);
  EXPECT_EQ(meeting_->due(), now_ + BeatNs(options_.silence_ns) / 2);
  Hello hello = HelloOf(0, 2);
  hello.set_silence_ns(kSecond / 5);
  Enter(10, hello);
  Enter(11, HelloOf(1, 2));
  const uint64_t beat = BeatNs(kSecond / 5);
  EXPECT_LT(beat, BeatNs(options_.silence_ns));
  EXPECT_LE(meeting_->due(), now_ + beat);
  int beats = 0;
  for (const uint64_t end = now_ + kSecond; now_ < end;) {
    now_ = meeting_->due();
    Beat(10);
    Beat(11);
    const size_t before = sent_[10].size();
    meeting_->OnTime(now_);
    if (sent_[10].size() > before && Last(10).has_beat()) ++beats;
  }
  EXPECT_GE(beats, static_cast<int>(kSecond / beat) - 2);
}

// A coordinator that did not run knows nothing of what others did meanwhile.
TEST_F(MeetingTest, ItsOwnPausesAreNobodysSilence) {
  JoinAll(2);
  Pass(2 * kSecond, {10, 11});
  now_ += 100 * kSecond;
  meeting_->OnTime(now_);
  EXPECT_EQ(Failure(), "");
  Pass(5 * kSecond / 2, {10});
  EXPECT_EQ(Failure(), "");
  Pass(2 * kSecond, {10});
  EXPECT_THAT(Failure(), HasSubstr("rank 1 (host host1, pid 101) is lost"));
}

TEST_F(MeetingTest, TheCauseBeatsWhoOnlyHeardOfIt) {
  // The cause comes later than one that lost its author.
  JoinAll(3);
  SayFailure(10, ErrorCode::kPeerLost, "rank 1 is lost", true);
  EXPECT_EQ(Failure(), "");
  meeting_->Left(10, now_);
  SayFailure(11, ErrorCode::kOutOfMemory, "too big", false);
  EXPECT_EQ(Failure(),
            "rank 1 (host host1, pid 101) failed with WEFT-3001: too big");
  EXPECT_EQ(meeting_->failure()->rank, 1u);
  EXPECT_TRUE(Last(12).has_failure());
  // A second cause is none.
  SayFailure(12, ErrorCode::kNotFinite, "nan", false);
  EXPECT_EQ(meeting_->failure()->rank, 1u);

  // A death, the same.
  JoinAll(3);
  SayFailure(10, ErrorCode::kPeerLost, "rank 1 is lost", true);
  SayFailure(12, ErrorCode::kPeerLost, "rank 1 is lost", true);
  meeting_->Left(12, now_);
  EXPECT_EQ(Failure(), "");
  meeting_->Left(11, now_);
  EXPECT_THAT(Failure(), HasSubstr("rank 1 (host host1, pid 101) is lost"));

  // No cause comes: what there is has to do.
  JoinAll(2);
  SayFailure(10, ErrorCode::kPeerLost, "no way to rank 1", true);
  Pass(kSecond / 4, {10, 11});
  EXPECT_EQ(Failure(), "");
  Pass(kSecond / 2, {10, 11});
  EXPECT_EQ(Failure(), "rank 0 (host host0, pid 100): no way to rank 1");

  // Somebody outside knows.
  JoinAll(2);
  meeting_->Fail(1, MakeError(ErrorCode::kPeerLost, "rank 1: signal 9"));
  EXPECT_EQ(Last(10).failure().text(), "rank 1: signal 9");
}

TEST_F(MeetingTest, ValuesOfAllGoToAll) {
  JoinAll(2);
  Gather(11, 1, "address", "b1", /*last=*/false);
  Gather(11, 1, "address", "b2");
  EXPECT_TRUE(Values(11, 1).empty());
  const std::string large(2 * kPartBytes + 1, 'a');
  Gather(10, 7, "address", large);
  const std::map<uint32_t, std::string> all = {{0, large}, {1, "b1b2"}};
  EXPECT_EQ(Values(10, 7), all);
  EXPECT_EQ(Values(11, 1), all);
  for (const ToRank& message : sent_[11]) {
    EXPECT_LE(message.value().data().size(), kPartBytes);
  }
  // The key is free again; one who comes twice is told.
  Gather(10, 8, "address", "");
  Gather(10, 9, "address", "");
  EXPECT_THAT(Last(10).missing().text(),
              HasSubstr("rank 0 meets for 'address' twice"));
  Pass(4 * kSecond, {10, 11});
  EXPECT_FALSE(Last(10).has_missing() && Last(10).missing().call() == 8);
  Pass(2 * kSecond, {10, 11});
  bool told = false;
  for (const ToRank& message : sent_[10]) {
    if (!message.has_missing() || message.missing().call() != 8) continue;
    told = true;
    EXPECT_EQ(message.missing().text(),
              "after 5 s of waiting for 'address', these ranks have not come: "
              "1");
  }
  EXPECT_TRUE(told);
}

TEST_F(MeetingTest, ValuesAreFoundByTheirKeys) {
  JoinAll(2);
  ToCoordinator get;
  get.mutable_get()->set_call(5);
  get.mutable_get()->set_key("run");
  get.mutable_get()->set_deadline_ns(kSecond);
  meeting_->Hear(10, get, now_);
  ToCoordinator put;
  put.mutable_put()->set_key("run");
  put.mutable_put()->set_data("runs/x");
  put.mutable_put()->set_last(true);
  meeting_->Hear(11, put, now_);
  EXPECT_EQ(Last(10).value().data(), "runs/x");
  EXPECT_EQ(Last(10).value().call(), 5u);
  meeting_->Hear(11, get, now_);
  EXPECT_EQ(Last(11).value().data(), "runs/x");
  get.mutable_get()->set_key("nothing");
  get.mutable_get()->set_call(6);
  meeting_->Hear(10, get, now_);
  Pass(2 * kSecond, {10, 11});
  bool told = false;
  for (const ToRank& message : sent_[10]) {
    told = told || (message.has_missing() && message.missing().call() == 6);
  }
  EXPECT_TRUE(told);
}

TEST(SealedTest, OpensForThoseWhoKnow) {
  const std::string text = "-----BEGIN KEY-----\n0123456789";
  const std::string sealed = Seal(kSecret, "key of rank 1", text);
  EXPECT_EQ(sealed.find("BEGIN"), std::string::npos);
  EXPECT_NE(Seal(kSecret, "key of rank 1", text), sealed);
  auto opened = Unseal(kSecret, "key of rank 1", sealed);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(*opened == text);
  EXPECT_TRUE(Unseal(kSecret, "x", Seal(kSecret, "x", "")).ok());
  EXPECT_FALSE(Unseal(kSecret, "key of rank 2", sealed).ok());
  EXPECT_FALSE(Unseal("another", "key of rank 1", sealed).ok());
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string damaged = sealed;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_TRUE(IsError(Unseal(kSecret, "key of rank 1", damaged).status(),
                        ErrorCode::kPeerRefused));
    EXPECT_FALSE(Unseal(kSecret, "key of rank 1", sealed.substr(0, i)).ok());
  }
}

// What ranks say they want counts; the coordinator may be one that knows less.
TEST_F(MeetingTest, RanksSayHowLongTheyWait) {
  Open(2);
  Hello hello = HelloOf(0, 2);
  hello.set_join_ns(90 * kSecond);
  hello.set_silence_ns(20 * kSecond);
  Enter(10, hello);
  Pass(80 * kSecond, {10});
  EXPECT_EQ(Failure(), "");
  Enter(11, HelloOf(1, 2));
  Pass(3 * kSecond, {});
  Beat(11);
  EXPECT_EQ(Failure(), "");
  Pass(16 * kSecond, {11});
  EXPECT_EQ(Failure(), "");
  Pass(2 * kSecond, {11});
  EXPECT_THAT(Failure(), HasSubstr("silent for 20 s"));
}

TEST_F(MeetingTest, ForEverIsNotAtOnce) {
  constexpr uint64_t kForEver = std::numeric_limits<uint64_t>::max();
  now_ = 7 * kSecond;
  Open(2);
  Hello hello = HelloOf(0, 2);
  hello.set_join_ns(kForEver);
  hello.set_silence_ns(kForEver);
  Enter(10, hello);
  Pass(80 * kSecond, {});
  EXPECT_EQ(Failure(), "");
  Enter(11, HelloOf(1, 2));
  ToCoordinator gather;
  gather.mutable_gather()->set_key("k");
  gather.mutable_gather()->set_last(true);
  gather.mutable_gather()->set_deadline_ns(kForEver);
  meeting_->Hear(10, gather, now_);
  ToCoordinator get;
  get.mutable_get()->set_key("v");
  get.mutable_get()->set_deadline_ns(kForEver);
  meeting_->Hear(10, get, now_);
  Pass(80 * kSecond, {11});
  EXPECT_EQ(Failure(), "");
  for (const ToRank& message : sent_[10]) EXPECT_FALSE(message.has_missing());
}

TEST_F(MeetingTest, ASecondProcessOfARankThatIsDoneDisturbsNobody) {
  JoinAll(2);
  ToCoordinator bye;
  bye.mutable_bye();
  meeting_->Hear(11, bye, now_);
  meeting_->Left(11, now_);
  Enter(21, HelloOf(1, 2));
  ASSERT_TRUE(Last(21).has_refused());
  EXPECT_THAT(Last(21).refused().text(), HasSubstr("is done"));
  EXPECT_EQ(Failure(), "");
  EXPECT_FALSE(meeting_->over());
  meeting_->Hear(10, bye, now_);
  meeting_->Left(10, now_);
  EXPECT_TRUE(meeting_->over());
}

}  // namespace
}  // namespace weft::runtime
