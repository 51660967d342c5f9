// Offers: which transports a rank has, as it tells the others, and which of
// them two ranks take.
//
//   rendezvous->AllGather(rank, "wire/offers", OffersText(mine));
//   WEFT_ASSIGN_OR_RETURN(auto theirs, ParseOffers(text));
//   WEFT_ASSIGN_OR_RETURN(auto pair, ChooseOffers(0, mine, 1, theirs));
//   mine[pair.first].name == theirs[pair.second].name;
//
// Threading: free functions and plain values.
#ifndef WEFT_RUNTIME_WIRE_OFFERS_H_
#define WEFT_RUNTIME_WIRE_OFFERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::runtime {

// Any bytes as one text, and back.
std::string JoinFields(const std::vector<std::string>& fields);
absl::StatusOr<std::vector<std::string>> SplitFields(absl::string_view text);

struct TransportOffer {
  std::string name;      // of the plugin
  std::string locality;  // equal strings: ranks may reach each other
  // Of what it sends: as TransportInfo.
  uint64_t eager_max = 0;
  uint32_t eager_credits = 0;
};

std::string OffersText(const std::vector<TransportOffer>& offers);
absl::StatusOr<std::vector<TransportOffer>> ParseOffers(absl::string_view text);

// Indices into `a` and `b`, which are those of the ranks `rank_a` < `rank_b`:
// of the first transport of `a` that `b` has, too, with the same locality.
// kBadLaunch, with both ranks and what they have, where there is none.
absl::StatusOr<std::pair<size_t, size_t>> ChooseOffers(
    uint32_t rank_a, const std::vector<TransportOffer>& a, uint32_t rank_b,
    const std::vector<TransportOffer>& b);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_WIRE_OFFERS_H_
