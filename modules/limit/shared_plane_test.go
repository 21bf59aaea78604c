// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"encoding/binary"
	"testing"
	"time"

	"weir/core/module"
	"weir/internal/direction"
	"weir/kernel/clock"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules/limit/police"
)

// After a raise the virtual queue of a policed scope is as long as if its bytes had been sent at
// the higher rate.
func TestARaiseOfAGrantShortensTheVirtualQueue(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "jit", probe.JIT())
	h := coreHost(t)
	p := Module{}.Plane(h).(*plane)
	state := bound(t, h, map[string]int{}, "  job: {user: 7, egress: 1Mbit}\n")
	treatmentOf(state.Scopes[0].Scope).Egress.Shared = police.Shared{Name: "wan", Weight: 1}
	if _, err := p.Apply(module.State{}, state); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = p.Release() }()
	rates, err := p.OpenRates(state)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rates.Close() }()
	policer, err := police.LoadPinned(h.Pins)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = policer.Close() }()
	queues, err := policer.Queues()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = queues.Close() }()

	limit := p.SharedLimits(state)[0]
	key := police.Key(0, direction.Egress)
	queue := func() []byte {
		value, err := queues.LookupBytes(key)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	if err := rates.Grant(limit, 1e6, 1e6, time.Minute); err != nil {
		t.Fatal(err)
	}
	value := queue()
	binary.NativeEndian.PutUint64(value, uint64(clock.Now()+int64(time.Hour)))
	if err := queues.Put(key, value); err != nil {
		t.Fatal(err)
	}
	before := clock.Now()
	if err := rates.Grant(limit, 20e6, 1e6, time.Minute); err != nil {
		t.Fatal(err)
	}
	left := time.Duration(int64(binary.NativeEndian.Uint64(queue())) - before)
	if want := time.Hour / 20; left < want-10*time.Second || left > want+10*time.Second {
		t.Errorf("an hour's queue at 1 Mbit/s is %v at 20 Mbit/s, want %v", left, want)
	}
}
