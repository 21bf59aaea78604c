// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"fmt"
	"math/rand/v2"

	"weir/kernel/tc"
)

// EveryNth loses frame Nth, 2·Nth and so on.
type EveryNth struct{ Nth int }

type everyNthKeys struct {
	EveryNth *int `yaml:"every_nth" doc:"Frames n, 2n, 3n ... are lost."`
}

func (k *everyNthKeys) read(d *Draft) (Model, bool) {
	if k.EveryNth == nil {
		return nil, false
	}
	n := *k.EveryNth
	if n < 2 {
		d.Complain(d.Place, "write a number from 2", "%s.every_nth: %d loses everything or nothing; write 2 or more", d.Path, n)
	}
	return EveryNth{n}, true
}

func (e EveryNth) put(l *Loss) { l.EveryNth = e }

// Name returns "every-nth".
func (EveryNth) Name() string { return "every-nth" }

// Check refuses a distance below one frame.
func (e EveryNth) Check() error {
	if e.Nth < 1 {
		return usage("every-nth loss needs nth of at least 1")
	}
	return nil
}

// Words gives the distance.
func (e EveryNth) Words() string { return fmt.Sprintf("every %dth", e.Nth) }

// Expect has no variance: a frame of a host's own, and where the pattern begins, are the slack.
func (e EveryNth) Expect(frames float64) Expected {
	return Expected{Share: 1 / float64(max(1, e.Nth)), Slack: 2 / frames}
}

// Netem lacks it.
func (EveryNth) Netem() (tc.Loss, string) { return tc.Loss{}, "lose every n-th frame" }

// Chain counts.
func (e EveryNth) Chain() Chain { return Chain{Nth: e.Nth} }

// Start counts from the first frame.
func (e EveryNth) Start() Process { return &everyNth{nth: uint64(max(0, e.Nth))} }

type everyNth struct{ nth, passed uint64 }

// Lost counts.
func (e *everyNth) Lost(*rand.Rand) bool {
	e.passed++
	return e.nth > 0 && e.passed%e.nth == 0
}
