// SPDX-License-Identifier: Apache-2.0

// Package loss holds the loss models of a link: one file per model, listed in models.go.
//
// A model's file contains all about it: its keys in a scenario, its parameters and their bounds,
// the decision for each frame, the expected losses, its netem parameters and its text for reports.
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

// Model is a loss model with its parameters.
type Model interface {
	// Name is the model's name in [Loss].
	Name() string
	// Check rejects invalid parameters.
	Check() error
	// Words describes it in a cell of a table.
	Words() string
	// Expect returns the expected losses of a link's first frames; frames may be infinite.
	Expect(frames float64) Expected
	// Netem returns netem's parameters, or the missing feature as words that follow "cannot".
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

// Expected describes the losses among a number of frames: the lost share, the variance of this
// share, and Slack, its maximum deviation beside chance.
type Expected struct{ Share, Variance, Slack float64 }

// Chain is the loss model of BPF programs. If Nth is above 0, every Nth frame is lost. Otherwise it
// is a chain of a good and a bad state, and each frame first steps the state. The zero value loses
// nothing.
type Chain struct {
	ToBad, ToGood float64 // probability per frame
	Good, Bad     float64 // probability that a frame is lost
	Nth           int
}

// Of makes a Loss of a model.
func Of(m Model) Loss {
	l := Loss{Model: m.Name()}
	m.put(&l)
	return l
}

// model is the active model; nil for none.
func (l Loss) model() Model {
	for _, m := range l.each() {
		if m.Name() == l.Model {
			return m
		}
	}
	return nil
}

// Check rejects unknown models and invalid parameters.
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

// Words describes the losses.
func (l Loss) Words() string {
	if m := l.model(); m != nil {
		return m.Words()
	}
	return "none"
}

// Expect returns the expected losses of a link's first frames.
func (l Loss) Expect(frames float64) Expected {
	if m := l.model(); m != nil {
		return m.Expect(frames)
	}
	return Expected{}
}

// Share is the long-run share of lost frames.
func (l Loss) Share() float64 { return l.Expect(math.Inf(1)).Share }

// Netem returns netem's parameters, or the missing feature.
func (l Loss) Netem() (spec tc.Loss, cannot string) {
	if m := l.model(); m != nil {
		return m.Netem()
	}
	return tc.Loss{}, ""
}

// Chain returns the model for BPF programs.
func (l Loss) Chain() Chain {
	if m := l.model(); m != nil {
		return m.Chain()
	}
	return Chain{}
}

// Start begins a link's sequence of frames; nil without loss.
func (l Loss) Start() Process {
	if m := l.model(); m != nil {
		return m.Start()
	}
	return nil
}

// chance draws only if p is above 0, so that one impairment does not shift another's random
// choices.
func chance(random *rand.Rand, p float64) bool { return p > 0 && random.Float64() < p }

func usage(format string, args ...any) error {
	return fault.New(fault.Usage, "correct the link's description", format, args...)
}

// checkShare rejects values that are not probabilities.
func checkShare(name string, value float64) error {
	if !(value >= 0 && value <= 1) { // NaN too
		return usage("%s %v is not between 0 and 1", name, value)
	}
	return nil
}

// Draft is the scenario's text about one direction's losses.
type Draft struct {
	Path     string         // of the keys, for messages: "links[0].loss"
	Place    yamlfile.Place // of the keys
	Complain func(at yamlfile.Place, try, format string, args ...any)
}

// keysOf holds one model's keys as read.
type keysOf interface {
	// read returns the model, or false if the file does not name it; a nil model loses nothing.
	read(*Draft) (Model, bool)
}

// Read makes a loss from the keys and reports mistakes.
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
