// SPDX-License-Identifier: Apache-2.0

// Package loss knows the ways in which a link loses frames: one file per model, and one list of
// them in models.go.
//
// A model's file holds everything about it: its keys in a scenario, its parameters and their
// bounds, the decision for each frame, the losses to expect of it, what netem makes of it and its
// words for people.
package loss

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/internal/yamlfile"
	"weir/kernel/tc"
)

// Model is one way to lose frames, with its parameters.
type Model interface {
	// Name is the model's in [Loss].
	Name() string
	// Check refuses parameters that mean nothing.
	Check() error
	// Words describes it for people, in a cell of a table.
	Words() string
	// Expect says what to expect of a link's first frames; how many may be infinite.
	Expect(frames float64) Expected
	// Netem returns netem's parameters, or what netem cannot do in words that follow "cannot".
	Netem() (spec tc.Loss, cannot string)
	// Chain returns the model for programs.
	Chain() Chain
	// Start begins a link's sequence of frames.
	Start() Process

	put(*Loss)
}

// Process decides frame by frame. It allocates nothing, and is not safe for concurrent use.
type Process interface {
	Lost(random *rand.Rand) bool
}

// Expected are the losses among a number of frames: the share that is lost, the variance of this
// share, and Slack, by which it may be off beside chance.
type Expected struct{ Share, Variance, Slack float64 }

// Chain is what programs in the kernel lose frames by: every Nth, where that is above 0, or else a
// chain of a good and a bad state, from which each frame first goes on to the next. The zero value
// loses nothing.
type Chain struct {
	ToBad, ToGood float64 // probability per frame
	Good, Bad     float64 // probability that a frame is lost
	Nth           int
}

// Of puts a model to use.
func Of(m Model) Loss {
	l := Loss{Model: m.Name()}
	m.put(&l)
	return l
}

// model is the one in use; nil for none.
func (l Loss) model() Model {
	for _, m := range l.each() {
		if m.Name() == l.Model {
			return m
		}
	}
	return nil
}

// Check refuses a model that is not known, and parameters that mean nothing.
func (l Loss) Check() error {
	m := l.model()
	switch {
	case l.Model == "":
		return nil
	case m == nil:
		return usage("loss model %q is not known", l.Model)
	}
	return m.Check()
}

// Words describes the losses for people.
func (l Loss) Words() string {
	if m := l.model(); m != nil {
		return m.Words()
	}
	return "none"
}

// Expect says what to expect of a link's first frames.
func (l Loss) Expect(frames float64) Expected {
	if m := l.model(); m != nil {
		return m.Expect(frames)
	}
	return Expected{}
}

// Share is the long-run share of frames that are lost.
func (l Loss) Share() float64 { return l.Expect(math.Inf(1)).Share }

// Netem returns netem's parameters, or what netem cannot do.
func (l Loss) Netem() (spec tc.Loss, cannot string) {
	if m := l.model(); m != nil {
		return m.Netem()
	}
	return tc.Loss{}, ""
}

// Chain returns the losses for programs.
func (l Loss) Chain() Chain {
	if m := l.model(); m != nil {
		return m.Chain()
	}
	return Chain{}
}

// Start begins a link's sequence of frames; nil where none is lost.
func (l Loss) Start() Process {
	if m := l.model(); m != nil {
		return m.Start()
	}
	return nil
}

// chance draws only where there is something to decide, so that one impairment's seed does not move
// another's choices.
func chance(random *rand.Rand, p float64) bool { return p > 0 && random.Float64() < p }

func usage(format string, args ...any) error {
	return fault.New(fault.Usage, "correct the link's description", format, args...)
}

// checkShare refuses what is no probability.
func checkShare(name string, value float64) error {
	if !(value >= 0 && value <= 1) { // NaN too
		return usage("%s %v is not between 0 and 1", name, value)
	}
	return nil
}

// Draft is what a scenario says of one direction's losses.
type Draft struct {
	Path     string         // of the keys, for messages: "links[0].loss"
	Place    yamlfile.Place // of the keys
	Complain func(at yamlfile.Place, try, format string, args ...any)
}

// keysOf are one model's keys, as they were read.
type keysOf interface {
	// read returns the model, or false if the file does not name it; a nil model loses nothing.
	read(*Draft) (Model, bool)
}

// Read makes a loss of the keys, and complains of mistakes.
func (k *Keys) Read(d *Draft) (out Loss) {
	given := 0
	for _, keys := range k.each() {
		m, named := keys.read(d)
		if named {
			given++
		}
		if m != nil {
			out = Of(m)
		}
	}
	if given != 1 {
		d.Complain(d.Place, "keep one of "+list(), "%s: %d loss models are given; a direction has one", d.Path, given)
	}
	return out
}

// list names the models' keys: "a, b and c".
func list() string {
	names := slices.DeleteFunc(yamlfile.Keys(reflect.TypeFor[Keys]()), func(key string) bool { return strings.Contains(key, ".") })
	last := len(names) - 1
	return fmt.Sprintf("%s and %s", strings.Join(names[:last], ", "), names[last])
}
