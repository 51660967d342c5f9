#include "runtime/launch/options.h"

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/base/suggest.h"
#include "runtime/rendezvous/host_port.h"

namespace weft::launch {
namespace {

// Each is a process.
constexpr uint64_t kMaxRanksPerNode = 1024;
constexpr uint64_t kMaxNodes = 4096;
constexpr uint64_t kMaxGrace = 86'400;
constexpr uint64_t kPort = 29500;

absl::Status Bad(absl::string_view message) {
  return MakeError(ErrorCode::kBadLaunch, message);
}

absl::Status Number(absl::string_view flag, const std::string& text,
                    uint64_t low, uint64_t high, uint64_t* out) {
  if (text.empty()) return absl::OkStatus();
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < low || number > high) {
    return Bad(
        absl::StrCat(flag, " is '", text, "', expected ", low, " to ", high));
  }
  *out = number;
  return absl::OkStatus();
}

absl::Status ReadNodes(const LaunchFlags& flags, LaunchOptions* options) {
  if (absl::StrContains(flags.nnodes, ':')) {
    return Bad(absl::StrCat("--nnodes is '", flags.nnodes,
                            "': a job has as many hosts as it was started "
                            "with; expected one number"));
  }
  uint64_t nodes = 1;
  uint64_t node = 0;
  WEFT_RETURN_IF_ERROR(Number("--nnodes", flags.nnodes, 1, kMaxNodes, &nodes));
  WEFT_RETURN_IF_ERROR(
      Number("--node-rank", flags.node_rank, 0, kMaxNodes - 1, &node));
  if (node >= nodes) {
    return Bad(absl::StrCat("--node-rank is ", node, ", and --nnodes is ",
                            nodes, ": the last host is ", nodes - 1));
  }
  if (nodes > 1 && flags.standalone) {
    return Bad(
        absl::StrCat("--standalone is one host, and --nnodes is ", nodes));
  }
  if (nodes > 1 && flags.node_rank.empty()) {
    return Bad(absl::StrCat("--nnodes is ", nodes,
                            ", and --node-rank does not say which of them "
                            "this is"));
  }
  options->nodes = static_cast<uint32_t>(nodes);
  options->node_rank = static_cast<uint32_t>(node);
  return absl::OkStatus();
}

absl::Status ReadRanks(const LaunchFlags& flags, uint32_t cores,
                       LaunchOptions* options) {
  uint64_t ranks = 1;
  if (flags.nproc_per_node == "auto" || flags.nproc_per_node == "cpu") {
    ranks = cores;
  } else {
    WEFT_RETURN_IF_ERROR(Number("--nproc-per-node", flags.nproc_per_node, 1,
                                kMaxRanksPerNode, &ranks));
  }
  options->ranks_per_node = static_cast<uint32_t>(ranks);
  return absl::OkStatus();
}

absl::Status CheckBackend(const std::string& backend) {
  if (backend.empty() || backend == "static" || backend == "c10d") {
    return absl::OkStatus();
  }
  return Bad(absl::StrCat(
      "--rdzv-backend is '", backend,
      "', expected static or c10d: ranks meet at a coordinator of the first "
      "host",
      DidYouMean(backend, {"static", "c10d"})));
}

// Of an endpoint: "n1" has none, and neither has "2001:db8::1".
bool HasPort(const std::string& endpoint) {
  if (absl::StartsWith(endpoint, "[")) return endpoint.back() != ']';
  return endpoint.find(':') != std::string::npos &&
         endpoint.find(':') == endpoint.rfind(':');
}

absl::Status ReadMeeting(const LaunchFlags& flags, LaunchOptions* options) {
  WEFT_RETURN_IF_ERROR(CheckBackend(flags.rdzv_backend));
  const bool master = !flags.master_addr.empty() || !flags.master_port.empty();
  if (!flags.rdzv_endpoint.empty() && master) {
    return Bad(absl::StrCat("--rdzv-endpoint ", flags.rdzv_endpoint,
                            " and --master-addr, --master-port say the same "
                            "thing twice; give one"));
  }
  if (flags.standalone && (master || !flags.rdzv_endpoint.empty())) {
    return Bad(
        "--standalone takes a free port of this host; where ranks meet cannot "
        "be said as well");
  }
  std::string host = flags.master_addr;
  uint64_t port = options->nodes > 1 ? kPort : 0;
  WEFT_RETURN_IF_ERROR(
      Number("--master-port", flags.master_port, 0, 65535, &port));
  if (!flags.rdzv_endpoint.empty()) {
    host = flags.rdzv_endpoint;
    if (HasPort(host)) {
      WEFT_ASSIGN_OR_RETURN(
          const runtime::HostPort meet,
          runtime::ParseHostPort("--rdzv-endpoint", host, /*lowest=*/0));
      host = meet.host;
      port = meet.port;
    }
  }
  if (options->nodes == 1) {
    // Nobody else has to reach it.
    options->coordinator = runtime::JoinHostPort("127.0.0.1", port);
    return absl::OkStatus();
  }
  if (host.empty() || runtime::IsLoopback(host)) {
    return Bad(absl::StrCat(
        "--nnodes is ", options->nodes, ", and --master-addr is ",
        host.empty() ? "not given" : absl::StrCat("'", host, "'"),
        ": it is the first host's name or address, as the others know it"));
  }
  if (port == 0) {
    return Bad(
        "port 0 is any that is free, which the other hosts cannot know; give "
        "--master-port");
  }
  if (flags.secret_file.empty()) {
    return Bad(absl::StrCat(
        "--nnodes is ", options->nodes,
        ", and --secret-file is not given: ranks of several hosts know each "
        "other by a secret; make one with: umask 077; head -c 32 /dev/urandom "
        "| base64 > FILE, and have it on every host"));
  }
  options->coordinator = runtime::JoinHostPort(host, port);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LaunchOptions> ResolveLaunch(const LaunchFlags& flags,
                                            uint32_t cores) {
  LaunchOptions options;
  WEFT_RETURN_IF_ERROR(ReadNodes(flags, &options));
  WEFT_RETURN_IF_ERROR(ReadRanks(flags, cores, &options));
  WEFT_RETURN_IF_ERROR(ReadMeeting(flags, &options));
  WEFT_RETURN_IF_ERROR(Number("--max-restarts", flags.max_restarts, 0,
                              std::numeric_limits<uint32_t>::max(),
                              &options.max_restarts));
  uint64_t grace = options.grace_ns / 1'000'000'000;
  WEFT_RETURN_IF_ERROR(Number("--grace", flags.grace, 0, kMaxGrace, &grace));
  options.grace_ns = grace * 1'000'000'000;
  options.secret_file = flags.secret_file;
  options.job_id = flags.rdzv_id;
  // The same on all hosts, who know nothing else of each other.
  if (options.job_id.empty() && options.nodes > 1) {
    options.job_id = absl::StrCat("run-", options.coordinator);
  }
  WEFT_ASSIGN_OR_RETURN(
      options.streams,
      ParseStreamRules(flags.redirects, flags.tee, options.ranks_per_node,
                       options.node_rank == 0));
  return options;
}

}  // namespace weft::launch
