// Runs a fuzz target over the files of a corpus, so that it is a plain test
// where the compiler has no fuzzer.
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) return 1;
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    // Every prefix too: cut-off texts are the usual damage.
    for (size_t size = 0; size <= bytes.size(); ++size) {
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()),
                             size);
    }
  }
  return argc > 1 ? 0 : 1;
}
