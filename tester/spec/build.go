// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"time"

	"weir/internal/nearest"
	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/tester"
)

type builder struct {
	file     *file
	problems *yamlfile.Problems
	spec     *Spec
	next     int // stream identifier
	used     map[uint16]bool
}

func build(f *file, problems *yamlfile.Problems) *Spec {
	b := &builder{file: f, problems: problems, used: map[uint16]bool{}, spec: &Spec{
		Name: f.Name, Title: f.Title, Synchronised: f.Synchronised, Capture: f.Capture, Straggle: 500 * time.Millisecond,
	}}
	if b.spec.Name == "" {
		b.spec.Name = "test"
	}
	if f.Straggle != nil {
		b.spec.Straggle = time.Duration(*f.Straggle)
	}
	b.head()
	for _, port := range f.Ports {
		v := port.Value
		p := Port{Name: port.Key.Value, Namespace: v.Namespace, Device: v.Device, Speed: v.Speed, CPUs: v.CPUs}
		p.PeerNamespace, p.Peer = SplitDevice(v.Peer)
		b.spec.Ports = append(b.spec.Ports, p)
	}
	for i, stream := range f.Streams {
		b.stream(i, stream)
	}
	if len(f.Streams) == 0 {
		problems.Add(f.At("streams"), "add a stream", "nothing is sent")
	}
	if f.Sequential && len(b.spec.Directions) > 1 {
		problems.Add(f.At("sequential"), "", "sequential streams must all have the same from and to")
	}
	for _, e := range f.Expect {
		b.expectation(e)
	}
	return b.spec
}

// SplitDevice reads "NAMESPACE:DEVICE" or "DEVICE".
func SplitDevice(text string) (namespace, device string) {
	if namespace, device, found := strings.Cut(text, ":"); found {
		return namespace, device
	}
	return "", text
}

func (b *builder) head() {
	f := b.file
	if f.Version != 1 {
		b.problems.Add(f.At("version"), "write version: 1", "version %d of the format is not known", f.Version)
	}
	if f.Duration == 0 && f.Has("duration") || time.Duration(f.Duration) > 24*time.Hour {
		b.problems.Add(f.At("duration"), "", "duration must be above 0 and at most 24h")
	}
	if f.Batch < 0 || f.Batch > 256 {
		b.problems.Add(f.At("batch"), "", "batch %d is outside 0 to 256", f.Batch)
	}
	if f.Capture < 0 || f.Capture > 65536 {
		b.problems.Add(f.At("capture"), "", "capture %d is outside 0 to 65536", f.Capture)
	}
}

// direction returns the schedule between two ports, made on first use.
func (b *builder) direction(from, to string) *Direction {
	for i := range b.spec.Directions {
		if d := &b.spec.Directions[i]; d.From == from && d.To == to {
			return d
		}
	}
	f := b.file
	d := Direction{From: from, To: to, Schedule: tester.Schedule{
		Sequential: f.Sequential, Duration: time.Duration(f.Duration), MaxFrames: f.MaxFrames, Policy: tester.Policy(f.Policy), Batch: f.Batch,
	}}
	if d.Schedule.Duration == 0 {
		d.Schedule.Duration = 10 * time.Second
	}
	if d.Schedule.Policy == "" {
		d.Schedule.Policy = tester.Skip
	}
	b.spec.Directions = append(b.spec.Directions, d)
	return &b.spec.Directions[len(b.spec.Directions)-1]
}

func (b *builder) port(f *streamFile, key, name string) Port {
	p, known := b.spec.Port(name)
	if !known {
		var names []string
		for _, p := range b.spec.Ports {
			names = append(names, p.Name)
		}
		b.problems.Add(f.At(key), "", "port %q is not one of ports%s", name, nearest.Hint(name, names))
	}
	return p
}

func (b *builder) stream(index int, f *streamFile) {
	from := b.port(f, "from", f.From)
	b.port(f, "to", f.To)
	if f.From == f.To {
		b.problems.Add(f.At("to"), "", "the stream ends at the port that it starts from")
	}
	s := tester.Stream{Name: f.Name, Stamped: f.Payload == nil || f.Payload.stamped, Burst: f.Burst, Start: time.Duration(f.Start), Frames: f.Frames}
	if s.Name == "" {
		s.Name = fmt.Sprintf("stream %d", index+1)
	}
	if f.Payload != nil {
		s.Payload = f.Payload.octets
	}
	family := b.header(f, &s.Header)
	s.Sizes = b.mix(f, Smallest(family, f.VLAN != 0, s.Stamped))
	s.Gap = b.gap(f, from, MeanWire(s.Sizes))
	s.Modifiers = b.modifiers(f, family)
	if b.file.Sequential && f.Frames == 0 {
		b.problems.Add(f.At("frames"), "add frames", "a sequential stream needs a number of frames, or the next one never starts")
	}
	if f.Burst < 0 || f.Burst > 1<<20 {
		b.problems.Add(f.At("burst"), "", "burst %d is outside 1 to 1048576", f.Burst)
	}
	b.add(f, s)
}

// add assigns identifiers to the stream and its copies.
func (b *builder) add(f *streamFile, s tester.Stream) {
	count := 1
	if f.Count != nil {
		count = *f.Count
	}
	if f.ID != nil {
		b.next = *f.ID
	}
	if count < 1 || b.next < 0 || b.next+count > tester.MaxStreams {
		b.problems.Add(f.At("count"), "", "a test has 1 to %d streams, and identifiers are below %d", tester.MaxStreams, tester.MaxStreams)
		return
	}
	d := b.direction(f.From, f.To)
	base := s
	for i := range count {
		s.ID = uint16(b.next)
		if b.used[s.ID] {
			b.problems.Add(f.At("id"), "leave id out, or give each stream another one", "two streams have the identifier %d", s.ID)
			return
		}
		b.used[s.ID] = true
		b.next++
		if count > 1 {
			s.Name = fmt.Sprintf("%s %d", base.Name, i+1)
			s.Header.SourcePort = base.Header.SourcePort + uint16(i)
		}
		d.Schedule.Streams = append(d.Schedule.Streams, s)
	}
}

// header fills the header and returns the IP version. Addresses missing in the file become
// unspecified ones of the family.
func (b *builder) header(f *streamFile, h *tester.Header) int {
	h.SourcePort, h.DestinationPort = 49152, 7
	if f.SourcePort != nil {
		h.SourcePort = *f.SourcePort
	}
	if f.DestinationPort != nil {
		h.DestinationPort = *f.DestinationPort
	}
	h.VLAN, h.PCP, h.DSCP, h.ECN = f.VLAN, f.PCP, uint8(f.DSCP), uint8(f.ECN)
	if f.SourceMAC != nil {
		h.SourceMAC = net.HardwareAddr(*f.SourceMAC)
	}
	if f.DestinationMAC != nil {
		h.DestinationMAC = net.HardwareAddr(*f.DestinationMAC)
	}
	if f.TTL != nil {
		h.TTL = uint8(*f.TTL)
		if *f.TTL < 1 || *f.TTL > 255 {
			b.problems.Add(f.At("ttl"), "", "TTL %d is outside 1 to 255", *f.TTL)
		}
	}
	if f.VLAN < 0 || f.VLAN > 4094 || f.PCP < 0 || f.PCP > 7 || f.PCP > 0 && f.VLAN == 0 {
		b.problems.Add(f.At("vlan"), "", "VLAN %d with priority %d: an identifier is 1 to 4094, a priority 0 to 7 and needs a VLAN", f.VLAN, f.PCP)
	}
	return b.addresses(f, h)
}

func (b *builder) addresses(f *streamFile, h *tester.Header) int {
	family := 4
	for key, a := range map[string]*address{"source": f.Source, "destination": f.Destination} {
		if a != nil && netip.Addr(*a).Is6() {
			family = 6
		}
		if a != nil && f.Family != nil && (*f.Family == 6) != netip.Addr(*a).Is6() {
			b.problems.Add(f.At(key), "", "%s is not an address of IPv%d", netip.Addr(*a), *f.Family)
		}
	}
	if f.Family != nil {
		family = *f.Family
		if family != 4 && family != 6 {
			b.problems.Add(f.At("family"), "write 4 or 6", "IP has no version %d here", family)
		}
	}
	h.Source, h.Destination = netip.IPv4Unspecified(), netip.IPv4Unspecified()
	if family == 6 {
		h.Source, h.Destination = netip.IPv6Unspecified(), netip.IPv6Unspecified()
	}
	if f.Source != nil {
		h.Source = netip.Addr(*f.Source)
	}
	if f.Destination != nil {
		h.Destination = netip.Addr(*f.Destination)
	}
	if h.Source.Is4() != h.Destination.Is4() {
		b.problems.Add(f.At("destination"), "", "source %s and destination %s are of two families", h.Source, h.Destination)
	}
	return family
}

// gap returns the time from one frame to the next; 0 is as fast as possible.
func (b *builder) gap(f *streamFile, from Port, wire float64) time.Duration {
	if f.Rate != nil && f.Gap != nil {
		b.problems.Add(f.At("gap"), "leave one of them out", "both rate and gap say how fast the stream is")
		return 0
	}
	lineNeeded := func(key string) {
		b.problems.Add(f.At(key), "add speed to the port, such as speed: 10Gbit", "%s of the line needs the speed of port %q", key, f.From)
	}
	nanoseconds := 0.0
	switch r := f.Rate; {
	case f.Gap != nil && f.Gap.time > 0:
		return f.Gap.time
	case f.Gap != nil:
		if from.Speed == 0 {
			lineNeeded("gap")
			return 0
		}
		nanoseconds = (wire - tester.WireOverhead + float64(f.Gap.octets)) * 8 / float64(from.Speed) * 1e9
	case r == nil:
		b.problems.Add(f.Self, `add rate: such as "1000 frame/s", "200Mbit" or "max"`, "the stream has neither rate nor gap")
		return 0
	case r.max:
		return 0
	case r.frames > 0:
		nanoseconds = 1e9 / r.frames
		if r.frames > maxFrames {
			b.problems.Add(f.At("rate"), `write "max" for as fast as possible`, "a rate of %.3g frame/s is above %.0g: gaps are whole nanoseconds", r.frames, float64(maxFrames))
		}
	case r.bits > 0:
		nanoseconds = Interval(r.bits, wire)
	case from.Speed == 0:
		lineNeeded("rate")
		return 0
	default:
		nanoseconds = Interval(units.BitRate(r.share*float64(from.Speed)), wire)
	}
	return time.Duration(max(math.Round(nanoseconds), 1))
}

// maxFrames is one frame per nanosecond, the finest gap.
const maxFrames = 1e9 // frame/s

// Interval returns the time in ns from one frame to the next at a rate on the wire, for frames that
// occupy wire octets.
func Interval(rate units.BitRate, wire float64) float64 { return wire * 8 / float64(rate) * 1e9 }

func (b *builder) modifiers(f *streamFile, family int) []tester.Modifier {
	headers := 14 + 20 + 8
	if family == 6 {
		headers += 20
	}
	if f.VLAN != 0 {
		headers += 4
	}
	var all []tester.Modifier
	for _, m := range f.Modifiers {
		if m.Offset < 0 || m.Offset+len(m.Mask) > headers {
			b.problems.Add(m.At("offset"), "", "offset %d with %d octets of mask lies outside the headers", m.Offset, len(m.Mask))
		}
		if m.Repetitions < 0 {
			b.problems.Add(m.At("repetitions"), "", "repetitions %d is negative", m.Repetitions)
		}
		all = append(all, tester.Modifier{Action: tester.Action(m.Action), Offset: m.Offset, Mask: m.Mask, Repetitions: m.Repetitions})
	}
	return all
}
