// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"weir/internal/fault"
	"weir/internal/yamlfile"
)

// samples have a model each, with parameters that mean something.
var samples = []Loss{Of(Independent{0.25}), Of(Gilbert{P: 0.1, R: 0.5, H: 0.25, K: 0.875}), Of(EveryNth{4})}

// The list holds every model once with its keys, and parameters under names of their own: those
// that collide are missing in JSON.
func TestModelsAreListedWhole(t *testing.T) {
	var keys Keys
	if models, listed := reflect.TypeFor[Loss]().NumField()-1, len(Loss{}.each()); models != listed {
		t.Errorf("%d models have parameters, %d are listed", models, listed)
	}
	if have, listed := reflect.TypeFor[Keys]().NumField(), len(keys.each()); have != listed || listed != len(Loss{}.each()) {
		t.Errorf("%d models have keys, keys of %d are listed, of %d models", have, listed, len(Loss{}.each()))
	}
	for _, want := range samples {
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Loss
		if err := json.Unmarshal(text, &got); err != nil || got != want {
			t.Errorf("%s reads as %+v, %v", text, got, err)
		}
		if want.model() == nil || want.Check() != nil {
			t.Errorf("%+v: %v", want, want.Check())
		}
	}
}

// The document of "weir lab show --format json" has these names.
func TestDocumentKeepsItsForm(t *testing.T) {
	text, err := json.Marshal(Of(Gilbert{P: 0.1, R: 0.5, K: 1}))
	if want := `{"Model":"gilbert-elliott","Probability":0,"P":0.1,"R":0.5,"H":0,"K":1,"Nth":0`; err != nil || !strings.HasPrefix(string(text), want) {
		t.Errorf("%s, %v; want %s and other models'", text, err, want)
	}
}

func TestUnknownModelIsRefused(t *testing.T) {
	for _, bad := range []Loss{{Model: "some"}, Of(EveryNth{}), Of(Independent{1.5}), Of(Gilbert{H: -1})} {
		if err := bad.Check(); fault.Of(err) != fault.Usage {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestWords(t *testing.T) {
	for i, want := range []string{"25 %", "bursts (p 0.1, r 0.5)", "every 4th"} {
		if got := samples[i].Words(); got != want {
			t.Errorf("%+v: %q, want %q", samples[i], got, want)
		}
	}
	if got := (Loss{}).Words(); got != "none" {
		t.Errorf("no loss: %q", got)
	}
}

func TestKeys(t *testing.T) {
	for text, want := range map[string]string{
		"{every_nth: 4}":                    "",
		"{every_nth: 1}":                    "loss.every_nth: 1 loses everything or nothing",
		"{gilbert_elliott: {p: 0.1, r: 0}}": "loss.gilbert_elliott.r: 0 never leaves the bad state",
		"{independent: 1%, every_nth: 4}":   "loss: 2 loss models are given",
		"{independent: 0%}":                 "",
		"{}":                                "loss: 0 loss models are given",
		"{gilbert_elliott: {p: 0.1, r: 1}}": "",
		"{gilbert_elliott: {p: 0.1}}":       `key "r" is missing`,
	} {
		var file struct {
			Loss Keys `yaml:"loss"`
		}
		var problems yamlfile.Problems
		tree, err := yamlfile.Parse("f", []byte("loss: "+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		tree.Decode(&file, nil, &problems)
		file.Loss.Read(&Draft{Path: "loss", Complain: problems.Add})
		if err := problems.Err(""); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if got, want := list(), "independent, gilbert_elliott"; !strings.HasPrefix(got, want) || !strings.Contains(got, " and ") {
		t.Errorf("keys: %s", got)
	}
}

func TestProcessesAllocateNothing(t *testing.T) {
	for _, l := range samples {
		p, random := l.Start(), rand.New(rand.NewPCG(1, 2))
		if n := testing.AllocsPerRun(1000, func() { p.Lost(random) }); n != 0 {
			t.Errorf("%s: %v allocations per frame", l.Model, n)
		}
	}
}
