// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"
	"fmt"
	"net"
	"time"
)

// IPFIX sends a data record for each hop of a packet over UDP (RFC 7011). It is not safe for
// concurrent use.
//
// A record has the flow, the node as observationPointId, its interfaces and the hop limit. Flow
// start and end are the reception times at the node and at the next one, or the end of the trace at
// the last node.
type IPFIX struct {
	conn     net.Conn
	domain   uint32
	message  []byte
	records  uint32 // in the current message
	sequence uint32 // data records of earlier messages
	taught   time.Time
	Lost     uint64 // data records that could not be sent
}

// Information elements (IANA) of the one template, with their lengths.
var ipfixElements = [...][2]uint16{
	{156, 8}, {157, 8}, // flowStartNanoseconds, flowEndNanoseconds
	{27, 16}, {28, 16}, {7, 2}, {11, 2}, {4, 1}, // addresses, ports, protocol
	{192, 1},         // ipTTL
	{138, 8},         // observationPointId
	{10, 4}, {14, 4}, // interfaces
	{1, 8}, {2, 8}, // octets, packets
}

const (
	ipfixVersion  = 10
	ipfixTemplate = 256
	ipfixHead     = 16
	ipfixMax      = 1200 // bytes of a message, to avoid fragmentation
	teachAgain    = time.Minute
)

// NewIPFIX sends to a host and port; domain distinguishes exporters of one host.
func NewIPFIX(address string, domain uint32) (*IPFIX, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return nil, fmt.Errorf("export IPFIX: %w", err)
	}
	return &IPFIX{conn: conn, domain: domain}, nil
}

// Add adds the hops of a packet and sends full messages.
func (x *IPFIX) Add(r *Record) {
	if len(r.Traces) == 0 {
		return
	}
	hops := r.Traces[0].Hops
	for i := range hops {
		h := &hops[i]
		if !h.Received.Known {
			continue
		}
		end := r.Time
		if i+1 < len(hops) && hops[i+1].Received.Known {
			end = hops[i+1].Received.Value
		}
		x.begin()
		x.append(r, h, max(end, h.Received.Value))
	}
}

// begin makes space for one record.
func (x *IPFIX) begin() {
	if size := x.size(); len(x.message) > 0 && len(x.message)+size > ipfixMax {
		x.Flush()
	}
	if len(x.message) > 0 {
		return
	}
	x.message = append(x.message[:0], make([]byte, ipfixHead)...)
	if now := time.Now(); now.Sub(x.taught) > teachAgain {
		x.taught = now
		x.message = binary.BigEndian.AppendUint16(x.message, 2) // a set of templates
		x.message = binary.BigEndian.AppendUint16(x.message, uint16(8+4*len(ipfixElements)))
		x.message = binary.BigEndian.AppendUint16(x.message, ipfixTemplate)
		x.message = binary.BigEndian.AppendUint16(x.message, uint16(len(ipfixElements)))
		for _, e := range ipfixElements {
			x.message = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(x.message, e[0]), e[1])
		}
	}
}

// size is the size of a record with its set header.
func (x *IPFIX) size() int {
	size := 4
	for _, e := range ipfixElements {
		size += int(e[1])
	}
	return size
}

// append adds a record in a set of its own.
func (x *IPFIX) append(r *Record, h *Hop, end int64) {
	b := binary.BigEndian.AppendUint16(x.message, ipfixTemplate)
	b = binary.BigEndian.AppendUint16(b, uint16(x.size()))
	b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, ntp(h.Received.Value)), ntp(end))
	source, destination := r.Flow.Source.As16(), r.Flow.Destination.As16()
	b = append(append(b, source[:]...), destination[:]...)
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, r.Flow.SourcePort), r.Flow.DestinationPort)
	b = append(b, r.Flow.Protocol, h.HopLimit)
	b = binary.BigEndian.AppendUint64(b, h.Node)
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, h.Ingress.Value), h.Egress.Value)
	x.message = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(r.Length)), 1)
	x.records++
}

// ntp converts to dateTimeNanoseconds: seconds since 1900, and 2^-32 s.
func ntp(ns int64) uint64 { return uint64(ns/1e9+2208988800)<<32 | uint64(ns%1e9)<<32/1e9 }

// Flush sends the buffer.
func (x *IPFIX) Flush() {
	if len(x.message) == 0 {
		return
	}
	head := binary.BigEndian.AppendUint16(x.message[:0:ipfixHead], ipfixVersion)
	head = binary.BigEndian.AppendUint16(head, uint16(len(x.message)))
	head = binary.BigEndian.AppendUint32(head, uint32(time.Now().Unix()))
	head = binary.BigEndian.AppendUint32(head, x.sequence)
	binary.BigEndian.AppendUint32(head, x.domain)
	if _, err := x.conn.Write(x.message); err != nil {
		x.Lost += uint64(x.records)
	}
	x.sequence += x.records
	x.records, x.message = 0, x.message[:0]
}

// Close sends the buffer and closes the connection.
func (x *IPFIX) Close() error {
	x.Flush()
	return x.conn.Close()
}
