#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Limits beside their peers over a grid of loads, as a table in Markdown (docs/results/limit.md).
#   CGO_ENABLED=0 go test -c -o bench.test ./bench
#   testkernel/run -f x86 -i -m 3G -t 7200 -- bench/limit-grid.sh ./bench.test [PART...] | tee grid.md
# Parts, all without one: mid (30 Mbit/s at egress), users (QUIC, datagrams, short connections), mixed (TCP
# and QUIC), changes (of the rate by ten times, and a flood that ends), crowd (200 flows at once), ip6,
# ingress, forwarded, low (3 Mbit/s), far (10 ms), fast (1 and 2.5 Gbit/s), cost. CPU time is counted in
# ticks of 10 ms and is meaningful in cost alone. With WEIR_LIMIT_REPEAT the used rate has its 95 %
# interval, other values are means. Needs root.
set -eu
bench=$1
shift
[ $# -gt 0 ] || set -- users mixed changes crowd ip6 ingress forwarded mid low far fast cost
cell() { # LOADS RATES FLOWS WARM TIME
	WEIR_LIMIT_LOADS=$1 WEIR_LIMIT_RATES=$2 WEIR_LIMIT_FLOWS=$3 WEIR_LIMIT_WARM=$4 WEIR_LIMIT_TIME=$5 \
		"$bench" -test.run NONE -test.bench LimitPeers -test.benchtime 1x 2>&1 | python3 -c '
import collections, sys
for line in sys.stdin:
    if not line.startswith("Benchmark"):
        if "FAIL" in line or "_test.go" in line: print(line.strip(), file=sys.stderr)
        continue
    name, *rest = line.strip().split("\t")
    rows = collections.defaultdict(dict)
    for value, unit in (r.split() for r in rest[1:]):
        for known in ("again", "lost", "of-limit", "low", "high", "probes-lost"):
            if unit.endswith("-%" + known): rows[unit[:-len(known)-2]][known] = value
        for known in ("jain", "srtt-ms", "p50-ms", "p99-ms", "cpu-ms/Gbit"):
            if unit.endswith("-" + known): rows[unit[:-len(known)-1]][known] = value
    for holder, r in rows.items():
        if "low" in r: r["of-limit"] += " [{low}, {high}]".format(**r)
        print("|", " | ".join([name.removeprefix("BenchmarkLimitPeers/").strip(), holder] + [r.get(k, "") for k in
            ("of-limit", "again", "lost", "srtt-ms", "p50-ms", "p99-ms", "probes-lost", "jain", "cpu-ms/Gbit")]), "|", flush=True)'
}
echo "| load, rate, flows | limited by | used % | retransmitted % | datagrams lost % | TCP round-trip time ms | small datagram p50 ms | p99 ms | lost % | Jain | CPU ms/Gbit |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
for part; do
	case $part in
	mid) cell cubic,bbr 30Mbit 16 1500ms 1500ms ;;
	users)
		cell quic,udp 20Mbit 1 1s 1500ms
		cell cubic-10KB,cubic-100KB 20Mbit 2 1s 2s
		cell cubic-10MB 100Mbit 2 1s 2s ;;
	mixed) cell cubic-quic,cubic-ecn-quic 20Mbit 3 2s 3s ;;
	changes) cell cubic-fallen,cubic-risen,cubic-flooded 30Mbit 4 6s 2s ;;
	crowd) cell cubic 30Mbit 200 5s 3s ;;
	ip6)
		cell cubic-ip6,quic-ip6,cubic-100KB-ip6,cubic-ingress-ip6,cubic-forwarded-ip6 20Mbit 2 1s 1500ms ;;
	ingress)
		cell cubic-ingress 30Mbit 1,16 1500ms 1500ms
		cell quic-ingress,cubic-100KB-ingress 20Mbit 1 1s 1500ms ;;
	forwarded)
		cell cubic-forwarded 30Mbit 16 1500ms 1500ms
		cell quic-forwarded 20Mbit 1 1s 1500ms ;;
	low) cell cubic 3Mbit 1,16,128 8s 8s ;;
	far) cell cubic-10ms,cubic-ecn-10ms,quic-10ms 30Mbit 1 3s 3s ;;
	fast)
		cell cubic 1Gbit 8 300ms 300ms
		WEIR_LIMIT_TSO=1 cell cubic 2500Mbit 1 200ms 200ms ;;
	cost) cell cubic 300Mbit 8 500ms 5s ;;
	*) echo "unknown part $part" >&2; exit 2 ;;
	esac
done
