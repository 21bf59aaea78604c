// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/modules/ioam/collect"
	"weir/record"
	"weir/record/bundle"
)

// packet returns a record over nodes 1, 2 and, on the long path, 3. Each node keeps it for as many
// µs as its number, and the next one receives it 1 ms later.
func packet(port uint16, long bool) *collect.Record {
	r := &collect.Record{Time: 9e9, Length: 100, Proof: "holds",
		Flow: collect.Flow{Source: netip.MustParseAddr("2001:db8::1"), Destination: netip.MustParseAddr("2001:db8::2"), SourcePort: port, DestinationPort: 80, Protocol: 17}}
	nodes := int64(2)
	if long {
		nodes = 3
	}
	trace := collect.Trace{Namespace: 123}
	for n := int64(1); n <= nodes; n++ {
		trace.Hops = append(trace.Hops, collect.Hop{Node: uint64(n), Received: collect.Optional[int64]{Value: n * 1e6, Known: true},
			Delay: collect.Optional[int64]{Value: n * 1000, Known: true}, Queue: collect.Optional[uint32]{Value: uint32(n), Known: true}})
	}
	r.Traces = []collect.Trace{trace}
	return r
}

// read writes the bundle of a reading to a folder and reads it back.
func read(t *testing.T, r Reading) (*record.Bundle, string) {
	t.Helper()
	dir, b := filepath.Join(t.TempDir(), "bundle"), Bundle(r)
	if err := bundle.Write(dir, &b); err != nil {
		t.Fatal(err)
	}
	got, err := bundle.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	report, err := os.ReadFile(filepath.Join(dir, bundle.ReportFile))
	if err != nil {
		t.Fatal(err)
	}
	return got, string(report)
}

// The bundle has the paths, hops, flows and edges of the records.
func TestABundleHasWhatWasRead(t *testing.T) {
	var s collect.Summary
	for range 3 {
		s.Add(packet(7, false))
	}
	s.Add(packet(7, true)) // the flow changed its path
	s.Add(packet(8, true))
	started := time.Unix(1e9, 0).UTC()
	edge := collect.EdgeTotals{Flow: packet(7, false).Flow, Namespace: 5, Packets: 90, Lost: 10, Reordered: 9, Stamped: 4, Delay: 8e9}
	b, report := read(t, Reading{Summary: &s, Edges: []collect.EdgeTotals{edge}, Senseless: 2, Started: started, Finished: started.Add(time.Minute), To: "2001:db8::/32"})
	if m := b.Manifest; m.Kind != "ioam" || m.Finished.Sub(m.Started) != time.Minute || m.Parameters["to"] != "2001:db8::/32" || strings.Join(m.Notes, " ") != "2 invalid records." {
		t.Errorf("the manifest is %+v", m)
	}
	got := map[string]string{}
	for _, s := range b.Samples {
		got[fmt.Sprintf("%s/%s %s", s.Labels["path"], s.Subject, s.Metric)] = s.Unit.Format(s.Value)
	}
	const seven, eight = "[2001:db8::1]:7 > [2001:db8::2]:80, protocol 17", "[2001:db8::1]:8 > [2001:db8::2]:80, protocol 17"
	for key, want := range map[string]float64{
		"/aggregate ioam_packets": 5, "/aggregate ioam_proven": 5, "/aggregate ioam_disproven": 0,
		"1 > 2/path ioam_traces": 3, "1 > 2 > 3/path ioam_traces": 2,
		"1 > 2 > 3/" + seven + " ioam_flow_packets": 4, "1 > 2 > 3/" + seven + " ioam_flow_changes": 1, "1 > 2 > 3/" + eight + " ioam_flow_packets": 1,
		"/" + seven + " ioam_edge_packets": 90,
	} {
		if got[key] != record.Count.Format(want) {
			t.Errorf("%s is %q, want %g", key, got[key], want)
		}
	}
	for key, want := range map[string]string{
		"1 > 2 > 3/" + eight + " ioam_flow_octets": record.Bytes.Format(100), "1 > 2 > 3/hop 3, node 3 ioam_queue_p99": record.Bytes.Format(3),
		"/" + seven + " ioam_edge_lost": record.Share.Format(0.1), "/" + seven + " ioam_edge_reordered": record.Share.Format(0.1),
		"/" + seven + " ioam_edge_delay": record.Seconds.Format(2), "1 > 2/path ioam_path_p50": record.Seconds.Format(1e-3),
		"1 > 2 > 3/hop 2, node 2 ioam_hop_min": record.Seconds.Format(1e-3), "1 > 2 > 3/hop 3, node 3 ioam_delay_min": record.Seconds.Format(3e-6),
		"1 > 2 > 3/hop 3, node 3 ioam_hop_min": "",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	packets := map[string]uint64{}
	for _, d := range b.Distributions {
		if d.Unit != record.Seconds || !d.Valid {
			t.Errorf("%+v", d)
		}
		packets[d.Labels["path"]+"/"+d.Subject+" "+d.Metric] = d.Histogram.Count()
	}
	if len(packets) != 10 || packets["1 > 2/hop 1, node 1 ioam_delay"] != 3 || packets["1 > 2 > 3/path ioam_path"] != 2 {
		t.Errorf("distributions of packets: %v", packets)
	}
	for _, part := range []string{"Paths", "Hops", "Flows", "Edge to edge", "1 &gt; 2 &gt; 3", "<svg"} {
		if !strings.Contains(report, part) {
			t.Errorf("the report lacks %q", part)
		}
	}
}

// An empty bundle has a note, and a large one is bounded.
func TestABundleOfNothingAndOfMuch(t *testing.T) {
	b, _ := read(t, Reading{Summary: &collect.Summary{}})
	if len(b.Manifest.Notes) != 1 || b.Manifest.Notes[0] != "No packet came." {
		t.Errorf("%q", b.Manifest.Notes)
	}
	var s collect.Summary
	for i := range MaxFlows + 5 {
		r := packet(uint16(i), false)
		r.Traces[0].Hops[0].Node = uint64(10 + i%(collect.MaxSentPaths+3))
		r.Traces[0].Hops[0].Received.Value = 1e9
		s.Add(r)
	}
	b, _ = read(t, Reading{Summary: &s, Edges: make([]collect.EdgeTotals, collect.MaxSentEdges+1)})
	notes := strings.Join(b.Manifest.Notes, " ")
	for _, want := range []string{"5 flows with fewer octets", "3 paths with fewer packets", "1 flows with edge-to-edge", "1005 times a node received a packet before"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q lacks %q", notes, want)
		}
	}
	subjects := map[string]bool{}
	for _, s := range b.Samples {
		if s.Metric == "ioam_flow_packets" {
			subjects[s.Subject] = true
		}
	}
	if len(subjects) != MaxFlows {
		t.Errorf("%d flows", len(subjects))
	}
}
