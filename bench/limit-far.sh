#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# CUBIC through a router with an output limit of 50 Mbit/s, by iperf3 for 14 s: with 1 and 4 flows, and round-trip times of
# netem in milliseconds (20 and 100).
#   testkernel/run -f x86 -i -m 2G -t 3000 -- bench/limit-far.sh bin/weir [RTT...]
# The limit is a shaper, and HTB with fq_codel. It prints goodput, retransmitted segments and ping times. It makes network
# namespaces and does not remove them: run it in a guest. It needs iproute2, ping, iperf3 and netem.
set -eu
weir=$1
shift
[ $# -gt 0 ] || set -- 20 100
at() { nsenter --net=/run/netns/"$1" "${@:2}"; }
for host in a router b; do
	ip netns add $host
	ip -n $host link set lo up
done
ip link add eth0 netns a type veth peer name eth0 netns router
ip link add eth1 netns router type veth peer name eth0 netns b
ip -n a addr add 10.1.0.1/24 dev eth0
ip -n router addr add 10.1.0.2/24 dev eth0
ip -n router addr add 10.2.0.2/24 dev eth1
ip -n b addr add 10.2.0.1/24 dev eth0
for end in 'a eth0' 'router eth0' 'router eth1' 'b eth0'; do
	read -r host device <<<"$end"
	ip -n "$host" link set "$device" up
	at "$host" ethtool -K "$device" tso off gso off gro off
done
ip -n a route add default via 10.1.0.2
ip -n b route add default via 10.2.0.2
at router sysctl -qw net.ipv4.ip_forward=1
at b iperf3 -s -D
printf 'version: 1\nscopes:\n  link: {interface: eth1, egress: {rate: 50Mbit, mode: shape}}\n' >/dev/shm/policy.yaml
hold() {
	if [ "$1" = delay ]; then
		at router "$weir" apply /dev/shm/policy.yaml >/dev/null
	else
		at router tc qdisc add dev eth1 root handle 1: htb default 1
		at router tc class add dev eth1 parent 1: classid 1:1 htb rate 50mbit burst 6k cburst 6k quantum 1514
		at router tc qdisc add dev eth1 parent 1:1 fq_codel
	fi
}
for rtt; do
	for host in a b; do at $host tc qdisc replace dev eth0 root netem delay $((rtt / 2))ms limit 100000; done
	for by in delay htb+codel; do
		hold $by
		for flows in 1 4; do
			at a ping -q -i 0.1 -w 14 10.2.0.1 >/dev/shm/ping &
			at a iperf3 -J -c 10.2.0.1 -P $flows -t 14 -C cubic >/dev/shm/iperf3
			wait $!
			python3 -c '
import json, sys
end = json.load(open("/dev/shm/iperf3"))["end"]
ping = [line for line in open("/dev/shm/ping") if line.startswith("rtt")][0].split()[3].split("/")
print(*sys.argv[1:], "flows:", round(end["sum_received"]["bits_per_second"] / 1e6, 1), "Mbit/s,", end["sum_sent"]["retransmits"],
      "retransmitted, ping", ping[1], "ms, at most", ping[2])' "$rtt" ms $by $flows
		done
		if [ $by = delay ]; then at router "$weir" release >/dev/null; else at router tc qdisc del dev eth1 root; fi
	done
done
