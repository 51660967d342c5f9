#!/bin/sh
# The kernels of every class of instruction sets compute the same bits, and code
# that all classes share uses no instructions that only some processors have.
# Usage: isa_test.sh FILE.so TEST...
set -eu
so=$1
shift

# ymm and zmm registers belong in the namespaces of their targets alone.
look_at_code() {
  objdump -d --no-show-raw-insn "$so" > "$TEST_TMPDIR/code"
  awk '/^[0-9a-f]+ </ {
         avx2 = /8weft_cpu4avx2/
         avx512 = /8weft_cpu6avx512/
         name = $0
       }
       /%[yz]mm/ {
         if (avx2) used2++
         else if (avx512) used512++
         else { print "in " name $0; bad = 1 }
       }
       END {
         if (used2 < 1000 || used512 < 1000) {
           print "hardly any wide code: this test looks for the wrong names"
           bad = 1
         }
         exit bad
       }' "$TEST_TMPDIR/code"
}

if [ -n "${SANITIZED:-}" ]; then
  echo "skipped the machine code: with a sanitizer nothing is vectorised"
else
  look_at_code
fi

# As the kernel names them.
has() { grep -m1 '^flags' /proc/cpuinfo | grep -qw "$1"; }
classes=sse4
has avx2 && classes="$classes avx2" || echo "skipped avx2: not in this processor"
has avx512bw && classes="$classes avx512" || echo "skipped avx512: not in this processor"

for test in "$@"; do
  for class in $classes; do
    TEST_ISA=$class "$test" > "$TEST_TMPDIR/out" 2>&1 || {
      cat "$TEST_TMPDIR/out"
      echo "$test fails with $class"
      exit 1
    }
    digest=$(grep '^digest .* of [1-9]' "$TEST_TMPDIR/out")
    echo "$test $class: $digest"
    if [ "$class" = sse4 ]; then
      first=$digest
    elif [ "$digest" != "$first" ]; then
      echo "$test: other bits with $class than with sse4"
      exit 1
    fi
  done
done

# Both ways of multiplying bf16; by default a processor takes one of them.
ways=
for test in "$@"; do
  case $test in *nn_test) ;; *) continue ;; esac
  for way in onednn f32; do
    TEST_BF16=$way "$test" > "$TEST_TMPDIR/out" 2>&1 || {
      cat "$TEST_TMPDIR/out"
      echo "$test fails with bf16=$way"
      exit 1
    }
    ways="$ways $way"
  done
done
[ "$ways" = " onednn f32" ] || {
  echo "no test multiplies"
  exit 1
}
