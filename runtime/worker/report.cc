// What a worker says of itself when it seems to stand still.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/worker/worker.h"

namespace weft::runtime {
namespace {

constexpr size_t kMaxLines = 40;

}  // namespace

std::string Worker::DescribeActor(uint32_t i, const char* what) const {
  if (i >= table_.size()) return absl::StrCat("worker ", config_.number);
  uint32_t acts_per_period = std::max(table_.acts_per_period(i), 1u);
  uint64_t acts = table_.acts(i);
  uint64_t last = acts == 0 ? 0 : acts - 1;
  return absl::StrCat(
      what, " ",
      executor_.Describe(executor_.record(i), 0, StepOf(last / acts_per_period),
                         static_cast<uint32_t>(last % acts_per_period)));
}

void Worker::RequestReport() {
  report_wanted_.store(true, std::memory_order_relaxed);
  config_.ports[config_.number].word->Post();
}

std::string Worker::TakeReport() {
  MutexLock lock(&mu_);
  return std::move(report_);
}

std::string Worker::CurrentAct() const {
  uint32_t i = current_.load(std::memory_order_relaxed);
  if (i == actor::kNoActor) return "between acts";
  const uint32_t task = executor_.record(i).task;
  return absl::StrCat("inside an act of ", config_.view->TaskName(task));
}

void Worker::WriteReport() {
  report_wanted_.store(false, std::memory_order_relaxed);
  const plan::PlanView& view = *config_.view;
  std::vector<std::string> lines;
  for (const auto& async : async_) {
    if (async->held.empty()) continue;
    lines.push_back(
        absl::StrCat("  a device has done tick ", async->done, " of ",
                     async->marked, "; first awaited: ",
                     DescribeActor(async->held.Front().actor, "the act of")));
  }
  for (uint32_t i = 0; i < table_.size() && lines.size() < kMaxLines; ++i) {
    const uint32_t task = executor_.record(i).task;
    std::vector<std::string> lacks;
    for (const actor::Blocker& b : table_.WhyBlocked(i)) {
      const int port = static_cast<int>(b.port);
      switch (b.kind) {
        case actor::Blocker::kInput: {
          if (port >= view.task(task).inputs_size()) {
            const plan::Channel& channel = view.proto().channels(
                static_cast<int>(view.task(task).channel()) - 1);
            lacks.push_back(absl::StrCat(
                channel.receives() ? "the data of " : "a credit of ",
                plan::ChannelName(channel)));
            break;
          }
          uint32_t reg = view.task(task).inputs(port).register_();
          lacks.push_back(absl::StrCat("data from ",
                                       view.TaskName(view.producer(reg).task)));
          break;
        }
        case actor::Blocker::kCredit: {
          uint32_t reg = view.task(task).outputs(port).register_();
          std::vector<std::string> readers;
          for (plan::Use use : view.readers(reg)) {
            readers.push_back(view.TaskName(use.task));
          }
          lacks.push_back(absl::StrCat("a free copy of ",
                                       view.RegisterName(reg), ", read by ",
                                       absl::StrJoin(readers, ", ")));
          break;
        }
        case actor::Blocker::kTurn: {
          uint32_t turn = table_.Turn(table_.stream(i));
          if (turn >= table_.size()) break;
          lacks.push_back(
              absl::StrCat("its turn, which is that of ",
                           view.TaskName(executor_.record(turn).task)));
          break;
        }
        case actor::Blocker::kLease:
        case actor::Blocker::kAborted:
          break;  // not something to wait for
      }
    }
    if (lacks.empty()) continue;
    lines.push_back(absl::StrCat("  ", view.TaskName(task), " after ",
                                 table_.acts(i), " acts waits for ",
                                 absl::StrJoin(lacks, "; ")));
  }
  {
    MutexLock lock(&mu_);
    report_ = absl::StrCat("worker ", config_.number, ":\n",
                           absl::StrJoin(lines, "\n"));
  }
  Report(actor::MessageKind::kStart);
}

}  // namespace weft::runtime
