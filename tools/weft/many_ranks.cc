#include "tools/weft/many_ranks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "plugins/host/plugin.h"
#include "tools/weft/device_list.h"

namespace weft {

absl::Status CheckManyRanks(const TrainOptions& options) {
  if (options.launch_order_seed != 0) {
    return MakeError(ErrorCode::kBadValue,
                     "--launch-order-seed: ranks that each take an order of "
                     "their own would wait for each other");
  }
  return absl::OkStatus();
}

namespace {

struct Named {
  std::string name;
  TransportOptions options;
};

// Transports as the options name them; none: those that are there.
absl::StatusOr<std::vector<Named>> NamedTransports(
    const TrainOptions& options, const std::vector<std::string>& automatic) {
  std::vector<Named> named;
  const auto bad = [](absl::string_view what, const absl::Status& why) {
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("transport ", what, why.message()));
  };
  if (!options.transport.empty() && options.transport != "auto") {
    for (absl::string_view entry : absl::StrSplit(options.transport, ',')) {
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(entry, absl::MaxSplits('?', 1));
      auto parsed = ParsePluginOptions(parts.second);
      if (!parsed.ok()) return bad(parts.first, parsed.status());
      named.push_back({std::string(parts.first), *std::move(parsed)});
    }
  }
  if (options.transport_options.empty()) return named;
  auto parsed = ParsePluginOptions(options.transport_options);
  if (!parsed.ok()) return bad("", parsed.status());
  if (named.empty() && automatic.size() == 1)
    named.push_back({automatic[0], {}});
  if (named.size() == 1 && named[0].options.empty()) {
    named[0].options = *std::move(parsed);
    return named;
  }
  return MakeError(
      ErrorCode::kBadValue,
      "--transport-options are of one transport, and there may be "
      "several: write them as in --transport 'shm,grpc?insecure=1'");
}

}  // namespace

absl::Status RankTransports::Load(
    const TrainOptions& options, const std::vector<std::string>& automatic,
    const std::map<std::string, TransportOptions>& defaults,
    const DomainConfig& domain) {
  WEFT_ASSIGN_OR_RETURN(std::vector<Named> names,
                        NamedTransports(options, automatic));
  const bool choose = names.empty();
  if (choose) {
    for (const std::string& name : automatic) names.push_back({name, {}});
  }
  for (Named& named : names) {
    absl::StatusOr<const Plugin*> plugin =
        Plugin::Load(named.name, options.plugins);
    if (choose && names.size() > 1 &&
        IsError(plugin.status(), ErrorCode::kPluginNotFound)) {
      continue;
    }
    if (!plugin.ok()) return plugin.status();
    const auto given = defaults.find(named.name);
    if (named.options.empty() && given != defaults.end()) {
      named.options = given->second;
    }
    WEFT_ASSIGN_OR_RETURN(Transport transport, Transport::Create(**plugin));
    transports_.push_back(std::move(transport));
    wire_.push_back({&transports_.back(), named.options});
    // Which options there are only the plugin knows.
    DomainConfig config = domain;
    config.options = named.options;
    WEFT_RETURN_IF_ERROR(transports_.back().Open(config).status());
  }
  if (!wire_.empty()) return absl::OkStatus();
  return MakeError(ErrorCode::kPluginNotFound,
                   absl::StrCat("none of the transport plugins ",
                                absl::StrJoin(automatic, ", "), " is there"));
}

}  // namespace weft
