// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"reflect"
	"testing"

	"weir/record/hist"
)

func counts(delays ...uint64) (c Counts) {
	c.Delay, c.Variation = &hist.Histogram{}, &hist.Histogram{}
	for i, d := range delays {
		c.Delay.Record(d)
		c.Received, c.DelaySum, c.DelayMax = c.Received+1, c.DelaySum+d, max(c.DelayMax, d)
		if i == 0 || d < c.DelayMin {
			c.DelayMin = d
		}
	}
	return c
}

func TestPoolOfTwoStreams(t *testing.T) {
	a, b := counts(5, 9), counts(3, 4, 7)
	a.First, a.Last, a.Lost, a.Reordered = 10, 50, 1, 2
	b.First, b.Last, b.Lost, b.Reordered = 8, 40, 10, 20
	both := a.Pool(b)
	if both.Received != 5 || both.Lost != 11 || both.Reordered != 22 || both.DelaySum != 28 || both.DelayMin != 3 || both.DelayMax != 9 ||
		both.First != 8 || both.Last != 50 || both.Delay.Count() != 5 || a.Delay.Count() != 2 {
		t.Errorf("pooled: %+v", both)
	}
	for _, one := range []Counts{a.Pool(counts()), counts().Pool(a)} {
		if one.DelayMin != 5 || one.First != 10 || one.Last != 50 || one.Received != 2 {
			t.Errorf("with one of which nothing came: %+v", one)
		}
	}
	sent := Sent{Frames: 2, WireBytes: 3, PayloadBytes: 4, Late: 5, Skipped: 6, First: 7, Last: 8}.Pool(Sent{Frames: 1, First: 2, Last: 3})
	if want := (Sent{Frames: 3, WireBytes: 3, PayloadBytes: 4, Late: 5, Skipped: 6, First: 2, Last: 8}); sent != want {
		t.Errorf("sent %+v, want %+v", sent, want)
	}
}

// A new field of Counts fails here until Pool handles it.
func TestEveryCountIsPooled(t *testing.T) {
	left := map[string]bool{"LastError": true, "LastCorrupt": true, "Stream": true, "DelayBase": true}
	var other Counts
	v := reflect.ValueOf(&other).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.CanUint():
			f.SetUint(7)
		case f.CanInt():
			f.SetInt(7)
		}
	}
	other.Delay, other.Variation = counts(7).Delay, counts(7).Delay
	got := reflect.ValueOf(counts().Pool(other))
	for i := range got.NumField() {
		if name := got.Type().Field(i).Name; got.Field(i).IsZero() && !left[name] {
			t.Errorf("%s is left out", name)
		}
	}
}
