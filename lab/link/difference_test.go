// SPDX-License-Identifier: Apache-2.0

package link

import (
	"reflect"
	"testing"

	"weir/record/hist"
)

// filled has a value in every number, so that a counter that is added and not subtracted is seen.
func filled(value uint64) Counters {
	c := Counters{Lateness: &hist.Histogram{}}
	for fields, i := reflect.ValueOf(&c).Elem(), 0; i < fields.NumField(); i++ {
		if field := fields.Field(i); field.Kind() == reflect.Uint64 {
			field.SetUint(value)
		}
	}
	return c
}

func TestDifferenceSubtractsEverySum(t *testing.T) {
	after := []Status{{Cable: "a", Forward: filled(7), Reverse: filled(9)}, {Cable: "b", Forward: filled(7)}, {Cable: "new", Forward: filled(7)}}
	before := []Status{{Cable: "a", Forward: filled(5), Reverse: filled(6)}, {Cable: "other", Forward: filled(5)}}
	got := Difference(after, before)
	for _, check := range []struct {
		what    string
		got     Counters
		sum     uint64
		backlog uint64
	}{
		{"forward", got[0].Forward, 2, 7}, {"reverse", got[0].Reverse, 3, 9},
		{"a cable that was another", got[1].Forward, 7, 7}, {"a cable that was not there", got[2].Forward, 7, 7},
	} {
		want := filled(check.sum)
		want.MaxBacklog, want.Held, want.Lateness = check.backlog, check.backlog, check.got.Lateness
		if check.got != want || check.got.Lateness == nil {
			t.Errorf("%s: %+v, want %+v", check.what, check.got, want)
		}
	}
	if after[0].Forward.Sent != 7 {
		t.Error("the reading itself was changed")
	}
}
