#include "runtime/wire/offers.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::runtime {

std::string JoinFields(const std::vector<std::string>& fields) {
  return absl::StrJoin(fields, " ",
                       [](std::string* out, const std::string& field) {
                         out->append(absl::BytesToHexString(field));
                       });
}

absl::StatusOr<std::vector<std::string>> SplitFields(absl::string_view text) {
  std::vector<std::string> fields;
  for (absl::string_view part : absl::StrSplit(text, ' ')) {
    bool hex = part.size() % 2 == 0;
    for (char c : part) hex = hex && absl::ascii_isxdigit(c);
    if (!hex) {
      return MakeError(ErrorCode::kTransportFailed,
                       absl::StrCat("'", part, "' is no text of bytes"));
    }
    fields.push_back(absl::HexStringToBytes(part));
  }
  return fields;
}

std::string OffersText(const std::vector<TransportOffer>& offers) {
  std::vector<std::string> fields;
  for (const TransportOffer& offer : offers) {
    fields.push_back(offer.name);
    fields.push_back(offer.locality);
    fields.push_back(absl::StrCat(offer.eager_max));
    fields.push_back(absl::StrCat(offer.eager_credits));
  }
  return JoinFields(fields);
}

absl::StatusOr<std::vector<TransportOffer>> ParseOffers(
    absl::string_view text) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> fields,
                        SplitFields(text));
  if (fields.size() % 4 != 0) {
    return MakeError(ErrorCode::kTransportFailed,
                     absl::StrCat(fields.size(), " words of transports"));
  }
  std::vector<TransportOffer> offers;
  for (size_t i = 0; i < fields.size(); i += 4) {
    TransportOffer offer{fields[i], fields[i + 1]};
    if (!absl::SimpleAtoi(fields[i + 2], &offer.eager_max) ||
        !absl::SimpleAtoi(fields[i + 3], &offer.eager_credits)) {
      return MakeError(
          ErrorCode::kTransportFailed,
          absl::StrCat("bounds of '", offer.name, "' that are no numbers"));
    }
    offers.push_back(std::move(offer));
  }
  return offers;
}

namespace {

std::string Describe(const std::vector<TransportOffer>& offers) {
  return absl::StrJoin(
      offers, ", ", [](std::string* out, const TransportOffer& offer) {
        absl::StrAppend(out, "'", offer.name, "' (", offer.locality, ")");
      });
}

}  // namespace

absl::StatusOr<std::pair<size_t, size_t>> ChooseOffers(
    uint32_t rank_a, const std::vector<TransportOffer>& a, uint32_t rank_b,
    const std::vector<TransportOffer>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) {
      if (a[i].name == b[j].name && a[i].locality == b[j].locality) {
        return std::make_pair(i, j);
      }
    }
  }
  return MakeError(
      ErrorCode::kBadLaunch,
      absl::StrCat("no transport joins rank ", rank_a, ", which has ",
                   Describe(a), ", and rank ", rank_b, ", which has ",
                   Describe(b), "; in brackets is how far each reaches"));
}

}  // namespace weft::runtime
