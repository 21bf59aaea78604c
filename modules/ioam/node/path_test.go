// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/kernel/netns"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/modules/ioam/collect"
)

const allFields = "trace: [node, interfaces, timestamps, delay, data, queue], nodes: 3"

// A datagram's trace has every node of the domain in order, and the datagram arrives unchanged.
func TestAPathIsTraced(t *testing.T) {
	c := newChain(t, 1500)
	c.domain(t, allFields)
	reader := c.reader(t, "aramis")
	from, to := c.datagrams(t)
	before := time.Now().UnixNano()
	sent := bytes.Repeat([]byte("weir"), 300)
	if _, err := unix.Write(from, sent); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2000)
	n, err := testutil.Read(to, got)
	after := time.Now().UnixNano()
	if err != nil || !bytes.Equal(got[:n], sent) {
		t.Fatalf("beta got %d octets, %v", n, err)
	}
	r := next(t, reader)
	if r.Flow != (collect.Flow{Source: alpha, Destination: beta, SourcePort: 4000, DestinationPort: 5000, Protocol: 17}) || len(r.Traces) != 1 || r.Traces[0].Overflow {
		t.Fatalf("%+v", r)
	}
	hops := r.Traces[0].Hops
	if len(hops) != 3 {
		t.Fatalf("%d hops", len(hops))
	}
	last := before - 2000 // rounding of the format
	for i, h := range hops {
		id := uint64(i + 1)
		if h.Node != id || h.HopLimit != uint8(64-id) || h.Ingress.Value != uint32(10*id) || h.Egress.Value != uint32(10*id+1) || h.Data.Value != 1000+id {
			t.Errorf("hop %d: %+v", i, h)
		}
		if !h.Received.Known || h.Received.Value < last-2000 || h.Received.Value > after {
			t.Errorf("hop %d received it at %v, after %d and before %d", i, h.Received, last, after)
			continue
		}
		last = h.Received.Value
	}
	// A forwarding node knows its delay; the node at the end of the trace does not.
	if hops[1].Delay.Value <= 0 || hops[1].Delay.Value > after-before {
		t.Errorf("porthos took %v", hops[1].Delay)
	}
	if reads := match.Reads(ebpf.SchedCLS) == nil; hops[1].Queue.Known != reads || hops[1].Queue.Value != 0 {
		t.Errorf("porthos' queue is %v", hops[1].Queue)
	}
	if hops[2].Queue.Known {
		t.Errorf("aramis' queue is %v", hops[2].Queue)
	}
}

// connection returns both ends of a TCP connection from alpha to beta.
func (c *chain) connection(t testing.TB) (client int, end *os.File) {
	t.Helper()
	listener := c.socket(t, "beta", unix.SOCK_STREAM, netip.AddrPortFrom(beta, 0))
	client = c.socket(t, "alpha", unix.SOCK_STREAM, netip.AddrPortFrom(alpha, 0))
	if err := unix.Listen(listener, 1); err != nil {
		t.Fatal(err)
	}
	to, err := unix.Getsockname(listener)
	if err == nil {
		err = unix.Connect(client, to)
	}
	if err != nil {
		t.Fatal(err)
	}
	accepted, _, err := unix.Accept(listener)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(accepted), "beta")
	t.Cleanup(func() { _ = file.Close() })
	return client, file
}

// stream sends bytes over TCP from alpha to beta and returns the received ones.
func (c *chain) stream(t testing.TB, octets []byte) []byte {
	t.Helper()
	client, file := c.connection(t)
	failed := make(chan error, 1)
	go func() {
		rest := octets
		for len(rest) > 0 {
			n, err := unix.Write(client, rest)
			if err != nil {
				failed <- err
				return
			}
			rest = rest[n:]
		}
		failed <- unix.Shutdown(client, unix.SHUT_WR)
	}()
	got, err := io.ReadAll(file)
	if sent := <-failed; sent != nil || err != nil {
		t.Fatal(sent, err)
	}
	return got
}

// passStream sends 4 MiB over TCP, and checks the received bytes and the counters of insertion and
// removal.
func (c *chain) passStream(t *testing.T) {
	t.Helper()
	sent := make([]byte, 4<<20)
	random := testutil.Rand(t)
	for i := range sent {
		sent[i] = byte(random.Uint32())
	}
	if got := c.stream(t, sent); !bytes.Equal(got, sent) {
		t.Errorf("%d octets came, not those that were sent", len(got))
	}
	counts := c.scope(t, "athos")
	if counts.Encapsulated == 0 || counts.TooLong != 0 || counts.Failed != 0 || counts.NoRoom != 0 {
		t.Errorf("athos: %+v", counts)
	}
	if removed := c.count(t, "aramis", "removed"); removed == 0 {
		t.Error("aramis has removed nothing")
	}
	for _, node := range []string{"athos", "porthos", "aramis"} {
		if n := c.count(t, node, "node_failed"); n != 0 {
			t.Errorf("%s: %d packets failed", node, n)
		}
	}
}

// TCP super-packets pass a domain, and every packet fits the links, also on the return path without
// options.
func TestStreamsPassADomain(t *testing.T) {
	for name, treatment := range map[string]string{"every packet": allFields, "one of three": allFields + ", every: 3"} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, 1500)
			c.domain(t, treatment)
			c.passStream(t)
		})
	}
}

// Each datagram of a UDP super-packet passes a domain unchanged.
func TestDatagramsOfOneSuperPacketPassADomain(t *testing.T) {
	c := newChain(t, 1500)
	c.domain(t, "trace: [node], nodes: 3")
	from, to := c.datagrams(t)
	const size, datagrams, last = 1200, 10, 700
	if err := unix.SetsockoptInt(from, unix.IPPROTO_UDP, unix.UDP_SEGMENT, size); err != nil {
		t.Fatal(err)
	}
	sent := make([]byte, size*(datagrams-1)+last)
	for i := range sent {
		sent[i] = byte(i * i >> 3)
	}
	if _, err := unix.Write(from, sent); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2*size)
	for i := range datagrams {
		want := sent[i*size : min((i+1)*size, len(sent))]
		if n, err := testutil.Read(to, got); err != nil || !bytes.Equal(got[:n], want) {
			t.Fatalf("datagram %d: %d octets, %v", i, n, err)
		}
	}
	if counts := c.scope(t, "athos"); counts.Encapsulated == 0 || counts.Encapsulated != counts.Packets {
		t.Errorf("athos: %+v", counts)
	}
}

// A scope of an interface covers the packets that a router forwards through it, not those of its
// other interfaces.
func TestAnInterfaceCoversForwardedPackets(t *testing.T) {
	c := newChain(t, 1500)
	c.domain(t, allFields)
	c.apply(t, "athos", `
ioam:
  node: 1
  interfaces:
    left: {id: 10, roles: [egress]}
    right: {id: 11, roles: [ingress, egress]}
  namespaces: {123: {}, 124: {}}
scopes:
  forth: {interface: right, ioam: {namespace: 123, trace: [node, interfaces], nodes: 3}}
  back: {interface: left, ioam: {namespace: 124, trace: [node], nodes: 1}}
`)
	reader := c.reader(t, "aramis")
	from, to := c.datagrams(t)
	const there, back = 4, 3
	for range there {
		if _, err := unix.Write(from, []byte("forth")); err != nil {
			t.Fatal(err)
		}
		if n, err := testutil.Read(to, make([]byte, 10)); err != nil || n != 5 {
			t.Fatalf("beta got %d octets, %v", n, err)
		}
		r := next(t, reader)
		if len(r.Traces) != 1 || len(r.Traces[0].Hops) != 3 || r.Traces[0].Hops[0].Node != 1 || r.Traces[0].Hops[0].Egress.Value != 11 {
			t.Fatalf("%+v", r)
		}
	}
	for range back {
		if err := unix.Sendto(to, []byte("back"), 0, &unix.SockaddrInet6{Addr: alpha.As16(), Port: 4000}); err != nil {
			t.Fatal(err)
		}
		if n, err := testutil.Read(from, make([]byte, 10)); err != nil || n != 4 {
			t.Fatalf("alpha got %d octets, %v", n, err)
		}
	}
	for i, want := range []uint64{there, back} { // and those of neighbour discovery
		if counts := c.scopeAt(t, "athos", i); counts.Packets < want || counts.Encapsulated != counts.Packets {
			t.Errorf("scope %d: %+v, want %d packets", i, counts, want)
		}
	}
}

func (c *chain) scope(t *testing.T, node string) ioamIoamScopeCounts {
	t.Helper()
	return c.scopeAt(t, node, 0)
}

// scopeAt returns the counters of a scope by its number.
func (c *chain) scopeAt(t *testing.T, node string, number int) ioamIoamScopeCounts {
	t.Helper()
	d, err := open(c.ns[node], c.planes[node].host.Pins)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.close() }()
	counts, err := d.scopeCounts(uint32(number))
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

// A sender learns the MTU that leaves space for options. Its packets carry them from then on.
func TestThePathMTUIsLearned(t *testing.T) {
	c := newChain(t, 1500)
	c.domain(t, allFields)
	from, to := c.datagrams(t)
	if err := unix.SetsockoptInt(from, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO); err != nil {
		t.Fatal(err)
	}
	long := make([]byte, 1452)
	if _, err := unix.Write(from, long); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 10*time.Second, "Packet Too Big", func() bool {
		mtu, err := unix.GetsockoptInt(from, unix.IPPROTO_IPV6, unix.IPV6_MTU)
		return err == nil && mtu < 1500
	})
	mtu, err := unix.GetsockoptInt(from, unix.IPPROTO_IPV6, unix.IPV6_MTU)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = unix.GetsockoptInt(from, unix.SOL_SOCKET, unix.SO_ERROR)
	if _, err := unix.Write(from, long[:mtu-48]); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.Read(to, make([]byte, 2000)); err != nil || n != mtu-48 {
		t.Errorf("beta got %d octets, want %d: %v", n, mtu-48, err)
	}
	if counts := c.scope(t, "athos"); counts.Encapsulated != 1 || counts.TooLong != 0 {
		t.Errorf("athos: %+v", counts)
	}
	if _, err := c.planes["athos"].Release(); err != nil {
		t.Fatal(err)
	}
	if restored, err := sysctl.Get(c.ns["athos"], mtuKey("right")); err != nil || restored != "1500" {
		t.Errorf("after the release the MTU is %s, %v", restored, err)
	}
}

// noPrograms waits until the devices of a namespace have no programs: the kernel ends links with a
// delay.
func noPrograms(t *testing.T, ns *netns.Namespace) {
	t.Helper()
	testutil.Eventually(t, 20*time.Second, "the end of the programs at devices", func() bool { return programs(t, ns) == 0 })
}

// programs counts the programs at the devices of a namespace.
func programs(t *testing.T, ns *netns.Namespace) (n int) {
	t.Helper()
	for _, hook := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
		for _, index := range []int{1, 2, 3} {
			var found *link.QueryResult
			err := ns.Do(func() (err error) {
				found, err = link.QueryPrograms(link.QueryOptions{Target: index, Attach: hook})
				return err
			})
			if errors.Is(err, unix.ENODEV) {
				continue
			}
			testutil.Need(t, "tcx", err)
			n += len(found.Programs)
		}
	}
	return n
}

// After repeated apply, change and release, no object is left.
func TestANodeComesAndGoes(t *testing.T) {
	c := newChain(t, 1500)
	testutil.Snapshot(t)
	for range 3 {
		c.domain(t, allFields)
	}
	c.domain(t, "trace: [node], nodes: 3, every: 2")
	c.apply(t, "porthos", "ioam: {node: 9, interfaces: {left: {id: 5}}}\nscopes: {}")
	from, to := c.datagrams(t)
	defer testutil.OnOneCPU(t)() // `every: N` counts packets per CPU
	for range 4 {
		if _, err := unix.Write(from, []byte("weir")); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // porthos accepts no options on its left interface
		if _, err := testutil.Read(to, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.count(t, "porthos", "from_outside"); n != 2 {
		t.Errorf("porthos has dropped %d packets, want 2", n)
	}
	for _, node := range []string{"athos", "porthos", "aramis"} {
		if released, err := c.planes[node].Release(); err != nil || !released {
			t.Errorf("%s: %t, %v", node, released, err)
		}
		if _, err := os.Stat(c.planes[node].host.Pins); err == nil {
			t.Errorf("%s: pins are left", node)
		}
		if released, err := c.planes[node].Release(); err != nil || released {
			t.Errorf("%s again: %t, %v", node, released, err)
		}
		noPrograms(t, c.ns[node])
	}
	for range 3 {
		if _, err := unix.Write(from, []byte("weir")); err != nil {
			t.Fatal(err)
		}
		if _, err := testutil.Read(to, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
	}
}
