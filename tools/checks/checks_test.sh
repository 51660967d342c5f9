#!/usr/bin/env bash
# Each check passes a small tree that is right, and complains when one defect is
# planted in it.
set -uo pipefail
checks=$PWD/tools/checks
tree=$TEST_TMPDIR/tree
# No repository around the tree: files.sh lists every file.
export GIT_CEILING_DIRECTORIES=$TEST_TMPDIR GIT_DIR=$TEST_TMPDIR/none
failures=0

# Makes the tree anew, without a defect.
fresh_tree() {
  rm -rf "$tree"
  mkdir -p "$tree"/{core/base,docs/errors,tools/weft,tools/checks}
  cd "$tree" || exit 1
  cp -L "$checks"/* tools/checks/
  printf '# path\n' > tools/checks/size_exceptions.txt
  printf '# Title\n\n## A part\n\n[up](../README.md), [part](#a-part)\n' > docs/page.md
  printf '# Tree\n\nSee [page](docs/page.md#a-part) and core/base/a.h:\n\n    ./bazelw run //tools/weft -- x\n' > README.md
  printf 'cc_binary(\n    name = "weft",\n)\n' > tools/weft/BUILD.bazel
  printf '// See docs/page.md.\nnamespace weft {\nint F();\n}\n' > core/base/a.h
  printf '#include "core/base/a.h"\n\nnamespace weft {\nint F() { return 1; }\n}\n' > core/base/a.cc
  printf 'WEFT_ERROR(1001, kFirst, "first thing")\n' > core/base/error_table.inc
  printf '# WEFT-1001: first thing\n' > docs/errors/WEFT-1001.md
}

# A file core/base/long.cc whose one function has $1 lines.
function_of() {
  printf 'namespace weft {\nint F(const std::vector<int>& a,\n      int b) {\n'
  for ((i = 3; i < $1; ++i)); do echo '  b += a[0];  // } {'; done
  printf '}\n}  // namespace weft\n'
}

passes() {
  local out
  out=$("tools/checks/$1" "${@:2}" 2>&1) || {
    echo "$1 complains about a tree that is right: $out"
    failures=$((failures + 1))
  }
}

# catches TEXT CHECK [ARG...]: CHECK fails and says TEXT; then the tree is new.
catches() {
  local text=$1 out
  shift
  if out=$("tools/checks/$1" "${@:2}" 2>&1); then
    echo "$1 does not see: $text"
    failures=$((failures + 1))
  elif ! grep -qF -- "$text" <<<"$out"; then
    echo "$1 should say '$text' but says: $out"
    failures=$((failures + 1))
  fi
  fresh_tree
}

fresh_tree
passes size.py
passes links.py
passes rules.sh
passes words.sh
passes commands.sh
passes error_pages.sh
passes compile_headers.sh "${CXX:-g++}" . core/base/a.h

# Sizes: files, plain functions, members, constructors, functions after tricky text.
function_of 100 > core/base/long.cc
passes size.py
function_of 101 > core/base/long.cc
catches 'core/base/long.cc:2: a function of 101 lines' size.py
yes '// line' | head -801 > core/base/long.h
catches 'core/base/long.h has 801 lines' size.py
yes '// line' | head -801 > core/base/long.h
printf 'core/base/long.h\ta table\n' >> tools/checks/size_exceptions.txt
passes size.py
fresh_tree
{
  printf 'class C {\n public:\n  C() : a_{1}, b_(2) {\n'
  yes '    a_ += 1;' | head -100
  printf '  }\n};\n'
} > core/base/member.h
catches 'a function of 102 lines' size.py
{
  printf 'const char* kText = R"(} } {)";\nchar c = %s;\nint Late() {\n' "'{'"
  yes '  if (c) { c = 0; }' | head -100
  printf '}\n'
} > core/base/late.cc
catches 'core/base/late.cc:3: a function of 102 lines' size.py

echo '[gone](gone.md)' >> docs/page.md
catches 'docs/page.md: no gone.md' links.py
echo '[gone](../README.md#gone)' >> docs/page.md
catches 'no heading for ../README.md#gone' links.py
echo '// See core/base/gone.h.' >> core/base/a.cc
catches 'core/base/a.cc:6: no core/base/gone.h' links.py
echo 'See core/base/gone.h.' >> docs/page.md
catches 'no core/base/gone.h' links.py

# Written in pieces, so that the checks do not find this file itself.
echo "// TO""DO: later" >> core/base/a.cc
catches 'names who' rules.sh
echo "// TO""DO(ann): later" >> core/base/a.cc
passes rules.sh
fresh_tree
echo "absl::Mu""tex m;" >> core/base/a.cc
catches 'weft::Mutex' rules.sh
echo "#include \"absl/synchro""nization/notification.h\"" >> core/base/a.cc
catches 'weft::Mutex' rules.sh
echo "auto* p = std::get""env(\"HOME\");" >> core/base/a.cc
catches 'reads the environment' rules.sh
echo "auto* p = std::get""env(\"TEST_TMPDIR\");" >> core/base/a.cc
echo "auto* p = std::get""env(name);" >> core/base/env.cc
passes rules.sh
fresh_tree
echo "std::this_thread::sleep""_for(d);" >> core/base/a_test.cc
catches 'waits for an event' rules.sh
echo "#include <grpc""pp/grpcpp.h>" >> core/base/a.cc
catches 'no vendor' rules.sh
echo "for (int x : *""Values()) F();" >> core/base/a.cc
catches 'temporary StatusOr' rules.sh
echo "for (int x : Values().value""()) F();" >> core/base/a.cc
catches 'temporary StatusOr' rules.sh

echo "See /ho""me/ann/weft." >> docs/page.md
catches 'docs/page.md' words.sh
echo '    ./bazelw run //tools/gone -- x' >> README.md
catches 'no target //tools/gone' commands.sh

rm docs/errors/WEFT-1001.md
catches 'docs/errors/WEFT-1001.md is missing' error_pages.sh
echo '# WEFT-1001: another thing' > docs/errors/WEFT-1001.md
catches "does not start with '# WEFT-1001: first thing'" error_pages.sh
echo '# WEFT-1002: no row' > docs/errors/WEFT-1002.md
catches 'WEFT-1002.md has no row' error_pages.sh

echo 'std::string G();' >> core/base/a.h
catches 'core/base/a.h does not compile alone' compile_headers.sh "${CXX:-g++}" . core/base/a.h
mkdir -p plugins/abi
echo 'struct A { int x; }; A* f();' > plugins/abi/a.h
catches 'plugins/abi/a.h is not C11' compile_headers.sh "${CXX:-g++}" . plugins/abi/a.h

# A stand-in for clang-tidy that dislikes one word.
mkdir -p "$TEST_TMPDIR/bin"
printf '#!/bin/sh\n! grep -H DISLIKED "$2"\n' > "$TEST_TMPDIR/bin/clang-tidy"
chmod +x "$TEST_TMPDIR/bin/clang-tidy"
PATH=$TEST_TMPDIR/bin:$PATH
passes tidy.sh . 60 core/base/a.cc
echo '// DISLIKED' >> core/base/a.cc
cp core/base/a.cc core/base/b.cc
catches 'core/base/b.cc:// DISLIKED' tidy.sh . 60 core/base/a.cc core/base/b.cc
# Looking at none is no success.
left=$(tools/checks/tidy.sh . 0 core/base/a.cc)
[ "$? $left" = '77 1 of 1 files not reached in 0 s' ] || {
  echo "tidy.sh does not say that it looked at nothing"
  failures=$((failures + 1))
}

[ "$failures" -eq 0 ]
