// The certificate of a rank of a job that is nobody's, as files for
// hosts_test.sh:
//
//   issue_certificate FOLDER RANK     # FOLDER/cert.pem, FOLDER/key.pem
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/numbers.h"
#include "core/base/certificates.h"
#include "core/base/os.h"

int main(int argc, char** argv) {
  uint32_t rank = 0;
  if (argc != 3 || !absl::SimpleAtoi(argv[2], &rank)) {
    std::fputs("usage: issue_certificate FOLDER RANK\n", stderr);
    return 2;
  }
  umask(077);
  const auto authority = weft::JobAuthority::Make(/*hours=*/1);
  const auto issued = authority.value().Issue(rank);
  const std::string folder = argv[1];
  for (const auto& [name, text] :
       {std::pair("cert.pem", absl::string_view(issued->certificate)),
        std::pair("key.pem", issued->key.view())}) {
    const absl::Status written = weft::WriteFileAtomically(
        weft::RealOs(), weft::JoinPath(folder, name), text);
    if (!written.ok()) {
      std::fprintf(stderr, "%s\n", written.ToString().c_str());
      return 1;
    }
  }
  return 0;
}
