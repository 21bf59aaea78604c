// SPDX-License-Identifier: Apache-2.0

package police

import (
	"encoding/json"
	"reflect"
	"testing"

	"weir/kernel/bpfmap"
)

// counted64 returns a structure with consecutive counters from first on.
func counted64[T any](first uint64) (c T) {
	for i, all := 0, bpfmap.Words(&c); i < len(all); i++ {
		all[i] = first + uint64(i)
	}
	return c
}

// A new counter in limit.h is summed, subtracted and written without changes in Go.
func TestEveryCounterIsSummed(t *testing.T) {
	a, b := counted64[limitLimitCounters](1), counted64[limitLimitCounters](100)
	all := Counters{limitLimitCounters: bpfmap.Total([]limitLimitCounters{a, b})}
	fields := reflect.ValueOf(all.limitLimitCounters)
	for i, n := range bpfmap.Words(&all.limitLimitCounters) {
		if want := uint64(101 + 2*i); n != want {
			t.Errorf("counter %d: %d, want %d", i, n, want)
		}
	}
	if left := all.Since(Counters{limitLimitCounters: b}); left.limitLimitCounters != a {
		t.Errorf("%+v is left, want %+v", left, a)
	}
	for i := range fields.NumField() {
		if kind := fields.Field(i).Type(); fields.Type().Field(i).IsExported() && kind.Kind() != reflect.Uint64 &&
			(kind.Kind() != reflect.Array || kind.Elem().Kind() != reflect.Uint64) {
			t.Errorf("%s is no 64-bit counter", fields.Type().Field(i).Name)
		}
	}
}

// The names are part of the summary of weir run.
func TestCountersKeepTheirNames(t *testing.T) {
	text, err := json.Marshal(Counters{limitLimitCounters: counted64[limitLimitCounters](1), RTTSum: 7})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"packets", "segments", "bytes", "marked", "reduced", "dropped", "forced", "retries", "windows"} {
		if got[name] != float64(1+i) {
			t.Errorf("%s is %v, want %d", name, got[name], 1+i)
		}
	}
	for _, name := range []string{"queue", "rtt"} {
		if all, is := got[name].([]any); !is || len(all) != 32 {
			t.Errorf("%s is %v, want 32 numbers", name, got[name])
		}
	}
	if got["rtt_sum_us"] != 7. {
		t.Errorf("rtt_sum_us is %v, want 7", got["rtt_sum_us"])
	}
}
