// SPDX-License-Identifier: Apache-2.0

package hist_test

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/record/hist"
)

func TestJSONRoundTrip(t *testing.T) {
	var h hist.Histogram
	for _, v := range random(t, 500) {
		h.Record(v)
	}
	text, err := json.Marshal(&h)
	if err != nil {
		t.Fatal(err)
	}
	var read hist.Histogram
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if !read.Equal(&h) {
		t.Fatal("what was read differs from what was written")
	}
}

func TestUnmarshalRefusesWhatCannotBe(t *testing.T) {
	for name, text := range map[string]string{
		"other resolution":  `{"sub_bits":4,"count":1,"sum":1,"min":1,"max":1,"buckets":[[1,1]]}`,
		"wrong count":       `{"sub_bits":5,"count":2,"sum":1,"min":1,"max":1,"buckets":[[1,1]]}`,
		"index too large":   `{"sub_bits":5,"count":1,"sum":1,"min":1,"max":1,"buckets":[[99999,1]]}`,
		"out of order":      `{"sub_bits":5,"count":2,"sum":3,"min":1,"max":2,"buckets":[[2,1],[1,1]]}`,
		"empty bucket":      `{"sub_bits":5,"count":0,"sum":0,"min":0,"max":0,"buckets":[[2,0]]}`,
		"minimum elsewhere": `{"sub_bits":5,"count":2,"sum":3,"min":0,"max":2,"buckets":[[1,1],[2,1]]}`,
		"maximum too low":   `{"sub_bits":5,"count":2,"sum":3,"min":1,"max":1,"buckets":[[1,1],[2,1]]}`,
		"overflow":          `{"sub_bits":5,"count":0,"sum":3,"min":1,"max":2,"buckets":[[1,18446744073709551615],[2,1]]}`,
		"sum of nothing":    `{"sub_bits":5,"count":0,"sum":3,"min":0,"max":0,"buckets":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var h hist.Histogram
			if err := json.Unmarshal([]byte(text), &h); err == nil || !strings.Contains(err.Error(), "histogram") {
				t.Errorf("%s: error %v", name, err)
			}
		})
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"sub_bits":5,"count":3,"sum":300,"min":50,"max":200,"buckets":[[50,2],[114,1]]}`))
	f.Add([]byte(`{"sub_bits":5,"count":0,"sum":0,"min":0,"max":0,"buckets":[]}`))
	f.Add([]byte(`{"sub_bits":5,"count":1,"sum":1,"min":1,"max":1,"buckets":[[1919,1]]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var h hist.Histogram
		if h.UnmarshalJSON(text) != nil {
			return
		}
		for _, q := range []float64{0, 0.1, 0.5, 0.99, 1} {
			if v := h.Quantile(q); v < h.Min() || v > h.Max() {
				t.Fatalf("quantile %g is %d, outside %d..%d", q, v, h.Min(), h.Max())
			}
		}
		h.CDF()
		again, err := h.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var read hist.Histogram
		if err := read.UnmarshalJSON(again); err != nil || !read.Equal(&h) {
			t.Fatalf("%s was accepted and written as %s: %v", text, again, err)
		}
		h.Record(77)
		h.Merge(&read)
	})
}
