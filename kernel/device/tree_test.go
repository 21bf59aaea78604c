// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"weir/internal/fault"
	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/sysctl"
	"weir/kernel/tc"
	"weir/kernel/testutil"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bench makes a namespace with the veth pair a-b, both up, with a number of queues.
func bench(t *testing.T, queues string) *netns.Namespace {
	t.Helper()
	ns := testutil.Namespace(t, "device")
	must(t, sysctl.Set(ns, "net.ipv6.conf.default.disable_ipv6", "1"))
	run(t, ns, "ip", "link add name a numtxqueues "+queues+" numrxqueues "+queues+" type veth peer name b")
	for _, dev := range []string{"a", "b"} {
		run(t, ns, "ip", "link set dev "+dev+" up")
	}
	return ns
}

// run runs ip(8) or tc(8) in the namespace.
func run(t *testing.T, ns *netns.Namespace, name, args string) string {
	t.Helper()
	words := strings.Fields(args)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "~", " ")
	}
	command := exec.Command(testutil.Command(t, name), append([]string{"-n", ns.Name}, words...)...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, args, err, out)
	}
	return string(out)
}

// show returns tc(8)'s output for a's tree without counters.
func show(t *testing.T, ns *netns.Namespace) string {
	t.Helper()
	text := run(t, ns, "tc", "-j -d qdisc show dev a") + run(t, ns, "tc", "-j -d class show dev a") + run(t, ns, "tc", "-d filter show dev a")
	for _, q := range strings.Fields("1: 10: 20: 30:") {
		text += run(t, ns, "tc", "-d filter show dev a parent "+q)
	}
	return counters.ReplaceAllString(text, "") + run(t, ns, "tc", "-d filter show dev a ingress")
}

// Counters are shown among options, and queued flows as classes.
var counters = regexp.MustCompile(`"direct_packets_stat":\d+,|class (cake|fq_codel|sfq) .*\n`)

// ours is a tree of Weir: a token bucket, available on all kernels with these tests, before a
// queue.
func ours() device.Tree {
	root := device.RootHandle
	return device.Tree{
		Qdiscs: []tc.Raw{
			tc.HTBRaw(tc.Place{Handle: root}, 0x20),
			{Kind: "pfifo", Parent: root | 0x20, Handle: 0x77e2 << 16, Options: []byte{50, 0, 0, 0}},
		},
		Classes: []tc.Raw{
			tc.HTBClassRaw(root, root|1, tc.HTBClass{Rate: 1e8}),
			tc.HTBClassRaw(root|1, root|0x20, tc.HTBClass{Rate: 1e6, Ceil: 1e8}),
			tc.HTBClassRaw(root|1, root|0x30, tc.HTBClass{Rate: 2e6, Ceil: 1e8, Priority: 2}),
		},
	}
}

// cases are trees of all kinds, made by tc(8). Trees with a reason are rejected.
var cases = []struct {
	name, needs, make, refused string
}{
	{name: "default"},
	{name: "clsact", make: "qdisc add dev a clsact"},
	{name: "pfifo", make: "qdisc add dev a root handle 1: pfifo limit 77"},
	{name: "handle of the kernel's choice", make: "qdisc add dev a root pfifo limit 77"},
	{name: "bfifo", make: "qdisc add dev a root handle 1: bfifo limit 77777"},
	{name: "pfifo_head_drop", make: "qdisc add dev a root handle 1: pfifo_head_drop limit 77"},
	{name: "pfifo_fast", make: "qdisc add dev a root handle 1: pfifo_fast"},
	{name: "tbf", make: "qdisc add dev a root handle 1: tbf rate 33mbit burst 10000 limit 20000"},
	{name: "tbf with a peak rate", make: "qdisc add dev a root handle 1: tbf rate 33mbit burst 10000 limit 20000 peakrate 40mbit mtu 1600"},
	{name: "tbf beyond 32 bits with a leaf", make: `qdisc add dev a root handle 1: tbf rate 40gbit burst 100000 limit 200000
qdisc add dev a parent 1:1 handle 10: pfifo limit 5`},
	{name: "htb", make: `qdisc add dev a root handle 1: htb default 20 r2q 5
class add dev a parent 1: classid 1:1 htb rate 100mbit ceil 100mbit
class add dev a parent 1:1 classid 1:20 htb rate 10mbit ceil 40gbit prio 3 quantum 3000
class add dev a parent 1:1 classid 1:30 htb rate 20mbit ceil 100mbit burst 20k cburst 30k overhead 24
qdisc add dev a parent 1:20 handle 20: pfifo limit 9
qdisc add dev a parent 1:30 handle 10: htb default 1
class add dev a parent 10: classid 10:1 htb rate 5mbit`},
	{name: "u32", needs: "u32", make: `qdisc add dev a root handle 1: htb default 20
class add dev a parent 1: classid 1:20 htb rate 10mbit
filter add dev a parent 1: protocol ip prio 5 u32 match ip dst 192.0.2.0/24 match ip dport 80 0xffff flowid 1:20
filter add dev a parent 1: protocol ip prio 5 u32 match ip tos 8 0xff flowid 1:20
filter add dev a parent 1: protocol ipv6 prio 6 u32 match ip6 dst 2001:db8::/32 flowid 1:20`},
	{name: "u32 with tables", needs: "u32", make: `qdisc add dev a root handle 1: htb
class add dev a parent 1: classid 1:20 htb rate 10mbit
filter add dev a parent 1: protocol ip prio 5 handle 2: u32 divisor 16
filter add dev a parent 1: protocol ip prio 5 u32 ht 2:3: match ip src 192.0.2.3 flowid 1:20
filter add dev a parent 1: protocol ip prio 5 u32 ht 800:: match ip src 192.0.2.0/24 hashkey mask 0x000000ff at 12 link 2:`},
	{name: "flower", needs: "flower", make: `qdisc add dev a root handle 1: htb
class add dev a parent 1: classid 1:20 htb rate 10mbit
filter add dev a parent 1: protocol ip prio 5 flower ip_proto tcp dst_port 80 classid 1:20
filter add dev a parent 1: protocol ipv6 prio 6 flower dst_ip 2001:db8::/32 classid 1:20`},
	{name: "fw", needs: "fw", make: `qdisc add dev a root handle 1: htb
class add dev a parent 1: classid 1:20 htb rate 10mbit
filter add dev a parent 1: protocol all prio 5 handle 7/0xff fw classid 1:20`},
	{name: "matchall", needs: "matchall", make: `qdisc add dev a root handle 1: htb
class add dev a parent 1: classid 1:20 htb rate 10mbit
filter add dev a parent 1: protocol all prio 5 matchall classid 1:20`},
	{name: "basic", needs: "basic", make: `qdisc add dev a root handle 1: htb
class add dev a parent 1: classid 1:20 htb rate 10mbit
filter add dev a parent 1: protocol ip prio 5 basic classid 1:20`},
	{name: "classic bpf", make: `qdisc add dev a root handle 1: htb
class add dev a parent 1: classid 1:20 htb rate 10mbit
filter add dev a parent 1: protocol all prio 5 bpf bytecode 1,6~0~0~4294967295, flowid 1:20`},
	{name: "filter with an action", needs: "matchall", make: `qdisc add dev a root handle 1: htb
class add dev a parent 1: classid 1:20 htb rate 10mbit
filter add dev a parent 1: protocol all prio 5 matchall classid 1:20 action mirred egress mirror dev b`, refused: "it has actions"},
	{name: "filters at the hook", make: `qdisc add dev a clsact
filter add dev a ingress protocol all prio 5 bpf bytecode 1,6~0~0~4294967295, flowid 1:20`},
	{name: "hfsc", needs: "hfsc", make: `qdisc add dev a root handle 1: hfsc default 10
class add dev a parent 1: classid 1:1 hfsc sc rate 10mbit ul rate 10mbit
class add dev a parent 1:1 classid 1:10 hfsc sc m1 8mbit d 10ms m2 3mbit
qdisc add dev a parent 1:10 handle 10: pfifo limit 7`},
	{name: "fq", needs: "fq", make: "qdisc add dev a root handle 1: fq limit 777 maxrate 33mbit"},
	{name: "fq by default", needs: "fq", make: "qdisc add dev a root fq"},
	{name: "fq_codel", needs: "fq_codel", make: "qdisc add dev a root handle 1: fq_codel target 7ms interval 91ms limit 500 ce_threshold 3ms"},
	{name: "fq_codel by default", needs: "fq_codel", make: "qdisc add dev a root fq_codel"},
	{name: "codel", needs: "codel", make: "qdisc add dev a root handle 1: codel target 7ms interval 91ms limit 500"},
	{name: "cake", needs: "cake", make: "qdisc add dev a root handle 1: cake bandwidth 33mbit diffserv4 rtt 33ms nat wash ack-filter overhead 38 mpu 84"},
	{name: "cake by default", needs: "cake", make: "qdisc add dev a root cake"},
	{name: "prio", needs: "prio", make: `qdisc add dev a root handle 1: prio bands 4 priomap 1 2 3 0 1 2 0 0 1 1 1 1 1 1 1 1
qdisc add dev a parent 1:2 handle 20: pfifo limit 9`},
	{name: "drr", needs: "drr", make: `qdisc add dev a root handle 1: drr
class add dev a parent 1: classid 1:1 drr quantum 600
class add dev a parent 1: classid 1:2 drr quantum 1600
qdisc add dev a parent 1:2 handle 20: pfifo limit 9`},
	{name: "ets", needs: "ets", make: `qdisc add dev a root handle 1: ets bands 5 strict 2 quanta 3000 2000 1000 priomap 4 4 1 1 0
qdisc add dev a parent 1:2 handle 20: pfifo limit 9`},
	{name: "sfq", needs: "sfq", make: "qdisc add dev a root handle 1: sfq perturb 10 limit 100 depth 50 headdrop"},
	{name: "netem", needs: "netem", make: "qdisc add dev a root handle 1: netem limit 999 delay 3ms loss 1% 25% duplicate 2% corrupt 1% rate 33mbit"},
	{name: "netem with a chain of losses", needs: "netem", make: "qdisc add dev a root handle 1: netem loss gemodel 1% 10% 70% 0.1% ecn"},
	{name: "netem with jitter", needs: "netem", make: "qdisc add dev a root handle 1: netem delay 3ms 1ms", refused: "the dump lacks the distribution of its delay"},
	{name: "red", needs: "red", make: "qdisc add dev a root handle 1: red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 10mbit", refused: "table of idle times"},
	{name: "mq", needs: "mq", make: `qdisc add dev a root handle 1: mq
qdisc add dev a parent 1:2 handle 20: pfifo limit 9`},
	{name: "multiq", needs: "multiq", make: "qdisc add dev a root handle 1: multiq"},
	{name: "size table", make: "qdisc add dev a root handle 1: stab linklayer atm mpu 84 tsize 128 pfifo limit 7", refused: "table of sizes"},
}

func need(t *testing.T, what string) {
	t.Helper()
	switch what {
	case "":
	case "u32", "flower", "fw", "matchall", "basic":
		testutil.Need(t, what, probe.Classifier(what))
	case "mq":
	default:
		testutil.Need(t, what, probe.Qdisc(what))
	}
}

// Every kind that tc supports is restored with the same output of tc, or rejected before any
// change.
func TestEveryKindIsRestoredOrRefused(t *testing.T) {
	testutil.NeedRoot(t)
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			need(t, test.needs)
			ns := bench(t, "4")
			for line := range strings.Lines(test.make) {
				run(t, ns, "tc", line)
			}
			before := show(t, ns)
			record, err := device.Take(ns, "a", "test", "")
			if test.refused != "" {
				if err == nil || fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("refused with %v, want %q", err, test.refused)
				}
				if after := show(t, ns); after != before {
					t.Errorf("the rejected change modified\n%s\nto\n%s", before, after)
				}
				return
			}
			must(t, err)
			document, err := json.Marshal(record)
			must(t, err)
			must(t, record.Replace(ns, ours()))
			if got := run(t, ns, "tc", "class show dev a"); !strings.Contains(got, "77e1:30") {
				t.Errorf("in place is\n%s", got)
			}
			must(t, record.Replace(ns, ours())) // no change
			if test.name == "filters at the hook" {
				run(t, ns, "tc", "qdisc del dev a clsact")
			}
			var read device.Record
			must(t, json.Unmarshal(document, &read))
			must(t, read.Restore(ns))
			if after := show(t, ns); after != before {
				t.Errorf("restored is\n%s\nwant\n%s", after, before)
			}
			must(t, read.Restore(ns)) // no change
		})
	}
}
