# shellcheck shell=sh disable=SC2154
# A link of $rate Mbit/s with a round-trip time of $rtt ms, $loss percent random loss and a drop-tail queue of one
# bandwidth-delay product, in network namespaces that it does not remove:
#
#   server eth0 - eth0 router eth1 (the queue) - eth0 client
#
# `at HOST COMMAND` runs a command there. The server uses CUBIC. `production` is a transfer without Weir. The script is for other
# scripts that run in a guest.
for host in server router client; do
    ip netns add $host
    ip -n $host link set lo up
done
ip link add eth0 netns server type veth peer name eth0 netns router
ip link add eth0 netns client type veth peer name eth1 netns router
ip -n server addr add 10.1.0.1/24 dev eth0
ip -n router addr add 10.1.0.2/24 dev eth0
ip -n router addr add 10.2.0.2/24 dev eth1
ip -n client addr add 10.2.0.1/24 dev eth0
ip -n server link set eth0 up
ip -n router link set eth0 up
ip -n router link set eth1 up
ip -n client link set eth0 up
ip -n server route add default via 10.1.0.2
ip -n client route add default via 10.2.0.2
at() { host=$1; shift; nsenter --net=/run/netns/"$host" "$@"; }
at router sysctl -qw net.ipv4.ip_forward=1
at server sysctl -qw net.ipv4.tcp_congestion_control=cubic
at router tc qdisc add dev eth1 root handle 1: htb default 1
at router tc class add dev eth1 parent 1: classid 1:1 htb rate "${rate}mbit" quantum 1514 burst 3k cburst 3k
at router tc qdisc add dev eth1 parent 1:1 handle 2: bfifo limit $((rate * rtt * 125))
[ "$loss" = 0 ] || ip -n server link set eth0 gso_max_segs 1 # each packet is lost independently
at server tc qdisc add dev eth0 root netem delay $((rtt / 2))ms loss "$loss%" limit 10000
at client tc qdisc add dev eth0 root netem delay $((rtt / 2))ms limit 10000

received() { awk '$NF == "receiver" { print $(NF-2), $(NF-1) }'; }
waits() { awk -F'[= ]' '/time=/ { print $(NF-1) }' | sort -n | awk '{ all[NR] = $1 } END { print "ping p50", all[int((NR+1)/2)], "ms, p99", all[int(NR*0.99)+(NR<100)], "ms of", NR }'; }
production() { # production NAME SECONDS CONTROL: from the server's iperf3 at port 5201, and ping times beside it
    at client ping -q -i 0.05 -c 2 10.1.0.1 >/dev/null
    at client ping -i 0.05 -w "$2" 10.1.0.1 >/dev/shm/pings &
    at client iperf3 -c 10.1.0.1 -p 5201 -R -C "$3" -O 1 -t $(($2 - 1)) >/dev/shm/production
    wait $!
    echo "$1: $(received </dev/shm/production); $(waits </dev/shm/pings)"
}
