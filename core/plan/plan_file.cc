#include "core/plan/plan_file.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/status_macros.h"
#include "core/plan/plan.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace weft::plan {

namespace {

constexpr absl::string_view kHeader = "weft plan 1\n";
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 31;

// Equal messages give equal bytes (a plan has no maps, but say so anyway).
std::string Serialize(const Plan& plan) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    plan.SerializeWithCachedSizes(&coded);
  }
  return bytes;
}

}  // namespace

uint64_t PlanHash(const Plan& plan) {
  Plan copy = plan;
  copy.clear_hash();
  copy.ByteSizeLong();  // fills the cached sizes
  return StableHash(Serialize(copy));
}

absl::Status SavePlan(Os& os, const std::string& path, const Plan& plan) {
  Plan copy = plan;
  copy.set_hash(PlanHash(plan));
  copy.ByteSizeLong();
  absl::Status status =
      WriteFileAtomically(os, path, absl::StrCat(kHeader, Serialize(copy)));
  if (status.ok()) return status;
  return MakeError(ErrorCode::kWriteFailed,
                   absl::StrCat("plan '", path, "': ", status.message()));
}

absl::StatusOr<Plan> LoadPlan(Os& os, const std::string& path) {
  absl::StatusOr<std::string> text = os.ReadFile(path, kMaxFileBytes);
  if (!text.ok()) {
    return MakeError(
        ErrorCode::kBadValue,
        absl::StrCat("plan '", path, "': ", text.status().message()));
  }
  absl::string_view bytes = *text;
  if (!absl::ConsumePrefix(&bytes, kHeader)) {
    return MakeError(ErrorCode::kBadPlan,
                     absl::StrCat("'", path, "' does not begin with '",
                                  absl::StripSuffix(kHeader, "\n"), "'"));
  }
  Plan plan;
  if (!plan.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return MakeError(ErrorCode::kBadPlan,
                     absl::StrCat("plan '", path, "' cannot be parsed"));
  }
  const uint64_t hash = PlanHash(plan);
  if (hash != plan.hash()) {
    return MakeError(
        ErrorCode::kBadPlan,
        absl::StrCat("plan '", path, "' is damaged: its hash is ",
                     absl::Hex(hash), ", it says ", absl::Hex(plan.hash())));
  }
  absl::Status valid = Validate(plan);
  if (!valid.ok()) return Annotate(valid, absl::StrCat("plan '", path, "'"));
  return plan;
}

}  // namespace weft::plan
