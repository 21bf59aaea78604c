// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"weir/internal/yamlfile"
	"weir/record"
)

func value(v float64) *float64 { return &v }

func TestKindsAreListedWhole(t *testing.T) {
	var keys Keys
	kinds := len(Statement{}.each())
	if have := reflect.TypeFor[Statement]().NumField(); have != kinds {
		t.Errorf("%d kinds have parameters, %d are listed", have, kinds)
	}
	if have, listed := reflect.TypeFor[Keys]().NumField(), len(keys.each()); have != kinds || listed != kinds {
		t.Errorf("%d kinds have keys, keys of %d are listed, of %d kinds", have, listed, kinds)
	}
}

// The document of "weir lab show --format json" has these names.
func TestDocumentKeepsItsForm(t *testing.T) {
	text, err := json.Marshal(Statement{Bounds: Bounds{Max: value(2)}})
	if want := `{"Min":null,"Max":2`; err != nil || !strings.HasPrefix(string(text), want) {
		t.Errorf("%s, %v; want %s and other kinds'", text, err, want)
	}
}

func TestJudgeAndWords(t *testing.T) {
	const across, few = "reaches across", "too few"
	for _, test := range []struct {
		name     string
		expected Bounds
		estimate Estimate
		words    string
		outcome  record.Outcome
		reason   string
	}{
		{"above", Bounds{Min: value(5)}, Estimate{6, value(5.5), value(6.5)}, "at least 5", record.Holds, ""},
		{"on the bound", Bounds{Min: value(5)}, Estimate{5, value(5), value(5)}, "at least 5", record.Holds, ""},
		{"below, in doubt", Bounds{Min: value(5)}, Estimate{4.9, value(4), value(6)}, "at least 5", record.Fails, across},
		{"above what is allowed", Bounds{Max: value(5)}, Estimate{6, nil, nil}, "at most 5", record.Fails, few},
		{"between", Bounds{value(4), value(5)}, Estimate{4.5, value(4.1), value(4.9)}, "4 to 5", record.Holds, ""},
		{"between, in doubt above", Bounds{value(4), value(5)}, Estimate{4.5, value(4.1), value(5.1)}, "4 to 5", record.Holds, across},
		{"between, in doubt below", Bounds{value(4), value(5)}, Estimate{4.5, value(3.9), value(4.9)}, "4 to 5", record.Holds, across},
	} {
		s := Statement{Bounds: test.expected}
		outcome, reason := s.Judge(test.estimate)
		if outcome != test.outcome || (reason == "") != (test.reason == "") || !strings.Contains(reason, test.reason) {
			t.Errorf("%s: %s, %q", test.name, outcome, reason)
		}
		if words := s.Words(record.Count); words != test.words {
			t.Errorf("%s: %q, want %q", test.name, words, test.words)
		}
	}
}

func TestKeys(t *testing.T) {
	for text, want := range map[string]string{
		"{min: 1}":         "",
		"{min: 1, max: 1}": "",
		"{min: 2, max: 1}": "expect: min is above max",
		"{max: x}":         "expect.max: no number",
		"{}":               "expect: neither min nor max ",
	} {
		var file struct {
			Expect Keys `yaml:"expect"`
		}
		var problems yamlfile.Problems
		tree, err := yamlfile.Parse("f", []byte("expect: "+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		tree.Decode(&file, nil, &problems)
		file.Expect.Read(&Draft{Path: "expect", Complain: problems.Add, Quantity: func(text *yamlfile.Text, path string) *float64 {
			if text == nil {
				return nil
			}
			v, err := strconv.ParseFloat(text.Value, 64)
			if err != nil {
				problems.Add(text.Place, "", "%s: no number", path)
				return nil
			}
			return &v
		}})
		if err := problems.Err(""); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
