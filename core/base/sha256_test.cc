#include "core/base/sha256.h"

#include "gtest/gtest.h"

namespace weft {
namespace {

// Messages and digests of FIPS 180-4's examples.
TEST(Sha256Test, KnownAnswers) {
  EXPECT_EQ(Sha256Hex(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(
      Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256Hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, AnySplitGivesTheSameDigest) {
  std::string message;
  for (int i = 0; i < 200; ++i) message.push_back(static_cast<char>(i));
  for (size_t n = 0; n <= message.size(); ++n) {
    Sha256 hash;
    hash.Update(message.substr(0, n));
    hash.Update(message.substr(n));
    EXPECT_EQ(hash.HexDigest(), Sha256Hex(message)) << n;
  }
}

}  // namespace
}  // namespace weft
