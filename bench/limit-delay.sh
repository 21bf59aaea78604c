#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ingress shaping beside policing and HTB on an ifb, interleaved. The receiver is limited. A router
# keeps the sender's queues apart: sender - router - receiver.
#   bench/limit-delay.sh WEIR [REPETITIONS [SECONDS]]
# Needs root; uses its own mount namespace and network namespaces.
set -eu
[ "${WEIR_BENCH_OWN:-}" ] || exec env WEIR_BENCH_OWN=1 unshare -m "$0" "$@"
weir=$1 repetitions=${2:-3} seconds=${3:-4}
mount --make-rprivate /
mkdir -p /run/weir /run/netns && mount -t tmpfs none /run/weir && mount -t tmpfs none /run/netns && mount -t bpf none /sys/fs/bpf
work=$(mktemp -d) p=wd$$ mode=
N() { local ns=$1; shift; nsenter --net="/run/netns/$p$ns" "$@"; }
cleanup() { release 2>/dev/null || true; for n in s r d; do ip netns del $p$n 2>/dev/null || true; done; rm -rf "$work"; }
trap cleanup EXIT
for n in s r d; do ip netns add $p$n; N $n ip link set lo up; done
ip link add in netns ${p}s type veth peer name left netns ${p}r
ip link add eth0 netns ${p}d type veth peer name right netns ${p}r
N s ip addr add 10.9.1.1/24 dev in; N r ip addr add 10.9.1.2/24 dev left
N d ip addr add 10.9.2.1/24 dev eth0; N r ip addr add 10.9.2.2/24 dev right
N s ip link set in up; N r ip link set left up; N r ip link set right up; N d ip link set eth0 up
N r sysctl -qw net.ipv4.ip_forward=1
N s ip route add default via 10.9.1.2; N d ip route add default via 10.9.2.2

limit() { # MODE RATE(Mbit)
	mode=$1
	case $1 in
	shape | police)
		printf 'version: 1\nscopes:\n  all: {interface: eth0, ingress: {rate: %sMbit, mode: %s}}\n' "$2" "$1" >"$work/p.yaml"
		N d "$weir" apply -q "$work/p.yaml" >/dev/null 2>"$work/err" || { cat "$work/err"; exit 1; } ;;
	htb*)
		N d ip link add ifb0 type ifb; N d ip link set ifb0 up
		N d tc qdisc add dev ifb0 root handle 1: htb default 1
		N d tc class add dev ifb0 parent 1: classid 1:1 htb rate "$2"mbit burst $(($2 * 150 + 3028)) quantum 15140
		if [ "$1" = htb ]; then N d tc qdisc add dev ifb0 parent 1:1 pfifo limit 1000; else N d tc qdisc add dev ifb0 parent 1:1 fq_codel; fi
		N d tc qdisc add dev eth0 clsact
		N d tc filter add dev eth0 ingress protocol all u32 match u32 0 0 action mirred egress redirect dev ifb0 ;;
	esac
}
release() {
	case ${mode:-} in
	shape | police) N d "$weir" release -q >/dev/null ;;
	htb*) N d ip link del ifb0; N d tc qdisc del dev eth0 clsact ;;
	esac
	mode=
}
cat >"$work/short.py" <<'P'
import socket, sys, threading, time
if sys.argv[1] == 'serve':
    s = socket.create_server(('0.0.0.0', 9000), backlog=64)
    def serve(c):
        while c.recv(65536): pass
        c.close()
    while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
end, times = time.time() + float(sys.argv[2]), []
while time.time() < end:
    t = time.time(); c = socket.create_connection(('10.9.2.1', 9000)); c.sendall(b'x' * 100000); c.shutdown(1); c.recv(1); c.close(); times.append(time.time() - t)
P
# Bytes and packets that IP received after the ifb; the device counts them before.
# shellcheck disable=SC2016 # awk's
passed() { N d awk '/^IpExt:/ {if (n++) print $8}' /proc/net/netstat; }
# shellcheck disable=SC2016
packets() { N d awk '/^Ip:/ {if (n++) print $3}' /proc/net/snmp; }
# shellcheck disable=SC2016
resent() { N s awk '/^Tcp:/ {if (n++) print $12, $13}' /proc/net/snmp; }
run() { # MODE LOAD RATE
	local load now
	limit "$1" "$3"
	# Not until a time: what is on its way then would count as lost.
	N s ping -q -i 0.05 -c "$(((seconds + 1) * 20))" -W 2 10.9.2.1 >"$work/ping" 2>&1 & local pinger=$!
	case $2 in
	udp) N s iperf3 -c 10.9.2.1 -t $((seconds + 1)) -u -l 1200 -b $(($3 * 950 * 1200 / 1242))k -J >"$work/load" & load=$! ;;
	short) N s python3 "$work/short.py" get $((seconds + 1)) >/dev/null 2>&1 & load=$! ;;
	*) N s iperf3 -c 10.9.2.1 -t $((seconds + 1)) -C cubic -P "$2" -J >"$work/load" & load=$! ;;
	esac
	sleep 1
	read -r -a now <<<"$(passed) $(packets) $(date +%s%N) $(resent)"
	set -- "$@" "${now[@]}"
	sleep "$((seconds - 1))"
	read -r -a now <<<"$(passed) $(packets) $(date +%s%N) $(resent)"
	set -- "$@" "${now[@]}"
	wait $load || true; wait $pinger || true
	local lost; lost='-'
	[ "$2" = udp ] && lost=$(python3 -c "import json; print(round(json.load(open('$work/load'))['end']['sum']['lost_percent'],2))")
	python3 - "$@" "$lost" "$(tail -1 "$work/ping")" "$(grep -o '[0-9.]*% packet loss' "$work/ping")" <<'P'
import sys
mode, load, rate = sys.argv[1:4]; a = list(map(int, sys.argv[4:9])); b = list(map(int, sys.argv[9:14])); lost, ping, loss = sys.argv[14:17]
sent, again = b[3]-a[3], b[4]-a[4]
# Retransmissions are subtracted, because a policer drops after the counter of IP.
seconds = (b[2]-a[2])/1e9; share = ((b[0]-a[0]) + 14*(b[1]-a[1]) - 1514*again)*8/seconds/float(rate)/1e4
print('%-9s %5s %4s Mbit/s  used %6.2f %%  retransmitted %5.2f %%  lost %s  pings lost %s  rtt %s' % (mode, load, rate, share, 100*again/max(sent,1), lost, loss.split('%')[0]+' %', ping.split('= ')[-1]))
P
	release
}
nsenter --net=/run/netns/${p}d iperf3 -s >/dev/null 2>&1 & servers=$!
nsenter --net=/run/netns/${p}d python3 "$work/short.py" serve >/dev/null 2>&1 & servers="$servers $!"
trap 'kill $servers 2>/dev/null || true; cleanup' EXIT
N d ethtool -K eth0 gro off >/dev/null 2>&1; N r ethtool -K right tso off gso off >/dev/null; N s ethtool -K in tso off gso off >/dev/null
N r ethtool -K left gro off >/dev/null 2>&1
peers=(htb)
if N d tc qdisc add dev eth0 root fq_codel 2>/dev/null; then
	N d tc qdisc del dev eth0 root
	peers+=(htb+codel)
fi
for ((done = 0; done < repetitions; done++)); do
	for cell in "1 50" "20 500" "udp 50" "short 20"; do
		read -r kind rate <<<"$cell"
		for m in $(shuf -e shape police "${peers[@]}"); do run "$m" "$kind" "$rate"; done
	done
done
