#!/usr/bin/env bash
# Compare two commits, pass by pass: what moved, by benchstat.
#
#   bench/compare.sh [-n PASSES] [-t TIME] [-b BENCH] OLD [NEW]
#
# NEW is HEAD by default, BENCH the cycle of the queue; both commits must have the
# benchmarks. Run it before and after any change to a hot path, on a machine with
# nothing else to do: a row whose foreign-% is above 20 says nothing about times,
# only about allocations. With fewer than six passes benchstat gives no verdict.
# It is not run by CI, whose machines are noisy.
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
stat=$(command -v benchstat || true)
if [ -z "$stat" ]; then
	GOBIN=$tmp GOFLAGS= go install golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da || {
		echo "benchstat cannot be had; the samples:" >&2
		cat "$tmp/old.txt" "$tmp/new.txt"
		exit
	}
	stat=$tmp/benchstat
fi
for side in old new; do
	grep -q '^Benchmark' "$tmp/$side.txt" || { echo "no benchmark of ${!side} matches $bench" >&2; exit 1; }
done
(cd "$tmp" && "$stat" old.txt new.txt)
