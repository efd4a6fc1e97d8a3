#!/usr/bin/env bash
# Compare two commits, pass by pass: what moved, by benchstat.
#
#   bench/compare.sh [-n PASSES] [-t TIME] [-b BENCH] OLD [NEW]
#
# NEW is HEAD by default. Run it before and after any change to a hot path, on a
# machine with nothing else to do. It is not run by CI, whose machines are noisy.
set -euo pipefail
passes=6 time=300ms bench='^BenchmarkCycle$/key=/keys=1k$/impl=tend$'
while getopts n:t:b: o; do
	case $o in
	n) passes=$OPTARG ;; t) time=$OPTARG ;; b) bench=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
old=${1:?which commit to compare with?} new=${2:-HEAD}
top=$(git rev-parse --show-toplevel)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"; git -C "$top" worktree prune' EXIT
for side in old new; do
	git -C "$top" worktree add -q --detach "$tmp/$side" "${!side}"
	GOWORK=off go test -C "$tmp/$side/bench" -c -o "$tmp/$side.test" .
done
for ((i = 1; i <= passes; i++)); do
	for side in old new; do
		echo "pass $i of $passes: $side" >&2
		"$tmp/$side.test" -test.run '^$' -test.bench "$bench" -test.benchtime "$time" -test.benchmem >>"$tmp/$side.txt"
	done
done
if command -v benchstat >/dev/null; then
	(cd "$tmp" && benchstat old.txt new.txt)
else
	echo "benchstat is not installed (go install golang.org/x/perf/cmd/benchstat@latest); the samples:" >&2
	cat "$tmp/old.txt" "$tmp/new.txt"
fi
