#include "tools/weft/many_ranks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "plugins/host/plugin.h"
#include "tools/weft/device_list.h"

namespace weft {

absl::Status CheckManyRanks(const TrainOptions& options, uint32_t ranks) {
  if (options.profile.has_value()) {
    return MakeError(
        ErrorCode::kBadValue,
        absl::StrCat("a profile is of a job on one rank, this one runs on ",
                     ranks));
  }
  if (options.launch_order_seed != 0) {
    return MakeError(ErrorCode::kBadValue,
                     "--launch-order-seed: ranks that each take an order of "
                     "their own would wait for each other");
  }
  return absl::OkStatus();
}

absl::Status RankTransports::Load(const TrainOptions& options,
                                  const std::vector<std::string>& automatic,
                                  const DomainConfig& domain) {
  const bool named = !options.transport.empty() && options.transport != "auto";
  std::vector<std::string> names = automatic;
  if (named) names = absl::StrSplit(options.transport, ',');
  auto plugin_options = ParsePluginOptions(options.transport_options);
  if (!plugin_options.ok()) {
    return MakeError(
        ErrorCode::kBadValue,
        absl::StrCat("transport ", plugin_options.status().message()));
  }
  if (names.size() != 1 && !plugin_options->empty()) {
    return MakeError(ErrorCode::kBadValue,
                     absl::StrCat("--transport-options are of one transport, "
                                  "and there may be several (",
                                  absl::StrJoin(names, ", "),
                                  "): name one with --transport"));
  }
  for (const std::string& name : names) {
    absl::StatusOr<const Plugin*> plugin = Plugin::Load(name, options.plugins);
    if (!named && names.size() > 1 &&
        IsError(plugin.status(), ErrorCode::kPluginNotFound)) {
      continue;
    }
    if (!plugin.ok()) return plugin.status();
    WEFT_ASSIGN_OR_RETURN(Transport transport, Transport::Create(**plugin));
    transports_.push_back(std::move(transport));
    wire_.push_back({&transports_.back(), *plugin_options});
    // Which options there are only the plugin knows.
    DomainConfig config = domain;
    config.options = *plugin_options;
    WEFT_RETURN_IF_ERROR(transports_.back().Open(config).status());
  }
  if (!wire_.empty()) return absl::OkStatus();
  return MakeError(ErrorCode::kPluginNotFound,
                   absl::StrCat("none of the transport plugins ",
                                absl::StrJoin(names, ", "), " is there"));
}

}  // namespace weft
