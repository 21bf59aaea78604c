// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/lab/traffic/workload"
)

// web is a valid scenario with transfers; tests put mistakes in its last line.
const web = `version: 1
title: a test
hosts: [a, b, c]
routers: [gate]
links:
  - {ends: [a, gate], rate: 100Mbit, delay: 2ms}
  - {ends: [gate, b], rate: 10Mbit, delay: 3ms, reverse: {rate: 1Mbit, delay: 4ms}}
  - {ends: [gate, c], plain: true}
phases:
  - duration: 10s
    flows:
      - {name: web, kind: transfers, from: a, to: b, KEYS}
`

func TestTransfers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sizes.csv")
	if err := os.WriteFile(file, []byte("1000, 0.5\n3000, 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Full frames have 1448 bytes of payload, 1538 on the wire; the slowest link has 10 Mbit/s.
	wire := 1538.0 / 1448
	for keys, want := range map[string]struct {
		mean, perSecond float64
		drain           time.Duration
	}{
		"sizes: web-search, arrivals: 200/s":                        {1711250, 200, 0},
		"sizes: data-mining, arrivals: 0.5 per second, drain: 2s":   {12658199, 0.5, 2 * time.Second},
		"sizes: 10kB, load: 80%":                                    {10e3, 0.8 * 10e6 / 8 / wire / 10e3, 0},
		"sizes: {bytes: 10kB}, arrivals: 7":                         {10e3, 7, 0},
		"sizes: {distribution: web-search}, most: 10kB, load: 0.6":  {9250, 0.6 * 10e6 / 8 / wire / 9250, 0},
		"sizes: {file: " + file + "}, arrivals: 10/s":               {1500, 10, 0},
		"sizes: {file: " + file + "}, most: 2000, arrivals: 10/s":   {500 + 0.25*1500 + 0.25*2000, 10, 0},
		"sizes: web-search, arrivals: 1/s, ecn: true, dscp: le":     {1711250, 1, 0},
		"sizes: web-search, arrivals: 1/s, generator: weir":         {1711250, 1, 0},
		"sizes: web-search, arrivals: 1/s, start: 2s, duration: 3s": {1711250, 1, 0},
	} {
		s, err := Parse("f.yaml", []byte(strings.Replace(web, "KEYS", keys, 1)))
		if err != nil {
			t.Errorf("%s: %v", keys, err)
			continue
		}
		cells, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		load := cells[0].Phases[0].Flows[0].Load
		if math.Abs(load.Sizes.Mean()-want.mean) > 1 || math.Abs(load.PerSecond/want.perSecond-1) > 1e-9 || load.Drain != want.drain {
			t.Errorf("%s: mean %.1f, %g/s, drain %s, want %+v", keys, load.Sizes.Mean(), load.PerSecond, load.Drain, want)
		}
		if want := (workload.Path{There: 5 * time.Millisecond, Back: 6 * time.Millisecond, Rate: 10e6, Payload: 1448, Headers: 90}); load.Path != want {
			t.Errorf("%s: path %+v, want %+v", keys, load.Path, want)
		}
	}
}

func TestMistakesOfTransfers(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	falling, short := write("falling", "10 0.5\n20 0.4\n"), write("short", "10 0.5\n20 0.9\n")
	for _, c := range []struct{ keys, want string }{
		{"arrivals: 1/s", `f.yaml:12:10: phases[0].flows[0]: a flow of kind "transfers" needs sizes`},
		{"sizes: web-serch, arrivals: 1/s", `phases[0].flows[0].sizes: there is no distribution "web-serch" (did you mean "web-search"?)`},
		{"sizes: {distribution: hadoop}, arrivals: 1/s", `there is no distribution "hadoop"; known: web-search, data-mining`},
		{"sizes: {distribution: web-search, bytes: 5}, arrivals: 1/s", "phases[0].flows[0].sizes: 2 distributions are given; a flow has one"},
		{"sizes: {file: " + folder + "/none}, arrivals: 1/s", "no such file"},
		{"sizes: {file: " + falling + "}, arrivals: 1/s", "falling: line 2: the share falls from 0.5 to 0.4"},
		{"sizes: {file: " + short + "}, arrivals: 1/s", "short: the last share is 0.9, not 1"},
		{"sizes: 0B, arrivals: 1/s", "phases[0].flows[0].sizes: 0 bytes is outside 1"},
		{"sizes: 5kB", "phases[0].flows[0]: nothing says how often a transfer begins"},
		{"sizes: 5kB, arrivals: 1/s, load: 10%", "phases[0].flows[0]: arrivals and load are two rates of one flow"},
		{"sizes: 5kB, arrivals: 0", "phases[0].flows[0].arrivals: 0: no transfer begins"},
		{"sizes: 5kB, arrivals: often", `phases[0].flows[0].arrivals: "often" is no number per second`},
		{"sizes: 5kB, load: 0%", "phases[0].flows[0].load: 0: no transfer begins"},
		{"sizes: 5kB, arrivals: 1/s, most: 0B", "phases[0].flows[0].most: 0 bytes is outside 1"},
		{"sizes: 5kB, arrivals: 1/s, drain: 10s", "phases[0].flows[0].drain: no transfer begins in the last 10s"},
		{"sizes: 5kB, arrivals: 1/s, streams: 2", `phases[0].flows[0].streams: it has no meaning for a flow of kind "transfers"`},
		{"sizes: 5kB, arrivals: 3000/s", `phases[0].flows[0]: "a" begins about 30000 transfers up to here, and has ports for 20000`},
		{"sizes: 5kB, arrivals: 1500/s}\n      - {name: more, kind: transfers, from: a, to: c, sizes: 5kB, arrivals: 1500/s", `phases[0].flows[1]: "a" begins about 30000 transfers`},
		{"sizes: 5kB, arrivals: 1/s}\n      - {name: web small, kind: bulk, from: a, to: c", `the name "web small" is taken`},
		{"sizes: 5kB, arrivals: 1/s}\n      - {name: x, kind: transfers, from: gate, to: c, sizes: 5kB, load: 50%", `phases[0].flows[1].load: no link from "gate" to "c" has a rate`},
	} {
		_, err := Parse("f.yaml", []byte(strings.Replace(web, "KEYS", c.keys, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.keys, err, c.want)
		}
	}
}

// Figures of transfers exist for the flow and for its classes of size.
func TestSubjectsOfTransfers(t *testing.T) {
	text := strings.Replace(web, "KEYS", "sizes: 5kB, arrivals: 1/s", 1)
	for more, want := range map[string]string{
		"{name: x, metric: transfer_p99, subject: web small, max: 1s}":       "",
		"{name: x, metric: transfers_unfinished, subject: web, max: 0}":      "",
		"{name: x, metric: transfer_lateness, max: 1ms}":                     "",
		"{name: x, metric: goodput, subject: web, min: 1Mbit}":               "",
		"{name: x, metric: transfer_p99, max: 1s}":                           `say which by subject: "web", "web small", "web middle", "web large"`,
		"{name: x, metric: transfer_p99, subject: web smal, max: 1s}":        `did you mean "web small"?`,
		"{name: x, metric: goodput, subject: web small, min: 1Mbit}":         `"web small" has no goodput`,
		"{name: x, metric: exchange_p99, max: 1s}":                           "no flow of the scenario has a exchange_p99",
		"{name: x, metric: harm, subject: web, max: 1%}":                     "no phase asks for such runs",
		"{name: x, metric: share, subject: web, max: 1%}":                    "has no share",
		"{name: x, metric: slowdown_p99, subject: [web, web large], max: 3}": "",
	} {
		_, err := Parse("f.yaml", []byte(text+"expect:\n  - "+more+"\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}
	if got := TransferSubjects("web"); !slices.Equal(got, []string{"web", "web small", "web middle", "web large"}) {
		t.Errorf("subjects are %q", got)
	}
}
