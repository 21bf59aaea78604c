#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two children of weight 1 below one shaper of 5 Mbit/s, a with many flows: the rate of b,
# or the delay of its 100-byte datagrams (20 per second).
#   testkernel/run -f x86 -i -m 2G -- bench/limit-children.sh WEIR SECONDS PARENT:LOAD...
# PARENT is group, cgroup (around the children's) or interface; htb is HTB with fq_codel instead.
# LOAD is crowd,N: N TCP connections in a, one in b; sparse,N,OCTETS,PERIOD: each of N sockets in a
# sends a datagram per period in seconds, evenly; or burst,N,OCTETS,PERIOD: one socket in a sends N
# at once, beside a third child that sends at full speed. The receiver counts from 4 s on.
# Needs root.
set -eu
[ "${WEIR_BENCH_OWN:-}" ] || exec env WEIR_BENCH_OWN=1 unshare -m "$0" "$@"
weir=$1 seconds=$2
shift 2
mount --make-rprivate /
mkdir -p /run/weir /run/netns && mount -t tmpfs none /run/weir && mount -t tmpfs none /run/netns
mount -t bpf none /sys/fs/bpf
tree=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts) group=weir-children-$$ s=ws$$ d=wd$$ mode='' pids=''
work=$(mktemp -d)
N() { local ns=$1; shift; nsenter --net=/run/netns/"$ns" "$@"; }
# shellcheck disable=SC2016 # the other shell's
child() { local of=$1; shift; exec bash -c 'echo $$ >"$0"; exec "$@"' "$tree/$group/$of/cgroup.procs" nsenter --net=/run/netns/$s python3 "$work/load.py" "$@"; }
end() { # shellcheck disable=SC2086 # several
	[ -z "$pids" ] || kill $pids || true
	wait || true
	pids=''
	case $mode in '') ;; htb) N $s tc qdisc del dev eth0 root ;; *) N $s "$weir" release -q >/dev/null ;; esac
	mode=''
}
cleanup() { end; for n in $s $d; do ip netns del "$n" || true; done; rmdir "$tree/$group"/? "$tree/$group" || true; rm -rf "$work"; }
trap cleanup EXIT
for n in $s $d; do ip netns add "$n"; N "$n" ip link set lo up; done
ip link add eth0 netns $s type veth peer name eth0 netns $d
N $s ip addr add 10.9.1.1/24 dev eth0; N $d ip addr add 10.9.1.2/24 dev eth0
N $s ip link set eth0 up; N $d ip link set eth0 up
mkdir -p "$tree/$group/a" "$tree/$group/b" "$tree/$group/c"
ulimit -n 10000
cat >"$work/load.py" <<'P'
import selectors, socket, sys, time
kind = sys.argv[1]
if kind == 'serve':  # counts received bytes by port; echoes datagrams of port 9002
    sel = selectors.EpollSelector()
    for port in 9001, 9002:
        s = socket.create_server(('0.0.0.0', port), backlog=2000); s.setblocking(False)
        sel.register(s, 1, ('accept', port))
        u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('0.0.0.0', port)); u.setblocking(False)
        sel.register(u, 1, ('udp', port))
    count = {9001: 0, 9002: 0}; nxt = time.monotonic() + 1
    out = open(sys.argv[2], 'w')
    while True:
        for key, _ in sel.select(max(0, nxt - time.monotonic())):
            what, port = key.data
            if what == 'accept':
                try: c, _ = key.fileobj.accept()
                except OSError: continue
                c.setblocking(False); sel.register(c, 1, ('read', port))
            elif what == 'udp':
                try: data, who = key.fileobj.recvfrom(65536)
                except OSError: continue
                count[port] += len(data)
                if port == 9002: key.fileobj.sendto(data, who)
            else:
                try: data = key.fileobj.recv(65536)
                except BlockingIOError: continue
                except OSError: data = b''
                if not data: sel.unregister(key.fileobj); key.fileobj.close(); continue
                count[port] += len(data)
        if time.monotonic() >= nxt:
            print(*(count[p] * 8 / 1e6 for p in count), file=out, flush=True); count = dict.fromkeys(count, 0); nxt = time.monotonic() + 1
elif kind == 'tcp':  # PORT N
    port, n = int(sys.argv[2]), int(sys.argv[3]); sel = selectors.EpollSelector(); data = b'x' * 16384
    for i in range(n):
        s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0'); s.setblocking(False); s.connect_ex(('10.9.1.2', port)); sel.register(s, 2)
    while True:
        for key, _ in sel.select():
            try: key.fileobj.send(data)
            except BlockingIOError: pass
            except OSError: sel.unregister(key.fileobj); key.fileobj.close()
elif kind == 'sparse':  # PORT N OCTETS PERIOD: N sockets, each a datagram a period, evenly
    port, n, octets, period = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    all = []
    for i in range(n):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('10.9.1.2', port)); s.setblocking(False); all.append(s)
    start = time.monotonic(); i = 0
    while True:
        d = start + i * period / n - time.monotonic()
        if d > 0: time.sleep(d)
        try: all[i % n].send(b'x' * octets)
        except OSError: pass
        i += 1
elif kind == 'burst':  # PORT N OCTETS PERIOD: N datagrams at once each period
    port, n, octets, period = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('10.9.1.2', port)); nxt = time.monotonic()
    while True:
        for i in range(n):
            try: s.send(b'x' * octets)
            except OSError: pass
        nxt += period; time.sleep(max(0, nxt - time.monotonic()))
elif kind == 'echo':  # SECONDS: datagrams of 100 octets, 20 a second
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('10.9.1.2', 9002)); s.settimeout(1); times = []; lost = 0
    end = time.monotonic() + float(sys.argv[2]); i = 0
    while time.monotonic() < end:
        t = time.monotonic(); s.send(b'%016d' % i + b'x' * 84)
        try:
            while s.recv(200)[:16] != b'%016d' % i: pass
            times.append(time.monotonic() - t)
        except OSError: lost += 1
        i += 1; time.sleep(max(0, t + .05 - time.monotonic()))
    times.sort()
    print('rtt n %d lost %d p50 %.1f p90 %.1f p99 %.1f max %.1f ms' % (len(times), lost, *(1e3*times[len(times)*q//100] for q in (50, 90, 99)), 1e3*times[-1]) if times else 'all lost')
P
limit() { # PARENT
	mode=$1
	local of=
	case $1 in
	group) ;;
	cgroup) of="cgroup: /$group, " ;;
	interface) of='interface: eth0, ' ;;
	htb)
		N $s tc qdisc add dev eth0 root handle 1: htb default 1
		N $s tc class add dev eth0 parent 1: classid 1:1 htb rate 5mbit quantum 1514
		for i in 1 2 3; do
			N $s tc class add dev eth0 parent 1:1 classid 1:1$i htb rate 1.6mbit ceil 5mbit quantum 1514
			N $s tc qdisc add dev eth0 parent 1:1$i fq_codel
			N $s tc filter add dev eth0 parent 1: protocol ip u32 match ip dport 900$i 0xffff flowid 1:1$i
		done
		return ;;
	*) echo "unknown parent $1" >&2; exit 2 ;;
	esac
	printf 'version: 1\nscopes:\n  p: {%segress: {rate: 5Mbit, mode: shape}}\n  a: {cgroup: /%s/a, parent: p}\n  b: {cgroup: /%s/b, parent: p}\n  c: {cgroup: /%s/c, parent: p}\n' \
		"$of" "$group" "$group" "$group" >"$work/p.yaml"
	N $s "$weir" apply -q "$work/p.yaml" >"$work/err" 2>&1 || { cat "$work/err"; exit 1; }
}
# The guest's clock runs while it waits for its files, so they are read before.
python3 -c 'import selectors, socket, sys, time'
for cell; do
	rtt=
	rm -f "$work/got"
	limit "${cell%%:*}"
	nsenter --net=/run/netns/$d python3 "$work/load.py" serve "$work/got" & pids="$pids $!"
	until [ -e "$work/got" ]; do sleep 0.1; done
	IFS=, read -r what n octets period <<<"${cell#*:}"
	case $what in
	crowd)
		child a tcp 9001 "$n" & pids="$pids $!"
		sleep 2
		child b tcp 9002 1 & pids="$pids $!"
		until awk '$2 > 0 {f = 1} END {exit !f}' "$work/got"; do sleep 0.2; done
		sleep "$seconds" ;;
	sparse)
		child a sparse 9001 "$n" "$octets" "$period" & pids="$pids $!"
		sleep 2
		rtt=$(child b echo "$seconds") ;;
	burst)
		child c burst 9003 1 "$octets" 0 & pids="$pids $!"
		sleep 2
		child a burst 9001 "$n" "$octets" "$period" & pids="$pids $!"
		sleep 2
		rtt=$(child b echo "$seconds") ;;
	esac
	awk -v c="$cell" -v e="$rtt" 'begun {k++} $2 > 0 {begun = 1} k > 3 {a += $1; b += $2; n++}
		END {printf "%-28s a %.3f b %.3f Mbit/s (%d s)  %s\n", c, a / (n ? n : 1), b / (n ? n : 1), n, e}' "$work/got"
	end
done
