#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Pings beside a flood of datagrams from 300 ports at three times a limit of 20 Mbit/s, at egress or ingress of a host:
#   testkernel/run -f x86 -i -m 1G -- bench/limit-flood.sh bin/weir egress|ingress [delay|htb]
# htb is HTB with fq_codel, at ingress on an ifb. It prints the received rate of datagrams and the ping times. It makes
# network namespaces and does not remove them: run it in a guest. It needs iproute2, ping and python3.
set -eu
weir=$1 way=$2 by=${3:-delay}
at() { nsenter --net=/run/netns/"$1" "${@:2}"; }
for host in a b; do
	ip netns add $host
	ip -n $host link set lo up
done
ip link add eth0 netns a type veth peer name eth0 netns b
ip -n a addr add 10.0.0.1/24 dev eth0
ip -n b addr add 10.0.0.2/24 dev eth0
for host in a b; do
	ip -n $host link set eth0 up
	at $host ethtool -K eth0 tso off gso off gro off
done
case $way in egress) host=a ;; ingress) host=b ;; *) sed -n 3,7p "$0" >&2; exit 2 ;; esac
case $by in
delay)
	printf 'version: 1\nscopes:\n  link: {interface: eth0, %s: {rate: 20Mbit, mode: shape}}\n' "$way" >/dev/shm/policy.yaml
	at $host "$weir" apply /dev/shm/policy.yaml >/dev/null
	;;
htb)
	device=eth0
	if [ "$way" = ingress ]; then
		device=ifb0
		ip -n b link add ifb0 type ifb
		ip -n b link set ifb0 up
		at b tc qdisc add dev eth0 clsact
		at b tc filter add dev eth0 ingress protocol all u32 match u32 0 0 action mirred egress redirect dev ifb0
	fi
	at $host tc qdisc add dev $device root handle 1: htb default 1
	at $host tc class add dev $device parent 1: classid 1:1 htb rate 20mbit burst 3k cburst 3k quantum 1514
	at $host tc qdisc add dev $device parent 1:1 fq_codel
	;;
*) sed -n 3,7p "$0" >&2; exit 2 ;;
esac
at a python3 -c '
import socket, time
ports = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(300)]
for port in ports:
    port.setblocking(False)
    port.connect(("10.0.0.2", 9))
open("/dev/shm/begun", "w").close()
begun, sent = time.time(), 0
while time.time() < begun + 25:
    while sent < (time.time() - begun) * 60e6 / 8 / 1242:
        try: ports[sent % 300].send(bytes(1200))
        except OSError: pass
        sent += 1
    time.sleep(.001)' &
until [ -e /dev/shm/begun ]; do sleep 0.1; done
sleep 3
at b python3 -c '
import time
def arrived():
    return time.time(), int([line for line in open("/proc/self/net/snmp") if line.startswith("Udp:")][1].split()[2])
begun, before = arrived()
time.sleep(5)
ended, after = arrived()
print(f"{(after - before) * 1242 * 8 / (ended - begun) / 1e6:.1f} Mbit/s arrive")'
at a ping -i 0.05 -c 200 10.0.0.2 | awk -F'[= ]' '/time=/ { print $(NF-1) }' | sort -n |
	awk '{ all[NR] = $1 } END { print "ping p50", all[int((NR+1)/2)], "ms, p99", all[int(NR*0.99)], "ms;", 200-NR, "of 200 lost" }'
wait
