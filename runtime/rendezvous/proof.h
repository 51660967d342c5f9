// Proofs that somebody has the job's secret, without telling it.
//
//   std::string nonce = NewNonce();   // for the other side
//   if (!SameBytes(proof, ProofOfRank(secret, nonce, theirs, hello))) refuse();
//
// HMAC-SHA256 of both nonces and of what is said with them; a proof of one side
// is none of the other.
//
// Threading: free functions, thread-safe.
#ifndef WEFT_RUNTIME_RENDEZVOUS_PROOF_H_
#define WEFT_RUNTIME_RENDEZVOUS_PROOF_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/secret.h"

namespace weft::runtime {

// 16 random bytes.
std::string NewNonce();

std::string ProofOfRank(absl::string_view secret, absl::string_view challenge,
                        absl::string_view nonce, absl::string_view hello);
std::string ProofOfCoordinator(absl::string_view secret,
                               absl::string_view challenge,
                               absl::string_view nonce,
                               absl::string_view hello);

// A key of 32 bytes that is made of the secret, for one purpose.
Secret KeyOf(absl::string_view secret, absl::string_view purpose);

// Takes as long wherever they differ.
bool SameBytes(absl::string_view a, absl::string_view b);

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_PROOF_H_
