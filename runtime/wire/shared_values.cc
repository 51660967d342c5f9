#include "runtime/wire/shared_values.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "runtime/wire/offers.h"
#include "runtime/wire/wire.h"

namespace weft::runtime {

std::string SharedValuesText(const SharedValues& values) {
  std::string lines;
  for (const SharedValue& v : values.values) {
    absl::StrAppend(&lines, v.reader, " ", v.channel, " ", v.offset, " ",
                    v.stride, "\n");
  }
  return JoinFields({values.key, lines});
}

absl::StatusOr<SharedValues> ParseSharedValues(absl::string_view text) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> fields,
                        SplitFields(text));
  const auto bad = [](absl::string_view what) {
    return MakeError(
        ErrorCode::kTransportFailed,
        absl::StrCat("what a rank says of its shared memory: '", what, "'"));
  };
  if (fields.size() != 2) return bad(absl::StrCat(fields.size(), " fields"));
  SharedValues out;
  out.key = fields[0];
  for (absl::string_view line :
       absl::StrSplit(fields[1], '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    SharedValue v;
    if (words.size() != 4 || !absl::SimpleAtoi(words[0], &v.reader) ||
        !absl::SimpleAtoi(words[1], &v.channel) ||
        !absl::SimpleAtoi(words[2], &v.offset) ||
        !absl::SimpleAtoi(words[3], &v.stride)) {
      return bad(line);
    }
    out.values.push_back(v);
  }
  return out;
}

// ---- Of a wire --------------------------------------------------------------

absl::Status Wire::AllocShared(uint64_t bytes, bool writable) {
  for (const std::unique_ptr<Domain>& domain : domains_) {
    if (domain == nullptr || !domain->info().shared_memory) continue;
    WEFT_ASSIGN_OR_RETURN(shared_, domain->AllocShared(bytes, writable));
    shared_domain_ = domain.get();
    return absl::OkStatus();
  }
  return MakeError(ErrorCode::kTransportFailed,
                   absl::StrCat("the plan of rank ", rank_,
                                " has values that others read where they lie, "
                                "but no transport maps memory (",
                                Describe(), ")"));
}

absl::StatusOr<PeerValues> Wire::ExchangeShared(
    const std::vector<SharedValue>& mine) {
  absl::StatusOr<PeerValues> values = ExchangeAll(mine);
  if (!values.ok()) rendezvous_.Fail(rank_, values.status());
  return values;
}

absl::StatusOr<PeerValues> Wire::ExchangeAll(
    const std::vector<SharedValue>& mine) {
  SharedValues said;
  said.values = mine;
  if (shared_domain_ != nullptr) {
    WEFT_ASSIGN_OR_RETURN(said.key, shared_domain_->PackShared(shared_.mr));
  }
  WEFT_ASSIGN_OR_RETURN(
      const std::vector<std::string> texts,
      rendezvous_.AllGather(rank_, absl::StrCat("wire/shared/", exchanges_++),
                            SharedValuesText(said)));
  PeerValues out;
  for (Link& link : links_) {
    WEFT_ASSIGN_OR_RETURN(const SharedValues theirs,
                          ParseSharedValues(texts[link.rank]));
    for (const SharedValue& v : theirs.values) {
      if (v.reader != rank_) continue;
      WEFT_RETURN_IF_ERROR(Annotate(
          MapPeer(&link, theirs.key),
          absl::StrCat("values of rank ", link.rank, " for rank ", rank_)));
      if (v.offset > link.mapped.bytes) {
        return MakeError(
            ErrorCode::kTransportFailed,
            absl::StrCat("rank ", link.rank, " says that a value lies at byte ",
                         v.offset, " of ", link.mapped.bytes));
      }
      PeerValue& value = out[{link.rank, v.channel}];
      value.host = static_cast<char*>(link.mapped.host) + v.offset;
      value.writable = link.mapped.writable;
      value.stride = v.stride;
      value.room = link.mapped.bytes - v.offset;
    }
  }
  return out;
}

absl::Status Wire::MapPeer(Link* link, const std::string& key) {
  if (link->mapped.host != nullptr) return absl::OkStatus();
  if (!link->domain->info().shared_memory) {
    return MakeError(ErrorCode::kTransportFailed,
                     absl::StrCat("they are to be read where they lie, but '",
                                  link->domain->info().name,
                                  "', which joins the two, maps no memory"));
  }
  WEFT_ASSIGN_OR_RETURN(link->mapped, link->domain->Map(link->endpoint, key));
  return absl::OkStatus();
}

void Wire::DropShared() {
  for (Link& link : links_) {
    if (link.mapped.host == nullptr) continue;
    link.domain->Unmap(link.mapped.host).IgnoreError();
    link.mapped = {};
  }
  if (shared_domain_ == nullptr) return;
  shared_domain_->FreeShared(shared_.mr).IgnoreError();
  shared_domain_ = nullptr;
}

}  // namespace weft::runtime
