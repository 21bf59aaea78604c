// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"weir/ix/choose"
	"weir/ix/config"
	"weir/ix/rib"
	"weir/ix/wire"
)

// group is the members that receive the same messages: equal settings and equal capabilities.
type group struct {
	key       string
	member    choose.Member
	selection *choose.Selection
	ports     *choose.Ports
	out       wire.Outbound
	limits    [2]int // paths per prefix, IPv4 and IPv6; 0: family not negotiated

	stream stream
	chunks map[uint32][]byte // encoded rows, while a member receives the table
	size   int               // bytes of chunks

	tooLarge int // paths left out since their attributes exceed a message
	picked   []choose.Path
	fits     []int // index of picked in the paths
	order    []int
}

// families are the families in the order of group.limits.
var families = [2]wire.Family{wire.IPv4Unicast, wire.IPv6Unicast}

// familyOf returns the index of a prefix's family in families.
func familyOf(p netip.Prefix) int {
	if p.Addr().Is4() {
		return 0
	}
	return 1
}

// terms are the results of a member's OPEN that decide its messages.
type terms struct {
	out    wire.Outbound
	limits [2]int
}

// termsOf returns the terms of a member: min(file, capability 76) paths, one without add-path.
func termsOf(m *config.Member, open *wire.Open, max int) (t terms) {
	t.out.Max, t.out.AS4 = max, open.AS4
	for i, f := range families {
		if open.HasFamily(f) {
			t.limits[i] = int(open.Limit(f, uint16(m.Paths)))
		}
	}
	t.out.AddPathIPv4, t.out.AddPathIPv6 = receives(open, families[0]), receives(open, families[1])
	return t
}

func receives(open *wire.Open, f wire.Family) bool {
	return slices.ContainsFunc(open.AddPath, func(a wire.AddPath) bool { return a.Family == f && a.Receive })
}

// keyOf identifies the group of a member.
func keyOf(member choose.Member, t terms) string { return fmt.Sprint(member, t) }

// sent is a path in the set of a member: its identifier and its attributes.
type sent struct {
	id     uint32
	attrID rib.AttrID
	attrs  wire.Attrs
}

// set appends the paths of a prefix that the group receives to dst, the preferred one first.
func (g *group) set(prefix netip.Prefix, paths []path, dst []sent) []sent {
	limit := g.limits[familyOf(prefix)]
	if limit == 0 {
		return dst
	}
	g.picked, g.fits = g.picked[:0], g.fits[:0]
	for i := range paths {
		if !g.out.Fits(paths[i].attrs) {
			g.tooLarge++
			continue
		}
		g.picked, g.fits = append(g.picked, paths[i].Path), append(g.fits, i)
	}
	g.order = g.selection.Choose(prefix, g.picked, limit, g.order[:0])
	start := len(dst)
	for _, i := range g.order {
		p := &paths[g.fits[i]]
		dst = append(dst, sent{g.natural(prefix, p.Port, dst[start:]), p.id, p.attrs})
	}
	if len(dst) > start+1 {
		g.first(dst[start:])
	}
	if family := familyOf(prefix); family == 0 && !g.out.AddPathIPv4 || family == 1 && !g.out.AddPathIPv6 {
		for i := start; i < len(dst); i++ {
			dst[i].id = 0
		}
	}
	return dst
}

// A path identifier is a bit for all but a promoted first path, 11 bits of the hash order, 16 bits
// of the port's name and 4 bits that count several paths of a port. It depends on prefix, paths,
// names and rates of the ports alone: a restart, a second server and a file with one more sponsor
// have the same identifiers.
const (
	ordinalBits = 4
	portShift   = ordinalBits
	hashShift   = portShift + 16
	notFirst    = 1 << 31
)

// natural returns the identifier of a path behind those already in the set.
func (g *group) natural(prefix netip.Prefix, port uint16, set []sent) uint32 {
	id := notFirst | uint32(g.ports.Key(prefix, port))<<hashShift | uint32(g.ports.Tag(port))<<portShift
	for slices.ContainsFunc(set, func(s sent) bool { return s.id == id }) {
		id++ // at most 15 times: maxPerPort
	}
	return id
}

// first gives the preferred path the lowest identifier: some members prefer the lowest. Mostly the
// hash order has it first already, so that the loss of a path renumbers no other.
func (g *group) first(set []sent) {
	for _, s := range set[1:] {
		if s.id < set[0].id {
			set[0].id = set[0].id&(1<<hashShift-1) + 1
			return
		}
	}
}

// change collects the differences of one batch for a group.
type change struct {
	announced [2][]announcement // first paths, then the others
	withdrawn []wire.Target
}

type announcement struct {
	attrID rib.AttrID
	attrs  wire.Attrs
	target wire.Target
}

// compare adds the difference of two sets of a prefix: new and changed paths, and lost ones. With
// all set, equal paths are announced too.
func (c *change) compare(prefix netip.Prefix, before, after []sent, all bool) {
	for i := range after {
		s := &after[i]
		if had := find(before, s.id); all || had == nil || !same(had.attrs, s.attrs) {
			c.announce(prefix, s, i)
		}
	}
	for i := range before {
		if find(after, before[i].id) == nil {
			c.withdrawn = append(c.withdrawn, wire.Target{Prefix: prefix, ID: before[i].id})
		}
	}
}

func (c *change) announce(prefix netip.Prefix, s *sent, position int) {
	class := min(position, 1)
	c.announced[class] = append(c.announced[class], announcement{s.attrID, s.attrs, wire.Target{Prefix: prefix, ID: s.id}})
}

func find(set []sent, id uint32) *sent {
	for i := range set {
		if set[i].id == id {
			return &set[i]
		}
	}
	return nil
}

func same(a, b wire.Attrs) bool { return bytes.Equal(a, b) }

// encode appends the messages of a change to dst: first paths, other paths, withdrawals.
func (g *group) encode(dst []byte, c *change) []byte {
	var targets []wire.Target
	for class := range c.announced {
		all := c.announced[class]
		slices.SortStableFunc(all, func(a, b announcement) int {
			if a.attrID != b.attrID {
				return int(a.attrID) - int(b.attrID)
			}
			return familyOf(a.target.Prefix) - familyOf(b.target.Prefix)
		})
		for n := 0; n < len(all); {
			head := &all[n]
			targets = targets[:0]
			for n < len(all) && all[n].attrID == head.attrID && familyOf(all[n].target.Prefix) == familyOf(head.target.Prefix) {
				targets = append(targets, all[n].target)
				n++
			}
			dst = g.out.Announce(dst, families[familyOf(head.target.Prefix)], head.attrs, targets)
		}
	}
	for i, f := range families {
		targets = targets[:0]
		for _, t := range c.withdrawn {
			if familyOf(t.Prefix) == i {
				targets = append(targets, t)
			}
		}
		dst = g.out.Withdraw(dst, f, targets)
	}
	return dst
}

// tidy drops the encoded rows if no member needs them. The caller holds engine.mu.
func (g *group) tidy() {
	g.stream.mu.Lock()
	defer g.stream.mu.Unlock()
	for m := range g.stream.members {
		if m.dumping.Load() {
			return
		}
	}
	g.chunks, g.size = map[uint32][]byte{}, 0
}

// stream is the messages of a group that a member has not read yet.
type stream struct {
	mu      sync.Mutex
	blocks  [][]byte
	first   uint64 // number of blocks[0]
	bytes   int
	limit   int // of bytes
	members map[*member]struct{}
}

// maxBacklog bounds the messages kept for slow members, in bytes, minBacklog those of a group. The
// loss of 235,000 paths takes 8 MB. A slower member receives the table again.
const (
	maxBacklog = 256 << 20
	minBacklog = 16 << 20
)

// append adds a block and wakes the members.
func (s *stream) append(block []byte) {
	s.mu.Lock()
	s.blocks = append(s.blocks, block)
	s.bytes += len(block)
	least := s.first + uint64(len(s.blocks))
	for m := range s.members {
		least = min(least, m.cursor)
	}
	for len(s.blocks) > 1 && (s.first < least || s.bytes > s.limit) {
		s.bytes -= len(s.blocks[0])
		s.blocks[0] = nil
		s.blocks = s.blocks[1:]
		s.first++
	}
	for m := range s.members {
		m.notify()
	}
	s.mu.Unlock()
}

// head is the number of the next block.
func (s *stream) head() uint64 { return s.first + uint64(len(s.blocks)) }
