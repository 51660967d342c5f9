#include "runtime/observe/profile_report.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/ops/schema.h"
#include "core/plan/kernel_cost.h"

namespace weft::runtime {
namespace {

class ReportMaker {
 public:
  ReportMaker(const ProfileLog& log, const std::vector<Ceiling>& ceilings)
      : log_(log), plan_(log.plan()) {
    report_.program = plan_.program();
    report_.graph = plan_.graph();
    report_.steps = log.steps();
    report_.wall_ns = log.wall_ns();
    report_.ceilings = ceilings;
  }

  absl::StatusOr<ProfileReport> Make() && {
    if (log_.steps() == 0 || log_.wall_ns() == 0) {
      return MakeError(ErrorCode::kInternal, "no step was recorded");
    }
    AddLines();
    for (const auto& worker : log_.workers()) {
      for (const ProfileSlot& slot : worker->slots()) {
        if (slot.calls == 0) continue;
        WEFT_RETURN_IF_ERROR(AddSlot(slot));
      }
    }
    for (ProfileRow& row : report_.rows) Rate(&row);
    for (size_t w = 0; w < log_.workers().size(); ++w) Divide(w);
    // Equal losses in the plan's order: the same text for the same figures.
    std::stable_sort(report_.rows.begin(), report_.rows.end(),
                     [](const ProfileRow& a, const ProfileRow& b) {
                       return a.lost_ns > b.lost_ns;
                     });
    return std::move(report_);
  }

 private:
  const plan::Stream& StreamOf(uint32_t task) const {
    return plan_.streams(
        static_cast<int>(plan_.tasks(static_cast<int>(task)).stream()));
  }
  const plan::Device& DeviceOf(const plan::Stream& stream) const {
    return plan_.devices(static_cast<int>(stream.device()));
  }

  // Workers first, then the streams that have a time of their own.
  void AddLines() {
    report_.lines.resize(log_.workers().size());
    for (size_t w = 0; w < log_.workers().size(); ++w) {
      report_.lines[w].name = absl::StrCat("worker ", w);
    }
    for (int s = 0; s < plan_.streams_size(); ++s) {
      const plan::Stream& stream = plan_.streams(s);
      const std::string& name = stream.name();
      std::string& streams = report_.lines[stream.worker()].streams;
      absl::StrAppend(&streams, streams.empty() ? "" : ", ", name);
      line_of_stream_.push_back(stream.worker());
      if (DeviceOf(stream).inline_()) continue;
      line_of_stream_.back() = report_.lines.size();
      ProfileLine line;
      line.name = name;
      line.worker = false;
      report_.lines.push_back(std::move(line));
    }
  }

  absl::Status AddSlot(const ProfileSlot& slot) {
    const plan::Task& task = plan_.tasks(static_cast<int>(slot.task));
    const size_t line = line_of_stream_[task.stream()];
    // Kernels by their description; all else by task.
    const bool kernel = slot.op >= 0;
    const uint32_t id = kernel ? task.ops(slot.op).kernel() : slot.task;
    auto [at, added] =
        rows_.try_emplace({line, kernel, id}, report_.rows.size());
    if (added) {
      WEFT_ASSIGN_OR_RETURN(ProfileRow row, NewRow(task, slot));
      row.line = line;
      row.device = DeviceOf(StreamOf(slot.task)).name();
      report_.rows.push_back(std::move(row));
    }
    ProfileRow& row = report_.rows[at->second];
    const std::string& node = kernel && !task.ops(slot.op).node().empty()
                                  ? task.ops(slot.op).node()
                                  : task.name();
    if (std::find(row.nodes.begin(), row.nodes.end(), node) ==
        row.nodes.end()) {
      row.nodes.push_back(node);
    }
    row.calls += slot.calls;
    row.ns += slot.ns;
    report_.lines[line].kernels += slot.ns;
    if (!kernel) bytes_[at->second] += slot.bytes * slot.calls;
    return absl::OkStatus();
  }

  absl::StatusOr<ProfileRow> NewRow(const plan::Task& task,
                                    const ProfileSlot& slot) const {
    ProfileRow row;
    if (slot.op < 0) {
      row.op = task.kind() == plan::Task::SOURCE ? "source"
               : task.kind() == plan::Task::SINK ? "sink"
                                                 : "copy";
      return row;
    }
    const plan::Kernel& kernel =
        plan_.kernels(static_cast<int>(task.ops(slot.op).kernel()));
    WEFT_ASSIGN_OR_RETURN(Cost cost, plan::KernelCost(kernel));
    row.op = std::string(OpName(static_cast<OpId>(kernel.op())));
    row.flops = cost.flops;
    row.bytes = cost.bytes;
    if (kernel.outputs_size() != 0) {
      row.shape = absl::StrJoin(kernel.outputs(0).dims(), "x");
    }
    return row;
  }

  const Ceiling* CeilingOf(const std::string& device) const {
    for (const Ceiling& c : report_.ceilings) {
      if (c.device == device) return &c;
    }
    return nullptr;
  }

  // What the row achieved, and what it could have.
  void Rate(ProfileRow* row) {
    const size_t index = static_cast<size_t>(row - report_.rows.data());
    const double calls = static_cast<double>(row->calls);
    // Copies of one task may differ in size: their mean.
    if (auto at = bytes_.find(index); at != bytes_.end()) {
      row->bytes = static_cast<double>(at->second) / calls;
    }
    const double ns = static_cast<double>(row->ns);
    if (row->ns != 0) {
      row->gflops = row->flops * calls / ns;
      row->gbytes = row->bytes * calls / ns;
    }
    double least_ns = 0;
    if (const Ceiling* c = CeilingOf(row->device); c != nullptr) {
      if (c->gflops > 0) {
        row->flops_share = row->gflops / c->gflops;
        least_ns = row->flops * calls / c->gflops;
      }
      if (c->gbytes > 0) {
        row->bytes_share = row->gbytes / c->gbytes;
        least_ns = std::max(least_ns, row->bytes * calls / c->gbytes);
      }
    }
    row->lost_ns = std::max(0.0, ns - least_ns);
  }

  // Splits the window among the parts of a worker and of its device streams.
  void Divide(size_t w) {
    const WorkerProfile& profile = *log_.workers()[w];
    ProfileLine& line = report_.lines[w];
    line.submitting = profile.submit_ns();
    line.data = profile.wait_ns(Waiting::kData);
    line.device = profile.wait_ns(Waiting::kDevice);
    const uint64_t other = profile.wait_ns(Waiting::kOther);
    line.run_time = Rest(profile.run_ns(), {line.kernels, line.submitting,
                                            line.data, line.device, other});
    line.idle = Rest(report_.wall_ns, {line.kernels, line.submitting, line.data,
                                       line.device, line.run_time});
    const uint64_t busy = line.kernels + line.submitting + line.run_time;
    if (busy != 0) {
      line.run_time_share =
          static_cast<double>(line.run_time) / static_cast<double>(busy);
    }
    for (int s = 0; s < plan_.streams_size(); ++s) {
      ProfileLine& own = report_.lines[line_of_stream_[s]];
      if (plan_.streams(s).worker() != w || own.worker) continue;
      own.idle = Rest(report_.wall_ns, {own.kernels});
    }
  }

  static uint64_t Rest(uint64_t whole, std::initializer_list<uint64_t> parts) {
    for (uint64_t part : parts) whole -= std::min(whole, part);
    return whole;
  }

  const ProfileLog& log_;
  const plan::Plan& plan_;
  ProfileReport report_;
  std::vector<size_t> line_of_stream_;
  std::map<std::tuple<size_t, bool, uint32_t>, size_t> rows_;
  std::map<size_t, uint64_t> bytes_;  // by row: of all its calls
};

}  // namespace

absl::StatusOr<ProfileReport> MakeProfileReport(
    const ProfileLog& log, const std::vector<Ceiling>& ceilings) {
  return ReportMaker(log, ceilings).Make();
}

}  // namespace weft::runtime
