// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/lab/link"
	"weir/lab/link/loss"
)

func step(length time.Duration, rate float64, delay time.Duration, l loss.Loss) link.Step {
	return link.Step{For: length, BitsPerSecond: rate, Delay: delay, Loss: l}
}

func TestSchedules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "up.trace")
	if err := os.WriteFile(file, []byte("1\n2\n2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const one = 1500 * 8 * 1000
	ms := time.Millisecond
	own := loss.Of(loss.Independent{Probability: 0.01})
	for name, c := range map[string]struct {
		keys             string
		forward, reverse []link.Step
	}{
		"steps have what their link has": {"loss: 1%, schedule: [{for: 2s}, {for: 1s, rate: 2Mbit, delay: 50ms}, {for: 500ms, rate: 0bit, loss: 0%}]",
			[]link.Step{step(2*time.Second, 8e6, ms, own), step(time.Second, 2e6, 50*ms, own), step(500*ms, 0, ms, loss.Loss{})}, nil},
		"one direction alone": {"forward: {schedule: [{for: 2s, rate: 1Mbit}]}", []link.Step{step(2*time.Second, 1e6, ms, loss.Loss{})}, []link.Step{}},
		"a trace in the file": {`trace: "1\n1\n2\n"`, []link.Step{step(ms, 2*one, ms, loss.Loss{}), step(ms, one, ms, loss.Loss{})}, nil},
		"a trace of one line": {"trace: 1", []link.Step{step(ms, one, ms, loss.Loss{})}, nil},
		"a trace elsewhere":   {"forward: {trace: " + file + "}", []link.Step{step(ms, one, ms, loss.Loss{}), step(ms, 2*one, ms, loss.Loss{})}, []link.Step{}},
	} {
		t.Run(name, func(t *testing.T) {
			text := "version: 1\ntitle: t\nhosts: [a, b]\nlinks: [{ends: [a, b], rate: 8Mbit, delay: 1ms, " + c.keys + "}]\nphases: [{duration: 1s, flows: [{kind: bulk, from: a, to: b}]}]\n"
			l := cells(t, text)[0].Links[0]
			reverse := c.reverse
			if reverse == nil {
				reverse = c.forward
			}
			if d := cmp.Diff(c.forward, l.Forward.Schedule); d != "" {
				t.Errorf("forward (-want +got):\n%s", d)
			}
			if d := cmp.Diff(len(reverse), len(l.Reverse.Schedule)); d != "" {
				t.Errorf("reverse (-want +got):\n%s", d)
			}
			if err := link.CheckDirection(l.Forward); err != nil {
				t.Error(err)
			}
		})
	}
}
