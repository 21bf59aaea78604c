#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# RFC 2544 throughput of a router with a shaped output, beside the shaper's rate in frames: the
# tester should find the limit.
#   testkernel/run -f x86 -i -m 2G -t 3000 -- bench/limit-router.sh WEIR [RATE(Mbit) [TRIAL(s) [SIZES]]]
# The queue up to the horizon holds 250 ms of a trial: an eighth of 2 s, 0.4 % of 60 s.
# Needs root; uses its own mount namespace and network namespaces.
set -eu
[ "${WEIR_BENCH_OWN:-}" ] || exec env WEIR_BENCH_OWN=1 unshare -m "$0" "$@"
weir=$1 rate=${2:-20} trial=${3:-60} sizes=${4:-1518}
mount --make-rprivate /
mkdir -p /run/weir /run/netns && mount -t tmpfs none /run/weir && mount -t tmpfs none /run/netns && mount -t bpf none /sys/fs/bpf
work=$(mktemp -d) p=wr$$
N() { local ns=$1; shift; nsenter --net=/run/netns/$p"$ns" "$@"; }
cleanup() {
	N r "$weir" release -q >/dev/null 2>&1 || true
	for n in a r b; do ip netns del $p$n 2>/dev/null || true; done
	rm -rf "$work"
}
trap cleanup EXIT
for n in a r b; do ip netns add $p$n; N $n ip link set lo up; done
ip link add port netns ${p}a type veth peer name in netns ${p}r
ip link add port netns ${p}b type veth peer name out netns ${p}r
N a ip addr add 198.18.0.2/24 dev port; N r ip addr add 198.18.0.1/24 dev in
N b ip addr add 198.19.0.2/24 dev port; N r ip addr add 198.19.0.1/24 dev out
for end in "a port" "r in" "r out" "b port"; do N "${end% *}" ip link set "${end#* }" up; done
N r sysctl -qw net.ipv4.ip_forward=1
printf 'version: 1\nscopes:\n  out: {interface: out, egress: {rate: %sMbit, mode: shape}}\n' "$rate" >"$work/p.yaml"
N r "$weir" apply -q "$work/p.yaml"
for size in $sizes; do
	# The limit counts frames without the FCS of 4 octets.
	echo "frames/s of $size octets in the limit: $((rate * 1000000 / 8 / (size - 4)))"
done
N a ip route add 198.19.0.0/24 via 198.18.0.1 # the tester resolves the next hop
"$weir" tester rfc2544 --quick --tests throughput --from ${p}a:port --peer ${p}r:in --to ${p}b:port --speed 1Gbit --sizes "${sizes// /,}" \
	--resolution 0.3% --search-time 10s --final-time "${trial}s"
N r "$weir" status
