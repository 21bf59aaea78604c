// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math/rand/v2"

	"weir/internal/units"
	"weir/kernel/tc"
	"weir/record"
)

// Independent loses each frame with the same probability, independently of others.
type Independent struct{ Probability float64 }

// independentKeys are the scenario keys. A single value, as in "loss: 1%", is independent loss.
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

// Check rejects values that are not probabilities.
func (i Independent) Check() error { return checkShare("loss", i.Probability) }

// Words returns the probability in per cent.
func (i Independent) Words() string { return record.Unit("%").Format(100 * i.Probability) }

// Expect returns the moments of the binomial distribution.
func (i Independent) Expect(frames float64) Expected {
	return Expected{i.Probability, i.Probability * (1 - i.Probability) / frames, 1 / frames}
}

// Netem returns netem's random loss.
func (i Independent) Netem() (tc.Loss, string) { return tc.Loss{Probability: i.Probability}, "" }

// Chain stays in the good state.
func (i Independent) Chain() Chain { return Chain{Good: i.Probability} }

// Start needs no state.
func (i Independent) Start() Process { return &i }

// Lost draws.
func (i *Independent) Lost(random *rand.Rand) bool { return chance(random, i.Probability) }
