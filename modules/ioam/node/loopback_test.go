// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/kernel/testutil"
	"weir/modules/ioam/codec"
)

// loopNode returns the policy of a node with loopback in namespace 123.
func loopNode(id int, address netip.Addr, roles, namespace, scopes string) string {
	return fmt.Sprintf(`
ioam:
  node: %d
  address: %s
  interfaces: {left: {roles: [%s]}, right: {roles: [ingress, egress]}}
  namespaces: {123: {loopback: true%s}}
scopes: {%s}
`, id, address, roles, namespace, scopes)
}

// Both nodes on the path of a datagram return a copy of its headers, with the nodes of both
// directions. The datagram arrives unchanged.
func TestNodesSendCopiesBack(t *testing.T) {
	c := newChain(t, 1500)
	athos, porthos, aramis := address(1, 0), address(1, 1), address(2, 1)
	c.apply(t, "athos", loopNode(1, athos, "", "", `probe: {prefix: "2001:db8:4::/64", ioam: {namespace: 123, trace: [node], loopback: true}}`))
	c.apply(t, "porthos", loopNode(2, porthos, "ingress, egress", "", ""))
	c.apply(t, "aramis", loopNode(3, aramis, "ingress, egress", ", remove: true", ""))
	reader := c.reader(t, "athos")
	from := c.socket(t, "athos", unix.SOCK_DGRAM, netip.AddrPortFrom(athos, 4000))
	to := c.socket(t, "beta", unix.SOCK_DGRAM, netip.AddrPortFrom(beta, 5000))
	if err := unix.Connect(from, &unix.SockaddrInet6{Addr: beta.As16(), Port: 5000}); err != nil {
		t.Fatal(err)
	}
	sent := bytes.Repeat([]byte("weir"), 250)
	if _, err := unix.Write(from, sent); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2000)
	if n, err := testutil.Read(to, got); err != nil || !bytes.Equal(got[:n], sent) {
		t.Fatalf("beta got %d octets: %v", n, err)
	}
	ways := map[netip.Addr][]uint64{}
	for range 2 {
		r := next(t, reader)
		if !r.Looped || r.Flow.Destination != athos || r.Flow.Protocol != 59 || len(r.Traces) != 1 || r.Length > 40+56+18 {
			t.Fatalf("%+v", r)
		}
		for _, hop := range r.Traces[0].Hops {
			ways[r.Flow.Source] = append(ways[r.Flow.Source], hop.Node)
		}
	}
	if !slices.Equal(ways[porthos], []uint64{1, 2}) || !slices.Equal(ways[aramis], []uint64{1, 2, 3, 2}) {
		t.Errorf("the copies went %v", ways)
	}
	for node, name := range map[string]string{"porthos": "looped", "aramis": "looped", "athos": "returned"} {
		if n, want := c.count(t, node, name), map[string]uint64{"looped": 1, "returned": 2}[name]; n != want {
			t.Errorf("%s: %s is %d, want %d", node, name, n, want)
		}
	}
	for _, node := range []string{"athos", "porthos", "aramis"} {
		if n := c.count(t, node, "node_failed"); n != 0 {
			t.Errorf("%s: %d failed", node, n)
		}
	}
}

// asking returns a trace with flags, as the first node inserts it.
func asking(fields codec.TraceType, flags codec.Flags) []byte {
	trace := codec.NewTrace(123, fields, 6, 0)
	trace.Flags, trace.Nodes = flags, nil
	data := trace.Append(nil)
	header := append([]byte{17, 0, 1, 0, codec.Mutable, byte(2 + len(data)), 0, 0}, data...)
	header[1] = byte(len(header)/8 - 1)
	return header
}

// Copies are limited to packets allowed by RFC 9322, to namespaces with loopback, and to the rate
// limit. The packet itself stays unchanged.
func TestWhatIsNotSentBack(t *testing.T) {
	with := full
	with.Loopback = true
	b := newBench(t, aNode(with))
	for _, test := range []struct {
		name    string
		headers []byte
		node    Config
		limit   uint32
		tried   uint64 // sent, or rejected by a device that is down
		limited uint64
	}{
		{"asked for", asking(codec.HopLimitNode, codec.Loopback), aNode(with), 1000, 1, 0},
		{"asked for, and active", asking(codec.HopLimitNode, codec.Loopback|codec.Active), aNode(with), 1000, 1, 0},
		{"not asked for", asking(codec.HopLimitNode, 0), aNode(with), 1000, 0, 0},
		{"another field", asking(codec.Interfaces, codec.Loopback), aNode(with), 1000, 0, 0},
		{"a field more", asking(codec.HopLimitNode|codec.NamespaceData|codec.Interfaces, codec.Loopback), aNode(with), 1000, 0, 0},
		{"another namespace", asking(codec.HopLimitNode, codec.Loopback), aNode(full), 1000, 0, 0},
		{"beyond the limit", asking(codec.HopLimitNode, codec.Loopback), aNode(with), 10, 0, 1},
	} {
		b.set(test.node)
		b.limit(test.limit)
		b.forgetTokens()
		tried := b.counted(ioamIoamCountIOAM_LOOPED) + b.counted(ioamIoamCountIOAM_FAILED)
		limited := b.counted(ioamIoamCountIOAM_LOOP_LIMITED)
		in := packet(0, test.headers, 100)
		verdict, got := b.run(b.objects.IoamIngress, in, skb{})
		if verdict != unspec || !bytes.Equal(got, in) {
			t.Errorf("%s: verdict %d, %x became %x", test.name, verdict, in, got)
		}
		tried, limited = b.counted(ioamIoamCountIOAM_LOOPED)+b.counted(ioamIoamCountIOAM_FAILED)-tried, b.counted(ioamIoamCountIOAM_LOOP_LIMITED)-limited
		if tried != test.tried || limited != test.limited {
			t.Errorf("%s: %d copies, %d beyond the limit, want %d and %d", test.name, tried, limited, test.tried, test.limited)
		}
	}
}

// forgetTokens empties the token bucket.
func (b *bench) forgetTokens() {
	b.t.Helper()
	works := b.objects.IoamWorks
	memory := make([][]byte, ebpf.MustPossibleCPU())
	for i := range memory {
		memory[i] = make([]byte, works.ValueSize())
	}
	if err := works.Put(uint32(0), memory); err != nil {
		b.t.Fatal(err)
	}
}

// Active packets pass nodes, and end with their options.
func TestActivePacketsEndWithTheirOptions(t *testing.T) {
	exit := full
	exit.ID, exit.Remove = 124, true
	b := newBench(t, aNode(full, exit))
	active := func(namespace uint16) []byte {
		trace := codec.NewTrace(namespace, codec.HopLimitNode, 2, 0)
		trace.Flags = codec.Active
		return packet(0, hop(trace), 10)
	}
	if verdict, _ := b.run(b.objects.IoamEgress, active(124), skb{From: 1}); verdict != unspec {
		t.Errorf("on the way: verdict %d", verdict)
	}
	if verdict, _ := b.run(b.objects.IoamIngress, active(123), skb{}); verdict != unspec {
		t.Errorf("of another namespace: verdict %d", verdict)
	}
	if verdict, _ := b.run(b.objects.IoamIngress, active(124), skb{}); verdict != shot {
		t.Errorf("at the end: verdict %d", verdict)
	}
	if verdict, _ := b.run(b.objects.IoamIngress, packet(0, hop(codec.NewTrace(124, codec.HopLimitNode, 2, 0)), 10), skb{}); verdict != unspec {
		t.Errorf("another packet: verdict %d", verdict)
	}
	if active, ended, told := b.counted(ioamIoamCountIOAM_ACTIVE), b.counted(ioamIoamCountIOAM_TERMINATED), b.counted(ioamIoamCountIOAM_EXPORTED); active != 2 || ended != 1 || told != 2 {
		t.Errorf("counted %d active, %d that ended and %d told, want 2, 1 and 2", active, ended, told)
	}
}

// Scopes set flags on allowed packets within the rate limit.
func TestScopesSetFlags(t *testing.T) {
	with := full
	with.Loopback = true
	node := aNode(with)
	option := Option{Type: codec.PreallocatedTrace, Namespace: 123, Fields: codec.HopLimitNode, Nodes: 4}
	b := newBench(t, node)
	for _, test := range []struct {
		name    string
		flags   codec.Flags
		headers []byte
		context skb
		limit   uint32
		want    ioamIoamScopeCounts
	}{
		{"loopback", codec.Loopback, nil, skb{}, 1000, ioamIoamScopeCounts{Encapsulated: 1}},
		{"loopback of another host's packet", codec.Loopback, nil, skb{From: 1}, 1000, ioamIoamScopeCounts{Unflagged: 1}},
		{"loopback with options", codec.Loopback, []byte{17, 0, 0x1e, 4, 1, 2, 3, 4}, skb{}, 1000, ioamIoamScopeCounts{Unflagged: 1}},
		{"loopback of a super-packet", codec.Loopback, nil, skb{GSOSize: 20, Segs: 2}, 1000, ioamIoamScopeCounts{Unflagged: 1}},
		{"loopback beyond the limit", codec.Loopback, nil, skb{}, 10, ioamIoamScopeCounts{Limited: 1}},
		{"active", codec.Active, nil, skb{From: 1}, 1000, ioamIoamScopeCounts{Encapsulated: 1}},
		{"active beyond the limit", codec.Active, nil, skb{}, 10, ioamIoamScopeCounts{Limited: 1}},
	} {
		scope := aScope(Encapsulation{Options: []Option{option}, Flags: test.flags})
		b.again(node, scope)
		b.limit(test.limit)
		b.forgetTokens()
		in := packet(0, test.headers, 40)
		_, got := b.run(b.objects.IoamEgress, in, test.context)
		c, err := b.scopeCounts(3)
		if err != nil {
			t.Fatal(err)
		}
		if c.Encapsulated != test.want.Encapsulated || c.Unflagged != test.want.Unflagged || c.Limited != test.want.Limited {
			t.Errorf("%s: %+v, want %+v", test.name, c, test.want)
		}
		if test.want.Encapsulated == 0 {
			if !bytes.Equal(got, in) {
				t.Errorf("%s: it was changed", test.name)
			}
			continue
		}
		h, err := codec.DecodeHeader(got[atOptions:])
		if err != nil || len(h.Options) != 1 {
			t.Fatalf("%s: %v, %+v", test.name, err, h)
		}
		trace, err := codec.DecodeTrace(h.Options[0].Type, h.Options[0].Data)
		if module := map[codec.Flags]uint8{codec.Loopback: 7, codec.Active: 3}[test.flags]; err != nil || trace.Flags != test.flags || trace.Remaining != module {
			t.Errorf("%s: %v, %+v", test.name, err, trace)
		}
	}
}

// limit sets the rate limit of flags in bytes per second.
func (b *bench) limit(octets uint32) {
	b.t.Helper()
	var s ioamIoamSettings
	if err := b.objects.IoamNode.Lookup(uint32(0), &s); err != nil {
		b.t.Fatal(err)
	}
	s.Flagged = octets
	if err := b.objects.IoamNode.Put(uint32(0), s); err != nil {
		b.t.Fatal(err)
	}
}
