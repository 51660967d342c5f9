#!/usr/bin/env bash
# Rules of the code that a pattern can see. Each line of output is one offence:
# the rule, then where.
here=$(dirname "${BASH_SOURCE[0]}")
status=0
mapfile -t code < <("$here/files.sh" '*.cc' '*.h' '*.hpp' '*.c' '*.cu')
mapfile -t scripts < <("$here/files.sh" '*.sh' '*.py' '*.bzl' '*BUILD.bazel')

# forbid RULE ALLOWED PATTERN FILE...: complains where PATTERN (extended regular
# expression) stands in a FILE, but for lines "path:number:text" that ALLOWED
# matches.
forbid() {
  local rule=$1 allowed=$2 pattern=$3 found
  shift 3
  [ $# -gt 0 ] || return 0
  found=$(grep -HnE -- "$pattern" "$@" | grep -vE -- "$allowed" | cut -c1-160)
  [ -z "$found" ] || {
    printf '%s\n' "$found" | sed "s|^|$rule: |"
    status=1
  }
}
never='^$'

forbid 'a TODO names who: TODO(name)' '^tools/checks/' \
  '(TODO|FIXME|XXX)($|[^(A-Za-z_])' "${code[@]}" "${scripts[@]}"
# The system's prebuilt Abseil is not instrumented, so the thread sanitizer
# reports its mutex.
forbid 'weft::Mutex instead of Abseil'"'"'s' '^[^:]*:[0-9]*: *//' \
  'absl::(Mutex|Notification|CondVar|BlockingCounter)|absl/synchronization/' "${code[@]}"
# What is read of another process is a file in /proc.
forbid 'only core/base/env.cc reads the environment' \
  '^core/base/env\.cc:|getenv\("TEST_[A-Z0-9]+"\)|"environ"|^[^:]*:[0-9]*: *(//|\*|/\*)' \
  '\bgetenv\b|\benviron\b' "${code[@]}"
forbid 'no vendor or wire outside its place' \
  '^(transport/grpc|runtime/rendezvous|benchmarks/transport)/' '# *include *[<"]grpc' "${code[@]}"
# for (x : *F()) and for (x : F().value()) read what is gone before the first
# turn.
forbid 'a range-for over a temporary StatusOr' "$never" \
  'for \([^;]* : (\*[A-Za-z_:]+\(|[^;]*\)\.value\(\))' "${code[@]}"

mapfile -t tests < <(printf '%s\n' "${code[@]}" | grep -E '_test\.(cc|c)$|/testing/')
forbid 'a test waits for an event, not for a time' "$never" \
  '\b(sleep_for|sleep_until|usleep|nanosleep)\b|[^a-z_]sleep\(' "${tests[@]}"
exit $status
