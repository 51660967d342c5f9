// Port: where to send what is meant for another thread.
//
//   port.Send(actor::Message::Start(lease));
//
// Threading: Send from any thread. Ownership: borrows both.
#ifndef WEFT_RUNTIME_BUS_PORT_H_
#define WEFT_RUNTIME_BUS_PORT_H_

#include "core/actor/message.h"
#include "runtime/bus/futex_word.h"
#include "runtime/bus/mailbox.h"

namespace weft::runtime {

struct Port {
  Mailbox<actor::Message>* box = nullptr;
  FutexWord* word = nullptr;
  void Send(const actor::Message& message) const {
    box->Push(message);
    word->Post();
  }
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_BUS_PORT_H_
