// Sealed texts: what only those can read, or have written, who have the job's
// secret, whoever carries them.
//
//   std::string sealed = Seal(secret, "certificate of rank 3", text);
//   WEFT_ASSIGN_OR_RETURN(Secret text,
//                         Unseal(secret, "certificate of rank 3", sealed));
//
// AES-256-GCM, by a key that is made of the secret and of what the text is for:
// one that was sealed for another purpose does not open.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_RUNTIME_RENDEZVOUS_SEALED_H_
#define WEFT_RUNTIME_RENDEZVOUS_SEALED_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/secret.h"

namespace weft::runtime {

std::string Seal(absl::string_view secret, absl::string_view purpose,
                 absl::string_view text);

// kPeerRefused where it was not sealed so.
absl::StatusOr<Secret> Unseal(absl::string_view secret,
                              absl::string_view purpose,
                              absl::string_view sealed);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_SEALED_H_
