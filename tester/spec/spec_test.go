// SPDX-License-Identifier: Apache-2.0

package spec_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weir/internal/fault"
	"weir/tester"
	"weir/tester/spec"
)

const whole = `version: 1
name: voice
title: voice beside bulk
ports:
  left: {device: tg0, namespace: l, speed: 10Gbit}
  right: {device: tg1}
duration: 2s
max_frames: 1000
policy: catch-up
batch: 1
clocks_synchronised: true
straggle: 1s
capture: 64
streams:
  - name: voice
    count: 2
    from: left
    to: right
    source: 198.18.0.1
    destination: 198.19.0.1
    source_port: 5000
    destination_port: 6000
    source_mac: 02:00:00:00:00:01
    destination_mac: 02:00:00:00:00:02
    vlan: 7
    pcp: 5
    dscp: ef
    ecn: ect0
    ttl: 9
    size: 200
    rate: 1 kpps
    start: 100ms
    frames: 50
    modifiers:
      - {action: random, offset: 30, mask: 0x00ff, repetitions: 2}
  - name: bulk
    from: right
    to: left
    family: 6
    size: imix
    rate: 100Mbit
    burst: 8
    payload: 0xc0ffee
expect:
  - {stream: voice 1, metric: stream_loss, max: 1%}
  - {name: quick enough, metric: owd_p99, max: 5ms, min: 1us}
`

func TestWholeFile(t *testing.T) {
	got, err := spec.Parse("whole.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	voice := tester.Stream{
		ID: 0, Name: "voice 1", Stamped: true, Gap: time.Millisecond, Start: 100 * time.Millisecond, Frames: 50,
		Sizes:     []tester.SizeShare{{Size: 200, Weight: 1}},
		Modifiers: []tester.Modifier{{Action: tester.Random, Offset: 30, Mask: []byte{0, 0xff}, Repetitions: 2}},
		Header: tester.Header{
			SourceMAC: []byte{2, 0, 0, 0, 0, 1}, DestinationMAC: []byte{2, 0, 0, 0, 0, 2}, VLAN: 7, PCP: 5,
			Source: netip.MustParseAddr("198.18.0.1"), Destination: netip.MustParseAddr("198.19.0.1"),
			SourcePort: 5000, DestinationPort: 6000, DSCP: 46, ECN: 2, TTL: 9,
		},
	}
	second := voice
	second.ID, second.Name, second.Header.SourcePort = 1, "voice 2", 5001
	bulk := tester.Stream{
		ID: 2, Name: "bulk", Payload: []byte{0xc0, 0xff, 0xee}, Burst: 8,
		Sizes: []tester.SizeShare{{Size: 66, Weight: 7}, {Size: 594, Weight: 4}, {Size: 1518, Weight: 1}},
		// (7*(66+20) + 4*614 + 1538)/12 = 383 octets on the wire at 100 Mbit/s
		Gap: 30640 * time.Nanosecond,
		Header: tester.Header{
			Source: netip.IPv6Unspecified(), Destination: netip.IPv6Unspecified(), SourcePort: 49152, DestinationPort: 7,
		},
	}
	schedule := tester.Schedule{Duration: 2 * time.Second, MaxFrames: 1000, Policy: tester.CatchUp, Batch: 1}
	forth, back := schedule, schedule
	forth.Streams, back.Streams = []tester.Stream{voice, second}, []tester.Stream{bulk}
	least, most, loss := 1e-6, 5e-3, 0.01
	want := &spec.Spec{
		Name: "voice", Title: "voice beside bulk", Source: whole, Synchronised: true, Straggle: time.Second, Capture: 64,
		Ports: []spec.Port{{Name: "left", Namespace: "l", Device: "tg0", Speed: 10e9}, {Name: "right", Device: "tg1"}},
		Directions: []spec.Direction{
			{From: "left", To: "right", Schedule: forth}, {From: "right", To: "left", Schedule: back},
		},
		Expect: []spec.Expectation{
			{Name: "stream_loss", Stream: "voice 1", Metric: "stream_loss", Max: &loss},
			{Name: "quick enough", Metric: "owd_p99", Min: &least, Max: &most},
		},
	}
	if d := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); d != "" {
		t.Errorf("specification (-want +got):\n%s", d)
	}
}

// stream returns a file with one stream that has the given lines.
func stream(lines string) string {
	return "version: 1\nports:\n  a: {device: x, speed: 1Gbit}\n  b: {device: y}\nstreams:\n  - from: a\n    to: b\n    " +
		strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n    ") + "\n"
}

func TestRatesAndGaps(t *testing.T) {
	for lines, want := range map[string]time.Duration{
		"rate: 1000 frame/s":         time.Millisecond,
		"rate: 1000pps":              time.Millisecond,
		"rate: 0.5 Mpps":             2 * time.Microsecond,
		"rate: max":                  0,
		"rate: 10%":                  6720 * time.Nanosecond, // (64+20)*8 bits at 100 Mbit/s
		"rate: 100Mbit":              6720 * time.Nanosecond,
		"rate: 100%\nsize: 1518":     12304 * time.Nanosecond,
		"gap: 10us":                  10 * time.Microsecond,
		"gap: 20 octets":             672 * time.Nanosecond, // back to back
		"gap: 145 octets\nsize: 105": 2 * time.Microsecond,
		"rate: 1 frame/s\nvlan: 3":   time.Second,
		"rate: 1 frame/s\nsize: {mix: [{size: 64, weight: 1}]}": time.Second,
	} {
		t.Run(lines, func(t *testing.T) {
			s, err := spec.Parse("rates.yaml", []byte(stream(lines)))
			if err != nil {
				t.Errorf("%q: %v", lines, err)
				return
			}
			if got := s.Directions[0].Schedule.Streams[0].Gap; got != want {
				t.Errorf("%q: a frame every %s, want %s", lines, got, want)
			}
		})
	}
}

func TestMistakesAreNamedWithPlaceAndWayOut(t *testing.T) {
	for name, c := range map[string]struct{ text, want, try string }{
		"unknown key":         {stream("rat: 1Mbit"), `m.yaml:8:5: unknown key "rat" in streams[0] (did you mean "rate"?)`, "rate"},
		"no rate":             {stream("size: 64"), "neither rate nor gap", "add rate"},
		"both":                {stream("rate: 1Mbit\ngap: 10us"), "m.yaml:9:10: both rate and gap", "leave one"},
		"unknown port":        {strings.Replace(stream("rate: 1Mbit"), "to: b", "to: c", 1), `m.yaml:7:9: port "c" is not one of ports`, ""},
		"same port":           {strings.Replace(stream("rate: 1Mbit"), "to: b", "to: a", 1), "ends at the port that it starts from", ""},
		"short for the stamp": {stream("rate: 1Mbit\nsize: 60"), "too short: headers, the stamp of 18 octets", "at least 64"},
		"short for IPv6":      {stream("rate: 1Mbit\nfamily: 6\nsize: 64"), "take 84", "at least 84"},
		"short for the tag":   {stream("rate: 1Mbit\nvlan: 5\nsize: 64"), "take 68", "at least 68"},
		"too large":           {stream("rate: 1Mbit\nsize: 9001"), "too large", "9000"},
		"percent, no speed":   {strings.Replace(stream("rate: 1%"), ", speed: 1Gbit", "", 1), `needs the speed of port "a"`, "add speed"},
		"families":            {stream("rate: 1Mbit\nsource: 192.0.2.1\ndestination: 2001:db8::1"), "two families", ""},
		"bad rate":            {stream("rate: fast"), `rate "fast" is not understood`, ""},
		"small gap":           {stream("gap: 19 octets"), "below 20 octets", ""},
		"dscp":                {stream("rate: 1Mbit\ndscp: gold"), `DSCP "gold"`, ""},
		"sequential":          {"sequential: true\n" + stream("rate: 1Mbit"), "needs a number of frames", "add frames"},
		"version":             {strings.Replace(stream("rate: 1Mbit"), "version: 1", "version: 2", 1), "version 2", "version: 1"},
		"metric":              {stream("rate: 1Mbit") + "expect: [{metric: owd_p9, max: 1ms}]", `(did you mean "owd_p99"?)`, ""},
		"no bound":            {stream("rate: 1Mbit") + "expect: [{metric: owd_p99}]", "neither min nor max", "add min or max"},
		"wrong unit":          {stream("rate: 1Mbit") + "expect: [{metric: owd_p99, max: 5}]", "duration", ""},
		"no such stream":      {stream("rate: 1Mbit") + "expect: [{metric: owd_p99, max: 5ms, stream: x}]", `no stream is called "x"`, ""},
		"too many":            {stream("rate: 1Mbit\ncount: 4097"), "1 to 4096 streams", ""},
		"mask":                {stream("rate: 1Mbit\nmodifiers: [{action: random, offset: 40, mask: 0x0000ffff}]"), "outside the headers", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := spec.Parse("m.yaml", []byte(c.text))
			if fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), c.want) || !strings.Contains(fault.Advice(err), c.try) {
				t.Errorf("%s: status %d, error %v, advice %q; want %q and %q", name, fault.Of(err), err, fault.Advice(err), c.want, c.try)
			}
		})
	}
}

func TestExamplesOfTheDocumentationAreValid(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats", "tester.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n")
	if len(blocks) < 2 {
		t.Fatal("docs/formats/tester.md has no example")
	}
	for _, block := range blocks[1:] {
		example, _, _ := strings.Cut(block, "```")
		if _, err := spec.Parse("tester.md", []byte(example)); err != nil {
			t.Errorf("example:\n%s\n%v", example, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add(stream("rate: 10%\nsize: imix\npayload: 0x00"))
	f.Add("version: 1\nports: {}\nstreams: []")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := spec.Parse("fuzz.yaml", []byte(text))
		if err != nil {
			if fault.Of(err) != fault.Usage {
				t.Errorf("status %d of %v", fault.Of(err), err)
			}
			return
		}
		for _, d := range s.Directions {
			for _, stream := range d.Schedule.Streams {
				if stream.Gap < 0 || len(stream.Sizes) == 0 || int(stream.ID) >= tester.MaxStreams {
					t.Errorf("accepted stream %+v", stream)
				}
			}
		}
	})
}
