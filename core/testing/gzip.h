// Gzip: what a test stores as a compressed file.
//
//   WriteFile(path, Gzip("contents"));
//
// Threading: a free function, thread-safe.
#ifndef WEFT_CORE_TESTING_GZIP_H_
#define WEFT_CORE_TESTING_GZIP_H_

#include <zlib.h>

#include <string>

#include "gtest/gtest.h"

namespace weft {

// One member (RFC 1952) that inflates to `bytes`.
inline std::string Gzip(const std::string& bytes) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, 0), Z_OK);
  std::string out(deflateBound(&stream, bytes.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = bytes.size();
  stream.next_out = reinterpret_cast<Bytef*>(&out[0]);
  stream.avail_out = out.size();
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace weft

#endif  // WEFT_CORE_TESTING_GZIP_H_
