#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A cgroup shaped to 20 Mbit/s on a link of 50 Mbit/s with classes: alone, beside datagrams of less
# than best effort at 120 % of the link and of best effort at 30 %, and in a class without spare
# capacity.
#   testkernel/run -f x86 -i -m 1G -t 1700 -- bench/links-delay.sh WEIR [REPETITIONS]
# Needs root and iperf3; uses its own mount namespace and network namespaces.
set -eu
[ "${WEIR_BENCH_OWN:-}" ] || exec env WEIR_BENCH_OWN=1 unshare -mn "$0" "$@"
weir=$1 repetitions=${2:-3}
export NO_COLOR=1
mount --make-rprivate /
mkdir -p /run/weir /run/netns && mount -t tmpfs none /run/weir && mount -t tmpfs none /run/netns && mount -t bpf none /sys/fs/bpf
work=$(mktemp -d) group=/weir-bench-$$
cleanup() { "$weir" release -q >/dev/null 2>&1 || true; ip netns del there 2>/dev/null || true; rmdir "/sys/fs/cgroup$group" || true; rm -rf "$work"; }
trap cleanup EXIT
mkdir "/sys/fs/cgroup$group"
ip netns add there
ip link set lo up
ip link add eth0 type veth peer name eth0 netns there
ip link set eth0 up; ip -n there link set eth0 up
ip address add 10.9.0.1/24 dev eth0; ip -n there address add 10.9.0.2/24 dev eth0
printf 'version: 1\nscopes:\n  bulk: {cgroup: %s, egress: {rate: 20Mbit, mode: shape}}\nlinks:\n  eth0: {rate: 50Mbit}\n' "$group" >"$work/p.yaml"
"$weir" apply -q "$work/p.yaml" >/dev/null
pids=
for port in 5201 5202 5203; do ip netns exec there iperf3 -s -p $port >/dev/null & pids="$pids $!"; done
sleep 0.5

low() { iperf3 -c 10.9.0.2 -p 5201 -u -b 60M -l 1200 -S 4 -t 5 -J >"$work/low"; }
best() { iperf3 -c 10.9.0.2 -p 5202 -u -b "$1" -l 1200 -t 5 -J >"$work/best"; }
bulk() { (echo "$BASHPID" >"/sys/fs/cgroup$group/cgroup.procs"; exec iperf3 -c 10.9.0.2 -p 5203 "$@" -J) >"$work/bulk"; }
summary() { # NAME FILE
	python3 - "$1" "$work/$2" <<'P'
import json, sys
end = json.load(open(sys.argv[2]))["end"]
got = end.get("sum_received") or end["sum"]
print(f'{sys.argv[1]}: {got["bits_per_second"] / 1e6:.3f} Mbit/s, lost {got.get("lost_packets")} of {got.get("packets")}, retransmitted {end.get("sum_sent", {}).get("retransmits")}')
P
}
for _ in $(seq "$repetitions"); do
	bulk -t 3 -O 1; summary 'shaped TCP alone' bulk
	low & a=$!
	best 15M & b=$!
	sleep 1
	bulk -t 3 -O 0.5 & c=$!
	ping -c 40 -i 0.05 -q 10.9.0.2 | tail -1
	wait $a $b $c
	summary 'shaped TCP beside' bulk; summary '  best effort' best; summary '  less' low
done
low & a=$!
sleep 0.5
bulk -t 4 -O 1 -P 8; wait $a; summary 'shaped TCP, 8 flows, beside less' bulk
best 45M & a=$!
bulk -u -b 20M -l 1200 -S 4 -t 4 & b=$!
sleep 2.5
"$weir" status | grep -E 'lbe|best-effort'
wait $a $b
summary 'best effort' best; summary 'shaped less' bulk
# shellcheck disable=SC2086
kill $pids
