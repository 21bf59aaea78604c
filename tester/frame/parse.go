// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"weir/tester"
)

// Info is the result of Parse.
type Info struct {
	VLAN                        int // 0 is untagged; the inner one of two tags
	Source, Destination         netip.Addr
	SourcePort, DestinationPort uint16
	DSCP, ECN, TTL              uint8
	Payload                     []byte // UDP payload, a slice of the input
	Stamp                       Stamp  // last 18 octets; valid if HasStamp
	HasStamp                    bool   // a stamp is possible; only a known stream and a time close to now make it likely
	NetworkChecksum             bool   // correct, or IPv6
	UDPChecksum                 bool   // correct, or absent with IPv4
}

// Reasons why Parse rejects a frame.
var (
	ErrShort    = errors.New("parse frame: it ends within its headers")
	ErrNotUDP   = errors.New("parse frame: not an unfragmented UDP datagram in IPv4 or IPv6")
	ErrLengths  = errors.New("parse frame: its headers disagree about its length")
	errNotFound = errors.New("parse frame: not IP")
)

// Parse parses a frame without FCS. It skips up to two VLAN tags and padding after the datagram.
func Parse(octets []byte) (Info, error) {
	var info Info
	t := Template{Octets: octets}
	etherType, err := t.skipEthernet(&info)
	if err != nil {
		return info, err
	}
	switch etherType {
	case typeIP4:
		err = t.parse4(&info)
	case typeIP6:
		err = t.parse6(&info)
	default:
		err = errNotFound
	}
	if err != nil {
		return info, err
	}
	return info, t.parseUDP(&info)
}

func (t *Template) skipEthernet(info *Info) (uint16, error) {
	for at := 12; ; at += tagSize {
		if len(t.Octets) < at+2 {
			return 0, ErrShort
		}
		etherType := binary.BigEndian.Uint16(t.Octets[at:])
		if etherType != typeTag && etherType != 0x88a8 || at > 16 {
			t.Network = at + 2
			return etherType, nil
		}
		if len(t.Octets) < at+4 {
			return 0, ErrShort
		}
		info.VLAN = int(binary.BigEndian.Uint16(t.Octets[at+2:]) & 0xfff)
	}
}

func (t *Template) parse4(info *Info) error {
	ip := t.Octets[t.Network:]
	if len(ip) < ip4Size {
		return ErrShort
	}
	header, total := int(ip[0]&0xf)*4, int(binary.BigEndian.Uint16(ip[2:]))
	switch {
	case ip[0]>>4 != 4 || ip[9] != protocolUDP || binary.BigEndian.Uint16(ip[6:])&0x3fff != 0:
		return ErrNotUDP
	case header < ip4Size || total < header || total > len(ip):
		return ErrLengths
	}
	info.DSCP, info.ECN, info.TTL = ip[1]>>2, ip[1]&3, ip[8]
	info.Source, _ = netip.AddrFromSlice(ip[12:16])
	info.Destination, _ = netip.AddrFromSlice(ip[16:20])
	info.NetworkChecksum = sum(ip[:header]) == 0xffff
	t.UDP = t.Network + header
	t.Octets = t.Octets[:t.Network+total]
	return nil
}

func (t *Template) parse6(info *Info) error {
	ip := t.Octets[t.Network:]
	if len(ip) < ip6Size {
		return ErrShort
	}
	total := ip6Size + int(binary.BigEndian.Uint16(ip[4:]))
	switch {
	case ip[0]>>4 != 6 || ip[6] != protocolUDP:
		return ErrNotUDP
	case total > len(ip):
		return ErrLengths
	}
	class := uint8(binary.BigEndian.Uint16(ip) >> 4)
	info.DSCP, info.ECN, info.TTL = class>>2, class&3, ip[7]
	info.Source, _ = netip.AddrFromSlice(ip[8:24])
	info.Destination, _ = netip.AddrFromSlice(ip[24:40])
	info.NetworkChecksum = true
	t.IP6 = true
	t.UDP = t.Network + ip6Size
	t.Octets = t.Octets[:t.Network+total]
	return nil
}

func (t *Template) parseUDP(info *Info) error {
	udp := t.Octets[t.UDP:]
	if len(udp) < udpSize {
		return ErrShort
	}
	if int(binary.BigEndian.Uint16(udp[4:])) != len(udp) {
		return ErrLengths
	}
	info.SourcePort, info.DestinationPort = binary.BigEndian.Uint16(udp), binary.BigEndian.Uint16(udp[2:])
	info.Payload = udp[udpSize:]
	start, end := t.addresses()
	total := uint32(sum(t.Octets[start:end])) + uint32(sum(udp)) + protocolUDP + uint32(len(udp))
	absent := binary.BigEndian.Uint16(udp[6:]) == 0 && !t.IP6
	info.UDPChecksum = absent || fold(total) == 0xffff
	if len(info.Payload) >= tester.StampSize {
		info.Stamp, info.HasStamp = readStamp(info.Payload[len(info.Payload)-tester.StampSize:])
	}
	return nil
}
