// What a job of several ranks needs, be they processes or threads of one.
//
//   WEFT_RETURN_IF_ERROR(CheckManyRanks(options));
//   RankTransports transports;
//   WEFT_RETURN_IF_ERROR(
//       transports.Load(options, {"shm", "grpc"}, {}, domain));
//   link.transports = transports.wire();
//
// Threading: thread-compatible.
#ifndef WEFT_TOOLS_WEFT_MANY_RANKS_H_
#define WEFT_TOOLS_WEFT_MANY_RANKS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "plugins/host/transport.h"
#include "runtime/wire/wire.h"
#include "tools/weft/trainer.h"

namespace weft {

// Of what ranks tell each other besides a plugin's own frames.
inline constexpr uint32_t kRankWireVersion = 3;

// kBadValue for options that only one rank can have.
absl::Status CheckManyRanks(const TrainOptions& options);

using TransportOptions = std::vector<std::pair<std::string, std::string>>;

class RankTransports {
 public:
  // Those of options.transport ("shm,grpc?listen=10.0.0.1:0") or, where that
  // names none, those of `automatic` that are there. `defaults`: options, by
  // transport, of one that is given none. `domain`: of a rank, to see whether
  // they take the options. kBadValue for options that they do not.
  absl::Status Load(const TrainOptions& options,
                    const std::vector<std::string>& automatic,
                    const std::map<std::string, TransportOptions>& defaults,
                    const DomainConfig& domain);

  // The best first.
  const std::vector<runtime::WireTransport>& wire() const { return wire_; }

 private:
  std::deque<Transport> transports_;  // wire_ points into it
  std::vector<runtime::WireTransport> wire_;
};

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_MANY_RANKS_H_
