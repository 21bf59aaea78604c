// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"

	"weir/internal/fault"
	"weir/tester"
)

// Validate checks that all frames of a stream can be built and sent. Its errors are faults of
// usage.
func Validate(s tester.Stream) error {
	if s.ID >= tester.MaxStreams {
		return usage(s, fmt.Sprintf("use identifiers below %d", tester.MaxStreams), "there is no stream %d", s.ID)
	}
	if len(s.Sizes) == 0 {
		return usage(s, "give it a frame size, such as 64", "it has no frame size")
	}
	sizes := make([]int, len(s.Sizes))
	for i, share := range s.Sizes {
		sizes[i] = share.Size
		if share.Weight < 0 || len(s.Sizes) > 1 && share.Weight == 0 {
			return usage(s, "give every size of a mix a weight of 1 or more", "size %d has weight %d", share.Size, share.Weight)
		}
	}
	if len(s.Sizes) > MaxShares {
		return usage(s, "", "a mix of %d sizes: %d are the most", len(s.Sizes), MaxShares)
	}
	total, divisor := 0, 0
	for _, share := range s.Sizes {
		total, divisor = total+share.Weight, common(share.Weight, divisor)
	}
	if divisor > 0 && total/divisor > MaxCycle {
		return usage(s, "use smaller weights", "its mix repeats only after %d frames: %d are the most", total/divisor, MaxCycle)
	}
	if s.Gap < 0 || s.Start < 0 || s.Burst < 0 {
		return usage(s, "", "gap, burst and start cannot be negative")
	}
	return validate(s, sizes)
}

func usage(s tester.Stream, try, format string, args ...any) error {
	return fault.New(fault.Usage, try, "stream %d: %s", s.ID, fmt.Sprintf(format, args...))
}

func validate(s tester.Stream, sizes []int) error {
	h := s.Header
	switch {
	case len(h.SourceMAC) != 6 || len(h.DestinationMAC) != 6:
		return usage(s, "give source and destination MAC addresses of 6 octets", "a MAC address is missing")
	case !h.Source.IsValid() || !h.Destination.IsValid():
		return usage(s, "give source and destination IP addresses", "an IP address is missing")
	case h.Source.Is4In6() || h.Destination.Is4In6():
		return usage(s, "write the IPv4 address itself", "%s is an IPv4 address inside IPv6", h.Destination)
	case h.Source.Is4() != h.Destination.Is4():
		return usage(s, "use two addresses of one family", "%s and %s are of different families", h.Source, h.Destination)
	case h.VLAN < 0 || h.VLAN > 4094:
		return usage(s, "use an identifier from 1 to 4094, or none", "VLAN %d does not exist", h.VLAN)
	case h.PCP < 0 || h.PCP > 7 || h.PCP != 0 && h.VLAN == 0:
		return usage(s, "use a priority from 0 to 7, with a VLAN", "PCP %d cannot be sent", h.PCP)
	case h.DSCP > 63:
		return usage(s, "use a code point from 0 to 63", "DSCP %d does not exist", h.DSCP)
	case h.ECN > 3:
		return usage(s, "use 0 to 3", "ECN %d does not exist", h.ECN)
	}
	for _, size := range sizes {
		if err := validateSize(s, size); err != nil {
			return err
		}
	}
	return validateModifiers(s)
}

func validateSize(s tester.Stream, size int) error {
	smallest := Smallest(s.Header, s.Stamped)
	switch {
	case size > MaxSize:
		return usage(s, fmt.Sprintf("use sizes from %d to %d", MinSize, MaxSize), "frames of %d octets are too large", size)
	case size < MinSize:
		return usage(s, fmt.Sprintf("use sizes from %d to %d", MinSize, MaxSize), "frames of %d octets are too small for Ethernet", size)
	case size < smallest && s.Stamped && size-HeaderSize(s.Header)-tester.FCSSize < tester.StampSize:
		return usage(s, fmt.Sprintf("use frames of %d octets or more", smallest),
			"frames of %d octets leave %d octets of payload, and a stamp takes %d", size, max(size-HeaderSize(s.Header)-tester.FCSSize, 0), tester.StampSize)
	case size < smallest:
		return usage(s, fmt.Sprintf("use frames of %d octets or more", smallest), "frames of %d octets do not hold their headers", size)
	}
	return nil
}

// fixed lists the octets that no modifier may change: lengths, types, and the checksums, which the
// sender computes. Offsets count from the start of the frame.
func fixed(h tester.Header) map[string][2]int {
	network := ethernetSize
	if h.VLAN != 0 {
		network += tagSize
	}
	udp := network + ip4Size
	places := map[string][2]int{
		"the EtherType":          {network - 2, network},
		"the IPv4 lengths":       {network + 2, network + 4},
		"the fragment offset":    {network + 6, network + 8},
		"the protocol":           {network + 9, network + 10},
		"the header checksum":    {network + 10, network + 12},
		"the version and length": {network, network + 1},
	}
	if h.Source.Is6() {
		udp = network + ip6Size
		places = map[string][2]int{
			"the EtherType":                      {network - 2, network},
			"the payload length and next header": {network + 4, network + 7},
		}
	}
	if h.VLAN != 0 {
		places["the tag's EtherType"] = [2]int{12, 14}
	}
	places["the UDP length and checksum"] = [2]int{udp + 4, udp + 8}
	return places
}

func validateModifiers(s tester.Stream) error {
	if len(s.Modifiers) > MaxModifiers {
		return usage(s, "", "%d modifiers: %d are the most", len(s.Modifiers), MaxModifiers)
	}
	header := HeaderSize(s.Header)
	taken := make([]byte, header+4)
	for i, m := range s.Modifiers {
		switch {
		case m.Action != tester.Increment && m.Action != tester.Decrement && m.Action != tester.Random:
			return usage(s, "use increment, decrement or random", "modifier %d: there is no action %q", i, m.Action)
		case len(m.Mask) == 0 || len(m.Mask) > 4 || mask(m) == 0:
			return usage(s, "give a mask of one to four octets that are not all zero", "modifier %d changes nothing", i)
		case m.Offset < 0 || m.Offset+len(m.Mask) > header:
			return usage(s, fmt.Sprintf("keep within the %d octets of header", header), "modifier %d reaches outside the header", i)
		case m.Repetitions < 0:
			return usage(s, "", "modifier %d has negative repetitions", i)
		}
		if err := validateMask(s, i, m, taken); err != nil {
			return err
		}
	}
	return nil
}

func validateMask(s tester.Stream, i int, m tester.Modifier, taken []byte) error {
	for octet, bits := range m.Mask {
		place := m.Offset + octet
		if taken[place]&bits != 0 {
			return usage(s, "give every bit to one modifier", "modifier %d changes bits that another one changes", i)
		}
		taken[place] |= bits
		for name, span := range fixed(s.Header) {
			if bits != 0 && place >= span[0] && place < span[1] {
				return usage(s, "omit fields that the tester computes", "modifier %d changes %s", i, name)
			}
		}
		version := s.Header.Source.Is6() && place == span6(s.Header)
		if version && bits&0xf0 != 0 {
			return usage(s, "omit fields that the tester computes", "modifier %d changes the IP version", i)
		}
	}
	return nil
}

// span6 returns the offset of the IPv6 header.
func span6(h tester.Header) int { return HeaderSize(h) - udpSize - ip6Size }
