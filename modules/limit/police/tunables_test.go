// SPDX-License-Identifier: Apache-2.0

package police

import (
	"reflect"
	"testing"
)

// A tunable missing in the table would be 0.
func TestEveryTunableIsSet(t *testing.T) {
	for field, value := range reflect.ValueOf(tunables).Fields() {
		if field.IsExported() && field.Name != "Unused" && value.IsZero() {
			t.Errorf("%s is 0", field.Name)
		}
	}
}

// The precomputed maximum fair rate equals the data plane's: an idle scope converges to it.
func TestTheHighestFairRateIsTheDataPlanes(t *testing.T) {
	const rate = 100_000_000
	got, _ := endedInterval(t, rate, 0, limitLimitState{FairRate: rate / 8})
	if want := (Limit{Rate: rate}).config(Egress).MaxFairRate; got.FairRate != want {
		t.Errorf("an idle scope's fair rate is %d octet/s, want %d", got.FairRate, want)
	}
	if in, out := (Limit{Rate: rate}).config(Ingress).MaxFairRate, uint64(rate/8); in != (out*1016>>10+1)<<4 {
		t.Errorf("at ingress it is %d octet/s", in)
	}
}
