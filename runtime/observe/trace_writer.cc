#include "runtime/observe/trace_writer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/actor/spec.h"
#include "core/plan/print.h"
#include "nlohmann/json.hpp"

namespace weft::runtime {
namespace {

uint64_t CountBits(const std::string& pattern, size_t end, uint8_t bit) {
  uint64_t n = 0;
  for (size_t i = 0; i < end; ++i) {
    if (static_cast<uint8_t>(pattern[i]) & bit) ++n;
  }
  return n;
}

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

// Microseconds, as the format wants, to the nanosecond.
std::string Us(uint64_t ns) {
  return absl::StrFormat("%d.%03d", ns / 1000, ns % 1000);
}

class Writer {
 public:
  Writer(uint32_t rank, uint64_t origin_ns) : rank_(rank), origin_(origin_ns) {}

  void AddProgram(const TraceLog::Program& program) {
    plan_ = &program.plan;
    acts_.clear();
    producers_.clear();
    std::vector<ActRecord> records;
    for (const auto& worker : program.workers) {
      for (const ActRecord& record : worker->Records()) {
        records.push_back(record);
        acts_[{record.task, record.act}] = record;
      }
    }
    for (int t = 0; t < plan_->tasks_size(); ++t) {
      for (int o = 0; o < plan_->tasks(t).outputs_size(); ++o) {
        producers_[plan_->tasks(t).outputs(o).register_()] = {t, o};
      }
    }
    NameStreams();
    for (const ActRecord& record : records) AddAct(record);
    first_thread_ += static_cast<uint32_t>(plan_->streams_size());
  }

  std::string Finish() && {
    return absl::StrCat("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out_,
                        "\n]}\n");
  }

 private:
  void Event(const std::string& event) {
    if (!out_.empty()) absl::StrAppend(&out_, ",\n");
    absl::StrAppend(&out_, "{\"pid\":", rank_, ",", event, "}");
  }

  uint32_t ThreadOf(int task) const {
    return first_thread_ + plan_->tasks(task).stream();
  }

  void NameStreams() {
    for (int s = 0; s < plan_->streams_size(); ++s) {
      const plan::Stream& stream = plan_->streams(s);
      Event(absl::StrCat(
          "\"ph\":\"M\",\"name\":\"thread_name\",\"tid\":",
          first_thread_ + static_cast<uint32_t>(s), ",\"args\":{\"name\":",
          Quoted(absl::StrCat(
              plan_->program(), " ", stream.name(), " on ",
              plan_->devices(static_cast<int>(stream.device())).name())),
          "}"));
    }
  }

  void AddAct(const ActRecord& record) {
    const int t = static_cast<int>(record.task);
    const plan::Task& task = plan_->tasks(t);
    const std::string& name =
        task.ops_size() != 0 && !task.ops(0).node().empty() ? task.ops(0).node()
                                                            : task.name();
    Event(absl::StrCat(
        "\"ph\":\"X\",\"name\":", Quoted(name), ",\"tid\":", ThreadOf(t),
        ",\"ts\":", Us(record.begin_ns - origin_),
        ",\"dur\":", Us(record.end_ns - record.begin_ns),
        ",\"args\":{\"task\":", record.task, ",\"step\":", record.step,
        ",\"act\":", record.act, PhaseOf(task, record), "}"));
    for (const plan::InputPort& port : task.inputs()) AddArrow(record, port);
  }

  // Of a pipeline: "F2.5" is forward in stage 2 of micro-batch 5.
  std::string PhaseOf(const plan::Task& task, const ActRecord& record) const {
    if (task.phase() == 0) return "";
    return absl::StrCat(",\"phase\":\"", plan::PhaseName(*plan_, task.phase()),
                        ".", record.act % task.acts_per_period(), "\"");
  }

  void AddArrow(const ActRecord& record, const plan::InputPort& port) {
    const std::string& takes = port.pattern().acts();
    const uint64_t n = TakenBefore(takes, record.act);
    if (TakenBefore(takes, record.act + 1) == n) return;  // took nothing
    auto at = producers_.find(port.register_());
    if (at == producers_.end()) return;
    const auto [t, o] = at->second;
    const uint64_t act =
        ActThatGives(plan_->tasks(t).outputs(o).pattern().acts(), n);
    auto from = acts_.find({static_cast<uint32_t>(t), act});
    if (from == acts_.end()) return;
    const uint64_t id = next_arrow_++;
    Event(absl::StrCat("\"ph\":\"s\",\"cat\":\"req\",\"name\":\"req\",\"id\":",
                       id, ",\"tid\":", ThreadOf(t),
                       ",\"ts\":", Us(from->second.begin_ns - origin_)));
    Event(absl::StrCat(
        "\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"req\",\"name\":\"req\",\"id\":",
        id, ",\"tid\":", ThreadOf(static_cast<int>(record.task)),
        ",\"ts\":", Us(record.begin_ns - origin_)));
  }

  const uint32_t rank_;
  const uint64_t origin_;
  const plan::Plan* plan_ = nullptr;
  uint32_t first_thread_ = 0;
  uint64_t next_arrow_ = 1;
  std::map<std::pair<uint32_t, uint64_t>, ActRecord> acts_;
  std::map<uint32_t, std::pair<int, int>> producers_;
  std::string out_;
};

}  // namespace

uint64_t ActThatGives(const std::string& pattern, uint64_t n) {
  if (pattern.empty()) return n;
  const uint64_t per_cycle = CountBits(pattern, pattern.size(), actor::kGive);
  if (per_cycle == 0) return ~uint64_t{0};
  uint64_t left = n % per_cycle;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (!(static_cast<uint8_t>(pattern[i]) & actor::kGive)) continue;
    if (left-- == 0) return n / per_cycle * pattern.size() + i;
  }
  return ~uint64_t{0};
}

uint64_t TakenBefore(const std::string& pattern, uint64_t act) {
  if (pattern.empty()) return act;
  return act / pattern.size() *
             CountBits(pattern, pattern.size(), actor::kTake) +
         CountBits(pattern, act % pattern.size(), actor::kTake);
}

std::string ChromeTraceJson(const TraceLog& log, uint32_t rank) {
  uint64_t origin = ~uint64_t{0};
  for (const auto& program : log.programs()) {
    for (const auto& worker : program->workers) {
      for (const ActRecord& record : worker->Records()) {
        origin = std::min(origin, record.begin_ns);
      }
    }
  }
  Writer writer(rank, origin);
  for (const auto& program : log.programs()) writer.AddProgram(*program);
  return std::move(writer).Finish();
}

}  // namespace weft::runtime
