// SPDX-License-Identifier: Apache-2.0

package netstate_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"weir/kernel/netns"
	"weir/kernel/netstate"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// inside runs other programs in the namespace, one per line.
func inside(t *testing.T, ns *netns.Namespace, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		words := append([]string{"netns", "exec", ns.Name}, strings.Fields(line)...)
		command := exec.Command("ip", words...)
		command.Stdin = strings.NewReader("1") // for those that read
		if text, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, text)
		}
	}
}

// needLegacyTables skips tests of the legacy tables on kernels without them.
func needLegacyTables(t *testing.T, ns *netns.Namespace) {
	t.Helper()
	text, err := exec.Command("ip", "netns", "exec", ns.Name, "iptables-legacy", "-S").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, text)
	}
	testutil.Need(t, "ip_tables", err)
}

// host is a namespace with one device that has an address, a route and a neighbour.
func host(t *testing.T) *netns.Namespace {
	t.Helper()
	testutil.NeedRoot(t)
	for _, program := range []string{"ip", "tc", "ethtool", "nft", "iptables-legacy", "sysctl"} {
		testutil.Command(t, program)
	}
	ns, far := testutil.Namespace(t, "here"), testutil.Namespace(t, "there")
	conn, err := rtnl.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.AddVeth("near", far, "far", 0); err != nil {
		t.Fatal(err)
	}
	inside(t, far, "ip link set far up")
	inside(t, ns, `sysctl -qw net.ipv6.conf.near.accept_dad=0
		ip link set near up
		ip address add 10.0.0.1/24 dev near
		ip route add 10.1.0.0/16 via 10.0.0.9
		ip neighbour add 10.0.0.9 lladdr 02:00:00:00:00:09 dev near nud permanent`)
	settled(t, ns)
	return ns
}

// settled waits for the kernel's own actions on new devices.
func settled(t *testing.T, ns *netns.Namespace) {
	t.Helper()
	var before netstate.State
	testutil.Eventually(t, 10e9, "a configuration at rest", func() bool {
		now := take(t, ns)
		same := len(before) > 0 && len(netstate.Changes(before, now)) == 0 && now["device near: state"] == "6"
		before = now
		return same
	})
}

func take(t *testing.T, ns *netns.Namespace) netstate.State {
	t.Helper()
	state, err := netstate.Take(ns)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func text(changes []netstate.Change) string {
	var lines []string
	for _, c := range changes {
		lines = append(lines, c.String())
	}
	return strings.Join(lines, "\n")
}

func TestEveryKindOfChangeIsSeen(t *testing.T) {
	for _, c := range []struct {
		name, do, undo string
		compared       string // expected difference of two states
		reported       string // expected report of the kernel, even if the change is undone
	}{
		{"MTU", "ip link set near mtu 600", "ip link set near mtu 1500", "device near: MTU was 1500 and is 600", "device near: MTU was 1500 and is 600"},
		{"link-layer address", "ip link set near address 02:00:00:00:00:01", "", "device near: address", "device near: address"},
		{"down", "ip link set near down", "", "device near: flags was up", "device near:"},
		{"queue length", "ip link set near txqueuelen 2", "ip link set near txqueuelen 1000", "queue length was 1000 and is 2", "queue length was 1000 and is 2"},
		{"renamed", "ip link set near down\nip link set near name other\nip link set other up", "", "device other", "device near: name was near and is other"},
		{"new device", "ip link add extra type veth peer name peer", "ip link del extra", "device extra: index was added", "device extra was added"},
		{"offload", "ethtool -K near tso off", "ethtool -K near tso on", "offload tx-tcp-segmentation of near was on and is off", "offloads of near was changed"},
		{"address", "ip address add 10.7.0.1/24 dev near", "ip address del 10.7.0.1/24 dev near", "address 10.7.0.1/24 of near", "address 10.7.0.1/24 of near was added"},
		{"route", "ip route add 10.2.0.0/16 via 10.0.0.9", "ip route del 10.2.0.0/16", "route to 10.2.0.0/16 over near", "route to 10.2.0.0/16 over near in table 254, IPv4 was added"},
		{"other next hop", "ip route replace 10.1.0.0/16 via 10.0.0.8", "ip route replace 10.1.0.0/16 via 10.0.0.9", "next hop was 10.0.0.9 and is 10.0.0.8", "next hop was 10.0.0.9 and is 10.0.0.8"},
		{"rule", "ip rule add from 10.9.0.0/16 table 7", "ip rule del from 10.9.0.0/16 table 7", "rule of IPv4 with priority", "rule of IPv4 with priority"},
		{"neighbour", "ip neighbour replace 10.0.0.9 lladdr 02:00:00:00:00:66 dev near nud permanent", "ip neighbour replace 10.0.0.9 lladdr 02:00:00:00:00:09 dev near nud permanent",
			"neighbour 10.0.0.9 on near: address was 02:00:00:00:00:09 and is 02:00:00:00:00:66", "02:00:00:00:00:66"},
		{"qdisc", "tc qdisc add dev near root tbf rate 1mbit burst 2kb latency 10ms", "tc qdisc del dev near root", "of near at root: kind was added (tbf)", "of near at root was added"},
		{"class", "tc qdisc add dev near root handle 1: htb\ntc class add dev near parent 1: classid 1:1 htb rate 1mbit", "tc qdisc del dev near root", "class 1:1 of near at root", "class 1:1 of near at root was added"},
		{"filter", "tc qdisc add dev near clsact\ntc filter add dev near ingress protocol ip u32 match u32 0 0", "tc qdisc del dev near clsact", "of near at ingress, priority 49152: kind was added (u32)", "of near at ingress"},
		{"nftables", "nft add table ip some", "nft delete table ip some", "nftables rules was generation", "nftables rules was changed"},
		{"old iptables", "iptables-legacy -A OUTPUT -d 10.9.9.9 -j DROP", "iptables-legacy -D OUTPUT -d 10.9.9.9 -j DROP", "iptables rules of ip_tables in table filter", ""},
		{"setting", "sysctl -qw net.ipv4.tcp_sack=0", "sysctl -qw net.ipv4.tcp_sack=1", "setting net/ipv4/tcp_sack was 1 and is 0", "setting net/ipv4/tcp_sack was changed"},
		{"setting of a device", "sysctl -qw net.ipv4.conf.near.rp_filter=1", "sysctl -qw net.ipv4.conf.near.rp_filter=0", "setting net/ipv4/conf/near/rp_filter", "setting net/ipv4/conf/near/rp_filter was changed"},
		{"queue attribute", "tee /sys/class/net/near/gro_flush_timeout", "", "device near: gro_flush_timeout was 0 and is 1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns := host(t)
			if strings.HasPrefix(c.name, "old iptables") {
				needLegacyTables(t, ns)
			}
			before := take(t, ns)
			watch, err := netstate.Open(ns, before)
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Close()
			inside(t, ns, c.do)
			if got := text(netstate.Changes(before, take(t, ns))); !strings.Contains(got, c.compared) {
				t.Errorf("compared, without %q:\n%s", c.compared, got)
			}
			if c.undo != "" {
				inside(t, ns, c.undo)
			}
			reports, err := watch.Changes()
			if err != nil {
				t.Fatal(err)
			}
			if got := text(reports); !strings.Contains(got, c.reported) {
				t.Errorf("reported, without %q:\n%s", c.reported, got)
			}
		})
	}
}

// Effects of traffic are no change.
func TestTrafficIsNoChange(t *testing.T) {
	ns := host(t)
	before := take(t, ns)
	if before["device near: MTU"] != "1500" || before["setting net/ipv4/tcp_sack"] != "1" || before["route to 10.1.0.0/16 over near in table 254, IPv4: next hop"] != "10.0.0.9" {
		t.Errorf("%d entries, but not those that are known to be there", len(before))
	}
	watch, err := netstate.Open(ns, before)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	_ = exec.Command("ip", "netns", "exec", ns.Name, "ping", "-c", "2", "-W", "1", "-i", "0.2", "10.0.0.9").Run()
	after := take(t, ns)
	if got := netstate.Changes(before, after); len(got) > 0 || before.Digest() != after.Digest() {
		t.Errorf("changed:\n%s", text(got))
	}
	reports, err := watch.Changes()
	if err != nil {
		t.Fatal(err)
	}
	if len(reports) > 0 {
		t.Errorf("reported:\n%s", text(reports))
	}
}

func TestDigestTellsStatesApart(t *testing.T) {
	a, b := netstate.State{"ab": "c"}, netstate.State{"a": "bc"}
	if a.Digest() == b.Digest() || a.Digest() != (netstate.State{"ab": "c"}).Digest() {
		t.Error("the digest does not follow the state")
	}
}

func BenchmarkTake(b *testing.B) {
	testutil.NeedRoot(b)
	ns := testutil.Namespace(b, "host")
	for b.Loop() {
		if _, err := netstate.Take(ns); err != nil {
			b.Fatal(err)
		}
	}
}
