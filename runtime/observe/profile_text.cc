// The two printed forms of a profile.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "runtime/observe/profile_report.h"

namespace weft::runtime {
namespace {

constexpr size_t kNamesShown = 3;

class Printer {
 public:
  explicit Printer(const ProfileReport& report) : report_(report) {}

  std::string Text(uint64_t top) && {
    const double ms = PerStep(static_cast<double>(report_.wall_ns));
    absl::StrAppendFormat(&out_, "program '%s' of '%s': %d steps of %.3f ms\n",
                          report_.program, report_.graph, report_.steps, ms);
    for (const Ceiling& c : report_.ceilings) AddCeiling(c);
    AddTable(top);
    for (const ProfileLine& line : report_.lines) AddLine(line);
    return std::move(out_);
  }

 private:
  // ms a step.
  double PerStep(double ns) const {
    return ns / 1e6 / static_cast<double>(report_.steps);
  }
  double Percent(double ns) const {
    return 100 * ns / static_cast<double>(report_.wall_ns);
  }
  // A figure and its share of a ceiling; blank where there is none to give.
  static std::string Rate(double rate, double share) {
    if (rate == 0) return absl::StrFormat("%8s %6s", "", "");
    if (share == 0) return absl::StrFormat("%8.1f %6s", rate, "");
    return absl::StrFormat("%8.1f %5.0f%%", rate, 100 * share);
  }

  void AddCeiling(const Ceiling& c) {
    auto most = [](double value) {
      return value > 0 ? absl::StrFormat("%.1f", value) : std::string("?");
    };
    absl::StrAppendFormat(
        &out_, "most of %s, on this device, now: %s GFLOP/s, %s GB/s (%s)\n",
        c.device, most(c.gflops), most(c.gbytes), c.how);
  }

  bool ManyLines() const {
    size_t first = report_.rows.empty() ? 0 : report_.rows[0].line;
    return std::any_of(report_.rows.begin(), report_.rows.end(),
                       [&](const ProfileRow& r) { return r.line != first; });
  }

  void AddTable(uint64_t top) {
    const bool where = ManyLines();
    size_t where_width = 5;
    for (const ProfileRow& row : report_.rows) {
      where_width = std::max(where_width, report_.lines[row.line].name.size());
    }
    auto column = [&](const std::string& text) {
      return where ? absl::StrFormat("  %-*s", static_cast<int>(where_width),
                                     text)
                   : std::string();
    };
    absl::StrAppendFormat(&out_, "\n%8s %8s %7s %6s %8s %6s %8s %6s%s  %s\n",
                          "lost ms", "ms", "of step", "calls", "GFLOP/s",
                          "of max", "GB/s", "of max", column("where"),
                          "op, first result, nodes");
    const size_t shown = top == 0 ? report_.rows.size()
                                  : std::min<size_t>(top, report_.rows.size());
    for (size_t i = 0; i < shown; ++i) {
      const ProfileRow& row = report_.rows[i];
      AddFigures(row.lost_ns, static_cast<double>(row.ns), row.calls);
      absl::StrAppend(&out_, " ", Rate(row.gflops, row.flops_share), " ",
                      Rate(row.gbytes, row.bytes_share),
                      column(report_.lines[row.line].name), "  ", row.op);
      if (!row.shape.empty()) absl::StrAppend(&out_, " ", row.shape);
      absl::StrAppend(&out_, "  ", Names(row.nodes), "\n");
    }
    double lost = 0, ns = 0;
    uint64_t calls = 0;
    for (size_t i = shown; i < report_.rows.size(); ++i) {
      lost += report_.rows[i].lost_ns;
      ns += static_cast<double>(report_.rows[i].ns);
      calls += report_.rows[i].calls;
    }
    if (shown == report_.rows.size()) return;
    AddFigures(lost, ns, calls);
    absl::StrAppend(&out_, " ", Rate(0, 0), " ", Rate(0, 0), column(""), "  ",
                    report_.rows.size() - shown, " more\n");
  }

  void AddFigures(double lost_ns, double ns, uint64_t calls) {
    absl::StrAppendFormat(
        &out_, "%8.3f %8.3f %6.1f%% %6.4g", PerStep(lost_ns), PerStep(ns),
        Percent(ns),
        static_cast<double>(calls) / static_cast<double>(report_.steps));
  }

  static std::string Names(const std::vector<std::string>& nodes) {
    const size_t n = std::min(nodes.size(), kNamesShown);
    std::string names =
        absl::StrJoin(nodes.begin(), nodes.begin() + static_cast<int>(n), ", ");
    if (n < nodes.size()) {
      absl::StrAppend(&names, " and ", nodes.size() - n, " more");
    }
    return names;
  }

  void AddLine(const ProfileLine& line) {
    absl::StrAppend(&out_, "\n", line.name);
    if (!line.streams.empty()) absl::StrAppend(&out_, " (", line.streams, ")");
    absl::StrAppend(&out_, "\n");
    AddPart("kernels", line.kernels);
    if (line.worker) {
      if (line.submitting != 0) AddPart("submitting", line.submitting);
      AddPart("run-time", line.run_time,
              absl::StrFormat("%.2f%% of the time that it was busy",
                              100 * line.run_time_share));
      AddPart("waiting for data", line.data);
      if (line.device != 0) AddPart("waiting for a device", line.device);
    }
    AddPart("idle", line.idle);
    AddPart("a step", line.kernels + line.submitting + line.run_time +
                          line.data + line.device + line.idle);
  }

  void AddPart(const char* name, uint64_t ns, const std::string& note = "") {
    const double value = static_cast<double>(ns);
    absl::StrAppendFormat(&out_, "%17.3f %6.1f%%  %s%s%s\n", PerStep(value),
                          Percent(value), name, note.empty() ? "" : ": ", note);
  }

  const ProfileReport& report_;
  std::string out_;
};

using Json = nlohmann::ordered_json;

}  // namespace

std::string ProfileText(const ProfileReport& report, uint64_t top) {
  return Printer(report).Text(top);
}

std::string ProfileJson(const ProfileReport& report) {
  const double steps = static_cast<double>(report.steps);
  auto ms = [&](double ns) { return ns / 1e6 / steps; };
  Json out = {{"program", report.program},
              {"graph", report.graph},
              {"steps", report.steps},
              {"step_ms", ms(static_cast<double>(report.wall_ns))}};
  out["ceilings"] = Json::array();
  for (const Ceiling& c : report.ceilings) {
    out["ceilings"].push_back({{"device", c.device},
                               {"gflops", c.gflops},
                               {"gbytes", c.gbytes},
                               {"how", c.how}});
  }
  out["rows"] = Json::array();
  for (const ProfileRow& row : report.rows) {
    out["rows"].push_back({{"op", row.op},
                           {"shape", row.shape},
                           {"nodes", row.nodes},
                           {"device", row.device},
                           {"where", report.lines[row.line].name},
                           {"calls", static_cast<double>(row.calls) / steps},
                           {"ms", ms(static_cast<double>(row.ns))},
                           {"lost_ms", ms(row.lost_ns)},
                           {"flops_per_call", row.flops},
                           {"bytes_per_call", row.bytes},
                           {"gflops", row.gflops},
                           {"gflops_share", row.flops_share},
                           {"gbytes", row.gbytes},
                           {"gbytes_share", row.bytes_share}});
  }
  out["lines"] = Json::array();
  for (const ProfileLine& line : report.lines) {
    auto part = [&](uint64_t ns) { return ms(static_cast<double>(ns)); };
    out["lines"].push_back({{"name", line.name},
                            {"streams", line.streams},
                            {"kernels_ms", part(line.kernels)},
                            {"submitting_ms", part(line.submitting)},
                            {"run_time_ms", part(line.run_time)},
                            {"data_wait_ms", part(line.data)},
                            {"device_wait_ms", part(line.device)},
                            {"idle_ms", part(line.idle)},
                            {"run_time_share", line.run_time_share}});
  }
  // Names are the user's bytes: what is not UTF-8 is replaced, not thrown on.
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace weft::runtime
