#include "runtime/data/idx.h"

#include <sys/mman.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::data {
namespace {

constexpr uint64_t kMaxFileBytes = ~uint32_t{0};  // zlib counts no further
constexpr uint8_t kUnsignedByte = 0x08;

uint32_t BigEndian32(absl::string_view bytes, size_t at) {
  uint32_t v = 0;
  for (size_t i = 0; i < 4; ++i) {
    v = (v << 8) | static_cast<uint8_t>(bytes[at + i]);
  }
  return v;
}

absl::StatusOr<Shape> ParseHeader(absl::string_view name,
                                  absl::string_view bytes,
                                  size_t* header_size) {
  if (bytes.size() < 4) {
    return MakeError(ErrorCode::kDataCorrupt,
                     absl::StrCat("'", name, "' has ", bytes.size(),
                                  " bytes, less than an IDX header"));
  }
  uint32_t magic = BigEndian32(bytes, 0);
  uint32_t type = (magic >> 8) & 0xff;
  uint32_t rank = magic & 0xff;
  if ((magic >> 16) != 0 || type != kUnsignedByte || rank == 0 ||
      rank > kMaxRank) {
    return MakeError(
        ErrorCode::kDataFormat,
        absl::StrFormat("'%s' starts with 0x%08x; an IDX file of unsigned "
                        "bytes starts with 0x000008 and its rank (1 to %d)",
                        name, magic, kMaxRank));
  }
  *header_size = 4 + 4 * rank;
  if (bytes.size() < *header_size) {
    return MakeError(ErrorCode::kDataCorrupt,
                     absl::StrCat("'", name, "' ends within its header"));
  }
  std::vector<int64_t> dims(rank);
  for (uint32_t i = 0; i < rank; ++i) dims[i] = BigEndian32(bytes, 4 + 4 * i);
  absl::StatusOr<Shape> shape = Shape::Create(dims);
  if (!shape.ok()) {
    return MakeError(ErrorCode::kDataCorrupt,
                     absl::StrCat("'", name, "': ", shape.status().message()));
  }
  return shape;
}

// Batches are gathered from all over it, and each small page that is new to the
// processor costs as much as the bytes that are read there. It may fail.
void WishForLargePages(const std::string& reserved) {
  constexpr uintptr_t kPage = uintptr_t{2} << 20;
  const auto at = reinterpret_cast<uintptr_t>(reserved.data());
  const uintptr_t begin = (at + kPage - 1) / kPage * kPage;
  const uintptr_t end = (at + reserved.capacity()) / kPage * kPage;
  if (begin >= end) return;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

bool OnlyZeros(const z_stream& stream) {
  return std::all_of(stream.next_in, stream.next_in + stream.avail_in,
                     [](Bytef b) { return b == 0; });
}

// Not a gzip member, or a damaged one: what zlib says about it.
absl::Status InflateError(const z_stream& stream, int code) {
  if (code == Z_BUF_ERROR || code == Z_OK) {
    return absl::DataLossError("gzip stream ends early");
  }
  return absl::DataLossError(absl::StrCat(
      "gzip stream is damaged: ", stream.msg ? stream.msg : "unknown reason"));
}

}  // namespace

absl::StatusOr<std::string> Gunzip(absl::string_view bytes,
                                   uint64_t max_bytes) {
  z_stream stream = {};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) {
    return absl::ResourceExhaustedError("cannot start inflating");
  }
  std::string out;
  // The last member's size modulo 2^32: a hint only.
  if (bytes.size() >= 18) {
    uint32_t size;
    std::memcpy(&size, bytes.data() + bytes.size() - 4, 4);
    out.reserve(std::min<uint64_t>({size, max_bytes, bytes.size() * 1032}));
    WishForLargePages(out);
  }
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  absl::Status status;
  std::string buffer(1 << 18, '\0');
  for (;;) {
    stream.next_out = reinterpret_cast<Bytef*>(&buffer[0]);
    stream.avail_out = static_cast<uInt>(buffer.size());
    int code = inflate(&stream, Z_NO_FLUSH);
    size_t produced = buffer.size() - stream.avail_out;
    if (out.size() + produced > max_bytes) {
      status = absl::DataLossError(
          absl::StrCat("inflates to more than ", max_bytes, " bytes"));
      break;
    }
    out.append(buffer.data(), produced);
    if (code == Z_STREAM_END) {
      // Zeros at the end fill a block of a tape or a disk.
      if (OnlyZeros(stream)) break;
      inflateReset(&stream);  // gzip files may hold several members
      continue;
    }
    if (code != Z_OK || (stream.avail_in == 0 && stream.avail_out != 0)) {
      status = InflateError(stream, code);
      break;
    }
  }
  inflateEnd(&stream);
  if (!status.ok()) return status;
  return out;
}

absl::StatusOr<IdxArray> ParseIdx(absl::string_view name,
                                  absl::string_view file) {
  std::string inflated;
  if (file.size() >= 2 && file[0] == '\x1f' && file[1] == '\x8b') {
    absl::StatusOr<std::string> out = Gunzip(file, kMaxFileBytes);
    if (!out.ok()) {
      return MakeError(ErrorCode::kDataCorrupt,
                       absl::StrCat("'", name, "': ", out.status().message()));
    }
    inflated = *std::move(out);
    file = inflated;
  }
  size_t header = 0;
  WEFT_ASSIGN_OR_RETURN(Shape shape, ParseHeader(name, file, &header));
  uint64_t expected = header + shape.num_elements();
  if (file.size() != expected) {
    return MakeError(
        ErrorCode::kDataCorrupt,
        absl::StrCat("'", name, "' holds ", file.size(),
                     " bytes, but its header says ", shape.ToString(),
                     ", which takes ", expected));
  }
  if (file.data() == inflated.data()) {
    inflated.erase(0, header);
    return IdxArray{std::move(shape), std::move(inflated)};
  }
  return IdxArray{std::move(shape), std::string(file.substr(header))};
}

absl::StatusOr<IdxArray> ReadIdx(Os& os, const std::string& path) {
  absl::StatusOr<std::string> file = os.ReadFile(path, kMaxFileBytes);
  if (!file.ok()) {
    return MakeError(ErrorCode::kDataMissing, file.status().message());
  }
  return ParseIdx(path, *file);
}

std::string EncodeIdx(const IdxArray& array) {
  std::string out = {0, 0, kUnsignedByte,
                     static_cast<char>(array.shape.rank())};
  for (int64_t d : array.shape.dims()) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      out.push_back(static_cast<char>((d >> shift) & 0xff));
    }
  }
  return out + array.bytes;
}

}  // namespace weft::data
