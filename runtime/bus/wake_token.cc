#include "runtime/bus/wake_token.h"

#include <map>

#include "core/base/mutex.h"

namespace weft::runtime {
namespace {

struct Live {
  Mutex mu;
  uint64_t last WEFT_GUARDED_BY(mu) = 0;
  std::map<uint64_t, FutexWord*> words WEFT_GUARDED_BY(mu);
};

// Never destroyed: plugins' threads may outlive main.
Live& Tokens() {
  static Live* live = new Live;
  return *live;
}

}  // namespace

WakeToken::WakeToken(FutexWord* word) {
  Live& live = Tokens();
  MutexLock lock(&live.mu);
  number_ = ++live.last;
  live.words[number_] = word;
}

WakeToken::~WakeToken() {
  Live& live = Tokens();
  MutexLock lock(&live.mu);
  live.words.erase(number_);
}

void WakeToken::Notify(uint64_t number) {
  Live& live = Tokens();
  MutexLock lock(&live.mu);
  auto at = live.words.find(number);
  if (at != live.words.end()) at->second->Post();
}

}  // namespace weft::runtime
