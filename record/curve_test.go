// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weir/record"
)

func TestCurveGapsSurviveJSON(t *testing.T) {
	curve := record.Curve{Name: "cubic", X: []float64{0, 1, 2}, Y: []float64{1.5, math.NaN(), 3}, Low: []float64{1, math.NaN(), 2}}
	text, err := json.Marshal(curve)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"name":"cubic","x":[0,1,2],"y":[1.5,null,3],"low":[1,null,2]}`; string(text) != want {
		t.Errorf("written as %s, want %s", text, want)
	}
	var read record.Curve
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(curve, read, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
}
