#include "core/base/error.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace weft {
namespace {

constexpr absl::string_view kPayloadUrl = "weft.error";

struct Row {
  ErrorCode code;
  absl::StatusCode absl_code;
  absl::string_view title;
};

constexpr Row kRows[] = {
#define WEFT_ERROR(number, name, absl_code, title) \
  {ErrorCode::k##name, absl::StatusCode::k##absl_code, title},
#include "core/base/error_table.inc"
#undef WEFT_ERROR
};

const Row* FindRow(ErrorCode code) {
  for (const Row& row : kRows) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

}  // namespace

absl::Status MakeError(ErrorCode code, absl::string_view message) {
  const Row* row = FindRow(code);
  absl::Status status(row ? row->absl_code : absl::StatusCode::kInternal,
                      message);
  status.SetPayload(kPayloadUrl,
                    absl::Cord(absl::StrCat(static_cast<int>(code))));
  return status;
}

ErrorCode ErrorCodeOf(const absl::Status& status) {
  absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  int number = 0;
  if (payload && absl::SimpleAtoi(std::string(*payload), &number) &&
      FindRow(static_cast<ErrorCode>(number))) {
    return static_cast<ErrorCode>(number);
  }
  return ErrorCode::kInternal;
}

bool IsError(const absl::Status& status, ErrorCode code) {
  return !status.ok() && ErrorCodeOf(status) == code;
}

std::string ErrorName(ErrorCode code) {
  return absl::StrCat("WEFT-", static_cast<int>(code));
}

absl::string_view ErrorTitle(ErrorCode code) {
  const Row* row = FindRow(code);
  return row ? row->title : "unknown";
}

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return 0;
  switch (static_cast<int>(ErrorCodeOf(status)) / 1000) {
    case 1:
      return 2;
    case 2:
      return 3;
    case 3:
      return 4;
    case 4:
      return 5;
    case 5:
      return 6;
    case 6:
      return 7;
    case 7:
      return 138;
    default:
      return 1;
  }
}

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status out(status.code(),
                   absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&out](absl::string_view url, const absl::Cord& cord) {
    out.SetPayload(url, cord);
  });
  return out;
}

}  // namespace weft
