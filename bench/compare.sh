#!/usr/bin/env bash
# Compare the working tree with commits and with a peer, pass by pass.
#
#   bench/compare.sh [-n PASSES] [-t TIME] [-b BENCH] [-i IMPL] [-p PEER] [-u UNITS] [COMMIT...]
#
# BENCH names each level of the benchmarks but the last, which is impl=; several of them are
# separated by |. IMPL (tend) is run of the working tree and of each commit, PEER (client-go;
# - is none) of the working tree. Each pass runs all of them, one after the other, so that a
# load that comes and goes falls on all. For each row the medians are printed, and in brackets
# the median of the ratios to the working tree, each taken within one pass: above 1 is slower
# than the working tree. UNITS are the metrics that count, the first that a row has; by default
# CPU time, which other processes hardly change. CI does not run it.
set -euo pipefail
passes=7 time=300ms bench='^BenchmarkCycle$/key=/keys=1k$' impl=tend peer=client-go units='cpu-ns/key cpu-ns/op ns/op'
while getopts n:t:b:i:p:u: o; do
	case $o in
	n) passes=$OPTARG ;; t) time=$OPTARG ;; b) bench=$OPTARG ;; i) impl=$OPTARG ;; p) peer=$OPTARG ;; u) units=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
top=$(git rev-parse --show-toplevel)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"; git -C "$top" worktree prune' EXIT
GOWORK=off go test -C "$top/bench" -tags peers -c -o "$tmp/tree.test" .
for commit; do
	name=${commit//\//_}
	git -C "$top" worktree add -q --detach "$tmp/of-$name" "$commit"
	GOWORK=off go test -C "$tmp/of-$name/bench" -tags peers -c -o "$tmp/$name.test" .
done
run() { # SIDE BINARY IMPL
	"$tmp/${2//\//_}.test" -test.run '^$' -test.bench "${bench//|//impl=$3\$|}/impl=$3\$" -test.benchtime "$time" -test.benchmem |
		sed -n "s|^\(Benchmark.*\)/impl=[^ \t]*|$pass $1 \1|p" >>"$tmp/samples"
}
for ((pass = 1; pass <= passes; pass++)); do
	echo "pass $pass of $passes" >&2
	run tree tree "$impl"
	for commit; do run "$commit" "$commit" "$impl"; done
	[ "$peer" = - ] || run "$peer" tree "$peer"
done
[ -s "$tmp/samples" ] || { echo "no benchmark matches $bench/impl=$impl" >&2; exit 1; }
[ "$peer" = - ] || set -- "$@" "$peer"
awk -v sides="tree $*" -v units="$units" '
	function median(list,    a, n, i, j, x) {
		n = split(list, a, " ")
		for (i = 2; i <= n; i++) {
			x = a[i] + 0
			for (j = i - 1; j > 0 && a[j] + 0 > x; j--) a[j + 1] = a[j]
			a[j + 1] = x
		}
		return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
	}
	{
		row = $3; sub(/-[0-9]+$/, "", row)
		if (!(row in seen)) { seen[row]; rows[++nrows] = row }
		split("", has)
		for (i = 5; i < NF; i += 2) has[$(i + 1)] = $i
		n = split(units, unit, " ")
		for (i = 1; i <= n && !(unit[i] in has); i++);
		if (i > n) next
		if ($2 == "tree") base[row, $1] = has[unit[i]]
		all[row, $2] = all[row, $2] " " has[unit[i]]
		if (base[row, $1] > 0) ratios[row, $2] = ratios[row, $2] " " has[unit[i]] / base[row, $1]
	}
	END {
		n = split(sides, side, " ")
		printf "%-52s", "median (ratio to tree)"
		for (i = 1; i <= n; i++) printf "%20s", side[i]
		for (r = 1; r <= nrows; r++) {
			printf "\n%-52s", substr(rows[r], 10)
			for (i = 1; i <= n; i++) {
				k = rows[r] SUBSEP side[i]
				if (!(k in all)) { printf "%20s", "-"; continue }
				x = sprintf("%.*f", median(all[k]) < 100 ? 1 : 0, median(all[k]))
				if (i > 1 && k in ratios) x = x sprintf(" (%.2f)", median(ratios[k]))
				printf "%20s", x
			}
		}
		print ""
	}' "$tmp/samples"
