// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"net/netip"
)

// messages holds the routes left of the current UPDATE, and the peers of all BGP4MP records.
type messages struct {
	update    Update
	route     Route // peer and time
	announced stored
	reach     stored
	peers     map[Peer]int // index in Reader.peers; the BGP identifier is unknown
}

// stored is an attribute set in stored form.
type stored struct {
	attrs Attrs
	view  View
}

// next sets route to the next route of the UPDATE: withdrawals, then announcements. It returns
// false at the end.
func (m *messages) next(route *Route) bool {
	u := &m.update
	return m.cut(&u.Withdrawn, nil, route) || m.cut(&u.Unreach, nil, route) ||
		m.cut(&u.Announced, &m.announced, route) || m.cut(&u.Reach, &m.reach, route)
}

// cut sets route to the first route of an NLRI. It returns false at the end.
func (m *messages) cut(nlri *NLRI, s *stored, route *Route) bool {
	prefix, id, ok := nlri.Next()
	if ok {
		if m.update.Fault != nil {
			s = nil
		}
		m.fill(route, prefix, id, s)
	}
	return ok
}

// fill sets a route; without attributes it is a withdrawal.
func (m *messages) fill(route *Route, prefix netip.Prefix, id uint32, s *stored) {
	route.Prefix, route.PathID, route.Peer, route.Time = prefix, id, m.route.Peer, m.route.Time
	route.Withdrawn = s == nil
	if s == nil {
		route.Attrs, route.View = nil, View{Origin: OriginIncomplete}
		return
	}
	route.Attrs, route.View = s.attrs, s.view
}

// readMessage decodes a BGP4MP record (RFC 6396, section 4.4; RFC 8050, section 3).
func (r *Reader) readMessage(subtype uint16, time uint32) error {
	if subtype == bgpState || subtype == bgpStateAS4 {
		r.skipped++
		return nil
	}
	// Subtypes 4, 7, 9 and 11 have AS numbers of four bytes, 8 to 11 path identifiers.
	coding := Coding{AS4: subtype == 4 || subtype == 7 || subtype == 9 || subtype == 11}
	coding.AddPathIPv4 = subtype >= firstAddPathSubtype
	coding.AddPathIPv6 = coding.AddPathIPv4
	peer, err := r.readMessagePeer(coding.AS4)
	if err != nil {
		return err
	}
	header, ok := r.take(HeaderSize)
	if !ok {
		return r.errorf(len(r.rest), "BGP4MP: %d bytes are too short for a BGP message", len(r.rest))
	}
	kind, size, err := ParseHeader(header, MaxExtendedMessage)
	if err != nil {
		return r.messageFault(err, len(r.rest)+HeaderSize)
	}
	if size != len(r.rest)+HeaderSize {
		return r.errorf(len(r.rest)+3, "BGP4MP: a BGP message of %d bytes in %d bytes", size, len(r.rest)+HeaderSize)
	}
	if kind != TypeUpdate {
		r.skipped++
		return nil
	}
	m := &r.message
	m.route.Peer, m.route.Time = r.peerIndex(peer), time
	if err := m.update.Parse(r.rest, coding); err != nil {
		m.update = Update{}
		r.count(r.messageFault(err, len(r.rest)))
		return nil
	}
	r.store()
	return nil
}

// store makes the stored forms of the UPDATE's attributes. Routes with faulty attributes become
// withdrawals (RFC 7606, section 2).
func (r *Reader) store() {
	m, u := &r.message, &r.message.update
	fault := u.Fault
	r.scratch = r.scratch[:0]
	if fault == nil && !u.Announced.Empty() {
		r.scratch = u.AppendAnnounced(r.scratch)
		m.announced.attrs = Attrs(r.scratch)
		fault = viewFault(m.announced.view.Parse(m.announced.attrs))
	}
	if start := len(r.scratch); fault == nil && !u.Reach.Empty() {
		r.scratch = u.AppendReach(r.scratch)
		m.reach.attrs = Attrs(r.scratch[start:])
		fault = viewFault(m.reach.view.Parse(m.reach.attrs))
	}
	if fault == nil {
		return
	}
	withdrawn := 2 + int(binary.BigEndian.Uint16(r.rest))
	where := r.errorf(len(r.rest)-withdrawn-2-fault.Offset, "BGP4MP").(*Error)
	where.Err = fault
	r.count(where)
	u.Fault = fault
}

func viewFault(err error) *AttrError {
	fault, _ := err.(*AttrError)
	return fault
}

// messageFault gives a fault of a BGP message its place in the file. The message's part in which
// it counts starts left bytes before the end of the record.
func (r *Reader) messageFault(err error, left int) error {
	fault := err.(*MessageError)
	where := r.errorf(left-fault.Offset, "BGP4MP").(*Error)
	where.Err = fault
	return where
}

func (r *Reader) count(fault error) {
	if r.malformed++; r.first == nil {
		r.first = fault
	}
}

// readMessagePeer decodes the head of a BGP4MP record.
func (r *Reader) readMessagePeer(as4 bool) (peer Peer, err error) {
	size := 2
	if as4 {
		size = 4
	}
	head, ok := r.take(2*size + 4)
	if !ok {
		return peer, r.errorf(len(r.rest), "BGP4MP: %d bytes are too short for its header", len(r.rest))
	}
	if as4 {
		peer.AS = binary.BigEndian.Uint32(head)
	} else {
		peer.AS = uint32(binary.BigEndian.Uint16(head))
	}
	family := Family{binary.BigEndian.Uint16(head[2*size+2:]), 1}
	if family.addrSize() == 0 {
		return peer, r.errorf(len(r.rest)+2, "BGP4MP: address family %d is unknown", family.AFI)
	}
	addresses, ok := r.take(2 * family.addrSize())
	if !ok {
		return peer, r.errorf(len(r.rest), "BGP4MP: the addresses exceed the record")
	}
	peer.Addr, _ = netip.AddrFromSlice(addresses[:family.addrSize()])
	return peer, nil
}

// peerIndex returns the index of a peer, which it adds if it is new.
func (r *Reader) peerIndex(peer Peer) int {
	m := &r.message
	if m.peers == nil {
		m.peers = map[Peer]int{}
		for i, p := range r.peers {
			m.peers[Peer{Addr: p.Addr, AS: p.AS}] = i
		}
	}
	i, ok := m.peers[peer]
	if !ok {
		i = len(r.peers)
		r.peers = append(r.peers, peer)
		m.peers[peer] = i
	}
	return i
}
