// SPDX-License-Identifier: Apache-2.0

package match

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{cgroup.SocketsPart: cgroup.ServeSockets})
	os.Exit(m.Run())
}

const (
	clientMark, serverMark = 0x10, 0x8000_0020
	clientUser, serverUser = 4711, 4712
)

// place is a namespace with traffic between sockets of one cgroup over loopback. The programs are
// attached to that cgroup.
type place struct {
	ns      *netns.Namespace
	levels  []cgroup.Cgroup // from the test's outermost to the sockets' own
	sockets *cgroup.Sockets
}

func newPlace(t *testing.T, deep int) *place {
	t.Helper()
	p := &place{ns: testutil.Namespace(t, "match"), levels: []cgroup.Cgroup{testutil.Cgroup(t)}}
	for range deep {
		below, err := cgroup.Create(p.levels[len(p.levels)-1].Path, "below")
		if err != nil {
			t.Fatal(err)
		}
		p.levels = append(p.levels, below)
	}
	up(t, p.ns)
	var err error
	if p.sockets, err = p.levels[deep].OpenSockets(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.sockets.Close() })
	return p
}

// up starts the loopback device.
func up(t *testing.T, ns *netns.Namespace) {
	t.Helper()
	conn, err := rtnl.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetUp("lo"); err != nil {
		t.Fatal(err)
	}
}

// look loads the programs, prepared inside a namespace, with one key of scope 1, and attaches them
// to the place.
func (p *place) look(t *testing.T, inside *netns.Namespace, key Key) *matchObjects {
	t.Helper()
	spec, err := loadMatch()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(rlimit.RemoveMemlock(), inside.Do(func() error { return Prepare(spec, ebpf.CGroupSKB, 4) })); err != nil {
		t.Fatal(err)
	}
	var o matchObjects
	if err := spec.LoadAndAssign(&o, nil); err != nil {
		testutil.Need(t, "BTF and bpf_skc_to_tcp_sock in sockops", err)
	}
	t.Cleanup(func() { _ = o.Close() })
	used, err := Maps{Program: ebpf.CGroupSKB, Entries: Fields(&o.matchMaps)}.Reassign(nil, Assignments{key: 1})
	if err := errors.Join(err, o.MatchKinds.Set(used)); err != nil {
		t.Fatal(err)
	}
	for hook, program := range map[ebpf.AttachType]*ebpf.Program{ebpf.AttachCGroupInetEgress: o.MatchEgress,
		ebpf.AttachCGroupInetIngress: o.MatchIngress, ebpf.AttachCGroupSockOps: o.MatchSockops} {
		attached, err := link.AttachCgroup(link.CgroupOptions{Path: p.levels[0].Path, Attach: hook, Program: program})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = attached.Close() })
	}
	return &o
}

// socket makes a socket with a mark and a user.
func (p *place) socket(t *testing.T, family, kind int, mark, user int) int {
	t.Helper()
	fd, err := p.sockets.Socket(p.ns, family, kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, mark), unix.Fchown(fd, user, -1)); err != nil {
		t.Fatal(err)
	}
	return fd
}

// send sends a datagram from the client to the server, or connects the client to it.
func (p *place) send(t *testing.T, family, kind int) {
	t.Helper()
	p.sendAs(t, family, kind, clientUser)
}

// sendAs sends as another user of the host than the client.
func (p *place) sendAs(t *testing.T, family, kind, user int) {
	t.Helper()
	server, client := p.socket(t, family, kind, serverMark, serverUser), p.socket(t, family, kind, clientMark, user)
	var address unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if family == unix.AF_INET6 {
		address = &unix.SockaddrInet6{Addr: netip.IPv6Loopback().As16()}
	}
	err := unix.Bind(server, address)
	if err == nil && kind == unix.SOCK_STREAM {
		err = unix.Listen(server, 1)
	}
	if err == nil {
		address, err = unix.Getsockname(server)
	}
	if err == nil {
		err = unix.Connect(client, address)
	}
	if err != nil {
		t.Fatal(err)
	}
	if kind == unix.SOCK_STREAM {
		accepted, _, err := unix.Accept(server)
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(accepted)
		return
	}
	// Once it has been received, the program for ingress has seen it.
	if _, err := unix.Write(client, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Read(server, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// counted returns the matches of scope 1.
func counted(t *testing.T, of *ebpf.Variable) uint64 {
	t.Helper()
	var counts [64]uint64
	if err := of.Get(&counts); err != nil {
		t.Fatal(err)
	}
	return counts[1]
}

func cookie(t *testing.T, ns *netns.Namespace) (cookie uint64) {
	t.Helper()
	err := ns.Do(func() (err error) { cookie, err = ThisNetns(); return err })
	if err != nil {
		testutil.Need(t, "SO_NETNS_COOKIE", err)
	}
	return cookie
}

func id(t *testing.T, group cgroup.Cgroup) uint64 {
	t.Helper()
	id, err := group.ID()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// The client sends one datagram to the server and opens one connection; the data plane sees both
// sockets.
func TestEveryKindMatches(t *testing.T) {
	testutil.NeedRoot(t)
	p, elsewhere := newPlace(t, 2), testutil.Namespace(t, "elsewhere")
	other := testutil.Cgroup(t)
	for _, test := range []struct {
		name    string
		key     func() Key
		outside bool      // the data plane is prepared in another namespace
		want    [3]uint64 // datagrams sent, datagrams received, ends of the connection
	}{
		{"own cgroup", func() Key { return OfCgroup(id(t, p.levels[2])) }, false, [3]uint64{1, 1, 2}},
		{"cgroup above", func() Key { return OfCgroup(id(t, p.levels[0])) }, false, [3]uint64{1, 1, 2}},
		{"another cgroup", func() Key { return OfCgroup(id(t, other)) }, false, [3]uint64{}},
		{"user of the client", func() Key { return OfUser(clientUser) }, false, [3]uint64{1, 0, 1}},
		{"user of the server", func() Key { return OfUser(serverUser) }, false, [3]uint64{0, 1, 1}},
		{"a range of users with the client", func() Key { return Key{Kind: User, Number: clientUser &^ 0xff, Bits: 24} }, false, [3]uint64{1, 1, 2}},
		{"a range of other users", func() Key { return Key{Kind: User, Number: 1 << 16, Bits: 16} }, false, [3]uint64{}},
		{"mark of the client", func() Key { return OfMark(clientMark) }, false, [3]uint64{1, 0, 1}},
		{"mark of the server", func() Key { return OfMark(serverMark) }, false, [3]uint64{0, 1, 1}},
		{"no mark", func() Key { return OfMark(0) }, false, [3]uint64{}},
		{"interface", func() Key { return OfInterface(1) }, false, [3]uint64{1, 1, 2}},
		{"another interface", func() Key { return OfInterface(99) }, false, [3]uint64{}},
		{"interface of another namespace", func() Key { return OfInterface(1) }, true, [3]uint64{}},
		{"namespace", func() Key { return OfNetns(cookie(t, p.ns)) }, true, [3]uint64{1, 1, 2}},
		{"another namespace", func() Key { return OfNetns(cookie(t, elsewhere)) }, false, [3]uint64{}},
		{"prefix", func() Key { return OfPrefix(netip.MustParsePrefix("127.0.0.0/8")) }, false, [3]uint64{0, 0, 2}}, // the probe reads no packet
		{"IPv6 prefix", func() Key { return OfPrefix(netip.MustParsePrefix("::1/128")) }, false, [3]uint64{0, 0, 2}},
		{"another prefix", func() Key { return OfPrefix(netip.MustParsePrefix("10.0.0.0/8")) }, false, [3]uint64{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inside, key, family := p.ns, test.key(), unix.AF_INET
			if err := key.Kind.Needs(ebpf.CGroupSKB); (key.Kind == Netns || test.outside) && err != nil {
				testutil.Need(t, "bpf_get_netns_cookie in cgroup_skb", err)
			} else if err != nil {
				t.Fatal(err)
			}
			if test.outside {
				inside = elsewhere
			}
			if key.Prefix.Addr().Is6() {
				family = unix.AF_INET6
			}
			o := p.look(t, inside, key)
			p.send(t, family, unix.SOCK_DGRAM)
			got := [3]uint64{counted(t, o.MatchOut), counted(t, o.MatchIn), test.want[2]}
			if got != test.want {
				t.Errorf("found for %d datagrams that left, %d that came in, want %d", got[0], got[1], test.want[:2])
			}
			if err := key.Kind.Needs(ebpf.SockOps); err != nil {
				testutil.Need(t, "jit", err)
			}
			p.send(t, family, unix.SOCK_STREAM)
			if got[2] = counted(t, o.MatchSockets); got[2] != test.want[2] {
				t.Errorf("found for %d ends of a connection, want %d", got[2], test.want[2])
			}
		})
	}
}

// foreign is a network namespace. Its owner maps a user of the host to the client's number.
func foreign(t *testing.T, user int) *netns.Namespace {
	t.Helper()
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: user, Size: 1}, {ContainerID: clientUser, HostID: user + 1, Size: 1}}
	command := exec.Command("cat")
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET, UidMappings: ids}
	input, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		testutil.Need(t, "user namespaces", err)
	}
	t.Cleanup(func() { _ = errors.Join(input.Close(), command.Wait()) })
	ns, err := netns.OpenPath(fmt.Sprintf("/proc/%d/ns/net", command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	return ns
}

// The owner of a user namespace chooses the user numbers in it.
func TestUsersAreThoseOfTheHost(t *testing.T) {
	testutil.NeedRoot(t)
	if err := Reads(ebpf.CGroupSKB); err != nil {
		testutil.Need(t, "tracing", err)
	}
	const user = 5511
	p := newPlace(t, 0)
	p.ns = foreign(t, user)
	up(t, p.ns)
	o := p.look(t, p.ns, OfUser(clientUser))
	for _, test := range []struct {
		user int
		want uint64
	}{{user + 1, 0}, {clientUser, 1}} {
		before := counted(t, o.MatchOut)
		p.sendAs(t, unix.AF_INET, unix.SOCK_DGRAM, test.user)
		if got := counted(t, o.MatchOut) - before; got != test.want {
			t.Errorf("%d datagrams of user %d of the host, whom the namespace numbers otherwise, were those of %d, want %d",
				got, test.user, clientUser, test.want)
		}
	}
}

// The innermost level of MaxCgroupLevels matches, and all levels above match deeper sockets.
func TestDeepCgroupsAreTold(t *testing.T) {
	testutil.NeedRoot(t)
	p := newPlace(t, MaxCgroupLevels+4)
	level := 0 // of the outermost
	root, err := cgroup.Root()
	if err != nil {
		t.Fatal(err)
	}
	for path := p.levels[0].Path; path != root; level++ {
		path = filepath.Dir(path)
	}
	for _, test := range []struct {
		level int
		told  bool
	}{{level, true}, {13, true}, {MaxCgroupLevels - 1, true}, {MaxCgroupLevels, false}} {
		o := p.look(t, p.ns, OfCgroup(id(t, p.levels[test.level-level])))
		p.send(t, unix.AF_INET, unix.SOCK_DGRAM)
		if got := counted(t, o.MatchOut) == 1 && counted(t, o.MatchIn) == 1; got != test.told {
			t.Errorf("the cgroup at level %d was told: %t, want %t", test.level, got, test.told)
		}
		if Cgroup.Needs(ebpf.SockOps) != nil {
			continue // TestEveryKindMatches reports the missing feature
		}
		p.send(t, unix.AF_INET, unix.SOCK_STREAM)
		if got := counted(t, o.MatchSockets) == 2; test.told && !got {
			t.Errorf("the cgroup at level %d was not told of connections", test.level)
		}
	}
}

func TestKernelsWithoutAHelperAreNamed(t *testing.T) {
	testutil.NeedRoot(t)
	for kind := range kinds {
		for _, program := range []ebpf.ProgramType{ebpf.CGroupSKB, ebpf.SockOps} {
			if err := kind.Needs(program); err != nil && fault.Of(err) != fault.Testbed {
				t.Errorf("%s in %s: %v", kind, program, err)
			}
		}
	}
}
