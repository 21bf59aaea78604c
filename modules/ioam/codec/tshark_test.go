// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/kernel/testutil"
)

// capture writes IPv6 packets with these extension headers, and no payload, in libpcap's format.
func capture(t *testing.T, headers [][]byte) string {
	t.Helper()
	file := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
	file = append(file, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0) // raw IP
	for _, h := range headers {
		packet := append([]byte{0x60, 0, 0, 0}, byte(len(h)>>8), byte(len(h)), 0, 64)
		packet = append(append(packet, make([]byte, 32)...), h...)
		file = append(file, make([]byte, 8)...)
		file = binary.LittleEndian.AppendUint32(file, uint32(len(packet)))
		file = binary.LittleEndian.AppendUint32(file, uint32(len(packet)))
		file = append(file, packet...)
	}
	name := filepath.Join(t.TempDir(), "ioam.pcap")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// sharkFields maps fields of tshark to those of the decoder.
var sharkFields = []struct {
	name   string
	field  TraceType
	values func(Node) []any
}{
	{"node.hlim", HopLimitNode | WideHopLimitNode, func(n Node) []any { return []any{n.HopLimit, n.WideHopLimit} }},
	{"node.id", HopLimitNode, func(n Node) []any { return []any{n.ID} }},
	{"node.iif", Interfaces, func(n Node) []any { return []any{n.Ingress} }},
	{"node.eif", Interfaces, func(n Node) []any { return []any{n.Egress} }},
	{"node.tss", Seconds, func(n Node) []any { return []any{n.Seconds} }},
	{"node.tsf", Fraction, func(n Node) []any { return []any{n.Fraction} }},
	{"node.trdelay", TransitDelay, func(n Node) []any { return []any{n.TransitDelay} }},
	{"node.qdepth", QueueDepth, func(n Node) []any { return []any{n.QueueDepth} }},
	{"node.iif_wide", WideInterfaces, func(n Node) []any { return []any{n.WideIngress} }},
	{"node.eif_wide", WideInterfaces, func(n Node) []any { return []any{n.WideEgress} }},
	{"node.bufoccup", BufferOccupancy, func(n Node) []any { return []any{n.Occupancy} }},
	{"node.oss.scid", Opaque, func(n Node) []any { return []any{n.Schema} }},
}

// tshark decodes traces alike, except those with a NodeLen of 0. It knows only the names of other
// options.
func TestTracesAgreeWithTshark(t *testing.T) {
	tshark := testutil.Command(t, "tshark")
	r := testutil.Rand(t)
	var headers [][]byte
	var traces []Trace
	for len(traces) < 200 {
		trace := randomTrace(r)
		if trace.Incremental || trace.Fields&Undefined != 0 || trace.NodeLen == 0 || len(trace.Nodes) == 0 {
			continue
		}
		traces = append(traces, trace)
		headers = append(headers, AppendHeader(nil, 59, trace))
	}
	args := []string{"-r", capture(t, headers), "-T", "fields", "-E", "separator=;", "-E", "aggregator=,", "-e", "ipv6.opt.ioam.trace.ns", "-e", "ipv6.opt.ioam.trace.remlen"}
	for _, f := range sharkFields {
		args = append(args, "-e", "ipv6.opt.ioam.trace."+f.name)
	}
	out, err := exec.Command(tshark, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(lines) != len(traces) {
		t.Fatalf("tshark reads %d packets of %d", len(lines), len(traces))
	}
	for i, trace := range traces {
		columns := strings.Split(lines[i], ";")
		want := []string{fmt.Sprint(trace.Namespace), fmt.Sprint(trace.Remaining)}
		for _, f := range sharkFields {
			want = append(want, fieldOf(trace, f.field, f.values))
		}
		for c := range want {
			if got := decimal(columns[c]); got != want[c] {
				t.Errorf("trace %#x, column %d: tshark says %q, want %q", uint32(trace.Fields), c, got, want[c])
			}
		}
	}
}

// fieldOf lists a field of all nodes.
func fieldOf(trace Trace, field TraceType, values func(Node) []any) string {
	var all []string
	for _, n := range trace.Nodes {
		for i, v := range values(n) {
			if bit := []TraceType{field & ^wide, field & wide}; len(values(n)) == 2 && trace.Fields&bit[i] != 0 || len(values(n)) == 1 && trace.Fields&field != 0 {
				all = append(all, fmt.Sprint(v))
			}
		}
	}
	return strings.Join(all, ",")
}

// decimal converts hexadecimal numbers of a list.
func decimal(list string) string {
	if list == "" {
		return ""
	}
	words := strings.Split(list, ",")
	for i, word := range words {
		var v uint64
		if _, err := fmt.Sscanf(word, "0x%x", &v); err == nil {
			words[i] = fmt.Sprint(v)
		}
	}
	return strings.Join(words, ",")
}
