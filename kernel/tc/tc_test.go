// SPDX-License-Identifier: Apache-2.0

package tc_test

import (
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/tc"
	"weir/kernel/testutil"
)

// bench is a veth pair between two namespaces, with the tested qdiscs on its left end, a.
type bench struct {
	left, right *netns.Namespace
	tc          *tc.Conn
}

func newBench(t *testing.T) bench {
	t.Helper()
	b := bench{left: testutil.Namespace(t, "left"), right: testutil.Namespace(t, "right")}
	for _, ns := range []*netns.Namespace{b.left, b.right} { // avoid counting IPv6's routine messages
		must(t, sysctl.Set(ns, "net.ipv6.conf.default.disable_ipv6", "1"))
	}
	left, err := rtnl.Open(b.left)
	must(t, err)
	defer left.Close()
	right, err := rtnl.Open(b.right)
	must(t, err)
	defer right.Close()
	must(t, left.AddVeth("a", b.right, "b", 0))
	must(t, right.AddAddress("b", netip.MustParsePrefix("192.0.2.2/24")))
	must(t, right.SetUp("b"))
	must(t, left.AddAddress("a", netip.MustParsePrefix("192.0.2.1/24")))
	must(t, left.SetUp("a"))
	peer, err := right.Device("b")
	must(t, err)
	must(t, left.AddNeighbor("a", netip.MustParseAddr("192.0.2.2"), peer.MAC))
	b.tc, err = tc.Open(b.left)
	must(t, err)
	t.Cleanup(b.tc.Close)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// send sends datagrams of a size in bytes from left to right and returns the number received before
// a silence.
func (b bench) send(t *testing.T, count, size int, silence time.Duration) (arrived [][]byte) {
	t.Helper()
	var sender, receiver net.Conn
	must(t, b.right.Do(func() error {
		socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 9})
		if err == nil {
			err = socket.SetReadBuffer(8 << 20)
			receiver = socket
		}
		return err
	}))
	defer func() { _ = receiver.Close() }()
	must(t, b.left.Do(func() (err error) {
		sender, err = net.Dial("udp4", "192.0.2.2:9")
		return err
	}))
	defer func() { _ = sender.Close() }()
	payload := make([]byte, size)
	for i := range count {
		payload[0], payload[1] = byte(i>>8), byte(i)
		// The local socket gets an error for a full queue at its device, which the test expects.
		if _, err := sender.Write(payload); err != nil && !errors.Is(err, unix.ENOBUFS) {
			t.Fatal(err)
		}
	}
	buffer := make([]byte, 2048)
	for {
		must(t, receiver.SetReadDeadline(time.Now().Add(silence)))
		n, err := receiver.Read(buffer)
		if err != nil {
			return arrived
		}
		arrived = append(arrived, append([]byte(nil), buffer[:n]...))
	}
}

// only returns the single qdisc of a with this kind.
func (b bench) only(t *testing.T, kind string) tc.Qdisc {
	t.Helper()
	qdiscs, err := b.tc.List("a")
	must(t, err)
	for _, qdisc := range qdiscs {
		if qdisc.Kind == kind {
			return qdisc
		}
	}
	t.Fatalf("no %s among %+v", kind, qdiscs)
	return tc.Qdisc{}
}

// show returns tc(8)'s output for a's qdiscs or classes.
func (b bench) show(t *testing.T, what string) string {
	t.Helper()
	output, err := exec.Command(testutil.Command(t, "tc"), "-n", b.left.Name, what, "show", "dev", "a").CombinedOutput()
	if err != nil {
		t.Fatalf("tc %s show: %v\n%s", what, err, output)
	}
	return strings.Join(strings.Fields(string(output)), " ")
}

func TestPfifoCountsWhatPasses(t *testing.T) {
	b := newBench(t)
	must(t, b.tc.AddPfifo("a", tc.Place{Handle: tc.MakeHandle(1, 0)}, 100))
	arrived := b.send(t, 50, 100, 200*time.Millisecond)
	q := b.only(t, "pfifo")
	if len(arrived) != 50 || q.Packets < 50 || q.Bytes < 50*142 || q.Drops != 0 || q.Parent != tc.Root || q.Handle != tc.MakeHandle(1, 0) {
		t.Errorf("%d arrived, qdisc %+v; want 50 packets of 142 octets", len(arrived), q)
	}
	if got := b.show(t, "qdisc"); !strings.Contains(got, "qdisc pfifo 1: root refcnt") || !strings.Contains(got, "limit 100p") {
		t.Errorf("tc says %q", got)
	}
	if err := b.tc.AddPfifo("a", tc.Place{Handle: tc.MakeHandle(1, 0)}, 100); !errors.Is(err, unix.EEXIST) {
		t.Errorf("second qdisc at the root: %v", err)
	}
	must(t, b.tc.Delete("a", tc.Place{}))
	if qdiscs, err := b.tc.List("a"); err != nil || len(qdiscs) > 0 && qdiscs[0].Handle != 0 {
		t.Errorf("after delete: %v, %v", qdiscs, err)
	}
}

// trickle is a rate at which a frame of 142 bytes takes 18 s: during a test only the bucket's burst
// leaves the queue.
const trickle = 64

func TestTBFDropsBeyondItsLimit(t *testing.T) {
	b := newBench(t)
	// The limit holds 10 frames of 142 bytes.
	must(t, b.tc.AddTBF("a", tc.Place{}, tc.TBFSpec{Rate: trickle, Burst: 1600, Limit: 1420, Overhead: 24}))
	if got := b.show(t, "qdisc"); !strings.Contains(got, "rate 64bit") || !strings.Contains(got, "overhead 24") {
		t.Errorf("tc says %q", got)
	}
	b.send(t, 100, 100, 10*time.Millisecond)
	q := b.only(t, "tbf")
	// A bucket of 1600 bytes holds nine frames of 166 bytes on the wire.
	if q.Packets != 9 || q.Queued != 10 || q.Drops != 81 || q.Overlimits == 0 {
		t.Errorf("%+v: want 9 sent, 10 waiting, the rest of 100 dropped", q)
	}
}

func TestBfifoLimitsOctets(t *testing.T) {
	b := newBench(t)
	must(t, b.tc.AddTBF("a", tc.Place{Handle: tc.MakeHandle(1, 0)}, tc.TBFSpec{Rate: trickle, Burst: 1600, Limit: 1}))
	must(t, b.tc.AddBfifo("a", tc.Place{Parent: tc.MakeHandle(1, 1), Handle: tc.MakeHandle(2, 0)}, 284))
	b.send(t, 100, 100, 10*time.Millisecond)
	q := b.only(t, "bfifo")
	// A bucket of 1600 bytes holds eleven frames of 142 bytes.
	if q.Backlog != 284 || q.Queued != 2 || q.Packets != 11 || q.Drops != 87 {
		t.Errorf("%+v: want 11 sent, two frames of 142 octets waiting, the rest of 100 dropped", q)
	}
}

func TestHTBClassesInTheKernelsWords(t *testing.T) {
	b := newBench(t)
	root := tc.MakeHandle(1, 0)
	must(t, b.tc.AddHTB("a", tc.Place{Handle: root}, 0x20))
	must(t, b.tc.AddHTBClass("a", root, tc.MakeHandle(1, 1), tc.HTBClass{Rate: 100_000_000}))
	must(t, b.tc.AddHTBClass("a", tc.MakeHandle(1, 1), tc.MakeHandle(1, 0x20),
		tc.HTBClass{Rate: 10_000_000, Ceil: 40_000_000_000, Burst: 32000, Priority: 3, Overhead: 24}))
	got := b.show(t, "class")
	for _, want := range []string{
		"class htb 1:1 root rate 100Mbit ceil 100Mbit", "class htb 1:20 parent 1:1", "prio 3", "rate 10Mbit", "ceil 40Gbit", "overhead 24",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("tc says %q, without %q", got, want)
		}
	}
	if arrived := b.send(t, 20, 100, 200*time.Millisecond); len(arrived) != 20 {
		t.Errorf("%d of 20 arrived through the fallback class", len(arrived))
	}
}

func TestClsact(t *testing.T) {
	b := newBench(t)
	must(t, b.tc.AddClsact("a"))
	if q := b.only(t, "clsact"); q.Parent != tc.Clsact || q.Handle != tc.MakeHandle(0xffff, 0) {
		t.Errorf("%+v", q)
	}
	must(t, b.tc.Delete("a", tc.Place{Parent: tc.Clsact}))
}

func TestFqCodel(t *testing.T) {
	b := newBench(t)
	testutil.Need(t, "fq_codel", probe.Qdisc("fq_codel"))
	must(t, b.tc.AddFqCodel("a", tc.Place{}, tc.FqCodelSpec{Limit: 500, Target: 2 * time.Millisecond, ECN: true}))
	got := b.show(t, "qdisc")
	for _, want := range []string{"limit 500p", "target 2ms", "interval 100ms", " ecn"} {
		if !strings.Contains(got, want) {
			t.Errorf("tc says %q, without %q", got, want)
		}
	}
}

func TestAMissingKindComesWithAdvice(t *testing.T) {
	b := newBench(t)
	err := b.tc.AddNetem("a", tc.Place{}, tc.NetemSpec{})
	if probe.Netem() == nil {
		must(t, err)
		return
	}
	if fault.Of(err) != fault.Testbed || !strings.Contains(fault.Advice(err), "CONFIG_NET_SCH_NETEM") {
		t.Errorf("%v, try %q", err, fault.Advice(err))
	}
}

func TestWrongSpecs(t *testing.T) {
	b := newBench(t)
	for name, err := range map[string]error{
		"probability above 1":   b.tc.AddNetem("a", tc.Place{}, tc.NetemSpec{Corrupt: 1.5}),
		"reorder without delay": b.tc.AddNetem("a", tc.Place{}, tc.NetemSpec{Reorder: .5}),
		"negative delay":        b.tc.AddNetem("a", tc.Place{}, tc.NetemSpec{Delay: -1}),
		"two kinds of loss":     b.tc.AddNetem("a", tc.Place{}, tc.NetemSpec{Loss: tc.Loss{Probability: .1, GE: true}}),
		"distribution":          b.tc.AddNetem("a", tc.Place{}, tc.NetemSpec{Distribution: "round"}),
		"tbf without a rate":    b.tc.AddTBF("a", tc.Place{}, tc.TBFSpec{Burst: 1, Limit: 1}),
		"class without a rate":  b.tc.AddHTBClass("a", tc.Root, tc.MakeHandle(1, 1), tc.HTBClass{}),
	} {
		if fault.Of(err) != fault.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}
