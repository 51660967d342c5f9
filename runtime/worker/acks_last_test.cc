#include "runtime/worker/acks_last.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace weft::runtime {
namespace {

using actor::ActorId;
using actor::Message;
using actor::MessageKind;

Message Req(uint64_t n) { return Message::Req(ActorId{}, 0, 0, n); }
Message Ack(uint64_t n) { return Message::Ack(ActorId{}, 0, 0, n); }

std::string Name(const Message& message) {
  if (message.kind == MessageKind::kAbort) return "abort, ";
  return absl::StrCat(message.kind == MessageKind::kAck ? "ack " : "req ",
                      message.sequence, ", ");
}

// All that is there: "req 1, ack 2, ".
std::string All(AcksLast* order) {
  std::string all;
  order->TakeAll([&](const Message& message) { all += Name(message); });
  EXPECT_TRUE(order->empty());
  return all;
}

TEST(AcksLastTest, TakesAcksWhenNothingElseIsLeft) {
  actor::MessageQueue queue(8);
  AcksLast order(&queue, 8);
  for (const Message& m : {Ack(1), Req(2), Ack(3), Req(4)}) queue.Push(m);
  EXPECT_EQ(All(&order), "req 2, req 4, ack 1, ack 3, ");
  EXPECT_TRUE(queue.empty());
}

TEST(AcksLastTest, WhatComesMeanwhileGoesBeforeTheAcksThatAreLeft) {
  actor::MessageQueue queue(8);
  AcksLast order(&queue, 8);
  for (const Message& m : {Ack(1), Ack(2), Ack(3)}) queue.Push(m);
  std::string all;
  order.TakeAll([&](const Message& message) {
    all += Name(message);
    if (message.sequence != 1) return;
    EXPECT_FALSE(order.empty());
    queue.Push(Ack(4));
    queue.Push(Req(5));
  });
  EXPECT_EQ(all, "ack 1, req 5, ack 2, ack 3, ack 4, ");
}

TEST(AcksLastTest, ControlIsNoAck) {
  actor::MessageQueue queue(4);
  AcksLast order(&queue, 4);
  queue.Push(Ack(1));
  queue.Push(Message::Abort());
  EXPECT_EQ(All(&order), "abort, ack 1, ");
}

}  // namespace
}  // namespace weft::runtime
