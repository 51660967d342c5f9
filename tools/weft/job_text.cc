// How a job is written, and how two are compared.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
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

}  // namespace

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
