// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"fmt"
	"math/rand/v2"

	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/kernel/tc"
)

// Gilbert is the Gilbert-Elliott model: P good to bad, R bad to good, per frame; a frame is lost
// with probability 1-K in the good state and 1-H in the bad one (Hasslinger and Hohlfeld 2008); K 1
// and H 0 is the simple Gilbert model.
type Gilbert struct{ P, R, H, K float64 }

type gilbertKeys struct {
	GilbertElliott *gilbertFile `yaml:"gilbert_elliott" doc:"Losses in bursts: two states, a good one and a bad one."`
}

type gilbertFile struct {
	yamlfile.Fields `yaml:"-"`
	P               units.Probability  `yaml:"p,required" doc:"Probability per frame to go from good to bad."`
	R               units.Probability  `yaml:"r,required" doc:"Probability per frame to go from bad to good."`
	H               *units.Probability `yaml:"h" doc:"Probability that a frame passes in the bad state; 0 if left out."`
	K               *units.Probability `yaml:"k" doc:"Probability that a frame passes in the good state; 1 if left out."`
}

func (k *gilbertKeys) read(d *Draft) (Model, bool) {
	f := k.GilbertElliott
	if f == nil {
		return nil, false
	}
	if f.P > 0 && f.R == 0 {
		d.Complain(f.At("r"), "write a share above 0 % and up to 100 %", "%s.gilbert_elliott.r: 0 never leaves the bad state", d.Path)
	}
	out := Gilbert{P: float64(f.P), R: float64(f.R), H: 0, K: 1}
	if f.H != nil {
		out.H = float64(*f.H)
	}
	if f.K != nil {
		out.K = float64(*f.K)
	}
	return out, true
}

func (g Gilbert) put(l *Loss) { l.Gilbert = g }

// Name returns "gilbert-elliott".
func (Gilbert) Name() string { return "gilbert-elliott" }

// Check rejects values that are not probabilities.
func (g Gilbert) Check() error {
	for _, s := range []struct {
		name  string
		value float64
	}{{"loss p", g.P}, {"loss r", g.R}, {"loss h", g.H}, {"loss k", g.K}} {
		if err := checkShare(s.name, s.value); err != nil {
			return err
		}
	}
	return nil
}

// Words describes the transitions.
func (g Gilbert) Words() string { return fmt.Sprintf("bursts (p %g, r %g)", g.P, g.R) }

// Expect assumes a chain in equilibrium. Losses come in bursts: their variance is larger than that
// of independent losses by (1+c)/(1-c), where c = 1-p-r is the correlation of the state from frame
// to frame.
func (g Gilbert) Expect(frames float64) Expected {
	lost := 1 - g.K
	if g.P+g.R > 0 {
		bad := g.P / (g.P + g.R)
		lost = (1-bad)*(1-g.K) + bad*(1-g.H)
	}
	variance := lost * (1 - lost) / frames
	if correlation := 1 - g.P - g.R; correlation > 0 && correlation < 1 {
		variance *= (1 + correlation) / (1 - correlation)
	} else if correlation == 1 {
		variance = 1
	}
	return Expected{lost, variance, 1 / frames}
}

// Netem returns netem's gemodel.
func (g Gilbert) Netem() (tc.Loss, string) {
	return tc.Loss{GE: true, P: g.P, R: g.R, GoodLoss: 1 - g.K, BadLoss: 1 - g.H}, ""
}

// Chain returns the same chain.
func (g Gilbert) Chain() Chain { return Chain{ToBad: g.P, ToGood: g.R, Good: 1 - g.K, Bad: 1 - g.H} }

// Start begins in the good state.
func (g Gilbert) Start() Process { return &gilbert{Gilbert: g} }

type gilbert struct {
	Gilbert
	bad bool
}

// Lost steps the state and draws.
func (g *gilbert) Lost(random *rand.Rand) bool {
	if g.bad {
		g.bad = !chance(random, g.R)
	} else {
		g.bad = chance(random, g.P)
	}
	if g.bad {
		return chance(random, 1-g.H)
	}
	return chance(random, 1-g.K)
}
