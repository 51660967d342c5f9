// RESULT lines: what every benchmark prints, one line a metric, tab-separated:
//   RESULT section name metric median min max n unit
//
//   auto ns = Measure(31, [&] { ...work of `per` operations... }, per);
//   PrintResult("dispatch", "weft chain1000", "ns/op", ns, "ns");
//
// Threading: free functions.
#ifndef WEFT_BENCHMARKS_RESULT_H_
#define WEFT_BENCHMARKS_RESULT_H_

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace weft::benchmarks {

// Nanoseconds per operation, one value a repetition; one more run warms up.
template <typename Fn>
std::vector<double> Measure(int repetitions, Fn&& fn, double per) {
  std::vector<double> result;
  fn();
  for (int i = 0; i < repetitions; ++i) {
    auto begin = std::chrono::steady_clock::now();
    fn();
    std::chrono::duration<double, std::nano> time =
        std::chrono::steady_clock::now() - begin;
    result.push_back(time.count() / per);
  }
  return result;
}

inline double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

inline void PrintResult(const std::string& section, const std::string& name,
                        const std::string& metric,
                        const std::vector<double>& values,
                        const std::string& unit) {
  std::printf("RESULT\t%s\t%s\t%s\t%.4g\t%.4g\t%.4g\t%zu\t%s\n",
              section.c_str(), name.c_str(), metric.c_str(), Median(values),
              *std::min_element(values.begin(), values.end()),
              *std::max_element(values.begin(), values.end()), values.size(),
              unit.c_str());
  std::fflush(stdout);
}

// Keeps the calling thread on core `cpu`, where that is allowed.
inline void Pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace weft::benchmarks

#endif  // WEFT_BENCHMARKS_RESULT_H_
