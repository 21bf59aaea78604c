// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/fault"
	"weir/lab/link"
	"weir/lab/link/loss"
	"weir/lab/traffic"
	"weir/record"
)

// parse reads a valid scenario.
func parse(t testing.TB, text string) *Scenario {
	t.Helper()
	s, err := Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// cells expands a valid scenario.
func cells(t testing.TB, text string) []Cell {
	t.Helper()
	all, err := parse(t, text).Expand()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// twoHosts is a scenario of one link with the given lines.
func twoHosts(lines string) string {
	return "version: 1\ntitle: t\nhosts: [a, b]\nlinks:\n  - ends: [a, b]\n" + lines +
		"\nphases: [{duration: 1s, flows: [{kind: bulk, from: a, to: b}]}]\n"
}

func TestDirections(t *testing.T) {
	frame := link.Queue{Packets: 1000}
	for _, c := range []struct {
		name, lines      string
		forward, reverse link.Direction
	}{
		{"nothing", "", link.Direction{}, link.Direction{}},
		{"symmetric", "    rate: 1Mbit\n    delay: 5 ms\n    loss: 1%",
			link.Direction{Rate: 1e6, Delay: 5 * time.Millisecond, Loss: loss.Of(loss.Independent{Probability: 0.01}), Queue: frame},
			link.Direction{Rate: 1e6, Delay: 5 * time.Millisecond, Loss: loss.Of(loss.Independent{Probability: 0.01}), Queue: frame}},
		{"overrides", "    rate: 1Mbit\n    loss: 1%\n    forward: {delay: 1ms}\n    reverse: {rate: 2Mbit, loss: 0%}",
			link.Direction{Rate: 1e6, Delay: time.Millisecond, Loss: loss.Of(loss.Independent{Probability: 0.01}), Queue: frame},
			link.Direction{Rate: 2e6, Queue: frame}},
		{"bursts", "    forward: {loss: {gilbert_elliott: {p: 0.5%, r: 25%}}}\n    reverse: {loss: {gilbert_elliott: {p: 1%, r: 10%, h: 50%, k: 99%}}}",
			link.Direction{Loss: loss.Of(loss.Gilbert{P: 0.005, R: 0.25, H: 0, K: 1})},
			link.Direction{Loss: loss.Of(loss.Gilbert{P: 0.01, R: 0.1, H: 0.5, K: 0.99})}},
		{"every hundredth", "    forward: {loss: {every_nth: 100}}", link.Direction{Loss: loss.Of(loss.EveryNth{Nth: 100})}, link.Direction{}},
		{"jitter", "    delay: 5ms\n    forward: {jitter: 1ms}\n    reverse: {jitter: {deviation: 2ms, distribution: pareto, keep_order: true}}",
			link.Direction{Delay: 5 * time.Millisecond, Jitter: time.Millisecond, Shape: link.Uniform},
			link.Direction{Delay: 5 * time.Millisecond, Jitter: 2 * time.Millisecond, Shape: link.Pareto, KeepOrder: true}},
		{"the rest", "    delay: 1ms\n    reorder: 1%\n    duplicate: 0.2%\n    corrupt: 0.03%",
			link.Direction{Delay: time.Millisecond, Reorder: 0.01, Duplicate: 0.002, Corrupt: 0.0003},
			link.Direction{Delay: time.Millisecond, Reorder: 0.01, Duplicate: 0.002, Corrupt: 0.0003}},
		{"queues", "    rate: 8Mbit\n    forward: {queue: 64KiB}\n    reverse: {queue: {packets: 50, ecn: 2ms}}",
			link.Direction{Rate: 8e6, Queue: link.Queue{Bytes: 65536}},
			link.Direction{Rate: 8e6, Queue: link.Queue{Packets: 50, ECN: 2000}}}, // 8 Mbit/s · 2 ms / 8
		{"queues by product", "    rate: 8Mbit\n    delay: 25ms\n    forward: {queue: 0.5 bdp}\n    reverse: {queue: {bdp: 2, rtt: 100ms, ecn: 30kB}}",
			link.Direction{Rate: 8e6, Delay: 25 * time.Millisecond, Queue: link.Queue{Bytes: 25000}},               // 8 Mbit/s · 50 ms · 0.5 / 8
			link.Direction{Rate: 8e6, Delay: 25 * time.Millisecond, Queue: link.Queue{Bytes: 200000, ECN: 30000}}}, // 8 Mbit/s · 100 ms · 2 / 8
		{"least product", "    rate: 8Mbit\n    queue: 1 bdp", link.Direction{Rate: 8e6, Queue: link.Queue{Bytes: 15140}}, link.Direction{Rate: 8e6, Queue: link.Queue{Bytes: 15140}}},
		{"packets", "    rate: 8Mbit\n    queue: 7 packets", link.Direction{Rate: 8e6, Queue: link.Queue{Packets: 7}}, link.Direction{Rate: 8e6, Queue: link.Queue{Packets: 7}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := cells(t, twoHosts(c.lines))[0].Links[0]
			if d := cmp.Diff(c.forward, got.Forward); d != "" {
				t.Errorf("forward (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.reverse, got.Reverse); d != "" {
				t.Errorf("reverse (-want +got):\n%s", d)
			}
		})
	}
}

// TestProductOfPath: a queue in products uses the round trip of the longest flow through the link.
func TestProductOfPath(t *testing.T) {
	text := `version: 1
title: t
hosts: [near, far, sink]
routers: [gate]
links:
  - {ends: [near, gate], delay: 1ms}
  - {ends: [far, gate], delay: 9ms}
  - {name: neck, ends: [gate, sink], rate: 8Mbit, delay: 10ms, queue: 1 bdp}
phases: [{duration: 1s, flows: [{name: x, kind: bulk, from: near, to: sink}, {name: y, kind: bulk, from: sink, to: far}]}]
`
	got := cells(t, text)[0].Links[2].Forward.Queue.Bytes
	if want := 38000; int(got) != want { // 8 Mbit/s · 2·(9+10) ms / 8
		t.Errorf("queue of %d bytes, want %d", got, want)
	}
}

func TestFlows(t *testing.T) {
	text := strings.Replace(twoHosts(""), "flows: [{kind: bulk, from: a, to: b}]", `settle: 100ms, flows: [
  {kind: bulk, from: a, to: b, start: 250ms, streams: 3, dscp: le, ecn: true, congestion: bbr, bytes: 1MB, rate: 5Mbit},
  {kind: request, from: b, to: a, duration: 500ms, family: 6},
  {name: ask, kind: request, from: b, to: a, request: 1B, response: 64KiB, concurrency: 9, dscp: 8},
  {kind: udp, from: a, to: b, rate: 1Mbit, payload: 200}],
  streams: [{name: s, from: b, to: a, rate: 1e3}, {name: t, from: a, to: b, rate: 400, count: 7, family: 6, frame_size: 84, dscp: af41, start: 10ms, duration: 20ms}]`, 1)
	got := cells(t, text)[0].Phases
	ms := time.Millisecond
	want := []Phase{{Name: "phase 1", Duration: time.Second, Settle: 100 * ms,
		Flows: []traffic.Flow{
			{Name: "bulk", Kind: traffic.Bulk, From: "a", To: "b", Start: 250 * ms, Duration: 750 * ms, Streams: 3, DSCP: 1, ECN: true, Congestion: "bbr", Bytes: 1e6, Rate: 5e6},
			{Name: "request", Kind: traffic.Request, From: "b", To: "a", Family: 6, Duration: 500 * ms, Streams: 1, Request: 100, Response: 1000, Concurrency: 1},
			{Name: "ask", Kind: traffic.Request, From: "b", To: "a", Duration: time.Second, Streams: 1, Request: 1, Response: 65536, Concurrency: 9, DSCP: 8},
			{Name: "udp", Kind: traffic.Datagram, From: "a", To: "b", Duration: time.Second, Streams: 1, Rate: 1e6, Payload: 200},
		},
		Streams: []TesterStream{
			{Name: "s", From: "b", To: "a", Family: 4, FrameSize: 128, Rate: 1000, Count: 1, Duration: time.Second},
			{Name: "t", From: "a", To: "b", Family: 6, FrameSize: 84, Rate: 400, Count: 7, DSCP: 34, Start: 10 * ms, Duration: 20 * ms},
		}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("phases (-want +got):\n%s", d)
	}
}

func TestSweep(t *testing.T) {
	s := parse(t, `version: 1
title: t
sweep:
  path: {both: {back: "${loss}"}, one way: {back: 0%}}
  loss: [0%, 1 %, 2%]
skip:
  - {path: both, loss: [1%, 2%]}
hosts: [a, b]
links: [{ends: [a, b], forward: {loss: "${loss}"}, reverse: {loss: "${back}"}}]
phases: [{duration: 1s, flows: [{kind: bulk, from: a, to: b}]}]
expect:
  - {name: first, metric: goodput, where: {loss: 1%}, relative_to: {loss: 0%}, max: 0.5}
  - {name: second, metric: goodput, where: {loss: 2%}, min: 1Mbit, max: 2Mbit}
  - {name: third, metric: loss_event_rate, subject: bulk, min: 1%}
  - {name: each, metric: goodput, subject: [bulk, aggregate], min: 1Mbit}
`)
	all, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	want := []record.Labels{{"path": "both", "loss": "0%"}, {"path": "one way", "loss": "0%"}, {"path": "one way", "loss": "1 %"}, {"path": "one way", "loss": "2%"}}
	if d := cmp.Diff(want, labelsOf(all)); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	if last := all[3].Links[0]; last.Forward.Loss.Probability != 0.02 || last.Reverse.Loss.Model != "" {
		t.Errorf("one way at 2 %%: %+v", last)
	}
	if len(s.Expect) != 5 || s.Expect[3].Subject != "bulk" || s.Expect[3].Name != "each: bulk" || s.Expect[4].Subject != Aggregate || s.Expect[0].Where["loss"] != "1 %" || *s.Expect[0].Max != 0.5 || *s.Expect[1].Max != 2e6 || *s.Expect[2].Min != 0.01 {
		t.Errorf("expectations: %+v", s.Expect)
	}
	if s.Expect[0].Subject != Aggregate || s.Expect[1].RelativeTo != nil || s.Expect[0].RelativeTo["loss"] != "0%" {
		t.Errorf("expectations: %+v", s.Expect)
	}
}

func labelsOf(cells []Cell) (all []record.Labels) {
	for _, c := range cells {
		all = append(all, c.Labels)
	}
	return all
}

func TestSet(t *testing.T) {
	s := parse(t, valid)
	if err := s.Set("loss", []string{"1 %", "5%", "5%"}); err != nil {
		t.Fatal(err)
	}
	all, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	want := []record.Labels{{"loss": "1%", "cc": "cubic"}, {"loss": "1%", "cc": "bbr"}, {"loss": "5%", "cc": "cubic"}, {"loss": "5%", "cc": "bbr"}}
	if d := cmp.Diff(want, labelsOf(all)); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	if len(s.Expect) != 0 {
		t.Errorf("the expectation relative to 0 %% is still there: %+v", s.Expect)
	}
	for _, c := range []struct {
		name   string
		values []string
		want   string
	}{
		{"los", []string{"1%"}, `unknown parameter "los" (did you mean "loss"?)`},
		{"loss", nil, `parameter "loss": no value is given`},
		{"loss", []string{""}, `parameter "loss": an empty value`},
		{"loss", []string{"101%"}, `f.yaml:14:11: links[1].loss: share "101%" is outside 0 % to 100 %`},
		{"cc", []string{"reno", "no name"}, `f.yaml:19:72: phases[0].flows[0].congestion: "no name" is no name of a congestion control: it has small letters, digits and _, 15 at most (with cc=no name)`},
	} {
		err := s.Set(c.name, c.values)
		if err == nil || err.Error() != c.want || fault.Of(err) != fault.Usage {
			t.Errorf("Set(%q, %q): %v, want %s", c.name, c.values, err, c.want)
		}
	}
	if after, err := s.Expand(); err != nil || len(after) != len(all) {
		t.Errorf("after refused values: %d cells, %v; want %d", len(after), err, len(all))
	}
}

func TestFallback(t *testing.T) {
	s, err := Load("loss-quick")
	if err != nil {
		t.Fatal(err)
	}
	if s.Fallback == nil || s.Fallback.Parameter != "rate" || len(s.Parameters) != 2 {
		t.Fatalf("fallback %+v, parameters %+v", s.Fallback, s.Parameters)
	}
	first, err := s.Expand()
	if err != nil || first[0].Links[0].Forward.Rate != 1e9 || first[0].Labels["rate"] != "1Gbit" {
		t.Errorf("first choice: %+v, %v", first[0].Links[0].Forward, err)
	}
	last, err := s.ExpandWith("100Mbit")
	if err != nil || len(last) != len(first) || last[0].Links[0].Forward.Rate != 100e6 {
		t.Errorf("last choice: %d cells, %v", len(last), err)
	}
	if _, err := s.ExpandWith("1Mbit"); fault.Of(err) != fault.Usage {
		t.Errorf("a value that is not listed: %v", err)
	}
	if err := s.Set("rate", []string{"50Mbit"}); err != nil || s.Fallback.Values[0] != "50Mbit" {
		t.Errorf("Set of the fallback: %v, %v", s.Fallback, err)
	}
	if _, err := parse(t, valid).ExpandWith("x"); fault.Of(err) != fault.Usage {
		t.Errorf("a scenario without fallback: %v", err)
	}
}

func TestShipped(t *testing.T) {
	all, err := List()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, s := range all {
		found = append(found, s.Name)
		loaded, err := Load(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if s.Title == s.Name || len(loaded.Description) < 60 || s.Traffic == 0 || (len(loaded.Expect) == 0) {
			t.Errorf("%s lacks a title, a description, traffic or expectations", s.Name)
		}
	}
	want := []string{"access", "available", "backup", "bufferbloat", "classes", "classes-streams", "classes-tcp", "dormitory", "downloads", "fairness", "fairness-mix", "generators", "incast", "ioam-chain", "ioam-cost", "ioam-delay", "ioam-loss", "ioam-namespaces", "ioam-options", "ioam-tcp", "jitter", "limit-accuracy", "limit-codel", "limit-delay", "limit-flows", "limit-htb", "limit-ingress", "limit-many", "limit-router", "limit-shadow", "loss-quick", "loss-study", "lossy-lan", "many", "mathis", "mirroring", "owd-baseline", "production", "programs", "rfc2544-forwarding", "rfc2544-offload", "rrul", "rrul-cake", "scavenger", "star", "tiny", "transports", "web-search"}
	slices.Sort(found)
	if d := cmp.Diff(want, found); d != "" {
		t.Errorf("scenarios (-want +got):\n%s", d)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "mine.yaml")
	if err := os.WriteFile(path, []byte(twoHosts("")), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(path)
	if err != nil || s.Name != "mine" || s.Seed != 1 || s.Repetitions != 1 || s.Attempts != 3 {
		t.Errorf("a file: %+v, %v", s, err)
	}
	big := filepath.Join(dir, "big.yaml")
	if err := os.WriteFile(big, make([]byte, 300<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"loss-quik":     `no scenario is shipped as "loss-quik", and there is no such file (did you mean "loss-quick"?)`,
		"./tiny":        `no scenario is shipped as "./tiny", and there is no such file (did you mean "tiny"?)`,
		dir:             "read scenario: " + dir + " is no regular file, it is a folder",
		fifo:            "read scenario: " + fifo + " is no regular file, it is a pipe: write its content to a file first",
		"/dev/zero":     "read scenario: /dev/zero is no regular file, it is a device",
		big:             "read scenario: " + big + " has 307200 octets; 262144 are allowed",
		dir + "/a/b.ya": `no scenario is shipped as "` + dir + `/a/b.ya", and there is no such file`,
	} {
		if _, err := Load(name); err == nil || err.Error() != want || fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
			t.Errorf("Load(%q): %v (advice %q), want %s", name, err, fault.Advice(err), want)
		}
	}
}

func TestMetricsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Metrics() {
		if seen[m.Name] || m.Name == "" || m.Unit == "" || m.Meaning == "" || (m.MoreIsBetter && m.LessIsBetter) {
			t.Errorf("metric %+v", m)
		}
		seen[m.Name] = true
	}
	if _, known, near := FindMetric("goodputs"); known || near != Goodput {
		t.Errorf("FindMetric of a mistyped name suggests %q", near)
	}
}

// FuzzParse: no text makes Parse panic or hang. Accepted text expands or is rejected with status
// Usage.
func FuzzParse(f *testing.F) {
	f.Add([]byte(valid))
	for _, name := range names() {
		if s, err := Load(name); err == nil {
			f.Add([]byte(s.Source))
		}
	}
	for _, c := range append(mistakesOfTopology(), mistakesOfTraffic()...) {
		f.Add([]byte(strings.Replace(valid, c.old, c.new, 1)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("f.yaml", text)
		if err == nil {
			_, err = s.Expand()
		}
		var own *fault.Error
		if err != nil && (!errors.As(err, &own) || own.Status != fault.Usage) {
			t.Errorf("not a fault of status Usage: %v", fmt.Sprintf("%T %v", err, err))
		}
	})
}
