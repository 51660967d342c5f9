// How two sides show each other that they have the job's secret without sending
// it: each gives an HMAC-SHA256, under the secret, over what both have said so
// far. That includes a fresh nonce of the other side, so that nothing said in
// another connection is good in this one, and the job, epoch, ranks,
// incarnations and plan hash of both.
//
//   std::string said = EncodeFrame(hello) + EncodeFrame(challenge);
//   frame.proof = Prove(secret, Role::kListener, said);
//   ... SameBytes(frame.proof, Prove(secret, Role::kListener, said))
//
// Threading: free functions.
#ifndef WEFT_TRANSPORT_GRPC_PROOF_H_
#define WEFT_TRANSPORT_GRPC_PROOF_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace weft_grpc {

constexpr size_t kNonceBytes = 32;

// Throws weft_sdk::Error where the system has none.
std::string RandomBytes(size_t count);
std::string RandomHex(size_t bytes);

enum class Role { kConnector, kListener };

// Without a secret: no bytes.
std::string Prove(std::string_view secret, Role role, std::string_view said);

// In a time that does not depend on where they differ.
bool SameBytes(std::string_view a, std::string_view b);

}  // namespace weft_grpc

#endif  // WEFT_TRANSPORT_GRPC_PROOF_H_
