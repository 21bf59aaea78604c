// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math/rand/v2"

	"weir/internal/units"
	"weir/kernel/tc"
	"weir/record"
)

// Independent loses each frame with the same probability, whatever became of others.
type Independent struct{ Probability float64 }

// independentKeys are those of a scenario. A single value, as in "loss: 1%", is independent loss.
type independentKeys struct {
	Independent *units.Probability `yaml:"independent" doc:"Each frame is lost with this probability."`
}

func (k *independentKeys) UnmarshalText(text []byte) error {
	k.Independent = new(units.Probability)
	return k.Independent.UnmarshalText(text)
}

func (*independentKeys) ShortForm() string { return `independent loss, such as "1%"` }

func (k *independentKeys) read(*Draft) (Model, bool) {
	if k.Independent == nil || *k.Independent == 0 {
		return nil, k.Independent != nil
	}
	return Independent{float64(*k.Independent)}, true
}

func (i Independent) put(l *Loss) { l.Independent = i }

// Name returns "independent".
func (Independent) Name() string { return "independent" }

// Check refuses what is no probability.
func (i Independent) Check() error { return checkShare("loss", i.Probability) }

// Words returns the probability in per cent.
func (i Independent) Words() string { return record.Unit("%").Format(100 * i.Probability) }

// Expect is the binomial distribution's.
func (i Independent) Expect(frames float64) Expected {
	return Expected{i.Probability, i.Probability * (1 - i.Probability) / frames, 1 / frames}
}

// Netem has it.
func (i Independent) Netem() (tc.Loss, string) { return tc.Loss{Probability: i.Probability}, "" }

// Chain stays in the good state.
func (i Independent) Chain() Chain { return Chain{Good: i.Probability} }

// Start needs no state.
func (i Independent) Start() Process { return &i }

// Lost draws.
func (i *Independent) Lost(random *rand.Rand) bool { return chance(random, i.Probability) }
