package prove

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"weir/internal/kernel/ethtool"
	"weir/internal/kernel/rtnl"
	"weir/internal/prove/station"
	"weir/policy"
)

var loopbackAddress = netip.MustParseAddr("127.0.0.1")

// Addresses inside the tunnels, of the range for benchmarks.
var (
	innerHere  = netip.MustParsePrefix("198.19.128.1/30")
	innerThere = netip.MustParsePrefix("198.19.128.2/30")
)

// outerHeaders are the octets that a tunnel of IPv4 puts before the inner packet, IP included and Ethernet not.
var outerHeaders = map[rtnl.Tunnel]int{rtnl.VXLAN: 20 + 8 + 8 + 14, rtnl.GRE: 20 + 4, rtnl.IPIP: 20}

// tunnel sends through every kind of tunnel that the kernel has.
func (r *runner) tunnel(ctx context.Context, s policy.Scope) (Escape, error) {
	if s.Applies.Kind == policy.Interface {
		return Escape{State: NotApplicable, Why: "what leaves a tunnel over the device belongs to the tunnel's own socket, not to the scope's"}, nil
	}
	var found []Escape
	var missing, words []string
	kinds := []rtnl.Tunnel{rtnl.VXLAN, rtnl.GRE, rtnl.IPIP}
	if s.Applies.Prefix.Addr().Is6() {
		kinds = kinds[:1] // the others are of IPv4 alone
	}
	for _, kind := range kinds {
		e, err := r.through(ctx, s, kind)
		if errors.Is(err, rtnl.ErrNoTunnel) {
			missing = append(missing, string(kind))
			continue
		}
		if err != nil {
			return Escape{}, fmt.Errorf("%s: %w", kind, err)
		}
		found = append(found, e)
		words = append(words, string(kind)+": "+e.Why)
	}
	if len(found) == 0 {
		return Escape{State: NotApplicable, Why: "this kernel has none of " + strings.Join(missing, ", ")}, nil
	}
	// The worst of them counts.
	worst := found[0]
	for _, e := range found[1:] {
		if order[e.State] > order[worst.State] {
			worst = e
		}
	}
	worst.Why = strings.Join(words, "; ")
	return worst, nil
}

var order = map[State]int{NotApplicable: 0, Covered: 1, Unknown: 2, CanEscape: 3, Escapes: 4}

// through sends through one tunnel between near and the peer, and removes it.
func (r *runner) through(ctx context.Context, s policy.Scope, kind rtnl.Tunnel) (e Escape, err error) {
	at, err := r.insideOf(s, true, false)
	if err != nil {
		return e, err
	}
	outer := r.bed.links[fromNear].there[0].Addr()
	if s.Applies.Kind == policy.Prefix {
		outer = at.peer.Target.Addr() // the tunnel's far end is in the prefix, what it carries is not
	}
	remove, err := r.bed.dig(kind, outer)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	at.peer = r.bed.peerAt(innerThere.Addr())
	c, err := r.charged(ctx, s, at, nil)
	if err != nil {
		return e, err
	}
	if s.Applies.Kind == policy.Prefix {
		return of(c, "a packet in a tunnel goes by its inner address, and what carries it to the prefix belongs to the tunnel's own socket"), nil
	}
	return of(c, fmt.Sprintf("the inner packet passes the scope's hooks, the outer one with %d octets more does not", outerHeaders[kind])), nil
}

// dig makes a tunnel between near and the peer, whose outer address there is given.
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

// superPackets compares what the scope is charged with what the device counts once super-packets have been cut.
func (r *runner) superPackets(ctx context.Context, s policy.Scope) (Escape, error) {
	switch {
	case s.Applies.Kind == policy.Interface && s.Applies.Text == loopback:
		return Escape{State: NotApplicable, Why: behindLoopback}, nil
	case s.Egress == nil:
		return Escape{State: NotApplicable, Why: "arriving packets are counted by their segments, as the rates above show"}, nil
	}
	ns, device := r.bed.near, "peer"
	if s.Applies.Kind == policy.Interface {
		d, err := r.bed.through(s.Applies.Text)
		if err != nil {
			return Escape{}, err
		}
		ns, device = r.bed.here, d.veth // behind the interface, of which nothing is changed
	}
	// Without the device's own segmentation the kernel cuts super-packets after the hooks and before the device.
	if err := ethtool.SetFeatures(ns, device, map[string]bool{"tx-tcp-segmentation": false, "tx-tcp6-segmentation": false,
		"tx-tcp-ecn-segmentation": false, "tx-tcp-mangleid-segmentation": false}); err != nil {
		return Escape{}, err
	}
	at, err := r.insideOf(s, s.Applies.Kind != policy.Interface, s.Applies.Kind == policy.Prefix && s.Applies.Prefix.Addr().Is6())
	if err != nil {
		return Escape{}, err
	}
	conn, err := rtnl.Open(ns)
	if err != nil {
		return Escape{}, err
	}
	defer conn.Close()
	var before rtnl.Traffic
	c, err := r.charged(ctx, s, at, func(*station.Pair) error {
		before, err = conn.Traffic(device)
		return err
	})
	if err != nil {
		return Escape{}, err
	}
	after, err := conn.Traffic(device)
	if err != nil {
		return Escape{}, err
	}
	if c.counted.Packets == c.counted.Segments {
		return Escape{State: Unknown, Why: "the flow made no super-packets"}, nil
	}
	c.quotient = float64(c.counted.Bytes) / float64(max(after.SentOctets-before.SentOctets, 1))
	return of(c, fmt.Sprintf("%d packets in %d of the stack's, against the octets on the device behind the cut", c.counted.Segments, c.counted.Packets)), nil
}
