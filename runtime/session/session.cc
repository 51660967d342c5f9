#include "runtime/session/session.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/os.h"
#include "core/base/status_macros.h"
#include "glog/logging.h"
#include "plugins/host/services.h"
#include "runtime/bus/wake_token.h"
#include "runtime/pool/cores.h"
#include "runtime/registers/memory.h"
#include "runtime/session/control.h"
#include "runtime/session/program.h"
#include "runtime/session/spin.h"
#include "runtime/session/worker_thread.h"
#include "runtime/wire/agree.h"

namespace weft::runtime {
namespace {

// How long the end of a session waits at least for a worker that is late.
constexpr uint64_t kGraceNs = 1'000'000'000;

}  // namespace

struct Session::Impl {
  std::vector<Device*> devices;
  SessionOptions options;
  std::unique_ptr<SessionMemory> memory;
  std::unique_ptr<StreamPool> streams;
  std::vector<std::unique_ptr<WorkerThread>> threads;
  std::unique_ptr<Wire> wire;  // null: one rank, or not connected yet
  std::map<std::string, std::unique_ptr<Program>, std::less<>> programs;
  FutexWord control_word;
  std::atomic<bool> stop{false};
  absl::Status broken;
  bool stuck = false;       // a worker did not come back
  uint32_t next_index = 0;  // ActorId::index() of the next program's task 0
  bool prepared = false;
  std::set<std::string, std::less<>> agreed;  // with the other ranks, on these
  uint64_t agreements = 0;                    // tried so far

  absl::Status Prepare();
  absl::Status Agree();
  absl::Status ShareMemory();
  absl::Status BreakIfBusy(absl::Status status);
  uint64_t SpinNs(uint32_t worker) const;
};

uint64_t Session::Impl::SpinNs(uint32_t worker) const {
  if (options.spin_ns != SessionOptions::kAutoSpin) return options.spin_ns;
  SpinPlace place;
  place.cores = AvailableCores(RealOs());
  place.ranks = options.ranks_on_cores;
  place.workers = static_cast<uint32_t>(threads.size());
  if (options.wire.has_value()) {
    const uint32_t world = options.wire->config.world;
    place.peers = world > 1;
    for (const WireTransport& by : options.wire->transports) {
      if (by.transport->info().in_process) place.ranks = world;
    }
  }
  return SpinNsOf(place, worker);
}

// A device that still works on memory can't be asked for anything again.
absl::Status Session::Impl::BreakIfBusy(absl::Status status) {
  if (memory->busy() && broken.ok()) broken = status;
  return status;
}

// Memory for all programs, then everything that needs addresses.
absl::Status Session::Impl::Prepare() {
  if (prepared) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(BreakIfBusy(memory->Allocate()));
  uint32_t workers = 0;
  for (auto& [name, program] : programs) {
    workers = std::max(workers, program->view().proto().workers());
  }
  while (threads.size() < workers) {
    WEFT_ASSIGN_OR_RETURN(
        std::unique_ptr<WorkerThread> thread,
        WorkerThread::Create(threads.size(), options.on_worker_start));
    threads.push_back(std::move(thread));
  }
  if (options.wire.has_value() && wire == nullptr) {
    if (!options.wire->core.has_value()) options.wire->core = OnlyCore();
    WEFT_ASSIGN_OR_RETURN(
        wire, Wire::Connect(*options.wire, threads[kWireWorker]->token()));
    LOG(INFO) << "joined with " << wire->Describe();
    options.wire->rendezvous->SetWake(options.wire->config.rank,
                                      [this] { control_word.Post(); });
  }
  if (wire != nullptr) WEFT_RETURN_IF_ERROR(Agree());
  Program::Resources resources;
  resources.wire = wire.get();
  resources.streams = streams.get();
  for (auto& thread : threads) {
    resources.spin_ns.push_back(
        SpinNs(static_cast<uint32_t>(resources.words.size())));
    resources.words.push_back(thread->word());
    resources.tokens.push_back(thread->token());
  }
  resources.control_word = &control_word;
  resources.wake_periods = options.periods_in_flight / 2 + 1;
  resources.drain_ns = options.drain_ns;
  resources.trace = options.trace;
  resources.profile = options.profile;
  for (auto& [name, program] : programs) {
    WEFT_RETURN_IF_ERROR(program->Prepare(resources));
  }
  prepared = true;
  return absl::OkStatus();
}

// Of programs that have met the other ranks' once, nothing changes any more.
absl::Status Session::Impl::Agree() {
  std::map<std::string, const plan::Plan*> met;
  for (const auto& [name, program] : programs) {
    const plan::Plan& plan = program->view().proto();
    if (plan.channels_size() == 0 || agreed.count(name) != 0) continue;
    met[name] = &plan;
  }
  // The first time all ranks come, for one may lack what the others have.
  if (met.empty() && agreements != 0) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(AgreeOnChannels(options.wire->rendezvous,
                                       options.wire->config.rank,
                                       absl::StrCat(agreements++), met));
  for (const auto& [name, plan] : met) agreed.insert(name);
  return ShareMemory();
}

// Registers that other ranks read, and theirs. All ranks come here together.
absl::Status Session::Impl::ShareMemory() {
  if (memory->shared_bytes() != 0 && !memory->has_shared()) {
    const bool lends =
        std::any_of(programs.begin(), programs.end(),
                    [](const auto& named) { return named.second->lends(); });
    WEFT_RETURN_IF_ERROR(wire->AllocShared(memory->shared_bytes(), lends));
    memory->SetShared(wire->shared());
  }
  std::vector<SharedValue> mine;
  for (const auto& [name, program] : programs) {
    const std::vector<SharedValue> values = program->shared_values();
    mine.insert(mine.end(), values.begin(), values.end());
  }
  WEFT_ASSIGN_OR_RETURN(const PeerValues theirs, wire->ExchangeShared(mine));
  for (const auto& [name, program] : programs) {
    WEFT_RETURN_IF_ERROR(program->TakePeerValues(theirs));
  }
  return absl::OkStatus();
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Session::~Session() {
  if (impl_->wire != nullptr) {
    const WireOptions& wire = *impl_->options.wire;
    wire.rendezvous->SetWake(wire.config.rank, nullptr);
  }
  const std::string reason = WhyNotFreed();
  if (reason.empty()) {
    // Threads end first: a worker looks at its program until it has left it.
    // Then the devices' queues: what they still do may wake a worker's word.
    for (auto& thread : impl_->threads) thread->Join();
    impl_->programs.clear();
    impl_->wire.reset();
    impl_->streams.reset();
    return;
  }
  // Closing a stream waits for its work, so nothing is closed and nothing
  // freed.
  LOG(ERROR) << reason << "; its session is not freed";
  for (auto& thread : impl_->threads) {
    if (thread->busy()) {
      thread->Abandon();
    } else {
      thread->Join();
    }
  }
  static auto* kept = new std::vector<std::unique_ptr<Impl>>;
  static Mutex* mu = new Mutex;
  MutexLock lock(mu);
  kept->push_back(std::move(impl_));
}

// Who still uses the session's memory; empty where nobody does.
std::string Session::WhyNotFreed() {
  if (!WaitForStuckWorkers()) return "a worker never came back";
  if (impl_->memory->busy()) return std::string(impl_->broken.message());
  for (const auto& [name, program] : impl_->programs) {
    for (const auto& worker : program->workers()) {
      if (worker->undrained().empty()) continue;
      // Late is not never.
      const std::vector<std::string> late = worker->DrainStreams(NowNs());
      if (late.empty()) continue;
      return absl::StrCat("work does not end on ", absl::StrJoin(late, ", "));
    }
  }
  return "";
}

// False where a thread still runs in there, so that its memory must stay.
bool Session::WaitForStuckWorkers() {
  if (!impl_->stuck) return true;
  // A worker had not come back when its run was given up. Perhaps it has now.
  const uint64_t until = NowNs() + std::max(impl_->options.drain_ns, kGraceNs);
  for (auto& thread : impl_->threads) {
    while (thread->busy() && NowNs() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (thread->busy()) return false;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(
    std::vector<Device*> devices, const SessionOptions& options) {
  if (devices.empty()) {
    return MakeError(ErrorCode::kDeviceNotFound, "a session without devices");
  }
  SetNotifyHook(&WakeToken::Notify);
  auto impl = std::make_unique<Impl>();
  impl->devices = devices;
  impl->options = options;
  impl->options.periods_in_flight =
      std::min(options.periods_in_flight, kMaxPeriodsInFlight);
  impl->memory =
      std::make_unique<SessionMemory>(std::move(devices), options.sync_ns);
  impl->streams = std::make_unique<StreamPool>();
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

namespace {

plan::Plan JoinWorkers(plan::Plan plan, uint32_t most) {
  if (most == 0 || plan.workers() <= most) return plan;
  for (plan::Stream& stream : *plan.mutable_streams()) {
    stream.set_worker(std::min(stream.worker(), most - 1));
  }
  plan.set_workers(most);
  return plan;
}

}  // namespace

absl::Status Session::LoadProgram(const plan::Plan& plan,
                                  const Bindings& bindings) {
  Impl& s = *impl_;
  WEFT_RETURN_IF_ERROR(s.broken);
  if (s.programs.count(plan.program()) != 0) {
    return MakeError(
        ErrorCode::kBadPlan,
        absl::StrCat("program '", plan.program(), "' is loaded already"));
  }
  bool reserved = false;
  absl::StatusOr<std::unique_ptr<Program>> loaded =
      Program::Load(JoinWorkers(plan, s.options.max_workers), bindings,
                    s.next_index, s.memory.get(), &reserved);
  if (!loaded.ok()) {
    // The session's memory knows a program that there is not.
    if (reserved) s.broken = loaded.status();
    return loaded.status();
  }
  std::unique_ptr<Program> program = *std::move(loaded);
  s.next_index += static_cast<uint32_t>(plan.tasks_size());
  s.programs.emplace(plan.program(), std::move(program));
  s.prepared = false;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Session::Run(absl::string_view program,
                                      uint64_t first_step, uint64_t periods,
                                      const RunOptions& run) {
  Impl& s = *impl_;
  WEFT_RETURN_IF_ERROR(s.broken);
  auto at = s.programs.find(program);
  if (at == s.programs.end()) {
    std::vector<std::string> names;
    for (auto& [name, p] : s.programs) names.push_back(name);
    return MakeError(ErrorCode::kInternal,
                     absl::StrCat("no program '", program,
                                  "'; loaded: ", absl::StrJoin(names, ", ")));
  }
  if (periods == 0 || (!run.ignore_stop && s.stop.load())) return 0;
  WEFT_RETURN_IF_ERROR(s.Prepare());
  Control control(at->second.get(), s.threads, &s.control_word, s.options,
                  run.ignore_stop ? nullptr : &s.stop);
  absl::StatusOr<uint64_t> done = control.Run(first_step, periods);
  // A worker that is stuck may have what this needs.
  if (s.options.attend && !control.stuck()) {
    absl::Status attended = s.options.attend();
    if (done.ok() && !attended.ok()) done = std::move(attended);
  }
  if (!done.ok()) {
    s.broken = done.status();
    GiveUp(s.broken);
  }
  if (control.stuck()) s.stuck = true;
  return done;
}

absl::Status Session::Leave() {
  Impl& s = *impl_;
  WEFT_RETURN_IF_ERROR(s.broken);
  if (s.wire == nullptr) return absl::OkStatus();
  return s.wire->Leave();
}

void Session::GiveUp(const absl::Status& cause) {
  if (impl_->wire != nullptr) impl_->wire->Abort(cause);
}

void Session::RequestStop() {
  impl_->stop.store(true);
  impl_->control_word.Post();
}

void Session::ClearStop() { impl_->stop.store(false); }

bool Session::stop_requested() const { return impl_->stop.load(); }

std::vector<StateInfo> Session::States() const {
  std::vector<StateInfo> result;
  for (const auto& [name, state] : impl_->memory->states()) {
    StateInfo info;
    info.name = name;
    info.device = impl_->devices[static_cast<size_t>(state.device)]->Name();
    info.dtype = state.dtype;
    info.dims = state.dims;
    info.bytes = state.bytes;
    result.push_back(std::move(info));
  }
  return result;
}

namespace {

absl::StatusOr<const StateEntry*> FindState(const SessionMemory& memory,
                                            absl::string_view name) {
  auto at = memory.states().find(std::string(name));
  if (at == memory.states().end()) {
    return MakeError(ErrorCode::kInternal,
                     absl::StrCat("no state '", name, "' in this session"));
  }
  return &at->second;
}

}  // namespace

absl::Status Session::ReadState(absl::string_view name, absl::Span<char> out) {
  WEFT_RETURN_IF_ERROR(impl_->broken);
  WEFT_RETURN_IF_ERROR(impl_->Prepare());
  WEFT_ASSIGN_OR_RETURN(const StateEntry* state,
                        FindState(*impl_->memory, name));
  return impl_->BreakIfBusy(impl_->memory->ReadState(*state, out));
}

absl::Status Session::WriteState(absl::string_view name,
                                 absl::Span<const char> data) {
  WEFT_RETURN_IF_ERROR(impl_->broken);
  WEFT_RETURN_IF_ERROR(impl_->Prepare());
  WEFT_ASSIGN_OR_RETURN(const StateEntry* state,
                        FindState(*impl_->memory, name));
  return impl_->BreakIfBusy(impl_->memory->WriteState(*state, data));
}

std::map<std::string, uint64_t> Session::PlannedBytes() const {
  std::map<std::string, uint64_t> result;
  for (size_t d = 0; d < impl_->devices.size(); ++d) {
    result[impl_->devices[d]->Name()] =
        impl_->memory->PlannedBytes(static_cast<int>(d));
  }
  // The first device is the host.
  result[impl_->devices[0]->Name()] += impl_->memory->shared_bytes();
  return result;
}

uint64_t Session::acts() const {
  uint64_t acts = 0;
  for (const auto& [name, program] : impl_->programs) {
    for (const auto& worker : program->workers()) acts += worker->acts();
  }
  return acts;
}

Session::Stats Session::stats() const {
  Stats stats;
  stats.acts = acts();
  for (const auto& [name, program] : impl_->programs) {
    for (const auto& worker : program->workers()) {
      stats.launches += worker->launches();
      stats.hops += worker->hops();
    }
  }
  for (const auto& thread : impl_->threads) {
    stats.sleeps += thread->word()->sleeps();
  }
  return stats;
}

}  // namespace weft::runtime
