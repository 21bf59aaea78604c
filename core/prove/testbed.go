// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/core/engine"
	"weir/core/prove/station"
	"weir/internal/child"
	"weir/internal/fault"
	"weir/kernel/cgroup"
	"weir/kernel/instance"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
)

// nobody owns the peer's sockets, so that scopes of users exclude them.
var nobody uint32 = 65534

// testbed is the peer in its own namespace and the path to it. Everything on the host belongs to
// the host's end of a veth pair, which ends with the peer's namespace. The namespaces belong to a
// lab instance, so that a later command removes them after a crash.
//
//	this namespace --- veth --- peer --- veth --- near
//	   198.18.r.s/30                  198.19.0.0/30
type testbed struct {
	lab     *instance.Instance
	here    *netns.Namespace // of the caller
	peer    *netns.Namespace
	near    *netns.Namespace // an own namespace, for actions that must not touch this one
	outside cgroup.Cgroup    // contains processes outside all scopes
	server  *child.Process
	port    uint16
	token   string
	plugged bool                        // the device exists
	device  string                      // end of the pair in this namespace
	links   [2]link                     // from this namespace, and from near
	groups  []*cgroup.Cgroup            // created inside scopes
	detours map[string]*detour          // by device
	entered map[string]*netns.Namespace // of scopes, by path
	doors   map[string]*door            // into entered namespaces, by path
	pairs   uint16                      // number of veth pairs so far, without links
	root    string                      // of the cgroup hierarchy
	ipv6    bool
	engine  *engine.Engine // its modules are notified of created devices
}

// link holds the addresses of a veth pair by family: 0 is IPv4.
type link struct{ here, there [2]netip.Prefix }

const (
	fromHere = iota
	fromNear
)

const cgroupPrefix = "weir-prove-"

// newTestbed builds the testbed. It returns an error if an address is in use.
func newTestbed(ctx context.Context, engine *engine.Engine, ipv6 bool) (*testbed, error) {
	if err := sweepCgroups(engine.CgroupRoot); err != nil {
		return nil, err
	}
	lab, err := instance.New("prove", instance.Run)
	if err != nil {
		return nil, err
	}
	t := &testbed{lab: lab, root: engine.CgroupRoot, ipv6: ipv6, engine: engine, token: rand.Text(), device: "weir" + lab.ID,
		detours: map[string]*detour{}, entered: map[string]*netns.Namespace{}, doors: map[string]*door{}}
	if err := t.build(ctx); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *testbed) build(ctx context.Context) (err error) {
	if t.here, err = netns.Current(); err != nil {
		return err
	}
	if t.outside, err = cgroup.Create(t.root, cgroupPrefix+strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	if err := t.lab.Announce([]string{"peer", "near"}); err != nil {
		return err
	}
	if t.peer, err = netns.Create(t.lab.Namespace("peer")); err != nil {
		return err
	}
	if t.near, err = netns.Create(t.lab.Namespace("near")); err != nil {
		return err
	}
	if err := t.wire(); err != nil {
		return err
	}
	for _, ns := range []*netns.Namespace{nil, t.near} {
		if err := t.engine.FollowDevices(ns); err != nil {
			return err
		}
	}
	return t.serve(ctx)
}

// wire creates both veth pairs. This namespace must not have their addresses, or a route to them
// other than a default route.
func (t *testbed) wire() error {
	var random [4]byte
	_, _ = rand.Read(random[:])
	n := binary.BigEndian.Uint32(random[:])
	t.links[fromHere] = addresses(netip.AddrFrom4([4]byte{198, 18, byte(n >> 8), byte(n) &^ 3}), uint16(n>>16)|0x8000)
	t.links[fromNear] = addresses(netip.AddrFrom4([4]byte{198, 19, 0, 0}), 0)
	here, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer here.Close()
	if err := t.vacant(here, t.links[fromHere]); err != nil {
		return err
	}
	near, err := rtnl.Open(t.near)
	if err != nil {
		return err
	}
	defer near.Close()
	if err := t.join(here, t.device, "here", t.links[fromHere]); err != nil {
		return err
	}
	t.plugged = true
	if err := t.join(near, "peer", "near", t.links[fromNear]); err != nil {
		return err
	}
	for _, there := range t.links[fromNear].there[:t.families()] {
		if err := near.AddRoute(rtnl.Route{Via: there.Addr()}); err != nil {
			return err
		}
	}
	return nil
}

// vacant returns an error if this namespace has one of the addresses or a route to it.
func (t *testbed) vacant(here *rtnl.Conn, l link) error {
	for _, p := range l.here[:t.families()] {
		taken, err := here.Overlap(p.Masked())
		if err != nil {
			return err
		}
		if taken != "" {
			return fault.New(fault.Testbed, "run it again for another address, or name a peer elsewhere with --peer",
				"the path to a peer of its own would use %s, and this host has the %s", p.Masked(), taken)
		}
	}
	return nil
}

func (t *testbed) families() int {
	if t.ipv6 {
		return 2
	}
	return 1
}

// addresses returns the two ends of a pair: .1 and .2 of an IPv4 /30, and of a /64 of 2001:2::/48
// (RFC 5180).
func addresses(v4 netip.Addr, subnet uint16) link {
	base := v4.As4()
	six := netip.MustParseAddr("2001:2::").As16()
	binary.BigEndian.PutUint16(six[6:], subnet)
	at := func(host byte) [2]netip.Prefix {
		four, other := base, six
		four[3] += host
		other[15] = host
		return [2]netip.Prefix{netip.PrefixFrom(netip.AddrFrom4(four), 30), netip.PrefixFrom(netip.AddrFrom16(other), 64)}
	}
	return link{here: at(1), there: at(2)}
}

// join connects a namespace with the peer's. After an error nothing of it remains.
func (t *testbed) join(from *rtnl.Conn, name, there string, l link) (err error) {
	peer, err := rtnl.Open(t.peer)
	if err != nil {
		return err
	}
	defer peer.Close()
	if err := from.AddVeth(name, t.peer, there, 0); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, from.Delete(name))
		}
	}()
	for _, side := range []struct {
		conn      *rtnl.Conn
		device    string
		addresses [2]netip.Prefix
	}{{from, name, l.here}, {peer, there, l.there}} {
		for _, a := range side.addresses[:t.families()] {
			if err := side.conn.AddAddress(side.device, a); err != nil {
				return err
			}
		}
		if err := side.conn.SetUp(side.device); err != nil {
			return err
		}
	}
	return nil
}

// serve starts the peer in its namespace and outside every scope but the host's.
func (t *testbed) serve(ctx context.Context) (err error) {
	enter := func(*syscall.SysProcAttr) error { return t.peer.Enter() }
	// The peer ends with the testbed instead of ctx, so that the order of the end is defined.
	if t.server, err = child.StartIn(context.WithoutCancel(ctx), station.FarPart, os.Stderr, enter); err != nil {
		return err
	}
	if err := t.outside.Add(t.server.PID()); err != nil {
		return err
	}
	if err := json.NewEncoder(t.server.In).Encode(station.FarTask{Listen: "[::]:0", Token: t.token, User: &nobody}); err != nil {
		return fmt.Errorf("instruct peer: %w", err)
	}
	line, err := bufio.NewReader(t.server.Out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("start peer: %w", errors.Join(err, t.server.Stop(time.Second)))
	}
	address, err := netip.ParseAddrPort(strings.TrimSpace(line))
	if err != nil {
		return fmt.Errorf("start peer: %w", err)
	}
	t.port = address.Port()
	return nil
}

// give adds an address to the peer, for the namespace near.
func (t *testbed) give(a netip.Addr) error {
	peer, err := rtnl.Open(t.peer)
	if err != nil {
		return err
	}
	defer peer.Close()
	err = peer.AddAddress("near", netip.PrefixFrom(a, a.BitLen()))
	if errors.Is(err, syscall.EEXIST) {
		return nil
	}
	return err
}

// inside creates a cgroup below path: a process can be moved there with any controllers of the
// scope's cgroup.
func (t *testbed) inside(path string) (cgroup.Cgroup, error) {
	for _, g := range t.groups {
		if filepath.Dir(g.Path) == path {
			return *g, nil
		}
	}
	if filepath.Clean(path) == filepath.Clean(t.root) {
		return t.outside, nil
	}
	made, err := cgroup.Create(path, cgroupPrefix+strconv.Itoa(os.Getpid()))
	if err != nil {
		return made, err
	}
	t.groups = append(t.groups, &made)
	return made, nil
}

// close removes everything. The next sweep removes the rest after an error.
func (t *testbed) close() error {
	var errs []error
	for _, d := range t.detours {
		errs = append(errs, d.close())
	}
	if t.server != nil {
		errs = append(errs, t.server.Stop(2*time.Second))
	}
	errs = append(errs, t.closeDoors())
	for _, ns := range []*netns.Namespace{t.here, t.peer, t.near} {
		if ns != nil {
			errs = append(errs, ns.Close())
		}
	}
	errs = append(errs, t.unplug(), t.lab.Close())
	for _, g := range t.groups {
		errs = append(errs, removeCgroup(*g))
	}
	if t.outside.Path != "" {
		errs = append(errs, removeCgroup(t.outside))
	}
	return errors.Join(errs...)
}

// unplug removes this namespace's end, and with it its addresses and routes. The kernel does so
// some time after the end of the peer's namespace.
func (t *testbed) unplug() error {
	if !t.plugged {
		return nil
	}
	here, err := rtnl.Open(nil)
	if err != nil {
		return err
	}
	defer here.Close()
	return here.Delete(t.device)
}

// removeCgroup removes a cgroup of root. The owner of the parent may have replaced it by another of
// the same name, which stays.
func removeCgroup(g cgroup.Cgroup) error {
	var info unix.Stat_t
	if err := unix.Stat(g.Path, &info); err == nil && int(info.Uid) != os.Geteuid() {
		return nil
	}
	return g.End()
}
