// SPDX-License-Identifier: Apache-2.0

package match

import (
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/kernel/testutil"
)

const (
	solMPTCP  = 284
	mptcpInfo = 1
)

// All subflows of a multipath TCP connection belong to its user from their first packet on,
// although root owns the sockets that the kernel creates for them.
func TestSubflowsAreTheirConnectionsUsers(t *testing.T) {
	testutil.NeedRoot(t)
	if err := Reads(ebpf.CGroupSKB); err != nil {
		testutil.Need(t, "tracing", err)
	}
	ip := testutil.Command(t, "ip")
	p := newPlace(t, 0)
	for _, command := range [][]string{
		{"address", "add", "127.0.0.2/8", "dev", "lo"},
		{"mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2"},
		{"mptcp", "endpoint", "add", "127.0.0.2", "dev", "lo", "subflow"},
	} {
		var out []byte
		err := p.ns.Do(func() (err error) { out, err = exec.Command(ip, command...).CombinedOutput(); return err })
		if err != nil {
			t.Skipf("needs multipath TCP: ip %v: %s", command, out)
		}
	}
	users, roots := p.look(t, p.ns, OfUser(clientUser)), p.look(t, p.ns, OfUser(0))
	client := p.stream(t, clientUser)
	var server int // outside the cgroup
	err := p.ns.Do(func() (err error) {
		server, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(server) }()
	if err := unix.Bind(server, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(server, 8); err != nil {
		t.Fatal(err)
	}
	address, err := unix.Getsockname(server)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(client, address); err != nil {
		t.Fatal(err)
	}
	accepted, _, err := unix.Accept(server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(accepted) }()
	for _, fd := range []int{client, accepted} {
		if _, err := unix.Write(fd, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	testutil.Eventually(t, 30*time.Second, "a second subflow", func() bool {
		info, err := unix.GetsockoptString(client, solMPTCP, mptcpInfo)
		return err == nil && len(info) > 0 && info[0] > 0
	})
	if err := Kind(User).Needs(ebpf.SockOps); err != nil {
		testutil.Need(t, "jit", err)
	}
	if got := counted(t, users.MatchSockets); got != 2 {
		t.Errorf("%d of the client's subflows were its user's, want 2", got)
	}
	if n, all := counted(t, roots.MatchSegments), counted(t, users.MatchSegments); n != 0 || all == 0 {
		t.Errorf("%d packets were root's, and %d the client's", n, all)
	}
}

// stream makes a socket of multipath TCP in the place's cgroup, of a user.
func (p *place) stream(t *testing.T, user int) (fd int) {
	t.Helper()
	fd, err := p.sockets.SocketOf(p.ns, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
	if err != nil {
		t.Skipf("needs multipath TCP: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Fchown(fd, user, -1); err != nil {
		t.Fatal(err)
	}
	return fd
}
