// All-reduce of f32 by MPI, for benchmarks/all_reduce to be compared with; see
// all_reduce.sh. Operand and result are two buffers, as there.
//
//   mpicxx -O2 -std=c++17 -I../.. mpi_all_reduce.cc -o /tmp/mpi_all_reduce
//   mpirun -n 2 /tmp/mpi_all_reduce NAME
#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/result.h"

namespace {

struct Size {
  const char* name;
  int64_t bytes;
  int calls;
};
constexpr Size kSizes[] = {{"4KiB", 4 << 10, 2000},
                           {"1MiB", 1 << 20, 100},
                           {"64MiB", 64 << 20, 4},
                           {"256MiB", int64_t{256} << 20, 1}};
constexpr int kRepetitions = 9;

void Run(const std::string& name, int rank, int ranks, const Size& size) {
  const auto n = static_cast<int>(size.bytes / 4);
  std::vector<float> operand(n, static_cast<float>(rank + 1)), sum(n);
  const auto calls = [&] {
    for (int i = 0; i < size.calls; ++i) {
      MPI_Allreduce(operand.data(), sum.data(), n, MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    }
  };
  MPI_Barrier(MPI_COMM_WORLD);
  const auto us =
      weft::benchmarks::Measure(kRepetitions, calls, size.calls * 1e3);
  const float expected = static_cast<float>(ranks * (ranks + 1)) / 2;
  if (sum.front() != expected || sum.back() != expected) {
    std::fprintf(stderr, "wrong sum: %g\n", sum.front());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (rank == 0) {
    weft::benchmarks::PrintResult(
        "all_reduce", name + " p" + std::to_string(ranks), size.name, us, "us");
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const Size& size : kSizes) {
    Run(argc > 1 ? argv[1] : "mpi", rank, ranks, size);
  }
  MPI_Finalize();
  return 0;
}
