// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/fault"
	"weir/record"
)

// contended has two phases with flows that contend; the first requests runs of each flow alone.
const contended = `version: 1
title: a test
repetitions: 2
sweep:
  depth: [1, 4]
hosts: [one, two, sink]
routers: [gate]
links:
  - {ends: [one, gate], plain: true}
  - {ends: [two, gate], plain: true}
  - {name: neck, ends: [gate, sink], rate: 10Mbit, delay: 5ms, queue: {bdp: "${depth}"}}
phases:
  - name: both
    duration: 4s
    settle: 1s
    solo: true
    flows:
      - {name: left, kind: bulk, from: one, to: sink, streams: 3}
      - {name: right, kind: udp, from: two, to: sink, rate: 1Mbit, start: 1s}
      - {name: ask, kind: request, from: one, to: sink}
    streams: [{name: probe, from: one, to: sink, rate: 10}]
  - name: rest
    duration: 2s
    flows: [{name: third, kind: bulk, from: one, to: sink}, {name: fourth, kind: bulk, from: two, to: sink}]
`

func TestSolos(t *testing.T) {
	all := cells(t, contended)
	var labels []record.Labels
	for i := range all {
		for _, alone := range all[i].Solos() {
			labels = append(labels, alone.Labels)
			phase := alone.Phases[0]
			if len(alone.Phases) != 1 || len(phase.Flows) != 1 || len(phase.Streams) != 0 || phase.Flows[0].Name != alone.Alone() {
				t.Errorf("%v: phases %+v", alone.Labels, alone.Phases)
			}
			if phase.Duration != 4*time.Second || phase.Settle != time.Second || !reflect.DeepEqual(alone.Links, all[i].Links) {
				t.Errorf("%v: not the cell's own phase and links", alone.Labels)
			}
		}
		if all[i].Alone() != "" || len(all[i].Phases[0].Flows) != 3 {
			t.Errorf("cell %v was changed: %+v", all[i].Labels, all[i].Phases[0])
		}
	}
	want := []record.Labels{
		{"depth": "1", "phase": "both", "solo": "left"}, {"depth": "1", "phase": "both", "solo": "right"},
		{"depth": "4", "phase": "both", "solo": "left"}, {"depth": "4", "phase": "both", "solo": "right"},
	}
	if d := cmp.Diff(want, labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	summary, err := parse(t, contended).Summary()
	if err != nil {
		t.Fatal(err)
	}
	if summary.Cells != 2 || summary.Solos != 4 || summary.Runs() != 12 || summary.Traffic != 2*(2*6+4*4)*time.Second {
		t.Errorf("summary %+v, %d runs", summary, summary.Runs())
	}
}

func TestSoloMistakes(t *testing.T) {
	expect := func(text string) string { return contended + "expect:\n  - " + text + "\n" }
	figure := contended + "figures:\n  - {name: f, title: t, metric: harm, x: depth, series: subject}\n"
	without := func(text string) string { return strings.Replace(text, "    solo: true\n", "", 1) }
	needsSolo := "metric: harm compares a flow with a run of the flow alone, and no phase asks for such runs"
	for _, c := range []struct{ name, text, want, try string }{
		{"harm", expect("{name: n, metric: harm, subject: left, max: 0.5}"), "", ""},
		{"harm drawn", figure, "", ""},
		{"harm without solo", without(expect("{name: n, metric: harm, subject: left, max: 0.5}")), "f.yaml:25:23: expect[0]." + needsSolo, `add "solo: true" to the phase with contending flows`},
		{"harm drawn without solo", without(figure), "f.yaml:25:33: figures[0]." + needsSolo, `add "solo: true" to the phase with contending flows`},
		{"harm of another phase", expect("{name: n, metric: harm, subject: third, max: 0.5}"), `f.yaml:26:38: expect[0].subject: "third" has no harm; these do: "left", "right"`, ""},
		{"one flow", strings.Replace(contended, "flows: [{name: third, kind: bulk, from: one, to: sink}, ", "solo: true\n    flows: [", 1), "f.yaml:24:11: phases[1].solo: the phase has one flow, which is alone already", "add a second flow, or remove solo"},
		{"nothing contends", strings.Replace(contended, "flows: [{name: third, kind: bulk, from: one, to: sink}, {name: fourth, kind: bulk,", "solo: true\n    flows: [{name: third, kind: request, from: one, to: sink}, {name: fourth, kind: request,", 1),
			`f.yaml:24:11: phases[1].solo: no flow is of kind "bulk" or "udp", and only these have a harm`, "add a bulk or udp flow, or remove solo"},
		{"parameter named solo", strings.NewReplacer("depth: [", "solo: [", "${depth}", "${solo}").Replace(contended), `f.yaml:5:3: parameter "solo": results have a label of that name of their own`, "give the parameter another name"},
	} {
		_, err := Parse("f.yaml", []byte(c.text))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || err.Error() != c.want || c.try != "" && fault.Advice(err) != c.try):
			t.Errorf("%s:\n got %q, try %q\nwant %q, try %q", c.name, err, fault.Advice(err), c.want, c.try)
		}
	}
}

// TestAdviceNamesTheRange: an error about an impossible value names the possible range.
func TestAdviceNamesTheRange(t *testing.T) {
	text := `version: 1
title: a test
sweep: {loss: [1%], rate: [10Mbit], delay: [5ms], jitter: [1ms], queue: [64KiB], mtu: [1500], streams: [1], length: [1s], dscp: [0], payload: [100]}
hosts: [a, b]
links:
  - {ends: [a, b], rate: "${rate}", delay: "${delay}", jitter: "${jitter}", loss: "${loss}", queue: "${queue}", mtu: "${mtu}"}
phases:
  - duration: ${length}
    flows:
      - {kind: bulk, from: a, to: b, streams: "${streams}", dscp: "${dscp}"}
      - {kind: udp, from: a, to: b, rate: "${rate}", payload: "${payload}"}
`
	for _, c := range []struct{ parameter, value, try string }{
		{"loss", "101%", `write a share from 0 % to 100 %, such as "1%" or 0.01`},
		{"loss", "-1", `write a share from 0 % to 100 %, such as "1%" or 0.01`},
		{"rate", "0", "remove the key, or write a rate from 1bit to 1000Tbit, such as 100Mbit"},
		{"rate", "-5Mbit", "write a number and bit, kbit, Mbit, Gbit or Tbit, such as 200Mbit"},
		{"rate", "2000Tbit", "write a number and bit, kbit, Mbit, Gbit or Tbit, such as 200Mbit"},
		{"delay", "2m", "write a time from 0 to 1m0s, such as 5ms"},
		{"delay", "-1ms", "write a time of 0 or more, such as 5ms"},
		{"jitter", "6ms", "write a jitter from 0 to the delay of 5ms, or make the delay longer"},
		{"queue", "100B", "write a length from 1514 bytes, one frame, or a number of packets from 1"},
		{"queue", "0 packets", "write a number of packets from 1"},
		{"queue", "1001 bdp", "write a number of bandwidth-delay products above 0 and up to 1000"},
		{"mtu", "500", "write a packet size from 1280 to 9000 bytes"},
		{"streams", "0", "write a number from 1 to 1000"},
		{"length", "25h", "write a time above 0 and up to 24h0m0s, such as 5s"},
		{"dscp", "64", "write a number from 0 to 63"},
		{"payload", "5000", "write a number of bytes from 32 to 1452"},
	} {
		s := parse(t, text)
		if err := s.Set(c.parameter, []string{c.value}); err == nil || fault.Advice(err) != c.try || fault.Of(err) != fault.Usage {
			t.Errorf("%s=%s: %v\n got %q\nwant %q", c.parameter, c.value, err, fault.Advice(err), c.try)
		}
	}
	s := parse(t, text)
	for _, n := range []int{0, MaxRepetitions + 1} {
		if err := s.SetRepetitions(n); err == nil || fault.Advice(err) != "write a number from 1 to 1000" || s.Repetitions != 1 {
			t.Errorf("%d repetitions: %v, %q; the scenario has %d", n, err, fault.Advice(err), s.Repetitions)
		}
	}
	if err := s.SetRepetitions(MaxRepetitions); err != nil || s.Repetitions != MaxRepetitions {
		t.Errorf("%d repetitions: %v", s.Repetitions, err)
	}
}

func TestCrossed(t *testing.T) {
	text := `version: 1
title: a test
hosts: [a, b]
routers: [r, s]
links:
  - {name: in, ends: [a, r], plain: true}
  - {name: short, ends: [r, b], rate: 1Mbit}
  - {name: long, ends: [s, r], forward: {rate: 2Mbit}, reverse: {rate: 3Mbit}}
  - {name: out, ends: [s, b], rate: 4Mbit}
routes:
  - {from: a, to: b, via: [in, long, out]}
phases: [{duration: 1s, flows: [{kind: bulk, from: a, to: b}]}]
`
	cell := cells(t, text)[0]
	rates := func(from, to string) (all []uint64) {
		for _, d := range cell.Crossed(from, to) {
			all = append(all, uint64(d.Rate/1e6))
		}
		return all
	}
	for _, c := range []struct {
		from, to string
		want     []uint64
	}{
		{"a", "b", []uint64{3, 4}}, // by its route: the long link backwards
		{"b", "a", []uint64{1}},    // the shortest
		{"a", "r", nil},            // plain
		{"s", "r", []uint64{2}},
		{"a", "nobody", nil},
	} {
		if d := cmp.Diff(c.want, rates(c.from, c.to)); d != "" {
			t.Errorf("%s to %s (-want +got):\n%s", c.from, c.to, d)
		}
	}
}
