// How a job is written, and how two are compared.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "tools/weft/job.h"

namespace weft {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

std::string Fields(const Message& message, const std::string& indent);

// "name: value" or "name { ... }"; `index` is -1 where it is no list.
std::string Field(const Message& message, const FieldDescriptor* field,
                  int index, const std::string& indent) {
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    std::string value;
    TextFormat::PrintFieldValueToString(message, field, index, &value);
    return absl::StrCat(indent, field->name(), ": ", value, "\n");
  }
  const google::protobuf::Reflection* reflection = message.GetReflection();
  const Message& part =
      index < 0 ? reflection->GetMessage(message, field)
                : reflection->GetRepeatedMessage(message, field, index);
  return absl::StrCat(indent, field->name(), " {\n",
                      Fields(part, indent + "  "), indent, "}\n");
}

// Protobuf's own printer leaves out what is zero, whatever that means.
std::string Fields(const Message& message, const std::string& indent) {
  const google::protobuf::Reflection* reflection = message.GetReflection();
  std::string text;
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    if (!field->is_repeated()) {
      const bool left_out =
          field->has_presence() && !reflection->HasField(message, field);
      if (!left_out) text += Field(message, field, -1, indent);
      continue;
    }
    std::vector<std::string> items;
    for (int k = 0; k < reflection->FieldSize(message, field); ++k) {
      items.push_back(Field(message, field, k, indent));
    }
    if (field->is_map()) std::sort(items.begin(), items.end());
    absl::StrAppend(&text, absl::StrJoin(items, ""));
  }
  return text;
}

// Protobuf keeps numbers that an enumeration does not have.
absl::Status CheckEnums(const Message& message, const std::string& path) {
  const google::protobuf::Reflection* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated()) continue;  // lists have no enumerations
    const std::string name = path + field->name();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      WEFT_RETURN_IF_ERROR(
          CheckEnums(reflection->GetMessage(message, field), name + "."));
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) continue;
    const int value = reflection->GetEnumValue(message, field);
    const auto* type = field->enum_type();
    if (type->FindValueByNumber(value) != nullptr) continue;
    std::vector<std::string> known;
    for (int i = 0; i < type->value_count(); ++i) {
      known.push_back(type->value(i)->name());
    }
    return MakeError(ErrorCode::kBadJob,
                     absl::StrCat(name, " is ", value, ", expected ",
                                  absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckEnums(const job::Job& job) { return CheckEnums(job, ""); }

std::string JobText(const job::Job& job) { return Fields(job, ""); }

std::string JobChanges(const job::Job& before, const job::Job& after) {
  std::string changes;
  google::protobuf::util::MessageDifferencer differ;
  differ.ReportDifferencesToString(&changes);
  differ.Compare(before, after);
  std::vector<std::string> lines =
      absl::StrSplit(changes, '\n', absl::SkipEmpty());
  return absl::StrJoin(lines, "; ");
}

}  // namespace weft
