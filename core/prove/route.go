// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"syscall"

	"weir/core/prove/station"
	"weir/core/selector"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
)

// route is the place of a near station and its peer.
type route struct {
	group  cgroup.Cgroup
	ns     *netns.Namespace
	user   uint32
	mark   uint32
	late   bool // it changes the user and marks after opening its sockets
	peer   station.Peer
	device string // of the namespace, towards an own peer
	link   link   // addresses of device
}

// connect starts a flow on a route.
func (r *runner) connect(ctx context.Context, at route, f station.Flow) (*station.Pair, error) {
	if at.group.Frozen() {
		return nil, frozen(at.group)
	}
	enter := func(*syscall.SysProcAttr) error { return at.ns.Enter() }
	pair, err := station.Connect(ctx, at.peer, station.Place{Enter: enter, Join: at.group.Add, User: &at.user, Mark: at.mark, Late: at.late}, f)
	return pair, at.failed(err)
}

// failed wraps an error of a route: the owner of the cgroup may have stopped its processes.
func (at route) failed(err error) error {
	if err != nil && at.group.Frozen() {
		return errors.Join(frozen(at.group), err)
	}
	return err
}

func frozen(g cgroup.Cgroup) error {
	return fmt.Errorf("processes in the cgroup %s are frozen: thaw it, by 'echo 0' to its cgroup.freeze and those above", filepath.Dir(g.Path))
}

// outside returns a route outside all scopes except those of the host, from this namespace or from
// near.
func (r *runner) outside(near, ipv6 bool) route {
	at := route{ns: r.bed.here, group: r.bed.outside, user: r.in.freeUser(), device: r.bed.device, link: r.bed.links[fromHere]}
	if near {
		at.ns, at.device, at.link = r.bed.near, "peer", r.bed.links[fromNear]
	}
	at.peer = r.bed.peerAt(at.link.there[family(ipv6)].Addr())
	return at
}

func family(ipv6 bool) int {
	if ipv6 {
		return 1
	}
	return 0
}

// inside returns the route of a scope's own traffic to an own peer, from this namespace or, with
// near, from another own namespace. Prefixes are reached from near only, because any address is
// free there.
func (r *runner) inside(in selector.Inside, near, ipv6 bool) (at route, err error) {
	at = r.outside(near || in.Remote.IsValid(), ipv6)
	if err := r.become(&at, in); err != nil {
		return at, err
	}
	switch {
	case in.Remote.IsValid():
		var address netip.Addr
		address, err = r.bed.addressIn(in.Remote)
		at.peer = r.bed.peerAt(address)
	case in.Device != "" && !near:
		var d *detour
		if d, err = r.bed.through(in.Device); err == nil {
			at.device, at.link = d.veth, d.link
			at.peer = r.bed.peerAt(d.link.there[family(ipv6)].Addr())
		}
	case in.Namespace != "":
		var d *door
		if d, err = r.bed.into(in.Namespace); err == nil && d.link.here[0].IsValid() {
			at.ns, at.device, at.link = d.ns, d.veth, d.link
			at.peer = r.bed.peerAt(d.link.there[family(ipv6)].Addr())
		}
	}
	return at, err
}

// become moves a route's station into the requirements of a scope.
func (r *runner) become(at *route, in selector.Inside) (err error) {
	at.mark = in.Mark
	if in.User != nil {
		at.user = *in.User
	}
	if in.Cgroup != "" {
		at.group, err = r.bed.inside(in.Cgroup)
	}
	return err
}

// routeOf returns the route of a test.
func (r *runner) routeOf(t Test) (at route, err error) {
	if r.o.Peer == nil {
		return r.inside(t.inside, false, t.Path.IPv6)
	}
	at = r.outside(false, t.Path.IPv6)
	at.peer = *r.o.Peer
	if t.inside.Namespace != "" {
		if at.ns, err = r.bed.enter(t.inside.Namespace); err != nil {
			return at, err
		}
	}
	return at, r.become(&at, t.inside)
}

// addressIn adds an address of the prefix to the peer, for the life of the peer.
func (t *testbed) addressIn(p netip.Prefix) (netip.Addr, error) {
	address := hostOf(p)
	return address, t.give(address)
}

// hostOf returns a host address of a prefix: the second one if there are several.
func hostOf(p netip.Prefix) netip.Addr {
	if p.Bits() <= p.Addr().BitLen()-2 {
		return p.Addr().Next().Next()
	}
	return p.Addr()
}

// peerAt returns the peer for stations that use this address of it.
func (t *testbed) peerAt(a netip.Addr) station.Peer {
	return station.Peer{Control: netip.AddrPortFrom(t.links[fromHere].there[0].Addr(), t.port),
		Target: netip.AddrPortFrom(a, t.port), Token: t.token}
}
