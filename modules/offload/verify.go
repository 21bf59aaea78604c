// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"weir/kernel/netns"
	"weir/modules/offload/flower"
	"weir/modules/offload/live"
	"weir/modules/offload/plan"
	"weir/modules/offload/simulate"
	"weir/modules/offload/state"
	"weir/modules/offload/xdp"
)

// Verdict is the result of a verification.
type Verdict struct {
	Addresses   int // looked up in the table: all boundaries, and random ones
	Forwarded   int // addresses that the fast path forwards
	Packets     int // test runs of the program
	Sent        int // test runs that forwarded the packet
	Differences []simulate.Difference
	Wrong       []Packet // test runs with another result than the kernel's
	Left        []string // packets that filters keep with the kernel
	// Expired reports that the lease has ended: the kernel forwards all packets, and nothing else
	// was verified.
	Expired bool
}

// Holds reports that no packet goes astray and that the kernel gets no packet that the plan
// forwards.
func (v Verdict) Holds() bool { return len(v.Differences)+len(v.Wrong) == 0 && !v.Expired }

// Verification selects a fast path and the size of its verification.
type Verification struct {
	Namespace *netns.Namespace // the router's
	Pins      string
	Treatment *Treatment
	Random    int // addresses beside the boundaries
	Packets   int // test runs of the program
	Seed      uint64
}

// maxDifferences bounds the reported differences.
const maxDifferences = 10

// patience is how long a table may lag behind the kernel. Differences are checked again after it.
const patience = 2 * time.Second

// Run compares the active table with the kernel's routing at every boundary, and the program with
// the kernel's answers. It forwards nothing and changes only counters.
func (o Verification) Run() (v Verdict, err error) {
	var again []netip.Addr
	first := true
	for try := range 3 {
		if try > 0 {
			time.Sleep(patience)
		}
		look, err := o.open()
		if err != nil {
			return v, err
		}
		if v.Expired = look.expired; v.Expired {
			look.close()
			if try == 0 {
				continue // a follower passes all packets to the kernel while it replaces the table
			}
			return v, nil
		}
		addresses := o.addresses(look.state)
		if len(again) > 0 && len(again) < maxDifferences { // otherwise some were not checked
			addresses = slices.Values(again) // routes may have changed in between; a lasting difference is an error
		}
		v.Differences, again = nil, nil
		for _, t := range look.tables {
			found, looked, forwarded := look.fib.Check(addresses, t.fast, t.expect, look.partly, maxDifferences)
			if first {
				v.Addresses, v.Forwarded = v.Addresses+looked, v.Forwarded+forwarded
			}
			for _, d := range found {
				again = append(again, d.Address)
				if !slices.ContainsFunc(v.Differences, d.Like) {
					v.Differences = append(v.Differences, d)
				}
			}
		}
		first = false
		if v.Left, err = o.left(look.state); err != nil {
			look.close()
			return v, err
		}
		v.Packets, v.Sent, v.Wrong = 0, 0, nil
		err = o.packets(look, &v)
		look.close()
		if err != nil || v.Holds() {
			return v, err
		}
	}
	return v, nil
}

// left describes the packets that the policy leaves to the kernel because of filters.
func (o Verification) left(s *state.State) ([]string, error) {
	links := *s
	links.Tables, links.Neighbors = nil, nil
	planned, err := plan.New(o.Treatment.Policy(), &links)
	if err != nil {
		return nil, err
	}
	return leftOut(o.Treatment, planned), nil
}

// look is the router's state at one moment.
type look struct {
	state  *state.State
	fib    *simulate.FIB
	pinned *xdp.Pinned    // nil with filters
	links  map[[2]int]int // by port and tag
	expect simulate.Expect
	tables []looked
	partly bool // a budget leaves some routes to the kernel
	// expired reports that the lease has ended.
	expired bool
}

// looked is one active table: of all ports, or of one.
type looked struct {
	fast   simulate.Fast
	expect simulate.Expect
}

func (l *look) close() {
	if l.pinned != nil {
		l.pinned.Close()
	}
}

func (o Verification) open() (*look, error) {
	s, err := live.Read(o.Namespace)
	if err != nil {
		return nil, err
	}
	ports, err := (&hostPlane{ns: o.Namespace}).undelivered(o.Treatment, s)
	if err != nil {
		return nil, err
	}
	withUndelivered(s, ports)
	l := &look{state: s, fib: simulate.New(s), links: map[[2]int]int{}, partly: o.Treatment.Budget > 0}
	for _, link := range s.Links {
		if link.Kind == "vlan" {
			l.links[[2]int{link.Parent, link.VLAN}] = link.Index
		} else {
			l.links[[2]int{link.Index, 0}] = link.Index
		}
	}
	expected := l.fib.Expect(scope(o.Treatment, s))
	l.expect = func(a netip.Addr, ways []simulate.Way) []simulate.Way { return plain(expected(a, ways)) }
	if o.Treatment.filters() {
		return l, o.filters(l)
	}
	if l.pinned, err = xdp.Open(o.Pins); err != nil {
		return nil, err
	}
	l.tables = []looked{{l.fast, l.expect}}
	lease, err := l.pinned.Lease()
	if err != nil {
		l.close()
		return nil, err
	}
	l.expired = lease < 0
	return l, nil
}

// filters reads the rules of each port from the kernel. Filters cannot match the MTU and have one
// next hop at most: the kernel gets other packets.
func (o Verification) filters(l *look) error {
	rules, err := flower.Read(o.Namespace, o.Pins)
	if err != nil {
		return err
	}
	lease, leased, err := rules.Lease()
	if err != nil {
		return err
	}
	l.expired = leased && lease < 0 && o.Treatment.Backend != byHardware // a NIC does not check it
	longest := 0
	for _, name := range o.Treatment.From {
		link, _ := l.state.Find(name)
		longest = max(longest, link.MTU)
	}
	for _, port := range rules.Ports {
		l.tables = append(l.tables, looked{
			fast: func(a netip.Addr) (all []simulate.Way) {
				for _, h := range port.Hops(a) {
					all = append(all, simulate.Way{Link: l.links[[2]int{h.Port, h.VLAN}], Src: h.Src, Dst: h.Dst})
				}
				return all
			},
			expect: func(a netip.Addr, ways []simulate.Way) []simulate.Way {
				ways = l.expect(a, ways)
				if !l.enters(o.Treatment, port.Index, a.Is6()) || len(ways) != 1 || ways[0].MTU < longest {
					return nil
				}
				return []simulate.Way{{Link: ways[0].Link, Src: ways[0].Src, Dst: ways[0].Dst}}
			},
		})
	}
	return nil
}

// enters reports whether the rules of a port get packets of a family from any link.
func (l *look) enters(t *Treatment, port int, ipv6 bool) bool {
	return slices.ContainsFunc(t.From, func(name string) bool {
		link, known := l.state.Find(name)
		at := link.Index
		if link.Kind == "vlan" {
			at = link.Parent
		}
		return known && at == port && l.fib.Enters(link, ipv6) == ""
	})
}

// scope converts a policy to the simulator's form.
func scope(t *Treatment, s *state.State) simulate.Scope {
	out := simulate.Scope{Outputs: map[int]bool{}, Table: t.Table, Split: t.Multipath == string(plan.Split), Most: plan.MaxHops, IPv4: t.IPv4, IPv6: t.IPv6}
	names := t.To
	if len(names) == 0 {
		names = t.From
	}
	for _, name := range names {
		if l, known := s.Find(name); known {
			out.Outputs[l.Index] = true
		}
	}
	out.Except = t.Policy().Except
	return out
}

// plain removes weights, which the table has as shares.
func plain(ways []simulate.Way) []simulate.Way {
	if ways == nil {
		return nil
	}
	ways = slices.Clone(ways)
	for i := range ways {
		ways[i].Weight = 0
	}
	return ways
}

// fast returns the table's ways for an address.
func (l *look) fast(a netip.Addr) (all []simulate.Way) {
	for _, h := range l.pinned.Hops(a) {
		all = append(all, simulate.Way{Link: l.links[[2]int{h.Port, h.VLAN}], Src: h.Src, Dst: h.Dst, MTU: h.MTU})
	}
	return all
}

// addresses returns all boundaries, then random addresses of both families.
func (o Verification) addresses(s *state.State) iter.Seq[netip.Addr] {
	r := rand.New(rand.NewPCG(o.Seed, 0))
	return func(yield func(netip.Addr) bool) {
		for a := range simulate.Boundaries(simulate.Prefixes(s)) {
			if !yield(a) {
				return
			}
		}
		for range o.Random {
			if !yield(anywhere(r)) {
				return
			}
		}
	}
}

func anywhere(r *rand.Rand) netip.Addr {
	if r.IntN(4) > 0 {
		x := r.Uint32()
		return netip.AddrFrom4([4]byte{byte(x >> 24), byte(x >> 16), byte(x >> 8), byte(x)})
	}
	b := [16]byte{0x20 | byte(r.IntN(16))}
	for i := 1; i < len(b); i++ {
		b[i] = byte(r.Uint32())
	}
	return netip.AddrFrom16(b)
}
