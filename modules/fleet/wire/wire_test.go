// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestReportsAreChecked(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"sound", `{"host":"a","boot":1,"number":1,"claims":[{"id":"x/egress","limit":"wan","rate":1}]}`, ""},
		{"no number", `{"host":"a","boot":1}`, "lacks host, boot or number"},
		{"negative rate", `{"host":"a","boot":1,"number":1,"claims":[{"id":"x","limit":"wan","rate":-1}]}`, "outside"},
		{"huge rate", `{"host":"a","boot":1,"number":1,"claims":[{"id":"x","limit":"wan","used":1e300}]}`, "outside"},
		{"twice", `{"host":"a","boot":1,"number":1,"claims":[{"id":"x","limit":"wan"},{"id":"x","limit":"wan"}]}`, "twice"},
		{"weight", `{"host":"a","boot":1,"number":1,"claims":[{"id":"x","limit":"wan","weight":-1}]}`, "weight"},
		{"no JSON", `{`, "decode report"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseReport([]byte(test.text))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// An accepted message is the same after another round through JSON.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"host":"a","boot":1,"number":1,"claims":[{"id":"x/egress","limit":"wan","rate":1,"throttled":true}]}`))
	f.Add([]byte(`{"epoch":1,"boot":1,"answer":2,"number":3,"lease":1000000000,"rates":[{"id":"x","rate":5,"floor":1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := ParseReport(data); err == nil {
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ParseReport(text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		if g, err := ParseGrant(data); err == nil {
			text, err := json.Marshal(g)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ParseGrant(text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
	})
}
