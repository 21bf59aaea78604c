// SPDX-License-Identifier: Apache-2.0

package police

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/core/match"
	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// marked limits both directions of scope 1 for mark 1 and of scope 2 for mark 2, at a high rate.
func marked(t *testing.T, scopes int) *DataPlane {
	t.Helper()
	p := plane(t, scopes)
	if err := errors.Join(p.Assign(match.OfMark(1), 1), p.Assign(match.OfMark(2), 2)); err != nil {
		t.Fatal(err)
	}
	for scope := range scopes {
		for _, direction := range []Direction{Egress, Ingress} {
			if err := p.Set(scope, direction, Limit{Rate: MaxRate, Loopback: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p
}

func mark(t *testing.T, fd, mark int) {
	t.Helper()
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, mark); err != nil {
		t.Fatal(err)
	}
}

// ends returns two sockets; the first is connected to the second.
func ends(t *testing.T, socket func(int) int, kind int) (client, server int) {
	t.Helper()
	client, server = socket(kind), socket(kind)
	mark(t, client, 1)
	mark(t, server, 2)
	err := unix.Bind(server, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if err == nil && kind == unix.SOCK_STREAM {
		err = unix.Listen(server, 1)
	}
	address, nameErr := unix.Getsockname(server)
	if err := errors.Join(err, nameErr); err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(client, address); err != nil {
		t.Fatal(err)
	}
	if kind == unix.SOCK_STREAM {
		if server, _, err = unix.Accept(server); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(server) })
	}
	return client, server
}

// passOctet sends one byte from one socket to the other and waits for it.
func passOctet(t *testing.T, client, server int) {
	t.Helper()
	if _, err := unix.Write(client, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Read(server, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// both returns the packets of a scope at egress and ingress.
func both(t *testing.T, p *DataPlane, scope int) [2]uint64 {
	t.Helper()
	return [2]uint64{counters(t, p, scope).Packets, countersAt(t, p, scope, Ingress).Packets}
}

// Egress matches the mark of the sender, ingress that of the receiver.
func TestMarksTellTrafficOfBothDirections(t *testing.T) {
	p := marked(t, 3)
	_, socket := chargedSockets(t, p)
	client, server := ends(t, socket, unix.SOCK_DGRAM)
	const packets = 5
	for range packets {
		passOctet(t, client, server)
	}
	if one, two := both(t, p, 1), both(t, p, 2); one != [2]uint64{packets, 0} || two != [2]uint64{0, packets} {
		t.Errorf("datagrams: the sender's scope counted %d, the receiver's %d", one, two)
	}
	client, server = ends(t, socket, unix.SOCK_STREAM)
	before, beforeServer := both(t, p, 1), both(t, p, 2)
	for range packets {
		passOctet(t, client, server)
	}
	if one, two := both(t, p, 1), both(t, p, 2); one[0] < before[0]+packets || two[1] < beforeServer[1]+packets {
		t.Errorf("a stream: the sender's scope went from %d to %d, the receiver's from %d to %d", before, one, beforeServer, two)
	}
	if one, two := both(t, p, 1), both(t, p, 2); one[1] == 0 || two[0] == 0 {
		t.Errorf("a handshake: the client's scope has counted %d, the server's %d", one, two)
	}
}

// An application may change its mark at any time, without a packet.
func TestAMarkThatChangesIsSeenWithTheNextPacket(t *testing.T) {
	for _, kind := range []int{unix.SOCK_DGRAM, unix.SOCK_STREAM} {
		p := marked(t, 3)
		_, socket := chargedSockets(t, p)
		client, server := ends(t, socket, kind)
		for _, now := range []int{1, 2, 0, 2, 1} {
			mark(t, client, now)
			before := [3]uint64{0, both(t, p, 1)[0], both(t, p, 2)[0]}
			const packets = 3
			for range packets {
				passOctet(t, client, server)
			}
			for scope := 1; scope <= 2; scope++ {
				got := both(t, p, scope)[0] - before[scope]
				// The server's socket (mark 2) of a stream sends acknowledgements.
				if want := map[bool]uint64{true: packets}[scope == now]; got != want && (kind == unix.SOCK_DGRAM || scope == 1) {
					t.Errorf("mark %d: scope %d counted %d packets of %d, want %d", now, scope, got, packets, want)
				}
			}
		}
	}
}

func TestNamespacesTellTrafficOfBothDirections(t *testing.T) {
	p := marked(t, 5)
	ns, socket := chargedSockets(t, p)
	here := match.OfNetns(cookieOf(t, ns))
	if err := match.Netns.Needs(ebpf.CGroupSKB); err != nil {
		if refused := p.Assign(here, 3); fault.Of(refused) != fault.Testbed || !strings.Contains(fault.Advice(refused), "Linux 6.15") {
			t.Errorf("a namespace was assigned on a kernel that does not tell it: %v", refused)
		}
		testutil.Need(t, "bpf_get_netns_cookie in cgroup_skb", err)
	}
	elsewhere := match.OfNetns(cookieOf(t, testutil.Namespace(t, "elsewhere")))
	if err := errors.Join(p.Assign(here, 3), p.Assign(elsewhere, 4)); err != nil {
		t.Fatal(err)
	}
	client, server := ends(t, socket, unix.SOCK_DGRAM)
	const packets = 5
	for range packets {
		passOctet(t, client, server)
	}
	if got := both(t, p, 3); got != [2]uint64{packets, packets} {
		t.Errorf("datagrams: counted %d, sent %d", got, packets)
	}
	client, server = ends(t, socket, unix.SOCK_STREAM)
	for range packets {
		passOctet(t, client, server)
	}
	// A handshake has two packets that carry nothing.
	if got := both(t, p, 3); got[0] < 2*packets+2 || got[1] < 2*packets+2 {
		t.Errorf("a stream and datagrams: counted %d, sent %d of data", got, 2*packets)
	}
	if got := both(t, p, 4); got != [2]uint64{} {
		t.Errorf("another namespace's scope counted %d", got)
	}
}

func cookieOf(t *testing.T, ns *netns.Namespace) (cookie uint64) {
	t.Helper()
	err := ns.Do(func() (err error) { cookie, err = match.ThisNetns(); return err })
	if err != nil {
		testutil.Need(t, "SO_NETNS_COOKIE", err)
	}
	return cookie
}
