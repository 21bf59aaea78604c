// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"weir/core/prove/station"
	"weir/internal/direction"
	"weir/kernel/ethtool"
	"weir/kernel/rtnl"
)

var loopbackAddress = netip.MustParseAddr("127.0.0.1")

// Addresses inside the tunnels, from the benchmark range.
var (
	innerHere  = netip.MustParsePrefix("198.19.128.1/30")
	innerThere = netip.MustParsePrefix("198.19.128.2/30")
)

// outerHeaders is the number of bytes that an IPv4 tunnel adds before the inner packet, with IP and
// without Ethernet.
var outerHeaders = map[rtnl.Tunnel]int{rtnl.VXLAN: 20 + 8 + 8 + 14, rtnl.GRE: 20 + 4, rtnl.IPIP: 20}

// tunnel sends through each kind of tunnel that the kernel has.
func (r *runner) tunnel(ctx context.Context, s charged) (Bypass, error) {
	switch {
	case s.inside.Device != "":
		return notApplicable("packets of a tunnel over the device belong to the tunnel's own socket, not to the scope's")
	case s.inside.Namespace != "":
		return notApplicable("Weir makes no tunnel in a namespace of somebody else's, where a crash would leave it")
	}
	var found []Bypass
	var missing, words []string
	kinds := []rtnl.Tunnel{rtnl.VXLAN, rtnl.GRE, rtnl.IPIP}
	if s.inside.Remote.Addr().Is6() {
		kinds = kinds[:1] // the others need IPv4
	}
	for _, kind := range kinds {
		b, err := r.tunnelOf(ctx, s, kind)
		if errors.Is(err, rtnl.ErrNoTunnel) {
			missing = append(missing, string(kind))
			continue
		}
		if err != nil {
			return Bypass{}, fmt.Errorf("%s: %w", kind, err)
		}
		found = append(found, b)
		words = append(words, string(kind)+": "+b.Why)
	}
	if len(found) == 0 {
		return notApplicable("this kernel has none of " + strings.Join(missing, ", "))
	}
	// The worst result counts.
	worst := found[0]
	for _, b := range found[1:] {
		if order[b.State] > order[worst.State] {
			worst = b
		}
	}
	worst.Why = strings.Join(words, "; ")
	return worst, nil
}

var order = map[State]int{NotApplicable: 0, Covered: 1, Unknown: 2, CanEscape: 3, Slowed: 4, Escapes: 5}

// tunnelOf sends through one tunnel between near and the peer, and removes the tunnel.
func (r *runner) tunnelOf(ctx context.Context, s charged, kind rtnl.Tunnel) (b Bypass, err error) {
	at, err := r.inside(s.inside, true, false)
	if err != nil {
		return b, err
	}
	outer := r.bed.links[fromNear].there[0].Addr()
	if s.inside.Remote.IsValid() {
		outer = at.peer.Target.Addr() // the tunnel's far end is in the prefix, its content is not
	}
	remove, err := r.bed.dig(kind, outer)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	at.peer = r.bed.peerAt(innerThere.Addr())
	c, err := r.charge(ctx, s, at, nil)
	if err != nil {
		return b, err
	}
	if s.inside.Remote.IsValid() {
		return of(c, "a packet in a tunnel is matched by its inner address; the outer packet to the prefix belongs to the tunnel's own socket"), nil
	}
	return of(c, fmt.Sprintf("the inner packet passes the scope's hooks, the outer one with %d octets more does not", outerHeaders[kind])), nil
}

// dig creates a tunnel between near and the peer's outer address.
func (t *testbed) dig(kind rtnl.Tunnel, outer netip.Addr) (remove func() error, err error) {
	near, err := rtnl.Open(t.near)
	if err != nil {
		return nil, err
	}
	defer near.Close()
	peer, err := rtnl.Open(t.peer)
	if err != nil {
		return nil, err
	}
	defer peer.Close()
	own := t.links[fromNear].here[0].Addr()
	if outer.Is6() {
		own = t.links[fromNear].here[1].Addr()
	}
	const name = "tunnel"
	remove = func() error {
		var errs []error
		for _, ns := range []struct{ open func() (*rtnl.Conn, error) }{
			{func() (*rtnl.Conn, error) { return rtnl.Open(t.near) }}, {func() (*rtnl.Conn, error) { return rtnl.Open(t.peer) }},
		} {
			conn, err := ns.open()
			if err == nil {
				err = conn.Delete(name)
				conn.Close()
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	for _, side := range []struct {
		conn          *rtnl.Conn
		local, remote netip.Addr
		inner         netip.Prefix
	}{{near, own, outer, innerHere}, {peer, outer, own, innerThere}} {
		if err := side.conn.AddTunnel(kind, name, side.local, side.remote); err != nil {
			return nil, err
		}
		if err := errors.Join(side.conn.AddAddress(name, side.inner), side.conn.SetUp(name)); err != nil {
			return nil, err
		}
	}
	return remove, nil
}

// superPackets compares the bytes charged to the scope with the device's count after segmentation
// of super-packets.
func (r *runner) superPackets(ctx context.Context, s charged) (Bypass, error) {
	names := s.check.Charged
	switch {
	case names.Packets == "" || names.Segments == "":
		return notApplicable("packets are not counted as the stack hands them over and as the wire carries them")
	case s.inside.Device == loopback:
		return notApplicable(behindLoopback)
	case s.check.Direction == direction.Ingress:
		return notApplicable("arriving packets are counted by their segments, as the checks above show")
	}
	// Behind an interface, and in a foreign namespace, the device is one end of an own pair.
	elsewhere := s.inside.Device != "" || s.inside.Namespace != ""
	at, err := r.inside(s.inside, !elsewhere, s.inside.Remote.Addr().Is6())
	if err != nil {
		return Bypass{}, err
	}
	// Without segmentation in the device, the kernel segments super-packets after the hooks and
	// before the device.
	if err := ethtool.SetFeatures(at.ns, at.device, map[string]bool{"tx-tcp-segmentation": false, "tx-tcp6-segmentation": false,
		"tx-tcp-ecn-segmentation": false, "tx-tcp-mangleid-segmentation": false}); err != nil {
		return Bypass{}, err
	}
	conn, err := rtnl.Open(at.ns)
	if err != nil {
		return Bypass{}, err
	}
	defer conn.Close()
	var before rtnl.Traffic
	c, err := r.charge(ctx, s, at, func(*station.Pair) error {
		before, err = conn.Traffic(at.device)
		return err
	})
	if err != nil {
		return Bypass{}, err
	}
	after, err := conn.Traffic(at.device)
	if err != nil {
		return Bypass{}, err
	}
	packets, segments := c.counted[names.Packets], c.counted[names.Segments]
	if packets == segments {
		return Bypass{State: Unknown, Why: "the flow made no super-packets"}, nil
	}
	c.quotient = float64(c.counted[names.Octets]) / float64(max(after.SentOctets-before.SentOctets, 1))
	return of(c, fmt.Sprintf("%d packets in %d of the stack's, against the octets on the device behind the cut", segments, packets)), nil
}
