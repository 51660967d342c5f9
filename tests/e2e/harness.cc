#include "tests/e2e/harness.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/os.h"
#include "gtest/gtest.h"
#include "plugins/host/test_plugins.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/idx.h"

namespace weft::e2e {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 28;

std::FILE* DevNull() {
  static std::FILE* file = std::fopen("/dev/null", "w");
  return file;
}

// The real files, but nobody waits until they are on the disk: no test here
// cuts the power, and a busy disk makes hundreds of runs slow.
class UnsyncedOs : public Os {
 public:
  absl::StatusOr<std::string> ReadFile(const std::string& path,
                                       uint64_t max_bytes) override {
    return RealOs().ReadFile(path, max_bytes);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override {
    return Wrap(RealOs().Create(path));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Append(
      const std::string& path) override {
    return Wrap(RealOs().Append(path));
  }
  absl::Status Truncate(const std::string& path, uint64_t bytes) override {
    return RealOs().Truncate(path, bytes);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return RealOs().Rename(from, to);
  }
  absl::Status MakeDirectories(const std::string& path) override {
    return RealOs().MakeDirectories(path);
  }
  absl::Status SyncDirectory(const std::string&) override {
    return absl::OkStatus();
  }
  absl::Status RemoveAll(const std::string& path) override {
    return RealOs().RemoveAll(path);
  }
  absl::Status RemoveEmptyDirectory(const std::string& path) override {
    return RealOs().RemoveEmptyDirectory(path);
  }
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) override {
    return RealOs().List(path);
  }
  bool Exists(const std::string& path) override {
    return RealOs().Exists(path);
  }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(
      const std::string& path) override {
    return RealOs().Lock(path);
  }

 private:
  class File : public WritableFile {
   public:
    explicit File(std::unique_ptr<WritableFile> base)
        : base_(std::move(base)) {}
    absl::Status Append(absl::string_view bytes) override {
      return base_->Append(bytes);
    }
    absl::Status Sync() override { return absl::OkStatus(); }
    absl::Status Close() override { return base_->Close(); }

   private:
    std::unique_ptr<WritableFile> base_;
  };

  static absl::StatusOr<std::unique_ptr<WritableFile>> Wrap(
      absl::StatusOr<std::unique_ptr<WritableFile>> file) {
    if (!file.ok()) return file;
    return std::unique_ptr<WritableFile>(new File(*std::move(file)));
  }
};

int OpenForOutput(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

// In the child: never returns.
[[noreturn]] void Exec(const std::string& program,
                       const std::vector<std::string>& args,
                       const std::vector<std::string>& environment,
                       const std::string& directory, const Limits& limits,
                       int out, int err) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::pair<int, uint64_t> resources[] = {
      {RLIMIT_FSIZE, limits.file_bytes},
      {RLIMIT_AS, limits.address_bytes},
      {RLIMIT_NOFILE, limits.open_files}};
  for (const auto& [resource, most] : resources) {
    if (most == 0) continue;
    const rlimit limit = {most, most};
    if (setrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) {
      _exit(125);
    }
  }
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& a : args)
    argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (const std::string& e : environment) {
    envp.push_back(const_cast<char*>(e.c_str()));
  }
  envp.push_back(nullptr);
  if (chdir(directory.c_str()) != 0) _exit(126);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execve(program.c_str(), argv.data(), envp.data());
  _exit(127);
}

}  // namespace

void WriteImages(const std::string& images, const std::string& labels,
                 const DataSpec& data) {
  std::mt19937 random(data.seed);
  const int64_t pixels = data.side * data.side;
  data::IdxArray image{Shape({data.samples, data.side, data.side}), ""};
  data::IdxArray label{Shape({data.samples}), ""};
  for (int64_t i = 0; i < data.samples; ++i) {
    const int64_t c = random() % data.classes;
    label.bytes.push_back(static_cast<char>(c));
    for (int64_t p = 0; p < pixels; ++p) {
      const bool bright = p * data.classes / pixels == c;
      image.bytes.push_back(
          static_cast<char>(random() % 128 + (bright ? 100 : 0)));
    }
  }
  // Every class has a sample, whatever the seed.
  for (int64_t c = 0; c < data.classes; ++c) label.bytes[c] = c;
  WriteText(images, data::EncodeIdx(image));
  WriteText(labels, data::EncodeIdx(label));
}

std::string ReadText(const std::string& path) {
  absl::StatusOr<std::string> text = RealOs().ReadFile(path, kMaxBytes);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

void WriteText(const std::string& path, absl::string_view text) {
  absl::Status status = WriteFileAtomically(RealOs(), path, text);
  EXPECT_TRUE(status.ok()) << status;
}

std::string UniqueName(absl::string_view text) {
  static std::atomic<int> count{0};
  return absl::StrCat(text, "-", getpid(), "-", RealClock().UnixNs(), "-",
                      ++count);
}

std::vector<std::string> ListNames(const std::string& path) {
  absl::StatusOr<std::vector<std::string>> names = RealOs().List(path);
  return names.ok() ? *std::move(names) : std::vector<std::string>();
}

std::map<std::string, std::string> StateOf(const std::string& path) {
  absl::StatusOr<checkpoint::Loaded> loaded = checkpoint::Load(RealOs(), path);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  std::map<std::string, std::string> out;
  if (!loaded.ok()) return out;
  for (const checkpoint::NamedTensor& t : loaded->tensors) {
    out[absl::StrCat(t.name, " ", t.type.ToString())] = std::string(t.bytes);
  }
  EXPECT_FALSE(out.empty()) << path;
  return out;
}

std::string MetricsOf(const std::string& run_directory) {
  return ReadText(JoinPath(run_directory, "metrics.jsonl"));
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      status_(other.status_),
      ended_(std::exchange(other.ended_, true)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)) {}

Process::~Process() {
  if (!Running()) return;
  Signal(SIGKILL);
  waitpid(pid_, &status_, 0);
}

void Process::Signal(int number) const {
  if (!ended_) kill(pid_, number);
}

bool Process::Running() {
  if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

std::string Process::ErrSoFar() const { return ReadText(err_); }

Ended Process::Wait() {
  if (!ended_) ended_ = waitpid(pid_, &status_, 0) == pid_;
  Ended end;
  if (WIFEXITED(status_)) end.exit_code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) end.signal = WTERMSIG(status_);
  end.out = ReadText(out_);
  end.err = ReadText(err_);
  return end;
}

namespace {

// Bazel says where; without it nothing is written, and nothing removed.
std::string FolderOfTests() {
  const char* folder = std::getenv("TEST_TMPDIR");
  if (folder == nullptr || folder[0] != '/') {
    std::fputs("TEST_TMPDIR is not set to a folder\n", stderr);
    std::abort();
  }
  return folder;
}

}  // namespace

TestJob::TestJob(const std::string& name, const std::string& model,
                 const DataSpec& data)
    : folder_(JoinPath(FolderOfTests(), name)) {
  EXPECT_TRUE(RealOs().RemoveAll(folder_).ok());
  EXPECT_TRUE(RealOs().MakeDirectories(File("runs")).ok());
  WriteImages(File("train-images"), File("train-labels"), data);
  DataSpec test = data;
  test.samples = data.samples / 2 + 3;  // the last batch is padded
  test.seed = data.seed + 1000;
  WriteImages(File("test-images"), File("test-labels"), test);
  WriteText(path(), absl::StrCat(R"(name: "job"
model { )",
                                 model, R"( }
data {
  train { idx { images: "train-images" labels: "train-labels" } }
  eval { idx { images: "test-images" labels: "test-labels" } }
  normalize { mean: 0.25 std: 0.2 }
}
optimizer { sgd { momentum: 0.9 } schedule { constant { base: 0.05 } } }
batch_size: 16
epochs: 3
seed: 7
runtime { threads: 1 }
)"));
}

std::string TestJob::File(absl::string_view name) const {
  return JoinPath(folder_, name);
}

TrainOptions TestJob::Options(const Sets& sets) const {
  TrainOptions options;
  options.job_path = path();
  options.sets = sets;
  options.runs_dir = File("runs");
  options.plugins =
      TestLoadOptions({"devices", "examples/vendor_device", "transport"});
  options.progress = false;
  options.talk = DevNull();
  static UnsyncedOs os;
  options.os = &os;
  return options;
}

absl::StatusOr<TrainResult> TestJob::Train(const Sets& sets) const {
  return weft::Train(Options(sets));
}

std::string TestJob::weft() const {
  // A job may have a program of its own, beside plugins of its own.
  const std::string own = File("bin/weft");
  return RealOs().Exists(own) ? own : RunfilePath("tools/weft/weft");
}

Process TestJob::Program(const std::string& program,
                         const std::vector<std::string>& args,
                         const Environ& environment,
                         const Limits& limits) const {
  static int count = 0;
  const std::string stem = File(absl::StrCat("process-", ++count));
  // The first of a name counts.
  std::vector<std::string> envp;
  for (const auto& [name, value] : environment) {
    envp.push_back(absl::StrCat(name, "=", value));
  }
  envp.push_back("PATH=/usr/bin:/bin");
  envp.push_back(absl::StrCat("WEFT_RUNS_DIR=", File("runs")));
  int out = OpenForOutput(stem + ".out"), err = OpenForOutput(stem + ".err");
  EXPECT_GE(out, 0);
  EXPECT_GE(err, 0);
  const pid_t pid = fork();
  if (pid == 0) Exec(program, args, envp, folder_, limits, out, err);
  EXPECT_GT(pid, 0);
  close(out);
  close(err);
  return Process(pid, stem + ".out", stem + ".err");
}

std::vector<std::string> TestJob::Runs() const {
  std::vector<std::string> out;
  for (const std::string& name : ListNames(File("runs"))) {
    out.push_back(JoinPath(File("runs"), name));
  }
  return out;
}

std::vector<pid_t> ChildrenOf(pid_t pid) {
  const std::string path =
      absl::StrCat("/proc/", pid, "/task/", pid, "/children");
  std::vector<pid_t> out;
  for (absl::string_view word :
       absl::StrSplit(RealOs().ReadFile(path, 1 << 16).value_or(""), ' ')) {
    pid_t child = 0;
    if (absl::SimpleAtoi(word, &child)) out.push_back(child);
  }
  return out;
}

void AwaitMetrics(const TestJob& job, Process* process, int lines) {
  while (process->Running()) {
    if (!job.Runs().empty()) {
      const std::string text =
          RealOs()
              .ReadFile(JoinPath(job.Runs().back(), "metrics.jsonl"), 1 << 24)
              .value_or("");
      if (std::count(text.begin(), text.end(), '\n') >= lines) return;
    }
    sched_yield();
  }
  FAIL() << "it ended: " << process->Wait().err;
}

TrainOptions OnRanks(const TestJob& job, uint32_t ranks, const Sets& sets,
                     const std::string& transport) {
  TrainOptions options = job.Options(sets);
  options.virtual_ranks = ranks;
  options.transport_options = transport;
  return options;
}

Left LeftBy(const TrainOptions& options) {
  absl::StatusOr<TrainResult> result = Train(options);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  return {StateOf(result->run_directory), MetricsOf(result->run_directory),
          result->steps};
}

void ExpectSame(const Left& a, const Left& b) {
  EXPECT_TRUE(a.state == b.state);  // bits: not to be printed
  EXPECT_EQ(a.metrics, b.metrics);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_GT(a.steps, 0u);
}

std::string Mlp() {
  return R"(builtin { name: "mlp" args { key: "hidden" value: "12,8" } })";
}

std::string Lenet() {
  return R"(builtin { name: "lenet"
    args { key: "channels" value: "3,4" }
    args { key: "hidden" value: "8" } })";
}

}  // namespace weft::e2e
