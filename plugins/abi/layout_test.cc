// The layout of both languages (at compile time), and that every field of the
// header has a row in layout.inc: an unlisted field would be unguarded.
#include "plugins/abi/layout_test.inc"

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

size_t Count(const std::string& text, const std::regex& what) {
  return std::distance(std::sregex_iterator(text.begin(), text.end(), what),
                       std::sregex_iterator());
}

// The number of structs that `header` declares; each field has its row.
size_t CheckRows(const std::string& header_path, const std::string& rows_path) {
  // Comments out, then one declaration per semicolon inside the structs.
  std::string header = std::regex_replace(
      ReadFile(header_path), std::regex("/\\*[^*]*(\\*[^/][^*]*)*\\*+/"), "");
  const std::string rows = ReadFile(rows_path);
  const std::regex body("typedef struct (weft_\\w+) \\{([^}]*)\\}");
  size_t structs = 0;
  size_t fields = 0;
  for (std::sregex_iterator it(header.begin(), header.end(), body), end;
       it != end; ++it) {
    ++structs;
    const std::string name = (*it)[1];
    const std::string text = (*it)[2];
    const size_t declared = Count(text, std::regex(";"));
    EXPECT_EQ(Count(rows, std::regex("WEFT_FIELD\\(" + name + ", ")), declared)
        << name;
    EXPECT_EQ(Count(rows, std::regex("WEFT_SIZE\\(" + name + ", ")), 1u)
        << name;
    fields += declared;
  }
  EXPECT_EQ(fields, Count(rows, std::regex("\nWEFT_FIELD\\(")));
  return structs;
}

TEST(LayoutTest, EveryStructAndFieldHasARow) {
  EXPECT_GE(CheckRows("plugins/abi/weft_plugin.h", "plugins/abi/layout.inc"),
            20u);
  EXPECT_EQ(CheckRows("plugins/abi/weft_transport.h",
                      "plugins/abi/transport_layout.inc"),
            8u);
}

}  // namespace
