// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/fault"
)

func TestParse(t *testing.T) {
	got, err := Parse("fleet.yaml", []byte("version: 1\nshared:\n  rack: {rate: 2Gbit, parent: wan, min: 1Gbit, weight: 3}\n  wan: 10Gbit\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Limits{{Name: "wan", Rate: 10e9}, {Name: "rack", Rate: 2e9, Parent: "wan", Min: 1e9, Weight: 3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := got.Tree(); err != nil {
		t.Error(err)
	}
}

func TestMistakesNameThePlace(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"no rate", "shared: {wan: {}}", "fleet.yaml:2:15: shared.wan: the rate is missing, as in rate: 10Gbit"},
		{"no limits", "", `key "shared" is missing`},
		{"unknown key", "shared: {wan: {rates: 1Gbit}}", `"rates"`},
		{"no such parent", "shared: {wan: {rate: 1Gbit, parent: lan}}", `fleet.yaml:2:37: shared.wan: no shared limit "lan"`},
		{"circle", "shared: {a: {rate: 1Gbit, parent: b}, b: {rate: 1Gbit, parent: a}}", "its parents form a circle"},
		{"guarantees", "shared: {wan: 1Gbit, a: {rate: 1Gbit, parent: wan, min: 600Mbit}, b: {rate: 1Gbit, parent: wan, min: 600Mbit}}", "shared.b: the guarantees below wan exceed its rate 1 Gbit/s"},
		{"min above rate", "shared: {wan: 1Gbit, a: {rate: 100Mbit, parent: wan, min: 600Mbit}}", "min 600 Mbit/s is above its rate 100 Mbit/s"},
		{"min without parent", "shared: {wan: {rate: 1Gbit, min: 1Mbit}}", "min and weight require a parent"},
		{"weight", "shared: {wan: 1Gbit, a: {rate: 1Gbit, parent: wan, weight: 0}}", "weight 0 is outside 1 to 10000"},
		{"low rate", "shared: {wan: 1bit}", "rate 1 bit/s is outside 64 kbit/s to 1000 Tbit/s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("fleet.yaml", []byte("version: 1\n"+test.text+"\n"))
			if err == nil || !strings.Contains(err.Error(), test.want) || fault.Of(err) != fault.Usage {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
	if _, err := Parse("fleet.yaml", []byte("version: 2\nshared: {}\n")); err == nil || !strings.Contains(err.Error(), "version 2 is unknown") {
		t.Error(err)
	}
}
