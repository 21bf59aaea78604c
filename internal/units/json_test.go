// SPDX-License-Identifier: Apache-2.0

package units

import (
	"encoding/json"
	"testing"
)

func TestQuantitiesSurviveJSON(t *testing.T) {
	type all struct {
		Rate  BitRate
		Size  ByteSize
		Share Probability
	}
	want := all{1_234_567_891, 65_537, 0.0123}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got all
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("%s reads as %+v, want %+v", text, got, want)
	}
	if err := json.Unmarshal([]byte(`{"Rate":"1.5 Gbit/s","Size":"64KiB","Share":"1%"}`), &got); err != nil {
		t.Fatal(err)
	}
	if want := (all{1_500_000_000, 65_536, 0.01}); got != want {
		t.Errorf("text reads as %+v, want %+v", got, want)
	}
}
