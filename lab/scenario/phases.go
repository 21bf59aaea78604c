// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/lab/traffic"
)

const (
	maxStreams     = 1000
	maxConcurrency = 10_000
	minPayload     = 32 // bytes of a datagram
	udpHeaders     = 48 // IPv6 and UDP, the larger case
	minFrame4      = 64
	minFrame6      = 84 // Ethernet, IPv6, UDP, the tester's stamp and FCS
)

// tryDuration is the range of a phase's length.
var tryDuration = fmt.Sprintf("write a time above 0 and up to %s, such as 5s", maxDuration)

// congestionName is a name that Linux accepts: TCP_CA_NAME_MAX is 16, with the final NUL.
var congestionName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,14}$`)

func (b *builder) phases() {
	if len(b.file.Phases) == 0 {
		b.complain(b.file.At("phases"), "", "phases: a scenario needs at least one phase")
	}
	subjects := map[string]bool{Aggregate: true}
	for i, f := range b.file.Phases {
		path := fmt.Sprintf("phases[%d]", i)
		phase := Phase{Name: f.Name, Duration: time.Duration(f.Duration), Settle: time.Duration(f.Settle), Solo: f.Solo}
		if phase.Name == "" {
			phase.Name = fmt.Sprintf("phase %d", i+1)
		}
		switch {
		case slices.ContainsFunc(b.cell.Phases, func(have Phase) bool { return have.Name == phase.Name }):
			b.complain(f.At("name"), "", "%s: there is a phase %q already", path, phase.Name)
		case phase.Duration == 0:
			b.complain(f.At("duration"), tryDuration, "%s.duration: 0: a phase in which nothing happens", path)
		case phase.Duration > maxDuration:
			b.complain(f.At("duration"), tryDuration, "%s.duration: %s is above %s", path, phase.Duration, maxDuration)
		case phase.Settle >= phase.Duration:
			b.complain(f.At("settle"), "make the phase longer or settle shorter", "%s.settle: %s leaves nothing of a phase of %s", path, phase.Settle, phase.Duration)
		case len(f.Flows)+len(f.Streams) == 0 && f.Procedure == nil:
			b.complain(f.Self, "add flows, streams or a procedure", "%s: nothing is sent", path)
		}
		for j, flow := range f.Flows {
			at := fmt.Sprintf("%s.flows[%d]", path, j)
			out := b.flow(flow, at, phase)
			b.subject(subjects, flow.Fields, at, out.Name)
			b.classSubjects(subjects, flow.Fields, at, out)
			phase.Flows = append(phase.Flows, out)
		}
		b.aloneAtTheirEnd(f, path, phase)
		for j, stream := range f.Streams {
			at := fmt.Sprintf("%s.streams[%d]", path, j)
			b.subject(subjects, stream.Fields, at, stream.Name)
			phase.Streams = append(phase.Streams, b.stream(stream, at, phase))
		}
		b.tooMany(f, path, phase)
		if f.Procedure != nil {
			at := path + ".procedure"
			phase.Procedure = b.procedure(f.Procedure, at, phase, len(f.Flows)+len(f.Streams))
			b.subject(subjects, f.Procedure.Fields, at, phase.Procedure.Name)
		}
		b.checkSolo(f, path, phase)
		b.cell.Phases = append(b.cell.Phases, phase)
	}
}

// subject rejects a name used by two sources of figures.
func (b *builder) subject(taken map[string]bool, f yamlfile.Fields, path, name string) {
	at := f.At("name")
	switch {
	case name == "" || len(name) > 40 || strings.ContainsAny(name, "/\n\t"):
		b.complain(at, "", "%s.name: %q is no name: use at most 40 letters, and no slash", path, name)
	case taken[name]:
		b.complain(at, "give each flow and stream a name of its own", "%s: the name %q is taken", path, name)
	}
	taken[name] = true
}

// span checks a start and a length against the phase and returns the length.
func (b *builder) span(f yamlfile.Fields, path string, start units.Duration, duration *units.Duration, phase Phase) time.Duration {
	length := phase.Duration - time.Duration(start)
	switch {
	case phase.Duration == 0:
	case length <= 0:
		b.complain(f.At("start"), fmt.Sprintf("write a time before the phase's end at %s", phase.Duration), "%s.start: %s is not before the phase's end at %s", path, start, phase.Duration)
	case duration == nil:
	case *duration == 0:
		b.complain(f.At("duration"), "leave it out for the rest of the phase", "%s.duration: 0: nothing is sent", path)
	case time.Duration(*duration) > length:
		b.complain(f.At("duration"), "make the phase longer", "%s: it ends at %s and the phase at %s", path, time.Duration(start)+time.Duration(*duration), phase.Duration)
	default:
		length = time.Duration(*duration)
	}
	return length
}

// way checks that two nodes are hosts of the scenario with a path between them. It returns the
// smallest MTU of the path.
func (b *builder) way(f yamlfile.Fields, path, from, to string) (mtu int) {
	fromKnown, toKnown := b.node(f.At("from"), path+".from", from), b.node(f.At("to"), path+".to", to)
	if !fromKnown || !toKnown {
		return defaultMTU
	}
	if from == to {
		b.complain(f.At("to"), "name another host", "%s: it goes from %q to itself", path, from)
		return defaultMTU
	}
	mtu = 9000
	for _, ends := range [][2]string{{from, to}, {to, from}} {
		hops, found := b.network.path(b.network.index[ends[0]], b.network.index[ends[1]])
		if !found {
			b.complain(f.At("to"), "add a link, or declare the nodes between them under routers", "%s: there is no way from %q to %q", path, ends[0], ends[1])
			return defaultMTU
		}
		for _, h := range hops {
			mtu = min(mtu, b.cell.Links[h.link].MTU)
		}
	}
	return mtu
}

// meaning lists the keys that only some kinds of flow accept.
func meaning() map[string][]traffic.Kind {
	tcp, program := []traffic.Kind{traffic.Bulk, traffic.Request, traffic.Transfers}, []traffic.Kind{traffic.Program}
	native := append([]traffic.Kind{traffic.Datagram}, tcp...)
	load := []traffic.Kind{traffic.Transfers}
	return map[string][]traffic.Kind{
		"congestion": tcp, "ecn": tcp,
		"sizes": load, "most": load, "arrivals": load, "load": load, "drain": load,
		"request": {traffic.Request}, "response": {traffic.Request}, "concurrency": {traffic.Request},
		"rate": {traffic.Bulk, traffic.Datagram}, "payload": {traffic.Datagram}, "bytes": {traffic.Bulk},
		"generator": native, "dscp": native, "streams": {traffic.Bulk, traffic.Request, traffic.Datagram},
		"run": program, "at": program, "server": program, "port": program,
	}
}

func (b *builder) flow(f flowFile, path string, phase Phase) traffic.Flow {
	out := traffic.Flow{Name: f.Name, Kind: traffic.Kind(f.Kind), From: f.From, To: f.To, Generator: f.Generator, Congestion: f.Congestion,
		DSCP: uint8(f.DSCP), ECN: f.ECN, Streams: 1, Start: time.Duration(f.Start)}
	if out.Name == "" {
		out.Name = f.Kind
	}
	for key, kinds := range meaning() {
		if f.Has(key) && !slices.Contains(kinds, out.Kind) {
			b.complain(f.At(key), "remove it, or change the kind", "%s.%s: it has no meaning for a flow of kind %q", path, key, f.Kind)
		}
	}
	if f.Congestion != "" && !congestionName.MatchString(f.Congestion) {
		b.complain(f.At("congestion"), "write a name from /proc/sys/net/ipv4/tcp_available_congestion_control", "%s.congestion: %q is no name of a congestion control: it has small letters, digits and _, 15 at most", path, f.Congestion)
	}
	if f.Family != nil {
		out.Family = b.family(f.Fields, path, f.Family)
	}
	out.Streams = b.count(f.Fields, path, "streams", f.Streams, 1, maxStreams)
	out.Duration = b.span(f.Fields, path, f.Start, f.Duration, phase)
	mtu := b.way(f.Fields, path, f.From, f.To)
	b.amounts(f, path, mtu, &out)
	return out
}

// family reads the IP version.
func (b *builder) family(f yamlfile.Fields, path string, given *int) int {
	if given == nil {
		return 4
	}
	if *given != 4 && *given != 6 {
		b.complain(f.At("family"), "write 4 or 6", "%s.family: %d is neither 4 nor 6", path, *given)
	}
	return *given
}

// count checks a number that must be at least 1.
func (b *builder) count(f yamlfile.Fields, path, key string, given *int, otherwise, most int) int {
	if given == nil {
		return otherwise
	}
	if *given < 1 || *given > most {
		b.complain(f.At(key), tryRange(1, most), "%s.%s: %d is outside 1 to %d", path, key, *given, most)
	}
	return *given
}

// amounts reads the keys of the flow's kind.
func (b *builder) amounts(f flowFile, path string, mtu int, out *traffic.Flow) {
	size := func(key string, given *units.ByteSize, otherwise, most units.ByteSize) units.ByteSize {
		if given == nil {
			return otherwise
		}
		if *given < 1 || *given > most {
			b.complain(f.At(key), fmt.Sprintf("write a size from 1 to %d bytes", most), "%s.%s: %d bytes is outside 1 to %d", path, key, *given, most)
		}
		return *given
	}
	if f.Rate != nil {
		out.Rate = *f.Rate
		if out.Rate == 0 {
			b.complain(f.At("rate"), "write a rate from 1bit to 1000Tbit, such as 10Mbit", "%s.rate: 0: nothing is sent", path)
		}
	}
	switch out.Kind {
	case traffic.Program:
		out.Command = b.command(f, path)
	case traffic.Transfers:
		out.Load = b.load(f, path, mtu, out)
	case traffic.Bulk:
		out.Bytes = size("bytes", f.Bytes, 0, 1<<50)
	case traffic.Request:
		out.Request = size("request", f.Request, 100, 1<<30)
		out.Response = size("response", f.Response, 1000, 1<<30)
		out.Concurrency = b.count(f.Fields, path, "concurrency", f.Concurrency, 1, maxConcurrency)
	case traffic.Datagram:
		if f.Rate == nil {
			b.complain(f.Self, `add "rate: 10Mbit"`, "%s: a flow of kind \"udp\" needs a rate", path)
		}
		out.Payload = 1200
		if f.Payload != nil {
			out.Payload = *f.Payload
		}
		if most := mtu - udpHeaders; out.Payload < minPayload || out.Payload > most {
			b.complain(f.At("payload"), fmt.Sprintf("write a number of bytes from %d to %d", minPayload, most), "%s.payload: %d bytes is outside %d to %d, the size of a datagram on this path", path, out.Payload, minPayload, most)
		}
	}
}

func (b *builder) stream(f streamFile, path string, phase Phase) TesterStream {
	out := TesterStream{Name: f.Name, From: f.From, To: f.To, Rate: f.Rate, DSCP: uint8(f.DSCP), Start: time.Duration(f.Start)}
	out.Duration = b.span(f.Fields, path, f.Start, f.Duration, phase)
	out.Count = b.count(f.Fields, path, "count", f.Count, 1, maxStreams)
	out.Family, out.FrameSize = b.frames(f.Fields, path, b.way(f.Fields, path, f.From, f.To), f.Family, f.FrameSize)
	if out.Rate <= 0 || out.Rate > 1e8 {
		b.complain(f.At("rate"), "write frames per second, above 0 and up to 100000000", "%s.rate: %g frames per second is outside 0 (excluded) to 100 million", path, out.Rate)
	}
	if out.Count > 1 && out.Rate*out.Duration.Seconds() < float64(out.Count) {
		b.complain(f.At("count"), "raise the rate, or have fewer", "%s.count: not each of %d streams sends a frame in %s", path, out.Count, out.Duration)
	}
	return out
}

// tooMany reports more streams than a session can distinguish by port.
func (b *builder) tooMany(f phaseFile, path string, phase Phase) {
	all := 0
	for _, s := range phase.Streams {
		all += s.Count
	}
	if all > maxStreams {
		b.complain(f.At("streams"), tryRange(1, maxStreams), "%s.streams: %d of them are more than %d", path, all, maxStreams)
	}
}
