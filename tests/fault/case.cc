#include "tests/fault/case.h"

#include <errno.h>

#include <cctype>
#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/host/test_plugins.h"

namespace weft::e2e {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// Which row's message the page of an error shows.
using SampleMap = std::map<std::string, std::string>;
const SampleMap& Samples() {
  static const auto* samples = new SampleMap{
      {"WEFT-1001", "unknown flag"},
      {"WEFT-1002", "unknown field"},
      {"WEFT-1003", "unknown variable"},
      {"WEFT-1004", "contradiction"},
      {"WEFT-1005", "not a number"},
      {"WEFT-1006", "batch larger than the data"},
      {"WEFT-1007", "run directory below a file"},
      {"WEFT-2001", "unknown op"},
      {"WEFT-2002", "unknown attribute"},
      {"WEFT-2003", "bad attribute"},
      {"WEFT-2004", "shape mismatch"},
      {"WEFT-2006", "too few inputs"},
      {"WEFT-2007", "no logits"},
      {"WEFT-2008", "syntax"},
      {"WEFT-2013", "unknown model"},
      {"WEFT-2014", "an index outside of an axis"},
      {"WEFT-5001", "missing images"},
      {"WEFT-5002", "truncated gzip"},
      {"WEFT-5003", "wrong magic"},
      {"WEFT-5004", "label out of range"},
  };
  // Of the other tests, which run these rows.
  static const auto* refused = new SampleMap{{"WEFT-3001", "beyond a limit"}};
  static const auto* plugins = new SampleMap{
      {"WEFT-4001", "not found"},
      {"WEFT-4002", "world-writable"},
      {"WEFT-4003", "truncated"},
      {"WEFT-4004", "wrong ABI"},
      {"WEFT-4005", "not the file of the manifest"},
      {"WEFT-4006", "no such device"},
  };
  const absl::string_view test = program_invocation_short_name;
  if (test == "bad_plugins_test") return *plugins;
  return test == "refusal_test" ? *refused : *samples;
}

// Codes whose samples were compared.
std::set<std::string>& Met() {
  static auto* met = new std::set<std::string>;
  return *met;
}

// A row that was renamed, or is not there any more, must not leave its page
// unchecked.
class EverySampleIsMet : public ::testing::Environment {
 public:
  void TearDown() override {
    const auto& all = *::testing::UnitTest::GetInstance();
    // A part of the tests says nothing of the whole.
    if (all.successful_test_count() != all.total_test_count()) return;
    for (const auto& [code, row] : Samples()) {
      EXPECT_EQ(Met().count(code), 1u)
          << "no row '" << row << "' that gives " << code;
    }
  }
};
[[maybe_unused]] const ::testing::Environment* const every_sample_is_met =
    ::testing::AddGlobalTestEnvironment(new EverySampleIsMet);

// A message without what differs from one user to the next: texts in quotes,
// absolute paths and numbers.
std::string Form(const std::string& message) {
  std::string out;
  for (size_t i = 0; i < message.size(); ++i) {
    const char c = message[i];
    if (c == '/' && absl::EndsWith(out, " ")) {
      while (i + 1 < message.size() &&
             !absl::StrContains(" :;,", message[i + 1])) {
        ++i;
      }
      out += "/*";
      continue;
    }
    if (c == '\'') {
      const size_t end = message.find('\'', i + 1);
      if (end == std::string::npos) return out + message.substr(i);
      out += "'*'";
      i = end;
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      if (out.empty() || out.back() != '#') out += '#';
    } else {
      out += c;
    }
  }
  return out;
}

// The first line of `text` that names an error, without what is before.
std::string ErrorLine(const std::string& text) {
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    const size_t at = line.find("weft: error WEFT-");
    if (at != std::string::npos) return line.substr(at);
  }
  return "";
}

void CheckSample(const Case& c, const std::string& err) {
  auto sample = Samples().find(c.code);
  if (sample == Samples().end() || sample->second != c.name) return;
  Met().insert(c.code);
  const std::string page =
      ReadText(RunfilePath("docs/errors/" + c.code + ".md"));
  EXPECT_EQ(Form(ErrorLine(page)), Form(ErrorLine(err)))
      << "the page says " << ErrorLine(page) << "\nthe command says "
      << ErrorLine(err);
}

}  // namespace

std::vector<std::string> Train(const Sets& sets) {
  std::vector<std::string> args = {"train", "job.txtpb", "--quiet"};
  for (const std::string& set : sets) {
    args.push_back("--set");
    args.push_back(set);
  }
  return args;
}

void ExpectNothingHalfWritten(const std::string& folder) {
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    EXPECT_THAT(name, Not(EndsWith(".tmp"))) << entry.path();
    EXPECT_THAT(name, Not(HasSubstr(".tmp-"))) << entry.path();
    EXPECT_NE(name.substr(0, 5), "core.") << entry.path();
  }
}

void CheckCases(const std::string& group, const std::string& model,
                const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    TestJob job(group, model);
    if (c.prepare) c.prepare(job);
    Ended end = job.Weft(c.args, c.environment, c.limits).Wait();
    EXPECT_EQ(end.signal, 0);
    EXPECT_EQ(end.exit_code, c.exit_code);
    EXPECT_THAT(end.err, HasSubstr("weft: error " + c.code + ": "));
    EXPECT_THAT(end.err, HasSubstr("docs/errors/" + c.code + ".md"));
    for (const std::string& text : c.texts) {
      EXPECT_THAT(end.err, HasSubstr(text));
    }
    CheckSample(c, end.err);
    ExpectNothingHalfWritten(job.folder());
    // What is refused before it begins leaves no run directory.
    EXPECT_THAT(job.Runs(), ::testing::IsEmpty());
  }
}

}  // namespace weft::e2e
